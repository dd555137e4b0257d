"""Tables whose first line names the columns: concepts, MedCAT's names, SSSLM's names; and
phrases."""

import csv
import re
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from inspect import signature
from itertools import chain, dropwhile
from pathlib import Path
from typing import Any

from ...errors import Errors, KrisselError, KrisselWarning, Warnings
from ...util.settings import checked
from ...util.tables import DELIMITERS, IDS, NAMES, SEPARATOR, column_key, csv_rows, find_column
from ..entity import Entity
from .obo import SCOPES
from .records import (
    BadRecord,
    FileHead,
    RecordFile,
    check_width,
    curie,
    merge_names,
    open_bytes,
    open_records,
    table_rows,
    unique,
)
from .replaced import Replaced

# Usual column names of each part, as returned by `column_key`; they include BioPortal's.
HEADERS = {
    "id": IDS,
    "name": NAMES,
    "synonyms": (
        "synonyms",
        "synonym",
        "exactsynonyms",
        "exactsynonym",
        "aliases",
        "alias",
        "alternativenames",
        "alternativelabels",
        "alternativeterms",
        "altlabels",
        "altlabel",
        "othernames",
        "alsoknownas",
        "aka",
    ),
    "definition": ("definition", "definitions", "description"),
    "type": ("type", "types", "semantictype", "semantictypes", "category"),
    "parents": ("parents", "parent", "parentid", "parentids"),
    "obsolete": ("obsolete", "deprecated"),
    # Of an obsolete row: the entity that replaces it.
    "successor": ("replacedby", "termreplacedby", "replacedbyid", "replacement", "successor"),
    "merged": (
        "altids",
        "altid",
        "alternativeids",
        "alternativeid",
        "alternateids",
        "alternateid",
        "secondaryids",
        "mergedids",
        "mergedfrom",
        "replaces",
    ),
}
LISTS = {"synonyms": "aliases", "type": "types", "parents": "parents", "merged": "alt_ids"}
# Possible separators of values in a cell, most likely first; and further ones for synonyms,
# although names often contain commas and slashes.
SEPARATORS = "|;"
UNLIKELY_SEPARATORS = ",/"
# A separator occurs in at least this fraction of the non-empty cells, and is this many times rarer
# in names, which are single values.
MIN_SEPARATED, MIN_RATIO = 0.05, 10
MIN_UNLIKELY = 0.25
_ENTITY = re.compile(r"&#?\w+;")
MEDCAT = ("cui", "name", "name_status")
SSSLM = ("text", "curie", "name", "predicate")
PREFERRED = "P"
SCOPE = re.compile(r"has(\w+)Synonym")


