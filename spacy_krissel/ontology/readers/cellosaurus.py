"""Cellosaurus: its text file of entries, and a table of its names."""

import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from ...errors import Errors, KrisselError
from ..entity import Entity
from .records import (
    BadRecord,
    FileHead,
    RecordFile,
    merge_names,
    open_records,
    species_name,
    unique,
)

SOURCE = "Cellosaurus"
ACCESSION = re.compile(r"CVCL_[A-Z0-9]{4}")
# Separator between the two-letter code of a line and its value.
GAP = "   "
END = "//"
# A file of entries is detected by this prefix.
FIRST_ACCESSION = f"AC{GAP}CVCL_"
_USED = ("AC", "AS", "SY", "DR", "OX")


def read_cellosaurus(path: str | Path, *, types: Sequence[str] = ("CellLine",)) -> Iterator[Entity]:
    """Read the entries of cellosaurus.txt: lines `XX   value` from `ID` to `//`.

    The name is that of the line ID, aliases are those of SY, alternative ids those of AS; DR lines
    are kept as xrefs. The species is the scientific name of the line OX; a hybrid has several
    (`Homo sapiens x Mus musculus`).

    types: given to every cell line.

    Raises KrisselError K102 also for a last entry that does not end.
    """
    expected = "entries of lines `XX   value`, from `ID` to `//`"
    with open_records(path, "cellosaurus", expected, closing=(b"//",)) as records:
        yield from records.parsed(_entries(records), lambda entry: _to_entity(entry, tuple(types)))


def read_cellosaurus_table(
    path: str | Path, *, types: Sequence[str] = ("CellLine",)
) -> Iterator[Entity]:
    """Read a table `name TAB id TAB species` without header, sorted by name. All cell lines are
    held in memory.

    The first name of an id is its preferred one; cell lines come in the order of these names.

    types: given to every cell line.
    """

    def parse(line: str) -> Entity:
        cells = [cell.strip() for cell in line.split("\t")]
        if not _is_row(cells):
            raise BadRecord("is not a row of name, CVCL id and species")
        return Entity(cells[1], cells[0], types=tuple(types), species=cells[2], source=SOURCE)

    with open_records(
        path, "cellosaurus-tsv", "a tab-separated table of name, CVCL id and species"
    ) as records:
        yield from merge_names(records.parsed(records.lines(), parse))


def is_cellosaurus(start: FileHead) -> bool:
    # Explanations precede the entries.
    return any(line.startswith(FIRST_ACCESSION) for line in start.lines)


def is_cellosaurus_table(start: FileHead) -> bool:
    return _is_row(start.cells)


def _is_row(cells: Sequence[str]) -> bool:
    return len(cells) == 3 and bool(cells[0]) and ACCESSION.fullmatch(cells[1]) is not None


def _entries(records: RecordFile) -> Iterator[dict[str, list[str]]]:
    """Yield the values of each entry, by line code."""
    entry: dict[str, list[str]] = {}
    for line in records.lines():
        code, value = line[:2], line[5:].strip()
        is_coded = line[2:5] == GAP
        if code == "ID" and is_coded:
            if entry:
                records.reject(f"begins an entry that '{END}' does not end", records.start)
            entry, records.start = {code: [value]}, records.line
        elif not entry:
            # Explanations precede the first entry.
            continue
        elif line.strip() == END:
            yield entry
            entry = {}
        elif not is_coded or not value:
            records.reject("is not a line `XX   value`")
        elif code in _USED:
            entry.setdefault(code, []).append(value)
    if entry:
        problem = f"the entry that begins at line {records.start} has no '{END}'"
        raise KrisselError(
            Errors.K102.format(path=records.path, line=records.line, problem=problem)
        )


def _to_entity(entry: dict[str, list[str]], types: tuple[str, ...]) -> Entity:
    name, id_ = entry["ID"][0], entry.get("AC", [""])[0]
    if not name or not id_:
        raise BadRecord(f"begins an entry without {'AC' if name else 'a name'}")
    return Entity(
        id=id_,
        name=name,
        aliases=unique(_parts(entry, "SY"), without=name),
        types=types,
        xrefs=unique(":".join(unique(line.split(";")[:2])) for line in entry.get("DR", [])),
        species=species_name(entry.get("OX", [])),
        source=SOURCE,
        alt_ids=unique(_parts(entry, "AS"), without=id_),
    )


def _parts(entry: dict[str, list[str]], code: str) -> list[str]:
    return [part for line in entry.get(code, []) for part in line.split(";")]
