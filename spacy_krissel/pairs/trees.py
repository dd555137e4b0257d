"""Nested values, as of JSON and YAML, whose scalars keep their offsets, and the pairs in them."""

import re
from dataclasses import dataclass, field
from typing import NamedTuple

from .keys import paired_keys
from .pair import Cell, IsId, Pair

# LinkML: the id that a permissible value means, and its texts.
MEANING, TEXTS = "meaning", ("title", "text", "description")
ALIASES = ("aliases", "alt_names", "synonyms")


class Scalar(NamedTuple):
    """A single value; is_text: it is not a number or another constant. note: the comment after
    it, in YAML."""

    cell: Cell
    is_text: bool = True
    note: Cell | None = None


@dataclass
class Mapping:
    items: list[tuple[Scalar, "Node"]] = field(default_factory=list)


@dataclass
class Sequence:
    items: list["Node"] = field(default_factory=list)


Node = Scalar | Mapping | Sequence


class Builder:
    """Makes nodes of a stream of scalars, beginnings and ends. roots: the finished values."""

    def __init__(self) -> None:
        self.roots: list[Node] = []
        self._open: list[Mapping | Sequence] = []
        self._keys: list[Scalar | None] = []

    def begin(self, node: Mapping | Sequence) -> None:
        self._open.append(node)
        self._keys.append(None)

    def end(self) -> None:
        self._keys.pop()
        self.add(self._open.pop())

    def add(self, node: Node) -> None:
        """Add a finished node to the innermost open one, as a key or a value."""
        if not self._open:
            self.roots.append(node)
            return
        parent = self._open[-1]
        if isinstance(parent, Sequence):
            parent.items.append(node)
            return
        key = self._keys[-1]
        if key is None:
            # A key of several values, which YAML allows, is no key of a pair.
            self._keys[-1] = node if isinstance(node, Scalar) else Scalar(Cell("", 0, 0), False)
        else:
            parent.items.append((key, node))
            self._keys[-1] = None


def tree_pairs(roots: list[Node], is_id: IsId) -> list[Pair]:
    """Return the pairs of ids and labels in nested values, in the order of the file:

    - in one mapping, keys of ids with keys of labels (`paired_keys`): `id` and `label`;
    - a key that is an id, with its text or the label in its mapping;
    - LinkML's `meaning` with the title and the text of its value, or the name of its key;
    - any other text that is an id, with its comment.
    """
    found: list[Pair] = []
    waiting: list[tuple[Node, Scalar | None]] = [(root, None) for root in roots]
    while waiting:
        node, key = waiting.pop()
        if isinstance(node, Scalar):
            if node.is_text and is_id(node.cell.value):
                found.append(Pair(node.cell, tuple(_notes(node))))
        elif isinstance(node, Sequence):
            waiting += [(each, None) for each in node.items]
        else:
            pairs, used = _mapping_pairs(node, key, is_id)
            found += pairs
            waiting += [(value, name) for name, value in node.items if id(value) not in used]
    return sorted(found, key=lambda pair: pair.id.start)


def _mapping_pairs(node: Mapping, key: Scalar | None, is_id: IsId) -> tuple[list[Pair], set[int]]:
    """Return the pairs of a mapping, and the values that need no further look. key: of the
    mapping."""
    found, used = [], set()
    names = [name.cell.value for name, _ in node.items]
    texts = {name: value for name, (_, value) in zip(names, node.items, strict=True)}
    for id_at, label_at in paired_keys(names):
        value = node.items[id_at][1]
        if isinstance(value, Scalar) and _may_be_id(value, is_id):
            label = None if label_at is None else _text(node.items[label_at][1])
            # A label that is an id is none: {"id": …, "uri": …, "label": …}.
            if label is None and is_id(value.cell.value):
                others = [_text(each) for _, each in node.items if each is not value]
                likely = [each for each in others if each and not is_id(each.value)]
                found.append(Pair(value.cell, (*likely, *_notes(value))))
            else:
                found.append(_pair(value, label))
            used.add(id(value))
    meaning = texts.get(MEANING)
    if isinstance(meaning, Scalar) and _may_be_id(meaning, is_id):
        labels = [each for name in TEXTS if (each := _text(texts.get(name)))]
        stated = _text(texts.get("title"))
        labels += [key.cell] if key is not None else []
        labels += [each for name in ALIASES for each in _texts(texts.get(name))]
        found.append(Pair(meaning.cell, (*labels, *_notes(meaning)), stated))
        used.add(id(meaning))
    for name, value in node.items:
        if is_id(name.cell.value):
            label = _text(value)
            if isinstance(value, Mapping) and not found:
                inner = [each.cell.value for each, _ in value.items]
                at = next((at for at, each in enumerate(inner) if each in ("label", "name")), None)
                label = None if at is None else _text(value.items[at][1])
            if label is None or not is_id(label.value):
                found.append(_pair(name, label))
    return found, used


def _pair(id: Scalar, label: Cell | None) -> Pair:
    labels = [] if label is None else [label]
    return Pair(id.cell, (*labels, *_notes(id)), label)


def _notes(scalar: Scalar) -> list[Cell]:
    return [] if scalar.note is None else [scalar.note]


def _may_be_id(value: Scalar, is_id: IsId) -> bool:
    text = value.cell.value
    return value.is_text and (is_id(text) or re.fullmatch(r"[\w.-]+:\S*\d\S*", text) is not None)


def _text(node: Node | None) -> Cell | None:
    is_text = isinstance(node, Scalar) and node.is_text and node.cell.value.strip()
    return node.cell if is_text and isinstance(node, Scalar) else None


def _texts(node: Node | None) -> list[Cell]:
    items = node.items if isinstance(node, Sequence) else [node]
    return [each for item in items if (each := _text(item)) is not None]  # type: ignore[arg-type]
