"""Tables whose first line names the columns: any of concepts, MedCAT's of names, SSSLM's of names; and phrases."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import chain, dropwhile
from pathlib import Path

from ...util.csv_rows import csv_rows
from ..entity import Entity
from .obo import SCOPES
from .records import (
    SEPARATOR,
    BadRecord,
    RecordFile,
    Start,
    check_width,
    curie,
    open_records,
    table_rows,
    unique,
    with_all_names,
)

DELIMITERS = "\t,;|"
# The usual names of the columns of a part, in small letters; among them BioPortal's.
HEADERS = {
    "id": ("id", "concept_id", "class id", "identifier", "curie", "code", "cui", "concept_code"),
    "name": (
        "name",
        "label",
        "preferred_label",
        "preferred label",
        "preferred_name",
        "canonical_name",
        "term",
        "title",
    ),
    "synonyms": ("synonyms", "synonym", "aliases", "alias", "alternative_names", "alt_labels"),
    "definition": ("definition", "definitions", "description"),
    "type": ("type", "types", "semantic_type", "semantic_types", "semantic types"),
    "parents": ("parents", "parent", "parent_id", "parent_ids"),
    "obsolete": ("obsolete", "deprecated"),
}
MEDCAT = ("cui", "name", "name_status")
SSSLM = ("text", "curie", "name", "predicate")
PREFERRED = "P"
SCOPE = re.compile(r"has(\w+)Synonym")


def read_table(
    path: str | Path,
    *,
    id_column: str = "",
    name_column: str = "",
    synonyms_column: str = "",
    definition_column: str = "",
    type_column: str = "",
    parents_column: str = "",
    separator: str = "|",
) -> Iterator[Entity]:
    """Read a table of concepts with tabs, commas, semicolons or bars between the columns, as the first line has them.

    Rows with one id are one concept, with the names of all; all are held in memory. A row with "true" in a column
    "obsolete" is left out. Of an address as id or parent, the prefix and the id are taken (`records.curie`).

    id_column, name_column, synonyms_column, definition_column, type_column, parents_column: names of the columns, in
        any case. Without one, the usual names (`HEADERS`); only id and name are needed.
        Synonyms may be in several columns: `alias_symbol,prev_symbol`.
    separator: stands between the synonyms, types or parents in a cell.
    """
    given = dict(
        zip(
            HEADERS,
            (id_column, name_column, synonyms_column, definition_column, type_column, parents_column),
            strict=False,
        )
    )
    with open_records(path, "table", "columns with an id and a name, which the first line names") as records:
        rows = delimited_rows(records)
        header = next(rows, [])
        # A column may have a comma in its name.
        if synonyms_column.strip().lower() not in (name.strip().lower() for name in header):
            given.update({f"synonyms{place or ''}": name for place, name in enumerate(synonyms_column.split(","))})
        places = _places(header, given)
        for part in given:
            if part not in places and (given[part] or part in ("id", "name")):
                asked = repr(given[part]) if given[part] else f"of the {part}s, such as {HEADERS[part][0]!r}"
                raise records.wrong_format(f"has no column {asked}, but {', '.join(map(repr, header))}"[:300])

        def parse(row: list[str]) -> Entity | None:
            if not any(map(str.strip, row)):
                return None
            check_width(row, len(header))
            cells = {part: row[place].strip() for part, place in places.items()}
            for part in ("id", "name"):
                if not cells[part]:
                    raise BadRecord(f"has no {part} in column {header[places[part]]!r}")
            if cells.get("obsolete", "").lower() in ("true", "1"):
                return None
            mark = separator or "\0"
            lists = {
                part: unique(mark.join(text for each, text in cells.items() if each.startswith(part)).split(mark))
                for part in ("synonyms", "type", "parents")
            }
            return Entity(
                id=curie(cells["id"]),
                name=cells["name"],
                aliases=unique(lists["synonyms"], without=cells["name"]),
                types=lists["type"],
                definition=" ".join(cells.get("definition", "").split()),
                parents=unique(map(curie, lists["parents"])),
            )

        yield from with_all_names(records.parsed(rows, parse))


def read_medcat(path: str | Path) -> Iterator[Entity]:
    """Read MedCAT's CSV of names: `cui,name,ontologies,name_status,type_ids,description`, of which cui, name and
    name_status are needed. All are held in memory.

    The name is that of the row with the status P, else that of the first row.
    """
    preferred: dict[str, str] = {}
    with open_records(path, "medcat", f"a table of names with the columns {', '.join(MEDCAT)}") as records:
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
            types, definition = unique(cells.get("type_ids", "").split("|")), cells.get("description", "")
            source = unique(cells.get("ontologies", "").split("|"))[:1]
            return Entity(cells["cui"], cells["name"], (), types, (), definition, source="".join(source))

        for entity in with_all_names(records.parsed(rows, parse)):
            name = preferred.get(entity.id, entity.name)
            yield replace(entity, name=name, aliases=unique(entity.names, without=name))


def read_ssslm(path: str | Path, *, scopes: Sequence[str] = SCOPES) -> Iterator[Entity]:
    """Read a table of synonyms (SSSLM): a name a row under `text`, with the `curie`, the preferred `name` and the
    `predicate`. All are held in memory.

    scopes: which synonyms become aliases, as `read_obo` takes them; labels and other predicates do.
    """

    def to_entity(row: tuple[str, ...]) -> Entity:
        text, id_, name, predicate = row
        scope = SCOPE.search(predicate)
        taken = scope is None or scope[1].upper() in scopes
        name = name or text
        return Entity(id_, name, unique([text] if taken else [], without=name), source=id_.partition(":")[0])

    with open_records(path, "ssslm", f"a tab-separated table with the columns {', '.join(SSSLM)}") as records:
        yield from with_all_names(map(to_entity, table_rows(records, SSSLM, filled=("text", "curie"))))


def read_phrases(path: str | Path) -> Iterator[Entity]:
    """Read the concepts of a table of phrases, such as AskAPatient's (`id TAB name of the concept TAB phrase`), in the
    order of their first line: a closed set for the phrases of the same table.

    The name is that of the first line; other names of a concept are aliases. The phrases are left out: they are what
    is to be linked. In memory are all concepts.
    """
    with open_records(path, "phrases", "a tab-separated table of id, name and phrase") as records:
        yield from with_all_names(records.parsed(records.lines(), _concept))


def is_table(start: Start) -> bool:
    """Whether the first line has usual names of an id and a name."""
    return {"id", "name"} <= set(_places(_header(start), {}))


def is_medcat(start: Start) -> bool:
    return set(MEDCAT) <= set(_header(start))


def is_ssslm(start: Start) -> bool:
    return set(SSSLM) <= set(start.cells)


def _header(start: Start) -> list[str]:
    return [cell.strip(' "') for cell in start.first.split(_delimiter(start.first))]


def _places(header: Sequence[str], given: dict[str, str]) -> dict[str, int]:
    """The place of each part's column: of the one that is given, else of the first usual one that is there."""
    names = [name.strip().lower() for name in header]
    found = {}
    for part, usual in {**dict.fromkeys(given, ()), **HEADERS}.items():
        wanted = (given[part].strip().lower(),) if given.get(part) else usual
        places = [names.index(name) for name in wanted if name in names]
        found.update({part: places[0]} if places else {})
    return found


