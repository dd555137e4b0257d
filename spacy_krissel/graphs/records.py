"""Nodes and edges of a graph, as records with the keys of their file."""

import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from ..util.tables import IDS, NAMES, find_column

Record = Mapping[str, Any]
# Between the items of a list in a cell, as KGX has it.
SEPARATOR = "|"
# Keys of the ends of an edge: of KGX, of Gephi and networkx, of Neo4j.
ENDS = (("subject", "object"), ("source", "target"), ("startid", "endid"))


class Node(NamedTuple):
    """A node. label: "" for none. keys: of the id and of the label in its record."""

    id: str
    label: str
    record: Record
    keys: tuple[str, str]


class Edge(NamedTuple):
    """An edge. keys: of its ends in its record."""

    subject: str
    object: str
    record: Record
    keys: tuple[str, str]
    directed: bool = True


Item = Node | Edge


class Columns:
    """Keys of a record, or columns of a table, by their usual names.

    id_column, label_column: "" for the usual names. ends: keys of the ends of an edge; empty for a
        node.
    """

    def __init__(self, names: Sequence[str], id_column: str = "", label_column: str = "") -> None:
        def named(wanted: Iterable[str]) -> str:
            index = find_column(names, wanted)
            return "" if index is None else names[index]

        ends = [(named([first]), named([last])) for first, last in ENDS]
        self.ends = next((pair for pair in ends if all(pair)), None)
        self.id = named([id_column] if id_column else IDS)
        self.label = named([label_column] if label_column else NAMES)

    def read(self, record: Record) -> Item:
        """Return the node or edge of a record. Raises ValueError if an id is missing."""
        ids = {key: _id(record, key) for key in self.ends or (self.id,)}
        if any(record[key] != id_ for key, id_ in ids.items()):
            record = {**record, **ids}
        if self.ends:
            return Edge(ids[self.ends[0]], ids[self.ends[1]], record, self.ends)
        label = record.get(self.label)
        label = " ".join(label.split()) if isinstance(label, str) else ""
        return Node(ids[self.id], label, record, (self.id, self.label or "name"))


def _id(record: Record, key: str) -> str:
    value = record.get(key)
    # Other tools number nodes.
    found = str(value).strip() if isinstance(value, (str, int)) and value is not True else ""
    if not found:
        raise ValueError(f"no {key or 'id'}")
    return found


def is_empty(value: Any) -> bool:
    return value is None or value == "" or value == []


def listed(value: Any) -> list[Any]:
    """Return the items of a value, none of them empty."""
    return [each for each in (value if isinstance(value, list) else [value]) if not is_empty(each)]


def joined(records: Sequence[Record]) -> dict[str, Any]:
    """Return one record with the values of all: under a key, the value that all of them have,
    else a list of their different items."""
    found: dict[str, Any] = {}
    for key in {key: None for each in records for key in each}:
        values = [each[key] for each in records if not is_empty(each.get(key))]
        # By JSON, since 1 is not true there, and a list can be compared.
        if len({json.dumps(each, sort_keys=True): None for each in values}) < 2:
            found[key] = values[0] if values else next(each[key] for each in records if key in each)
        else:
            found[key] = distinct(item for value in values for item in listed(value))
    return found


def distinct(items: Iterable[Any]) -> list[Any]:
    """Return different items in their order."""
    return [*{json.dumps(each, sort_keys=True): each for each in items}.values()]


def with_lists(record: Record, texts: Collection[str]) -> Record:
    """Return a record with lists, which are one text in a cell. texts: keys of other texts."""
    return {
        key: value.split(SEPARATOR)
        if isinstance(value, str) and SEPARATOR in value and key not in texts
        else value
        for key, value in record.items()
    }


def cell_text(value: Any) -> str:
    """Return a value as the text of a cell."""
    if isinstance(value, list):
        return SEPARATOR.join(map(cell_text, value))
    if isinstance(value, str):
        return value
    return "" if value is None else json.dumps(value, ensure_ascii=False)
