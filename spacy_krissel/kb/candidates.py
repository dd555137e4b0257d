"""Search results as plain dicts for `span._`, and as spaCy's `Candidate`."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from spacy.kb import Candidate, KnowledgeBase
from spacy.tokens import Span

from ..lexical.ngrams import canonical_form
from ..views import View, evidence
from .prototype_table import KINDS_WITH_DOC
from .search_result import MATCHES, SearchResult
from .snapshot import KBSnapshot

# Kind of a candidate that a correction decided, and key of the evidence of others.
VERDICT = "verdict"
# Scores that most mentions lack: of evidence by corrections, and of names found by
# `krissel_finder`. They are shown unless 0, so that candidates do not depend on their batch.
OCCASIONAL = (VERDICT, "found")
CANDIDATE_KEYS = {
    "id, name, score": "the entity and its score",
    "kind": "the kind of the prototype that won; verdict if a correction of this mention, in this "
    "sentence, decided",
    "evidence": "the text of that prototype, with the mention in ⟦ ⟧",
    "doc, source": "if it was seen in a text: the text's id (in PubMed a PMID), and its source",
    "match": "how the name was found, if names were compared",
    "confidence": "the probability that the link is correct, if it was fitted; 1 by a correction. "
    "Those of several candidates need not add up to 1",
    "vector, lexical, …": "the terms of the score, each by its name, if there are several. The "
    "score is their sum, with lexical times `lexical_weight`",
    "verdict": "what the score gains by corrections of like mentions, or loses by rejections",
}


def candidate_dicts(
    kb: KBSnapshot, result: SearchResult, k: int | None = None
) -> list[list[dict[str, Any]]]:
    """Return up to `k` candidates of each query, best first.

    Each is a dict of `CANDIDATE_KEYS`, where "kind" is one of `Prototype`, and "match" one of
    `MATCHES`. A candidate that a correction decided has the correction's "evidence", "doc" and
    "source".
    """
    entities = result.entities[:, :k]
    found = entities >= 0
    # Queries of one batch often share prototypes: each prototype, and its entity, is read once.
    rows, indices = np.unique(result.prototypes[:, :k][found], return_inverse=True)
    fields = kb.prototypes.display_fields(rows)
    owners = np.array(fields["entity"], dtype=np.int64)
    columns = *kb.entities.display_fields(owners), fields["kind"], fields["evidence"]
    matches = None if result.match is None else np.array(MATCHES, dtype=object)[result.match]
    of_query = {
        "score": result.scores,
        "match": matches,
        **result.parts,
        "confidence": result.confidence,
    }
    known = {key: values for key, values in of_query.items() if values is not None}
    always = ["id", "name", "kind", "evidence", *known]
    template = _shared_keys([key for key in always if key not in OCCASIONAL])
    shown = [template.copy() for _ in rows]
    for candidate, *fields_ in zip(shown, *columns, strict=True):
        candidate["id"], candidate["name"], candidate["kind"], candidate["evidence"] = fields_
    for candidate, doc, source in zip(shown, fields["doc"], fields["source"], strict=True):
        if doc or source or candidate["kind"] in KINDS_WITH_DOC:
            candidate["doc"], candidate["source"] = doc, source
    candidates = [shown[index].copy() for index in indices.tolist()]
    for key, values in known.items():
        for candidate, value in zip(candidates, values[:, :k][found].tolist(), strict=True):
            if key not in OCCASIONAL or value:
                candidate[key] = value
    ends = np.cumsum(found.sum(axis=1)).tolist()
    lists = [candidates[start:end] for start, end in zip([0, *ends], ends, strict=False)]
    if result.verdicts is not None:
        _show_verdicts(kb, result, lists)
    return lists


def _show_verdicts(
    kb: KBSnapshot, result: SearchResult, candidates: Sequence[list[dict[str, Any]]]
) -> None:
    """Write the correction that decided a link to its first candidate."""
    assert result.verdicts is not None, "there are some"
    decided = np.flatnonzero((result.verdicts >= 0) & (result.entities[:, 0] >= 0))
    ids, names = kb.entities.display_fields(result.entities[decided, 0])
    rows = result.verdicts[decided]
    said = dict(kb.verdicts.said(rows))
    for query, id_, name, row in zip(decided.tolist(), ids, names, rows.tolist(), strict=True):
        for first in candidates[query][:1]:
            view = View(*(said[row][each] for each in ("left", "mention", "right")))
            shown = {each: said[row][each] for each in ("doc", "source")}
            first.update(id=id_, name=name, kind=VERDICT, evidence=evidence(view), **shown)
            first["confidence"] = 1.0


def prototype_surface(candidate: dict[str, Any]) -> str:
    """Return the surface form of a candidate's prototype: the marked part of its evidence, or the
    entity's name for a reference."""
    if candidate["kind"] == "reference":
        return candidate["name"]
    _, opened, rest = candidate["evidence"].partition("⟦")
    surface, closed, _ = rest.partition("⟧")
    return surface if opened and closed else candidate["name"]


def matched_name(candidate: dict[str, Any], mention: str) -> str:
    """Return the name of a candidate that this mention matches.

    It is the preferred name or, for another name, the mention itself if the winning prototype is
    none of its spellings. Otherwise it is the surface form of the winning prototype, which is the
    nearest by vectors. "" for a candidate found by context, or without evidence.
    """
    if candidate.get("match") == "label":
        return candidate["name"]
    if candidate.get("match") == "context" or "evidence" not in candidate:
        return ""
    surface = prototype_surface(candidate)
    if candidate.get("match") not in ("synonym", "mention"):
        return surface
    return surface if canonical_form(surface) == canonical_form(mention) else mention


class _Keys:
    pass


def _shared_keys(keys: Sequence[str]) -> dict[str, Any]:
    """Return a dictionary with these keys, and empty values.

    Python shares the keys of the dictionaries of a class's instances, and of their copies: they
    take half the memory of others, and less time.
    """
    instance = _Keys()
    for key in keys:
        setattr(instance, key, "")
    return vars(instance)


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
        for id_, vector, prior in zip(
            ids, snapshot.get_vectors(ids), exponentials / exponentials.sum(), strict=True
        ):
            entity = strings.add(id_, allow_transient=False)
            each.append(
                Candidate(
                    kb, entity, len(snapshot.prototype_rows(id_)), vector, alias, float(prior)
                )
            )
        candidates.append(each)
    return candidates
