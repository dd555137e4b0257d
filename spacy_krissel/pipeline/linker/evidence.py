"""Evidence of verdicts for mentions like theirs: score and confidence of candidates."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from scipy.special import expit, logit

from ...kb.candidates import VERDICT
from ...kb.search_result import SearchResult
from ...kb.ties import with_term
from ...kb.verdicts import VerdictTable
from ...lexical.groups import Groups, pair_keys
from ...lexical.ngrams import canonical_form
from ...mentions.gold_mentions import document_id, text_hash
from ...mentions.own_sentence import mention_key
from ...views import doc_text
from ..settings import LinkerSettings
from .decision import without_link
from .match import MIN_SIMILAR, match_codes
from .query import Query
from .terms.term import Pairs, Term

# Evidence of verdicts on like mentions, in units of the score: added to a right entity, and taken
# from a rejected one. Both for one verdict of weight 1 in the same context.
GAIN, LOSS = 0.05, 0.2
# The same in log-odds of the confidence.
ODDS = 3.0
# Weight of a rejection, where a correction has 1: an entity that is rejected here may be correct
# elsewhere. On the training splits of NCBI Disease and BC5CDR's diseases, half of the documents
# rejected, the other half gained 80 and 31 links with 1, 102 and 28 with 0.5, 102 and 36 with 0.33,
# 98 and 33 with 0.2 (five divisions each), before the rules of homonyms and of other documents.
AGAINST = 0.33
# Lowest confidence that evidence for a new name starts from, and the highest that any leads to. On
# BC5CDR, a like mention is of the corrected entity in 94 of 100 cases (development documents).
MIN_NEW, MAX_PROBABILITY = 0.3, 0.95
MIN_PROBABILITY = 1e-6


# Rows of mentions, ascending, and of verdicts on mentions like them (n,) each.
Like = tuple[np.ndarray, np.ndarray]


def like_mentions(query: Query) -> Like:
    """Return the verdicts on like mentions that hold in their documents.

    Verdicts on a short form are left out where the document defines it as words that are unlike the
    names of the verdict's entities and not in its sentence: after "motor response (MR)", "MR" is no
    mitral regurgitation.
    """
    mentions, rows = query.alike
    table, different = query.kb.verdicts, np.unique(mentions)
    defined = different[[query.is_defined(each) for each in different.tolist()]]
    is_defined, is_local = np.isin(mentions, defined), table.same_document[rows]
    asked = np.flatnonzero(is_defined | is_local)
    is_like = np.ones(len(rows), dtype=bool)
    is_like[asked] = _of_own_document(query, mentions[asked], rows[asked])
    asked = np.flatnonzero(is_defined & ~is_local & ~is_like)
    for of_verdicts in (table.right, table.rejected):
        entities, owner = of_verdicts.take(rows[asked])
        similar = query.lexical.similarity(mentions[asked[owner]], entities) >= MIN_SIMILAR
        is_like[asked[owner[similar]]] = True
    sentences = {
        row: f" {canonical_form(' '.join(said[part] for part in ('left', 'mention', 'right')))} "
        for row, said in table.said(np.unique(rows[asked]))
    }
    for index in asked.tolist():
        long = canonical_form(query.texts[mentions[index]])
        is_like[index] |= f" {long} " in sentences[rows[index]]
    return mentions[is_like], rows[is_like]


def with_evidence(
    query: Query, like: Like, result: SearchResult, settings: LinkerSettings
) -> SearchResult:
    """Return the candidates with the evidence of verdicts on like mentions.

    A verdict counts by the cosine of the contexts, several by the logarithm of their sum. For an
    entity with the mention as a name, a correction adds little: context decides between homonyms,
    and a rejection counts in its own document only. For another one it is a new name, and the
    entity gains what it lacks to come first. Between entities of several species, rejections and
    homonyms count in their own sentences only, and a new name counts for an entity of the
    document's most likely species.

    A rejection says that an entity is wrong, not that there is none: in other documents, it makes
    another candidate the link or lowers the confidence, but makes no mention NIL.
    """
    evidence, against = _evidence(query, like, result)
    if not (evidence.any() or against.any()):
        return result
    named = _named(query, result, (evidence != 0) | (against != 0))
    gain, confidence = _weighed(result, evidence - against, *named)
    found = _with_gain(result, gain, confidence)
    if not against.any():
        return found
    unopposed, sure = _weighed(result, evidence, *named)
    linked = ~without_link(_with_gain(result, unopposed, sure), settings)
    kept = np.flatnonzero(linked & without_link(found, settings))
    if confidence is not None:
        first = (result.scores + unopposed)[kept].argmax(axis=1)
        confidence[kept, first] = np.maximum(confidence[kept, first], settings.min_confidence)
        found = _with_gain(result, gain, confidence)
    # Of the others, the scores lost too much, or a candidate overtook that cannot be the link.
    kept = kept[without_link(found, settings)[kept]]
    gain[kept] = unopposed[kept]
    return _with_gain(result, gain, confidence)


def _weighed(
    result: SearchResult, net: np.ndarray, is_named: np.ndarray, is_shared: np.ndarray
) -> tuple[np.ndarray, np.ndarray | None]:
    """Return what the candidates gain by the evidence `net`, and their confidence, both (q, k)."""
    species = result.parts.get("species")
    if species is not None:
        # Which gene a name is of, its document says, not another one: 922 rejections of weight 1 on
        # NLM-Gene cost 23 correct links of 4,790 where they counted for names that are no homonyms.
        net = np.where((is_named & is_shared[:, None]) | (net < 0), 0, net)
        net[(net > 0) & ~is_named & (species < species.max(axis=1, keepdims=True))] = 0
    strength = np.sign(net) * np.log2(1 + np.abs(net))
    is_right = strength > 0
    is_new = is_right & ~is_named
    scores = result.scores if species is None else result.scores - species
    best = np.where(is_new, -np.inf, scores).max(axis=1, keepdims=True)
    lacks = np.where(is_new & np.isfinite(best), best - np.where(is_new, scores, 0), 0)
    gain = np.maximum(lacks, 0) + strength * np.where(is_right, GAIN, LOSS)
    if result.confidence is None:
        return gain, None
    first = (result.scores + gain).argmax(axis=1)[:, None] == np.arange(gain.shape[1])
    return gain, _confidence(result.confidence, strength, is_new & first)


def _with_gain(
    result: SearchResult, gain: np.ndarray, confidence: np.ndarray | None
) -> SearchResult:
    found = with_term(replace(result, confidence=confidence), VERDICT, gain)
    # A linker by vectors alone has no parts.
    return replace(found, parts={name: found.parts[name] for name in (*result.parts, VERDICT)})


def with_missing(
    query: Query, like: Like, result: SearchResult, terms: Sequence[Term], settings: LinkerSettings
) -> SearchResult:
    """Return the candidates, followed by the entities that like mentions were corrected to, with
    the scores of the terms."""
    mentions, rows = like
    entities, owner = query.kb.verdicts.right.take(rows)
    mentions = mentions[owner]
    new = (result.entities[mentions] != entities[:, None]).all(axis=1)
    for group, own in query.by_types(settings.types, settings.types_by_label):
        if own.allowed is not None:
            new &= ~np.isin(mentions, group) | own.allowed[entities]
    first = np.unique(pair_keys(mentions[new], entities[new]), return_index=True)[1]
    if not len(first):
        return result
    mentions, entities = mentions[new][first], entities[new][first]
    # No search found them, so that they are in no column of it.
    pairs = Pairs(mentions, entities, np.full(len(mentions), np.iinfo(np.int64).max))
    scores = {
        term.name: (term, values)
        for term in terms
        if (values := term.score(query, pairs)) is not None
    }
    total = np.zeros(len(mentions), dtype=np.float32)
    for term, values in scores.values():
        total = total + np.float32(term.weight) * values
    column = (
        result.entities.shape[1] + np.arange(len(mentions)) - np.searchsorted(mentions, mentions)
    )
    width = int(column.max()) + 1

    def wider(table: np.ndarray, values: Any, missing: float) -> np.ndarray:
        filled = np.full((len(table), width), missing, dtype=table.dtype)
        filled[:, : table.shape[1]] = table
        known = total > -np.inf
        filled[mentions[known], column[known]] = np.broadcast_to(values, len(total))[known]
        return filled

    parts = {
        name: wider(
            values, *((scores[name][1], scores[name][0].missing) if name in scores else (0, 0))
        )
        for name, values in result.parts.items()
    }
    found = replace(
        result,
        entities=wider(result.entities, entities, -1),
        scores=wider(result.scores, total, -np.inf),
        prototypes=wider(result.prototypes, pairs.prototypes, -1),
        parts=parts,
        confidence=None if result.confidence is None else wider(result.confidence, 0, 0),
        by_name=None if result.by_name is None else wider(result.by_name, 0, 0),
    )
    return found if found.match is None else replace(found, match=match_codes(query, found))


def _evidence(query: Query, like: Like, result: SearchResult) -> tuple[np.ndarray, np.ndarray]:
    """Return the evidence for each candidate, and what rejections in other documents take from it,
    both (q, k).

    The evidence is the sum of the cosines with the mentions that are it, less `AGAINST` times those
    with the mentions of its document that are not. Mentions without an entity count against all.
    Only the nearest mention of each document counts: the others are of the same entity.
    """
    table, (mentions, rows) = query.kb.verdicts, like
    cosines = _cosines(query, table, mentions, rows)
    documents = table.documents(rows)
    width = result.entities.shape[1]

    def of_candidates(groups: Groups) -> tuple[np.ndarray, np.ndarray]:
        entities, owner = groups.take(rows)
        pair, columns = np.nonzero(result.entities[mentions[owner]] == entities[:, None])
        return owner[pair], columns

    def summed(of: np.ndarray, columns: np.ndarray, width: int = width) -> np.ndarray:
        """Return the sums over documents of these pairs with these columns (q, width)."""
        cells = mentions[of] * width + columns
        keys, of_key = np.unique(pair_keys(cells, documents[of]), return_inverse=True)
        highest, cell = np.zeros(len(keys)), np.zeros(len(keys), dtype=np.int64)
        np.maximum.at(highest, of_key, cosines[of])
        cell[of_key] = cells
        return np.bincount(cell, highest, minlength=len(query) * width).reshape(-1, width)

    of, columns = of_candidates(table.rejected)
    is_own = _of_own_document(query, mentions[of], rows[of])
    elsewhere = ~is_own & ~_are_homonyms(query, result, mentions[of], columns)
    against = AGAINST * summed(of[elsewhere], columns[elsewhere])
    none = np.flatnonzero(table.no_entity[rows])
    right = summed(*of_candidates(table.right))
    wrong = AGAINST * summed(of[is_own], columns[is_own])
    lacking = summed(none, np.zeros(len(none), dtype=np.int64), 1)
    known = result.entities >= 0
    return np.where(known, right - wrong - lacking, 0), np.where(known, against, 0)


def _are_homonyms(
    query: Query, result: SearchResult, mentions: np.ndarray, columns: np.ndarray
) -> np.ndarray:
    """Return which candidates of mentions have the mention as a name, as others have (n,).

    Each document says which of them its name is of. On training splits, half of the documents
    rejected (five divisions each), the other half gained 17 links of BioRED's diseases where other
    documents' rejections of homonyms do not count, 2 where they do; 0 and -16 of Linnaeus's
    species; 3 and 87 of NCBI Disease, where one disease is listed twice.
    """
    asked = np.zeros(result.entities.shape, dtype=bool)
    asked[mentions, columns] = True
    is_named, is_shared = _named(query, result, asked)
    return np.asarray(is_named[mentions, columns] & is_shared[mentions])


def _of_own_document(query: Query, mentions: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """Return which mentions are of the documents of these verdicts (n,)."""
    if not query.spans:
        return np.zeros(len(rows), dtype=bool)
    texts, origins = Documents(query), query.kb.verdicts.origins(rows)
    pairs = zip(mentions.tolist(), origins, strict=True)
    return np.array([texts.is_of(mention, *origin) for mention, origin in pairs], dtype=bool)


def _cosines(query: Query, table: VerdictTable, mentions: np.ndarray, rows: np.ndarray) -> Any:
    left = query.vectors[mentions].astype(np.float32, copy=False)
    right = table.vectors[rows].astype(np.float32, copy=False)
    products = np.einsum("nd,nd->n", left, right)
    norms = np.linalg.norm(left, axis=1) * np.linalg.norm(right, axis=1)
    return np.clip(products / np.where(norms > 0, norms, 1), 0, 1)


def _named(query: Query, result: SearchResult, asked: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return which of the `asked` candidates (q, k) have the mention as a name, and which of these
    mentions are a name of several entities (q,)."""
    mentions, columns = np.nonzero(asked)
    different = np.unique(mentions)
    entities, owner = query.kb.prototypes.lexical_index.entities_named(
        [query.texts[mention] for mention in different.tolist()]
    )
    known = pair_keys(
        np.append(different[owner], mentions),
        np.append(entities, result.entities[mentions, columns]),
    )
    found = np.zeros(asked.shape, dtype=bool)
    found[mentions, columns] = np.isin(known[len(entities) :], known[: len(entities)])
    n_named = np.zeros(len(asked), dtype=np.int64)
    n_named[different] = np.bincount(owner, minlength=len(different))
    return found, n_named > 1


