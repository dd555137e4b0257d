"""Graphs in GraphML: https://graphml.graphdrawing.org"""

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from ..corpora.files import open_binary
from ..errors import Errors, KrisselError, wrong_setting
from ..util.escape import html_text
from ..util.xml_files import XmlHandler, feed
from .records import ENDS, Columns, Edge, Item, Record, cell_text, is_empty, with_lists

_TYPES = {"boolean": bool, "int": int, "long": int, "float": float, "double": float}
_BOOLEANS = {"true": True, "1": True, "false": False, "0": False}


def read_graphml(path: Path, expected: str, label_column: str) -> Iterator[Item]:
    """Yield the nodes and edges of a file. The id of an edge is under `id`.

    label_column: key of the labels, "" for usual names.

    Raises KrisselError K006 (no such key), K132 (not supported), K007 (damaged), K008, K009.
    """
    with open_binary(path, expected) as file_:
        parser = _Parser(str(path), label_column)
        for _ in feed(file_, parser):
            yield from parser.found
            parser.found.clear()


class _Parser(XmlHandler):
    """Makes records of nodes and edges, and refuses what would be lost."""

    kind, root = "GraphML", "graphml"
    texts = frozenset(("data", "default"))
    others = frozenset(("graphml", "key", "graph", "node", "edge", "desc"))

    def __init__(self, path: str, label_column: str) -> None:
        super().__init__(path)
        self.found: list[Item] = []
        self._label = label_column
        # Names and types by id, values that all have by kind, and attributes of open elements.
        self._keys: dict[str, tuple[str, str]] = {}
        self._kinds: dict[str, dict[str, Any]] = {"node": {}, "edge": {}}
        self._names: dict[str, list[str]] = {"node": [], "edge": []}
        self._open: dict[str, dict[str, str]] = {}
        self._record: dict[str, Any] = {}

    def start(self, name: str, attrs: dict[str, str]) -> None:
        if name not in self.texts | self.others or (name == "graph" and name in self._open):
            found = "a second graph" if name == "graph" else f"<{name}>"
            raise KrisselError(Errors.K132.format(path=self.path, line=self.line, found=found))
        self._open[name] = attrs
        if name == "key":
            key = attrs.get("attr.name", attrs.get("id", ""))
            self._keys[attrs.get("id", "")] = key, attrs.get("attr.type", "")
            for kind in self._kinds_of(attrs):
                self._names[kind].append(key)
        elif name == "graph":
            self._begin()
        elif name in self._kinds:
            self._record = dict(self._kinds[name])

    def end(self, name: str, parent: str, text: str) -> None:
        if name == "data":
            key = self._open[name].get("key", "")
            if key not in self._keys:
                raise self.malformed(self.line, f"no key {key!r} is declared")
            if parent in self._kinds:
                self._record[self._keys[key][0]] = self._value(key, text)
        elif name == "default":
            attrs = self._open["key"]
            for kind in self._kinds_of(attrs):
                key = attrs.get("id", "")
                self._kinds[kind][self._keys[key][0]] = self._value(key, text)
        elif name in self._kinds:
            self.done += 1
            self._add(name, self._open[name])

    def _kinds_of(self, attrs: dict[str, str]) -> list[str]:
        return [each for each in self._kinds if attrs.get("for", "all") in (each, "all")]

    def _begin(self) -> None:
        """Choose the keys of XML attributes, which differ from those of data."""

        def unused(name: str, kind: str) -> str:
            return f"{name} (attribute)" if name in self._names[kind] else name

        label = Columns(self._names["node"], label_column=self._label).label
        if self._label and not label:
            expected = f"one of the keys of '{self.path}': {', '.join(self._names['node'])}"[:300]
            raise wrong_setting("label_column", self._label, expected)
        self._node_keys = unused("id", "node"), label
        self._columns = Columns(self._node_keys, *self._node_keys)
        self._edge_keys = tuple(unused(each, "edge") for each in (*ENDS[1], "id"))

    def _add(self, name: str, attrs: dict[str, str]) -> None:
        try:
            if name == "node":
                record = {self._node_keys[0]: attrs["id"], **self._record}
                self.found.append(self._columns.read(with_lists(record, self._node_keys)))
                return
            first, last, id_ = self._edge_keys
            record = {first: attrs["source"], last: attrs["target"], **self._record}
        except (KeyError, ValueError) as error:
            raise self.malformed(self.line, f"a <{name}> without {error}") from error
        if "id" in attrs:
            record = {id_: attrs["id"], **record}
        default = self._open["graph"].get("edgedefault") != "undirected"
        directed = attrs.get("directed", "true" if default else "false") != "false"
        record = with_lists(record, (first, last))
        self.found.append(Edge(attrs["source"], attrs["target"], record, (first, last), directed))

    def _value(self, key: str, text: str) -> Any:
        type_ = _TYPES.get(self._keys[key][1], str)
        try:
            return _BOOLEANS[text.strip().lower()] if type_ is bool else type_(text)
        except (KeyError, ValueError):
            raise self.malformed(self.line, f"{text[:40]!r} is no {self._keys[key][1]}") from None


def write_graphml(
    path: Path,
    nodes: Sequence[Record],
    edges: Sequence[Record],
    *,
    id_key: str,
    ends: tuple[str, str],
    is_directed: bool,
) -> None:
    """Write a graph. id_key: of nodes. ends: keys of the ends of edges."""
    kinds = (
        ("node", nodes, {"id": id_key}),
        ("edge", edges, {"id": "id", "source": ends[0], "target": ends[1]}),
    )
    with path.open("w", encoding="utf8") as file_:
        file_.write('<?xml version="1.0" encoding="UTF-8"?>\n')
        file_.write('<graphml xmlns="http://graphml.graphdrawing.org/xmlns">\n')
        for kind, records, attributes in kinds:
            for key, type_ in _types(records, without={*attributes.values()}).items():
                own = f'id="{kind[0]}:{html_text(key)}" for="{kind}" attr.name="{html_text(key)}"'
                file_.write(f'<key {own} attr.type="{type_}"/>\n')
        file_.write(f'<graph edgedefault="{"" if is_directed else "un"}directed">\n')
        for kind, records, attributes in kinds:
            for record in records:
                file_.write(_element(kind, record, attributes))
        file_.write("</graph>\n</graphml>\n")


def _element(kind: str, record: Record, attributes: dict[str, str]) -> str:
    own = "".join(
        f' {name}="{html_text(cell_text(record[key]))}"'
        for name, key in attributes.items()
        if not is_empty(record.get(key))
    )
    data = "".join(
        f'<data key="{kind[0]}:{html_text(key)}">{html_text(cell_text(value))}</data>'
        for key, value in record.items()
        if key not in attributes.values() and not is_empty(value)
    )
    return f"<{kind}{own}>{data}</{kind}>\n"


def _types(records: Iterable[Record], without: set[str]) -> dict[str, str]:
    """Return the type of each key of some records."""
    kinds: dict[str, set[type]] = {}
    for record in records:
        for key, value in record.items():
            if key not in without and not is_empty(value):
                kinds.setdefault(key, set()).add(type(value))
    names = (({bool}, "boolean"), ({int}, "long"), ({int, float}, "double"))
    return {
        key: next((name for types, name in names if found <= types), "string")
        for key, found in kinds.items()
    }
