"""Mapping of the nodes of a graph to entities, and merging of nodes with the same entity."""

from collections.abc import Iterator
from functools import partial
from math import prod
from pathlib import Path

from spacy.language import Language

from ..corpora.report import CorpusReport
from ..corpora.term_lists import Term
from ..graphs.graph import Graph
from ..graphs.merge import Meaning, groups_of
from ..graphs.merged import write_merged
from ..graphs.records import Node
from ..mentions.annotations import NIL
from ..ontology.entity import spellings
from ..ontology.verify import verify_pair
from ..pipeline.ground import Grounding, ground
from ..pipeline.linker.component import KrisselLinker
from ..render.mappings import CLOSE, EXACT, KINDS, kind_of, rounded, term_mapping
from ..render.sssom import Curies, Mapping
from ..util.progress import progress_bar

# Justifications: the vocabulary says so; and two mappings to one entity.
BY_ID, CHAINED = "semapv:UnspecifiedMatching", "semapv:MappingChaining"
# Labels between two refreshes of the progress bar.
CHUNK = 10_000
COUNTS = (
    *("nodes", "edges", "by_id", *KINDS, "contradictory"),
    *("merged_nodes", "kept_apart", "merged_edges", "self_loops"),
)


class NodeMapper:
    """Maps the nodes of a graph by their ids, else by their labels, and merges equivalent ones.

    A node whose id leads to one entity is that entity, unless its label is a name of others only:
    it is contradictory, and has none. Other nodes have the entity that `ground` finds.

    report: counts `COUNTS`.
    """

    def __init__(
        self,
        graph: Graph,
        nlp: Language,
        linker: KrisselLinker,
        curies: Curies,
        report: CorpusReport,
    ) -> None:
        self.graph, self._kb, self._curies, self._report = graph, linker.kb, curies, report
        self._ground = partial(ground, nlp, linker=linker.name)
        self._meanings: dict[str, Meaning] = {}
        self._groups: list[list[str]] = []

    def counts(self) -> dict[str, int]:
        """Return all counts: of nodes and edges, and those of the report."""
        self._report.counts.update({"nodes": self.graph.n_nodes, "edges": self.graph.n_edges})
        return {key: self._report[key] for key in COUNTS}

    def mappings(self, batch_size: int, *, progress: bool, title: str) -> Iterator[Mapping]:
        """Yield the mapping of each node to its entity, then of each node that is merged to the
        node that leads. batch_size: labels that are linked together."""
        named: list[Node] = []
        for node in self.graph.nodes.values():
            entities = self._by_id(node)
            if entities is None:
                self._report.count("contradictory")
            elif len(entities) == 1:
                yield from self._with_id(node, *entities)
            else:
                named.append(node)
        with progress_bar(show=progress, total=len(named), desc=title, unit=" nodes") as bar:
            for start in range(0, len(named), CHUNK):
                part = named[start : start + CHUNK]
                found = self._ground([each.label for each in part], batch_size=batch_size)
                yield from map(self._with_label, part, found)
                bar.update(len(part))
        self._groups = groups_of(self.graph.nodes, self._meanings, self._report)
        for leader, *others in self._groups:
            yield from (self._chained(each, leader) for each in others)

    def write(self, path: Path) -> None:
        """Write the merged graph. Raises KrisselError K026."""
        write_merged(self.graph, self._groups, path, self._report)

    def _by_id(self, node: Node) -> list[tuple[str, str]] | None:
        """Return the entities that a node's id leads to, and their names; None if the label
        contradicts."""
        verdict = verify_pair(self._kb, node.id, node.label)
        if verdict.status == "wrong_label" and verdict.meant:
            return None
        return [*verdict.entities]

    def _with_id(self, node: Node, entity: tuple[str, str]) -> Iterator[Mapping]:
        id_, name = entity
        self._report.count("by_id")
        self._meanings[node.id] = Meaning(id_, int(id_ not in spellings(node.id)), 1.0, True)
        mapping = term_mapping(
            Term(node.label, node.id), {"id": id_, "name": name}, self._kb, self._curies, EXACT
        )
        if mapping.subject_id != mapping.object_id:
            yield mapping._replace(
                mapping_justification=BY_ID, confidence="1", object_match_field="", match_string=""
            )

    def _with_label(self, node: Node, found: Grounding) -> Mapping:
        fields = {} if found.id == NIL else found._asdict()
        mapping = term_mapping(Term(node.label, node.id), fields, self._kb, self._curies)
        self._report.count(kind_of(mapping))
        if fields:
            is_exact = mapping.predicate_id == EXACT
            self._meanings[node.id] = Meaning(found.id, 2, found.confidence, is_exact)
        return mapping

    def _chained(self, id: str, leader: str) -> Mapping:
        """Return the mapping that follows from those of two nodes: its confidence is that both are
        correct."""
        nodes, one, other = self.graph.nodes, self._meanings[id], self._meanings[leader]
        confidences = [each.confidence for each in (one, other) if each.confidence is not None]
        both = prod(confidences) if len(confidences) == 2 else None
        return Mapping(
            self._curies(id, "term"),
            nodes[id].label,
            EXACT if one.is_exact and other.is_exact else CLOSE,
            self._curies(leader, "term"),
            nodes[leader].label,
            CHAINED,
            "",
            rounded(both),
            "",
            "",
            "",
        )
