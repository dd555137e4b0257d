"""The concepts of a table of phrases, such as AskAPatient's: `id TAB name of the concept TAB phrase` a line."""

from collections.abc import Iterator
from pathlib import Path

from ..entity import Entity
from .records import BadRecord, open_records, with_all_names


def read_phrases(path: str | Path) -> Iterator[Entity]:
    """Read the concepts, in the order of their first line: a closed set for the phrases of the same table.

    The name is that of the first line; other names of a concept are aliases. The phrases are left out: they are what
    is to be linked. In memory are all concepts.
    """
    with open_records(path, "phrases", "a tab-separated table of id, name and phrase") as records:
        yield from with_all_names(records.parsed(records.lines(), _to_entity))


def _to_entity(line: str) -> Entity:
    columns = [column.strip() for column in line.split("\t")]
    if len(columns) != 3 or not all(columns):
        raise BadRecord(f"has {len(columns)} column(s), {sum(map(bool, columns))} of them filled")
    return Entity(id=columns[0], name=columns[1])
