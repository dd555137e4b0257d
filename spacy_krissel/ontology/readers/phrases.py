"""The concepts of a table of phrases, such as AskAPatient's: `id TAB name of the concept TAB phrase` a line."""

from collections.abc import Iterator
from pathlib import Path

from ..entity import Entity
from .records import open_records

COLUMNS = 3


def read_phrases(path: str | Path) -> Iterator[Entity]:
    """Read the concepts, in the order of their first line: a closed set for the phrases of the same table.

    The name is that of the first line, others that a concept has are aliases. The phrases are left alone: they are what
    is to be linked. In memory are all concepts.

    Raises KrisselError K101, K102, K103; a row that cannot be used is counted (KW101).
    """
    with open_records(path, "phrases", "a tab-separated table of id, name and phrase") as records:
        names: dict[str, dict[str, None]] = {}
        for line in records.lines():
            if not line.strip():
                continue
            columns = [column.strip() for column in line.split("\t")]
            if len(columns) != COLUMNS or not all(columns):
                records.reject(f"has {len(columns)} column(s), {sum(map(bool, columns))} of them filled")
                continue
            records.accept()
            names.setdefault(columns[0], {})[columns[1]] = None
    for id_, found in names.items():
        name, *aliases = found
        yield Entity(id=id_, name=name, aliases=tuple(aliases))