@checked
def read_table(
    path: str | Path,
    *,
    id_column: str = "",
    name_column: str = "",
    synonym_column: str = "",
    definition_column: str = "",
    type_column: str = "",
    parent_column: str = "",
    separator: str | None = None,
) -> Iterator[Entity]:
    """Read a table of concepts, separated by tabs, commas, semicolons or bars like its first line.

    Rows with the same id are one concept, with the names of all rows; all are held in memory. A row
    with "true" in a column "obsolete" is left out; a column "replaced_by" names the entity that its
    id leads to. Ids in a column "alt_ids" or "replaces" are of entities that were merged into this
    one. An IRI becomes a prefix and an id (`records.curie`).

    id_column: column of ids; default: by its usual names (id, code, Term ID, …); case, spaces and
        underscores do not matter
    name_column: column of names; default: by its usual names (name, label, Preferred Term, …)
    synonym_column: column of other names, or several, separated by commas; default: by its usual
        names (synonyms, aliases, …), including numbered ones
    definition_column: column of definitions
    type_column: column of semantic types
    parent_column: column of ids of parents
    separator: text between the synonyms, types or ids in a cell, "" for single values; default:
        per column, | or ; if it occurs in some of its cells and rarely in names; line breaks
        separate as well

    Warns KW108 of obsolete ids whose replacement leads nowhere, KW111 about cells that were split
    at semicolons, KW112 about cells that were not split, but may hold several values.
    Raises KrisselError K006 (an option of another type), K103 (no such column), K118 (unusual
    column names).
    """
    given = dict(
        zip(
            HEADERS,
            (id_column, name_column, synonym_column, definition_column, type_column, parent_column),
            strict=False,
        )
    )
    with open_records(
        path, "table", "columns with an id and a name, which the first line names"
    ) as records:
        rows = delimited_rows(records)
        header = next(rows, [])
        given.update(
            {
                f"synonyms{n or ''}": name
                for n, name in enumerate(_names_given(header, synonym_column))
            }
        )
        columns = _columns(header, given)
        for part in given:
            if part not in columns and given[part]:
                raise records.wrong_format(f"has no column {given[part]!r}, but {_shown(header)}")
        if len(header) < 2:
            raise records.wrong_format("names no columns")
        if not {"id", "name"} <= columns.keys():
            raise unknown_columns(path, header, given)

        replaced = Replaced(records.path)

        def parse(row: list[str]) -> Entity | None:
            if not any(map(str.strip, row)):
                return None
            check_width(row, len(header))
            cells = {part: row[index].strip() for part, index in columns.items()}
            for part in ("id", "name"):
                if not cells[part]:
                    raise BadRecord(f"has no {part} in column {header[columns[part]]!r}")
            if cells.get("obsolete", "").lower() in ("true", "1"):
                replaced.add(
                    curie(cells["id"]), unique([curie(cells.get("successor", ""))]), (), ()
                )
                return None
            # Lists are split below, when all cells are known.
            lists: dict[str, Any] = {
                field: tuple(
                    text
                    for each, cell in cells.items()
                    if each.startswith(part)
                    for text in ([cell] if separator == "" else map(str.strip, cell.splitlines()))
                    if text
                )
                for part, field in LISTS.items()
            }
            definition = " ".join(cells.get("definition", "").split())
            name = " ".join(cells["name"].splitlines())
            return Entity(curie(cells["id"]), name, definition=definition, **lists)

        entities = list(records.parsed(rows, parse))
        separators: dict[str, str | None] = dict.fromkeys(LISTS, separator)
        if separator is None:
            names = [entity.name for entity in entities]
            for part in filter(columns.__contains__, LISTS):
                cells = [cell for entity in entities for cell in getattr(entity, LISTS[part])]
                marks = SEPARATORS + (UNLIKELY_SEPARATORS if part == "synonyms" else "")
                separators[part] = _separator(path, header[columns[part]], cells, names, marks)
        merged = list(merge_names(_split(entity, separators) for entity in entities))
        for entity in merged:
            replaced.add_present((entity.id, *entity.alt_ids))
        for entity in merged:
            yield replace(entity, alt_ids=replaced.alt_ids(entity.id, entity.alt_ids))
        replaced.finish()


TABLE_OPTIONS = tuple(signature(read_table).parameters)[1:]
TABLE_COLUMNS = {name for name in TABLE_OPTIONS if name.endswith("_column")}


def table_options(path: str | Path, options: Mapping[str, Any]) -> set[str]:
    """Return the table options that name existing columns. Raises what `open_bytes` raises."""
    with open_bytes(path) as file_:
        header = next(delimited_rows(RecordFile(file_, "table", "")), [])
    named = {
        option: _names_given(header, str(options[option]))
        for option in TABLE_COLUMNS & options.keys()
    }
    return {
        option
        for option, names in named.items()
        if names and all(find_column(header, [name]) is not None for name in names)
    }


def _names_given(header: Sequence[str], columns: str) -> list[str]:
    """Split column names at commas; a column name may itself contain a comma."""
    return (
        [columns]
        if not columns or find_column(header, [columns]) is not None
        else columns.split(",")
    )


def _split(entity: Entity, separators: Mapping[str, str | None]) -> Entity:
    """Return the entity with its cells split into values."""
    found: dict[str, Any] = {}
    for part, field in LISTS.items():
        cells, mark = getattr(entity, field), separators[part]
        found[field] = unique(
            chain.from_iterable(cell.split(mark) for cell in cells) if mark else cells
        )
    found["aliases"] = unique(found["aliases"], without=entity.name)
    found["alt_ids"] = unique(map(curie, found["alt_ids"]), without=entity.id)
    return replace(entity, **{**found, "parents": unique(map(curie, found["parents"]))})