def _confidence(confidence: np.ndarray, strength: np.ndarray, is_new: np.ndarray) -> np.ndarray:
    """Return the confidence (q, k) with the evidence. is_new: candidates that come first by a new
    name, which no confidence by names knows."""
    known = np.clip(confidence, MIN_PROBABILITY, 1 - MIN_PROBABILITY)
    start = np.where(is_new, np.maximum(known.max(axis=1, keepdims=True), MIN_NEW), known)
    right = np.maximum(strength, 0)
    # What is more likely the one is less likely the other.
    others = np.where(right > 0, 0, right.max(axis=1, keepdims=True))
    changed = expit(logit(start) + ODDS * (strength - others))
    changed = np.minimum(changed, np.maximum(confidence, MAX_PROBABILITY))
    touched = (strength != 0).any(axis=1, keepdims=True)
    return np.where(touched & (confidence > 0) | is_new, changed, confidence)


class Documents:
    """Documents of a query's mentions; the text and the identity of each are made once."""

    def __init__(self, query: Query) -> None:
        self._query = query
        self._texts: dict[int, str] = {}
        self._ids: dict[int, tuple[str, str]] = {}

    def key(self, mention: int) -> int:
        """Return the `mention_key` of a mention."""
        number, span = int(self._query.doc_of[mention]), self._query.spans[mention]
        text = self._texts.get(number)
        if text is None:
            text = self._texts[number] = doc_text(span.doc)
        return mention_key(text, span.start_char, span.end_char)

    def nearness(self, mention: int, said: dict[str, Any]) -> int:
        """Return 2 if a verdict is of the mention's own offsets, 1 if it is of its document, else
        0."""
        if not self.is_of(mention, said["doc"], said["text_hash"]):
            return 0
        span = self._query.spans[mention]
        return 1 + ((said["start"], said["end"]) == (span.start_char, span.end_char))

    def is_of(self, mention: int, doc: str, hash_: str) -> bool:
        """Return whether a mention is of the document with this id or `text_hash`."""
        number = int(self._query.doc_of[mention])
        known = self._ids.get(number)
        if known is None:
            own = self._query.spans[mention].doc
            known = self._ids[number] = document_id(own), text_hash(own)
        return doc in known or hash_ == known[1]

    def fragments(self, mention: int) -> Sequence[int]:
        """Return the mention, or all of its fragments."""
        query, id_ = self._query, self._query.spans[mention].id_
        if not id_:
            return [mention]
        text, number = query.views[mention], query.doc_of[mention]
        return [
            row
            for row in np.flatnonzero(query.doc_of == number).tolist()
            if query.spans[row].id_ == id_ and query.views[row] == text
        ]
