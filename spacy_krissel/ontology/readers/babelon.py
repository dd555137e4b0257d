"""Babelon: tables of translations of an ontology's labels and synonyms, as used by the Human
Phenotype Ontology.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from ...util.tables import DELIMITERS, SEPARATOR
from ..entity import Entity
from .obo import SCOPES
from .records import BadRecord, FileHead, check_width, curie, merge_names, open_records, unique
from .table import SCOPE, delimited_rows

NEEDED = ("subject_id", "translation_value")
# Status or comment of a row whose value is the original, or empty.
NOT_TRANSLATED = "NOT_TRANSLATED"
# Suffixes of predicates; their prefixes differ.
_LABELS = ("label", "prefLabel")
_DEFINITIONS = ("IAO:0000115", "IAO_0000115", "definition")
_COMMENT = "comment"
# The second row of a ROBOT template describes the columns.
_ROBOT = "ID"


def read_babelon(path: str | Path, *, scopes: Sequence[str] = SCOPES) -> Iterator[Entity]:
    """Read a table of translations, with one text per row: its `subject_id`, `translation_value`
    and, optionally, `predicate_id`. All are held in memory.

    The name is the translated label, else the first translation. Other translations are aliases,
    including all those of a table without predicates. Untranslated texts, by the column
    `translation_status` or `comment`, and translated comments are left out. Texts of all languages
    of the table are read. An id that is an IRI becomes a prefix and an id (`records.curie`). Lines
    above the header that begin with `#` are comments.

    scopes: the scopes of synonyms that become aliases, as in `read_obo`.
    """
    labels: dict[str, str] = {}
    definitions: dict[str, str] = {}
    expected = f"a table of translations with the columns {' and '.join(NEEDED)}"
    with open_records(path, "babelon", expected) as records:
        rows = delimited_rows(records, comment="#")
        header = [*map(str.strip, next(rows, []))]
        for column in NEEDED:
            if column not in header:
                raise records.wrong_format(f"has no column {column!r}")

        def parse(row: list[str]) -> Entity | None:
            check_width(row, len(header))
            cells = dict(zip(header, map(str.strip, row), strict=True))
            id_, text = curie(cells["subject_id"]), " ".join(cells["translation_value"].split())
            if not id_:
                raise BadRecord("has nothing in column 'subject_id'")
            states = (cells.get("translation_status", ""), cells.get("comment", ""))
            if not text or id_ == _ROBOT or NOT_TRANSLATED in map(str.upper, states):
                return None
            predicate = cells.get("predicate_id", "")
            if predicate.endswith(_COMMENT):
                return None
            scope = SCOPE.search(predicate)
            if predicate.endswith(_DEFINITIONS):
                definitions.setdefault(id_, text)
                return None
            if scope is not None and scope[1].upper() not in scopes:
                return None
            if predicate.endswith(_LABELS):
                labels.setdefault(id_, text)
            return Entity(id_, text, source=id_.partition(":")[0])

        for entity in merge_names(records.parsed(rows, parse)):
            name = labels.get(entity.id, entity.name)
            aliases = unique(entity.names, without=name)
            yield replace(
                entity, name=name, aliases=aliases, definition=definitions.get(entity.id, "")
            )


def is_babelon(start: FileHead) -> bool:
    lines = (line for line in start.lines if not SEPARATOR.fullmatch(line))
    header = next((line for line in lines if line and not line.startswith("#")), "")
    return any(
        set(NEEDED) <= {cell.strip(' "') for cell in header.split(each)} for each in DELIMITERS
    )