def _separator(
    path: str | Path, column: str, cells: Sequence[str], names: Sequence[str], marks: str
) -> str | None:
    """Find the separator of values in non-blank cells; None if there is evidently none.

    names: texts of the same table that hold one value each. marks: possible separators. Warns
        KW111, KW112.
    """

    def separated(mark: str) -> list[str]:
        # A final bar or semicolon separates nothing, and HTML entities end in a semicolon.
        return [cell for cell in cells if mark in _ENTITY.sub("", cell).strip(f"{mark} ")]

    def warn(warning: str, mark: str, found: Sequence[str]) -> None:
        stated = {"path": path, "column": column, "total": len(cells), "mark": mark}
        warnings.warn(
            warning.format(count=len(found), first=found[0][:80], **stated),
            KrisselWarning,
            stacklevel=3,
        )

    doubtful = []
    for mark in marks:
        if not (found := separated(mark)):
            continue
        share, in_names = len(found) / len(cells), sum(mark in name for name in names) / len(names)
        is_rare = share >= MIN_RATIO * in_names
        if mark not in SEPARATORS:
            doubtful += [(mark, found)] if is_rare and share >= MIN_UNLIKELY else []
        elif is_rare and share >= MIN_SEPARATED and not any(map(_ENTITY.search, found)):
            if mark != SEPARATORS[0]:
                warn(Warnings.KW111, mark, found)
            return mark
        else:
            doubtful.append((mark, found))
    if doubtful:
        warn(Warnings.KW112, *doubtful[0])
    return None


def read_medcat(path: str | Path) -> Iterator[Entity]:
    """Read MedCAT's CSV of names: `cui,name,ontologies,name_status,type_ids,description`, of which
    cui, name and name_status are required. All are held in memory.

    The name is that of the row with the status P, else that of the first row.
    """
    preferred: dict[str, str] = {}
    with open_records(
        path, "medcat", f"a table of names with the columns {', '.join(MEDCAT)}"
    ) as records:
        rows = delimited_rows(records)
        header = next(rows, [])
        for column in MEDCAT:
            if column not in header:
                raise records.wrong_format(f"has no column {column!r}")

        def parse(row: list[str]) -> Entity:
            check_width(row, len(header))
            cells = {column: cell.strip() for column, cell in zip(header, row, strict=True)}
            if not cells["cui"] or not cells["name"]:
                raise BadRecord(f"has nothing in column {'name' if cells['cui'] else 'cui'!r}")
            if cells["name_status"] == PREFERRED:
                preferred.setdefault(cells["cui"], cells["name"])
            types, definition = (
                unique(cells.get("type_ids", "").split("|")),
                cells.get("description", ""),
            )
            source = unique(cells.get("ontologies", "").split("|"))[:1]
            return Entity(
                cells["cui"], cells["name"], (), types, (), definition, source="".join(source)
            )

        for entity in merge_names(records.parsed(rows, parse)):
            name = preferred.get(entity.id, entity.name)
            yield replace(entity, name=name, aliases=unique(entity.names, without=name))


def read_ssslm(path: str | Path, *, scopes: Sequence[str] = SCOPES) -> Iterator[Entity]:
    """Read a table of synonyms (SSSLM), one name per row under `text`, with the `curie`, the
    preferred `name` and the `predicate`. All are held in memory.

    scopes: the scopes of synonyms that become aliases, as in `read_obo`; so do labels and other
        predicates.
    """

    def to_entity(row: tuple[str, ...]) -> Entity:
        text, id_, name, predicate = row
        scope = SCOPE.search(predicate)
        taken = scope is None or scope[1].upper() in scopes
        name = name or text
        return Entity(
            id_, name, unique([text] if taken else [], without=name), source=id_.partition(":")[0]
        )

    with open_records(
        path, "ssslm", f"a tab-separated table with the columns {', '.join(SSSLM)}"
    ) as records:
        yield from merge_names(map(to_entity, table_rows(records, SSSLM, filled=("text", "curie"))))