def _delimiter(line: str) -> str:
    return max(DELIMITERS, key=line.count)


def delimited_rows(records: RecordFile, comment: str = "\0") -> Iterator[list[str]]:
    """The rows, the first of them the header. Quotes around a cell may hold delimiters and line ends, but between
    tabs, where they are part of a text unless they are around all of it.

    comment: how lines above the header begin that are none.
    """
    lines = dropwhile(lambda line: line.startswith(comment) or SEPARATOR.fullmatch(line), records.lines())
    first = next(lines, "")
    delimiter = _delimiter(first)
    every = chain([first], lines)
    if delimiter == "\t":
        for line in every:
            yield [cell[1:-1].replace('""', '"') if _is_quoted(cell) else cell for cell in line.split("\t")]
        return
    for number, row in csv_rows(((records.line, line) for line in every), delimiter):
        # Lines may have been read ahead.
        records.start = number
        if isinstance(row, str):
            records.reject(f"is no row with {delimiter!r} between its cells ({row})", number)
        else:
            yield row


def _is_quoted(cell: str) -> bool:
    return len(cell) > 1 and cell[0] == cell[-1] == '"'


def _concept(line: str) -> Entity:
    columns = [column.strip() for column in line.split("\t")]
    if len(columns) != 3 or not all(columns):
        raise BadRecord(f"has {len(columns)} column(s), {sum(map(bool, columns))} of them filled")
    return Entity(id=columns[0], name=columns[1])
