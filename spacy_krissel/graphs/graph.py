"""A graph in one or several files: its nodes in memory, its edges read again when they are
needed."""

from collections.abc import Iterator, Sequence
from itertools import chain
from pathlib import Path

from ..corpora.report import CorpusReport
from ..errors import wrong_setting
from .merge import merged_node
from .read import read_graph
from .records import ENDS, Edge, Item, Node, Record


class Graph:
    """Nodes and edges of files, all with the keys of the first one.

    nodes: by id; rows with the same id are one node. n_nodes, n_edges: the numbers of both in the
        files.

    Raises KrisselError K006 (graphs of both kinds, directed or not), and those of `read_graph`.
    """

    def __init__(
        self, paths: Sequence[Path], report: CorpusReport, *, id_column: str, label_column: str
    ) -> None:
        self.nodes: dict[str, Node] = {}
        self.n_nodes = self.n_edges = 0
        self.is_directed = True
        self._columns = {"id_column": id_column, "label_column": label_column}
        self._keys: dict[type, tuple[str, str]] = {}
        # Files with edges.
        self._paths: dict[Path, None] = {}
        for path in paths:
            for item in self._read(path, report):
                if isinstance(item, Node):
                    self._add(item)
                else:
                    self._count(item, path)

    @property
    def keys(self) -> tuple[str, str]:
        """Return the keys of ids and labels of nodes."""
        return self._keys.get(Node, ("id", "name"))

    @property
    def ends(self) -> tuple[str, str]:
        """Return the keys of the ends of edges."""
        return self._keys.get(Edge, ENDS[0])

    def edges(self) -> Iterator[Edge]:
        """Yield the edges of all files."""
        # Their issues were counted when the files were read first.
        found = chain.from_iterable(self._read(path, CorpusReport()) for path in self._paths)
        return (each for each in found if isinstance(each, Edge))

    def _read(self, path: Path, report: CorpusReport) -> Iterator[Item]:
        for item in read_graph(path, report, **self._columns):
            keys = self._keys.setdefault(type(item), item.keys)
            yield (
                item
                if item.keys == keys
                else item._replace(record=_renamed(item.record, item.keys, keys), keys=keys)
            )

    def _add(self, node: Node) -> None:
        self.n_nodes += 1
        known = self.nodes.get(node.id)
        self.nodes[node.id] = node if known is None else merged_node([known, node])

    def _count(self, edge: Edge, path: Path) -> None:
        if self.n_edges and edge.directed != self.is_directed:
            expected = "graphs that are all directed, or all undirected"
            raise wrong_setting("terms", path, expected)
        self.n_edges += 1
        self.is_directed = edge.directed
        self._paths[path] = None


def _renamed(record: Record, old: Sequence[str], new: Sequence[str]) -> Record:
    names = {**{key: f"{key} (2)" for key in new}, **dict(zip(old, new, strict=True))}
    return {names.get(key, key): value for key, value in record.items()}