def read_phrases(path: str | Path) -> Iterator[Entity]:
    """Read the concepts of a table of phrases, such as AskAPatient's
    (`id TAB name of the concept TAB phrase`), in the order of their first line: a closed set for
    the phrases of the same table.

    The name is that of the first line; other names of a concept are aliases. The phrases are left
    out, since they are the mentions to link. All concepts are held in memory.
    """
    with open_records(path, "phrases", "a tab-separated table of id, name and phrase") as records:
        yield from merge_names(records.parsed(records.lines(), _concept))


def is_table(start: FileHead) -> bool:
    """Return whether the first line has usual names of an id and a name."""
    return {"id", "name"} <= _columns(_header(start), {}).keys()


def table_header(start: FileHead) -> list[str]:
    """Return the columns that the first line names, if the next line has as many; else none."""
    lines = start.lines[start.lines.index(start.first) :] if start.first else []
    header = _header(start)
    is_header = (
        len(header) > 1
        and start.first[0] not in "{[<"
        and all(cell and not cell.isdecimal() for cell in header)
    )
    width = (
        len(next(csv.reader(lines[1:2], delimiter=_delimiter(start.first)), header))
        if is_header
        else 0
    )
    return header if is_header and width == len(header) else []


def unknown_columns(
    path: str | Path, header: Sequence[str], given: Mapping[str, str] = {}
) -> KrisselError:
    """Return the error for a table whose columns have neither usual nor given names."""
    columns = _columns(header, given)
    missing = [f"{part}s" for part in ("id", "name") if part not in columns]
    return KrisselError(
        Errors.K118.format(path=path, columns=_shown(header), missing=" and ".join(missing))
    )


def _shown(header: Sequence[str]) -> str:
    return ", ".join(map(repr, header))[:300]


def is_medcat(start: FileHead) -> bool:
    return set(MEDCAT) <= set(_header(start))


def is_ssslm(start: FileHead) -> bool:
    return set(SSSLM) <= set(start.cells)


def _header(start: FileHead) -> list[str]:
    return [cell.strip(' "') for cell in start.first.split(_delimiter(start.first))]


def _columns(header: Sequence[str], given: Mapping[str, str]) -> dict[str, int]:
    """Return the index of each part's column: the given one, else the first with a usual name."""
    found = {
        part: find_column(header, [given[part]] if given.get(part) else HEADERS.get(part, ()))
        for part in {**dict.fromkeys(given), **HEADERS}
    }
    columns = {part: index for part, index in found.items() if index is not None}
    if not given.get("synonyms"):
        keys = [column_key(name).rstrip("0123456789") for name in header]
        usual = next(filter(keys.__contains__, HEADERS["synonyms"]), "")
        several = [index for index, key in enumerate(keys) if usual and key == usual]
        columns.update({f"synonyms{n or ''}": index for n, index in enumerate(several)})
    return columns


def _delimiter(line: str) -> str:
    return max(DELIMITERS, key=line.count)


def delimited_rows(records: RecordFile, comment: str = "\0") -> Iterator[list[str]]:
    """Yield the rows, the header first. Quoted cells may contain delimiters and line ends. In
    tab-separated rows, quotes are part of a text unless they surround the whole cell.

    comment: prefix of comment lines above the header.
    """
    lines = dropwhile(
        lambda line: line.startswith(comment) or SEPARATOR.fullmatch(line), records.lines()
    )
    first = next(lines, "")
    delimiter = _delimiter(first)
    every = chain([first], lines)
    if delimiter == "\t":
        for line in every:
            yield [
                cell[1:-1].replace('""', '"') if _is_quoted(cell) else cell
                for cell in line.split("\t")
            ]
        return
    for number, row in csv_rows(((records.line, line) for line in every), delimiter):
        # Lines may have been read ahead.
        records.start = number
        if isinstance(row, str):
            records.reject(f"is not a row with {delimiter!r} between its cells ({row})", number)
        else:
            yield row


def _is_quoted(cell: str) -> bool:
    return len(cell) > 1 and cell[0] == cell[-1] == '"'


def _concept(line: str) -> Entity:
    columns = [column.strip() for column in line.split("\t")]
    if len(columns) != 3 or not all(columns):
        raise BadRecord(f"has {len(columns)} column(s), {sum(map(bool, columns))} of them filled")
    return Entity(id=columns[0], name=columns[1])
