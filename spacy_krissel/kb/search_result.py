"""Entities found for mentions, with the terms of their scores."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from spacy.kb import Candidate, KnowledgeBase
from spacy.tokens import Span

from ..index.hits import no_hits
from ..index.protocol import Rows, Scores
from .prototype_table import KINDS_WITH_DOC
from .snapshot import KBSnapshot


@dataclass(frozen=True)
class SearchResult:
    """Best distinct entities of each query, best first.

    entities: entity rows (q, k), padded with -1.
    scores: (q, k), padded with -inf: the highest inner product with one of the entity's prototypes,
        or the sum of all terms. Entities that tie at the top all have the top score, in the order
        of `kb.ties`.
    prototypes: the row of the nearest of the entity's prototypes (q, k), padded with -1.
    ties: the entity rows that tie at the top, in the order of their ids, for each query with two or
        more; an approximate index may have missed some.
    parts: the terms of the scores by their names, each (q, k); empty if the scores are those of
        vectors alone.
    confidence, by_name: the confidence of each (q, k), and that by its name alone (`Confidence`);
        None if not computed.
    extra_prototypes: rows of the entity's next nearest prototypes (q, k, m), -1 where none was
        found; None if not requested. With them, entities that tie at the top have neither these nor
        a prototype, since what distinguishes them may be any.
    """

    entities: Rows
    scores: Scores
    prototypes: Rows
    ties: dict[int, Rows]
    parts: dict[str, Scores] = field(default_factory=dict)
    confidence: np.ndarray | None = None
    by_name: np.ndarray | None = None
    extra_prototypes: Rows | None = None

    @classmethod
    def padded(cls, n: int, k: int, extra_prototypes: int = 0) -> "SearchResult":
        """Return the result of `n` queries that found nothing, to be filled in."""
        scores, entities = no_hits(n, k)
        more = np.full((n, k, extra_prototypes), -1, dtype=np.int64) if extra_prototypes else None
        return cls(entities, scores, entities.copy(), {}, extra_prototypes=more)

    def at(self, queries: Rows) -> "SearchResult":
        """Return the result of these queries (n,), which may contain repeats."""
        ties = {row: self.ties[query] for row, query in enumerate(queries.tolist()) if query in self.ties}
        parts = {name: values[queries] for name, values in self.parts.items()}
        extra_prototypes = None if self.extra_prototypes is None else self.extra_prototypes[queries]
        entities, scores, prototypes = self.entities[queries], self.scores[queries], self.prototypes[queries]
        return SearchResult(entities, scores, prototypes, ties, parts, extra_prototypes=extra_prototypes)

    def tied(self, query: int) -> Rows:
        """Return the entity rows at the top: one, several if they tie, none if nothing was
        found.
        """
        best = self.entities[query, :1]
        return self.ties.get(query, best[best >= 0])

    def with_tied(self) -> Rows:
        """Return the entities, and those that tie at the top beyond k: (q, w), -1 padded."""
        most = max(map(len, self.ties.values()), default=0)
        beyond = np.full((len(self.entities), most), -1, dtype=np.int64)
        for query, group in self.ties.items():
            beyond[query, : len(group)] = group
        return np.concatenate([self.entities, beyond], axis=1)

    def all_prototypes(self) -> Rows:
        """Return the rows of all prototypes found per entity: (q, k, m), -1 padded."""
        nearest = self.prototypes[:, :, None]
        return nearest if self.extra_prototypes is None else np.concatenate([nearest, self.extra_prototypes], axis=2)


def candidate_dicts(kb: KBSnapshot, result: SearchResult, k: int | None = None) -> list[list[dict[str, Any]]]:
    """Return up to `k` candidates of each query, best first.

    Each is a dict of "id", "name", "score", and of the winning prototype "kind" (`Prototype`) and
    "evidence", its text as one line. If it was seen in a text, also "doc", the id of that text, and
    "source", the label that it was added under, or "". If the score sums several terms, also each
    term by its name. "confidence" is there if it was computed.
    """
    entities = result.entities[:, :k]
    found = entities >= 0
    # Queries of one batch often share prototypes: each prototype, and its entity, is read once.
    rows, indices = np.unique(result.prototypes[:, :k][found], return_inverse=True)
    fields = kb.prototypes.display_fields(rows)
    owners = np.array(fields["entity"], dtype=np.int64)
    columns = *kb.entities.display_fields(owners), fields["kind"], fields["evidence"]
    # A dictionary of more than ten keys takes 1.7 times the memory and 1.5 times the time.
    shown = [
        {"id": id_, "name": name, "score": 0.0, "kind": kind, "evidence": line}
        for id_, name, kind, line in zip(*columns, strict=True)
    ]
    for candidate, doc, source in zip(shown, fields["doc"], fields["source"], strict=True):
        if doc or source or candidate["kind"] in KINDS_WITH_DOC:
            candidate["doc"], candidate["source"] = doc, source
    candidates = [shown[index].copy() for index in indices.tolist()]
    for key, values in (
        ("score", result.scores),
        *result.parts.items(),
        ("confidence", result.confidence),
    ):
        if values is not None:
            for candidate, value in zip(candidates, values[:, :k][found].tolist(), strict=True):
                candidate[key] = value
    ends = np.cumsum(found.sum(axis=1)).tolist()
    return [candidates[start:end] for start, end in zip([0, *ends], ends, strict=False)]


def spacy_candidates(
    kb: KnowledgeBase, snapshot: KBSnapshot, mentions: Sequence[Span], result: SearchResult
) -> list[list[Candidate]]:
    """Return spaCy's candidates of each mention, best first, as candidates of `kb`.

    The prior probability is the softmax of the scores (spaCy's class has no score), the frequency
    is the number of the entity's prototypes, and the alias is the mention's text.
    """
    strings = kb.vocab.strings
    candidates = []
    for mention, entities, scores in zip(mentions, result.entities, result.scores, strict=True):
        found = entities[entities >= 0]
        exponentials = np.exp(scores[: len(found)] - scores[:1])
        ids = snapshot.entity_ids.take(found)
        alias = strings.add(mention.text)
        each = []
        for id_, vector, prior in zip(ids, snapshot.get_vectors(ids), exponentials / exponentials.sum(), strict=True):
            entity = strings.add(id_, allow_transient=False)
            each.append(Candidate(kb, entity, len(snapshot.prototype_rows(id_)), vector, alias, float(prior)))
        candidates.append(each)
    return candidates
