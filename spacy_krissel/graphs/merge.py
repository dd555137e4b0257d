"""Merging of equivalent nodes: one node of each group leads, and takes over the values and the
edges of all, as in the clique merge of KGX.
"""

import json
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import NamedTuple

from ..corpora.report import CorpusReport
from .records import Edge, Node, Record, distinct, is_empty, joined, listed

# Types of nodes, in order of preference, and those that say nothing.
_CATEGORIES = ("category", "categories", "labels", ":LABEL")
_ANY_CATEGORY = {"biolink:NamedThing", "biolink:Entity", "NamedThing", "Entity"}
SAME_AS = ("equivalent_identifiers", "same_as")
SYNONYM = "synonym"
ORIGINALS = "original_subject", "original_object"
ORIGINAL_ID = "original_id"
# Keys in which two edges with the same meaning may differ.
_PROVENANCE = {
    "id",
    ORIGINAL_ID,
    *ORIGINALS,
    "provided_by",
    "knowledge_source",
    "primary_knowledge_source",
    "aggregator_knowledge_source",
    "supporting_data_source",
    "sources",
    "source_record_urls",
    "publications",
}


class Meaning(NamedTuple):
    """The entity of a node.

    rank: 0 if the node has the entity's id, 1 if it has another id that leads there, 2 if its label
        was linked. confidence: None if unknown. is_exact: by an id, or by a name of the entity.
    """

    entity: str
    rank: int
    confidence: float | None = None
    is_exact: bool = True


def groups_of(
    nodes: Mapping[str, Node], meanings: Mapping[str, Meaning], report: CorpusReport
) -> list[list[str]]:
    """Return the ids of nodes with the same entity, the leader first: the node with the entity's
    id, else with another id of it, else the first.

    Nodes whose categories have nothing in common stay apart. report: counts `kept_apart`.
    """
    by_entity: dict[str, list[str]] = defaultdict(list)
    for id_ in nodes:
        if id_ in meanings:
            by_entity[meanings[id_].entity].append(id_)
    found = []
    for ids in by_entity.values():
        parts = _by_category(sorted(ids, key=lambda each: meanings[each].rank), nodes)
        report.count("kept_apart", len(parts) - 1)
        found += [part for part in parts if len(part) > 1]
    return found


def _by_category(ids: Sequence[str], nodes: Mapping[str, Node]) -> list[list[str]]:
    """Split ids so that nodes of different parts share no category. Nodes without one join the
    first part."""
    # Categories of each part, and the indices of its ids.
    parts: list[tuple[set[str], list[int]]] = []
    bare = []
    for index, id_ in enumerate(ids):
        if not (own := _categories(nodes[id_])):
            bare.append(index)
            continue
        same = [part for part in parts if not own.isdisjoint(part[0])]
        parts = [part for part in parts if own.isdisjoint(part[0])]
        whole = own.union(*(part[0] for part in same))
        parts.append((whole, [*chain(*(part[1] for part in same)), index]))
    first, *others = sorted(sorted(part[1]) for part in parts) or [[]]
    return [[ids[index] for index in each] for each in (sorted([*first, *bare]), *others)]


def _categories(node: Node) -> set[str]:
    key = next((each for each in _CATEGORIES if each in node.record), "")
    return {str(each) for each in listed(node.record.get(key))} - _ANY_CATEGORY


def merged_node(group: Sequence[Node]) -> Node:
    """Return the first node with the values of all. The labels of the others become synonyms, and
    their ids `same_as`, or `equivalent_identifiers` if a node has them."""
    leader = group[0]
    record = joined([each.record for each in group])
    ids = distinct(each.id for each in group)
    labels = distinct(each.label for each in group if each.label)
    record.update(zip(leader.keys, (leader.id, *labels[:1]), strict=False))
    same_as = next((each for each in SAME_AS if each in record), SAME_AS[-1])
    for key, more in ((SYNONYM, labels[1:]), (same_as, ids[1:])):
        if more:
            record[key] = distinct([*listed(record.get(key)), *more])
    return leader._replace(label="".join(labels[:1]), record=record)


class EdgeMerger:
    """Points edges at the nodes that lead, and joins those that say the same then.

    kept: the leader of each node that was merged into another one.
    """

    def __init__(self, kept: Mapping[str, str]) -> None:
        self._kept, self._leaders = kept, {*kept.values()}
        # Meanings of the edges that are moved.
        self._moved: set[str] = set()
        # Keys of all edges.
        self.keys: dict[str, None] = {}

    def look(self, edges: Iterable[Edge], report: CorpusReport) -> None:
        """Find the edges to join. report: counts `self_loops`, between nodes that were merged."""
        for edge in edges:
            self.keys.update(dict.fromkeys(edge.record))
            moved = self._ends(edge)
            if moved != (edge.subject, edge.object):
                self._moved.add(_meaning(edge, moved))
                report.count("self_loops", edge.subject != edge.object and moved[0] == moved[1])
        if self._moved:
            self.keys.update(dict.fromkeys((*ORIGINALS, *([ORIGINAL_ID] * ("id" in self.keys)))))

    def records(self, edges: Iterable[Edge], report: CorpusReport) -> Iterator[Record]:
        """Yield the edges: first those that no merging touches. report: counts `merged_edges`,
        joined with another one."""
        groups: dict[str, list[Edge]] = defaultdict(list)
        for edge in edges:
            moved = self._ends(edge)
            meaning = "" if self._leaders.isdisjoint(moved) else _meaning(edge, moved)
            if meaning in self._moved:
                groups[meaning].append(edge)
            else:
                yield edge.record
        for group in groups.values():
            report.count("merged_edges", len(group) - 1)
            yield self._joined(group)

    def _ends(self, edge: Edge) -> tuple[str, str]:
        return self._kept.get(edge.subject, edge.subject), self._kept.get(edge.object, edge.object)

    def _joined(self, group: Sequence[Edge]) -> Record:
        ends = self._ends(group[0])
        record = joined([each.record for each in group])
        for at, (key, original) in enumerate(zip(group[0].keys, ORIGINALS, strict=True)):
            earlier = distinct(
                chain.from_iterable(
                    listed(each.record.get(original)) or [_end(each, at, self._ends(each) != ends)]
                    for each in group
                )
            )
            record[key] = ends[at]
            if earlier != [ends[at]]:
                record[original] = earlier if len(earlier) > 1 else earlier[0]
        if more := listed(record.get("id"))[1:]:
            record["id"] = listed(record["id"])[0]
            record[ORIGINAL_ID] = distinct([*listed(record.get(ORIGINAL_ID)), *more])
        return record


def _end(edge: Edge, at: int, is_reversed: bool) -> str:
    """Return an end of an edge. is_reversed: an undirected edge has them in another order."""
    return (edge.subject, edge.object)[1 - at if is_reversed else at]


def _meaning(edge: Edge, ends: tuple[str, str]) -> str:
    """Return the ends of an edge and all that it says, but for its provenance."""
    without = {*edge.keys, *_PROVENANCE}
    said = {
        key: value
        for key, value in edge.record.items()
        if key not in without and not is_empty(value)
    }
    return json.dumps([ends if edge.directed else sorted(ends), said], sort_keys=True)
