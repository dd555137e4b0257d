"""Writing of a graph with equivalent nodes merged."""

from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

from ..corpora.report import CorpusReport
from ..util.atomic import atomic_file
from .graph import Graph
from .graphml import write_graphml
from .merge import EdgeMerger, merged_node
from .read import GRAPHML
from .write import edges_path, write_records


def write_merged(
    graph: Graph, groups: Sequence[Sequence[str]], path: Path, report: CorpusReport
) -> None:
    """Write a graph in the format that `path` ends in, without its edges if there are none.

    groups: ids of nodes to merge, the leader first. report: counts `merged_nodes`, rows of nodes
        that are in another one, and those of `EdgeMerger`.

    Raises KrisselError K026.
    """
    leaders = {group[0]: group for group in groups}
    kept = {each: group[0] for group in groups for each in group[1:]}
    nodes = [
        merged_node([graph.nodes[each] for each in leaders[id_]]).record
        if id_ in leaders
        else node.record
        for id_, node in graph.nodes.items()
        if id_ not in kept
    ]
    report.count("merged_nodes", graph.n_nodes - len(nodes))
    merger = EdgeMerger(kept)
    merger.look(graph.edges(), report)
    edges = merger.records(graph.edges(), report)
    with ExitStack() as stack:
        file_ = stack.enter_context(atomic_file(path))
        if path.suffix == GRAPHML:
            id_key, ends, is_directed = graph.keys[0], graph.ends, graph.is_directed
            write_graphml(file_, nodes, [*edges], id_key=id_key, ends=ends, is_directed=is_directed)
            return
        write_records(
            file_, path.suffix, nodes, [*dict.fromkeys(key for each in nodes for key in each)]
        )
        if graph.n_edges:
            file_ = stack.enter_context(atomic_file(edges_path(path)))
            write_records(file_, path.suffix, edges, [*merger.keys])
        else:
            # Those of the graph that this one replaces.
            edges_path(path).unlink(missing_ok=True)
