"""The concepts of a table of phrases, such as AskAPatient's: `id TAB name of the concept TAB phrase` a line."""

from pathlib import Path
from typing import Dict, Iterator, List, Union

from ..entity import Entity
from .records import RecordFile, unique

COLUMNS = 3


def read_phrases(path: Union[str, Path]) -> Iterator[Entity]:
    """Read the concepts, in the order of their first line: a closed set for the phrases of the same table.

    The name is that of the first line, others that a concept has are aliases. The phrases are left alone: they are what
    is to be linked. In memory are all concepts.

    Raises KrisselError K101, K102, K103; a row that cannot be used is counted (KW101).
    """
    records = RecordFile(path, "phrases", "a tab-separated table of id, name and phrase")
    names: Dict[str, List[str]] = {}
    for line in records.lines():
        if not line.strip():
            continue
        columns = [column.strip() for column in line.split("\t")]
        if len(columns) != COLUMNS or not all(columns):
            records.reject(f"has {len(columns)} column(s), {sum(map(bool, columns))} of them filled")
            continue
        records.accept()
        names.setdefault(columns[0], []).append(columns[1])
    records.finish()
    for id_, found in names.items():
        yield Entity(id=id_, name=found[0], aliases=unique(found, without=found[0]))
