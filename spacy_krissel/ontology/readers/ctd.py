"""CTD's vocabularies: tables of diseases (MEDIC) and chemicals, and MEDIC in lines `ID|other ids||name|synonyms`."""

import csv
from collections.abc import Iterator, Sequence
from html import unescape
from pathlib import Path
from typing import NamedTuple

from ..entity import Entity
from .records import RecordFile, Start, open_records, unique

COMMENT = "#"
KINDS = ("Disease", "Chemical")
# CTD's tables of relations name the same concepts, but not their places in the tree.
TREE_COLUMN = "TreeNumbers"
# Releases differ in how many columns of synonyms chemicals have.
SYNONYM_COLUMNS = ("Synonyms", "MESHSynonyms", "CTDCuratedSynonyms")
XREF_COLUMNS = {"CasRN": "CAS", "DrugBankIDs": "DrugBank"}
# The tops of MeSH's trees of diseases and of chemicals have a row, but are no concepts of MeSH.
TOPS = ("MESH:C", "MESH:D")


class CTDHeader(NamedTuple):
    """The columns of a vocabulary. `kind` is the word that the names of two of them begin with."""

    kind: str
    columns: list[str]
    delimiter: str


def read_ctd(path: str | Path, *, types: Sequence[str] | None = None) -> Iterator[Entity]:
    """Read CTD_diseases or CTD_chemicals, tab- or comma-separated; what the columns hold is told by their names.

    Ids have prefixes (`MESH:D003920`, `OMIM:264300`). Of a disease's alternative ids, those of the Disease Ontology
    lose CTD's own prefix (`DO:DOID:2377`).

    types: given to every concept. Without it, they are "Disease" or "Chemical".
    Raises KrisselError K101, K102, K103; a row that cannot be used is counted (KW101).
    """
    expected = "CTD's diseases or chemicals, with a line `# DiseaseName DiseaseID …` (or `# Chemical…`) above the rows"
    with open_records(path, "ctd", expected) as records:
        header: CTDHeader | None = None
        for line in records.lines():
            if line.startswith(COMMENT):
                header = header or _header(line)
            elif line.strip():
                if header is None:
                    raise records.wrong_format("stands above the names of the columns")
                row = _read_row(records, line, header)
                if row is not None and row[f"{header.kind}ID"] not in TOPS:
                    yield _to_entity(row, header.kind, types)


def is_ctd(start: Start) -> bool:
    # A comment names the columns.
    return any(map(_header, start.lines))


def is_medic(start: Start) -> bool:
    return "||" in start.first


def _header(line: str) -> CTDHeader | None:
    """The columns that a line names, if it is a comment and they are those of diseases or chemicals."""
    if not line.startswith(COMMENT):
        return None
    delimiter = "\t" if "\t" in line else ","
    columns = [column.strip() for column in line.removeprefix(COMMENT).split(delimiter)]
    for kind in KINDS:
        if {f"{kind}Name", f"{kind}ID", TREE_COLUMN} <= set(columns):
            return CTDHeader(kind, columns, delimiter)
    return None


def _read_row(records: RecordFile, line: str, header: CTDHeader) -> dict[str, str] | None:
    try:
        # Between tabs, quotes are part of a text.
        cells = line.split("\t") if header.delimiter == "\t" else next(csv.reader([line], strict=True))
    except csv.Error as error:
        records.reject(f"is no comma-separated row ({error})")
        return None
    if len(cells) != len(header.columns):
        records.reject(f"has {len(cells)} columns instead of {len(header.columns)}")
        return None
    row = {column: cell.strip() for column, cell in zip(header.columns, cells, strict=True)}
    for column in (f"{header.kind}ID", f"{header.kind}Name"):
        if not row[column]:
            records.reject(f"has nothing in column {column!r}")
            return None
    records.accept()
    return row


def _to_entity(row: dict[str, str], kind: str, types: Sequence[str] | None) -> Entity:
    id_, name = row[f"{kind}ID"], row[f"{kind}Name"]
    xrefs = (f"{prefix}:{xref}" for column, prefix in XREF_COLUMNS.items() for xref in _parts(row, column))
    return Entity(
        id=id_,
        name=name,
        aliases=unique((alias for column in SYNONYM_COLUMNS for alias in _parts(row, column)), without=name),
        types=(kind,) if types is None else tuple(types),
        tree_numbers=unique(_parts(row, TREE_COLUMN)),
        definition=row.get("Definition", ""),
        xrefs=unique(xrefs),
        source="CTD",
        alt_ids=unique((alt_id.removeprefix("DO:") for alt_id in _parts(row, "AltDiseaseIDs")), without=id_),
    )


def _parts(row: dict[str, str], column: str) -> list[str]:
    return [part.strip() for part in row.get(column, "").split("|") if part.strip()]


def read_medic(path: str | Path, *, types: Sequence[str] = ("Disease",)) -> Iterator[Entity]:
    """Read a MEDIC file, a concept a line.

    Ids stay as they stand: MeSH's without their prefix, OMIM's as bare numbers. Since corpora write the latter with
    their prefix, `OMIM:145250` becomes an alternative id of whatever bears the number 145250.

    types: what every concept of a disease vocabulary is.
    Raises KrisselError K101, K102, K103; a line that cannot be used is counted (KW101).
    """
    with open_records(path, "medic", "lines `ID|alternative ids||preferred name|synonyms`") as records:
        for line in records.lines():
            if not line.strip():
                continue
            head, bars, tail = line.partition("||")
            ids = unique(head.split("|"))
            # The published file writes apostrophes and accents as HTML does ("Alzheimer&apos;s").
            names = unique(map(unescape, tail.split("|")))
            if not bars:
                records.reject("has no '||' between ids and names")
            elif not ids or not head.split("|")[0].strip():
                records.reject("has no id before '||'")
            elif not names or not tail.split("|")[0].strip():
                records.reject("has no preferred name after '||'")
            else:
                records.accept()
                yield Entity(
                    id=ids[0],
                    name=names[0],
                    aliases=names[1:],
                    types=tuple(types),
                    source="MEDIC",
                    alt_ids=unique(_with_prefixes(ids), without=ids[0]),
                )


def _with_prefixes(ids: Sequence[str]) -> list[str]:
    spelt = []
    for id_ in ids:
        spelt.append(id_)
        if id_.isdecimal():
            spelt.append(f"OMIM:{id_}")
    return spelt
