"""Search results as plain dicts for `span._`, and as spaCy's own `Candidate`."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from spacy.kb import Candidate, KnowledgeBase
from spacy.tokens import Span

from .prototype_table import SEEN
from .search_result import SearchResult
from .snapshot import KBSnapshot


def candidate_dicts(kb: KBSnapshot, result: SearchResult, k: int | None = None) -> list[list[dict[str, Any]]]:
    """For each query up to `k` of its entities, best first: "id", "name", "score", and of the winning prototype "kind"
    (`Prototype`) and "evidence", its text as one line; of one that was seen in a text also "doc", the id of that text,
    and "source", the label that it was added under, "" where it has none. Where the score is more than that of
    vectors, its parts by the names of the terms, and "confidence" where it was computed.
    """
    entities = result.entities[:, :k]
    found = entities >= 0
    # Queries of one batch often share prototypes: each, and its entity, is read once.
    rows, places = np.unique(result.prototypes[:, :k][found], return_inverse=True)
    about = kb.prototypes.shown(rows)
    columns = *kb.entities.shown(np.array(about["entity"], dtype=np.int64)), about["kind"], about["evidence"]
    # A dictionary of more than ten keys takes 1.7 times the memory, and half as long again.
    shown = [
        {"id": id_, "name": name, "score": 0.0, "kind": kind, "evidence": line}
        for id_, name, kind, line in zip(*columns, strict=True)
    ]
    for candidate, doc, source in zip(shown, about["doc"], about["source"], strict=True):
        if doc or source or candidate["kind"] in SEEN:
            candidate["doc"], candidate["source"] = doc, source
    candidates = [shown[place].copy() for place in places.tolist()]
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
    """spaCy's candidates of each mention, best first, as those of `kb`.

    The prior probability is the softmax of the scores (spaCy's class has no score), the frequency the number of the
    entity's prototypes, the alias the mention's text.
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
