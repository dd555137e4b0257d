"""Verdicts of people: the link of a mention in its own sentence, and evidence for mentions like
it."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from scipy.special import expit, logit

from ...kb.candidates import VERDICT
from ...kb.search_result import SearchResult
from ...kb.snapshot import KBSnapshot
from ...kb.ties import with_term
from ...kb.verdicts import VerdictTable
from ...lexical.groups import pair_keys
from ...mentions.gold_mentions import document_id, text_hash
from ...mentions.own_sentence import mention_key
from ...views import doc_text
from ..settings import LinkerSettings
from .match import MENTION, match_codes
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
# 98 and 33 with 0.2 (five divisions each).
AGAINST = 0.33
# Lowest confidence that evidence for a new name starts from, and the highest that any leads to. On
# BC5CDR, a like mention is of the corrected entity in 94 of 100 cases (development documents).
MIN_NEW, MAX_PROBABILITY = 0.3, 0.95
MIN_PROBABILITY = 1e-6


def with_verdicts(
    query: Query, result: SearchResult, terms: Sequence[Term], settings: LinkerSettings
) -> SearchResult:
    """Return the candidates with what people said: evidence for mentions like those of verdicts,
    and the verdicts themselves for the mentions in their sentences.

    It comes after all terms, which cannot change what a person said. Nor does it change links of
    mentions that are not like those of verdicts.
    """
    if not len(query.alike[0]):
        return result
    result = _with_evidence(query, _with_missing(query, result, terms, settings))
    said = dict(_said(query))
    return _decided(query.kb, result, said) if said else result


# Evidence -----------------------------------------------------------------------------------------


def _with_evidence(query: Query, result: SearchResult) -> SearchResult:
    """Return the candidates with the evidence of verdicts on like mentions.

    A verdict counts by the cosine of the contexts, several by the logarithm of their sum. For an
    entity with the mention as a name, a correction adds little: context decides between homonyms.
    For another one it is a new name, and the entity gains what it lacks to come first. Between
    entities of several species, rejections and homonyms count in their own sentences only, and a
    new name counts for an entity of the document's most likely species.
    """
    net = _net(query, result)
    if not net.any():
        return result
    species = result.parts.get("species")
    is_named, is_shared = _named(query, result, net != 0)
    if species is not None:
        # Which gene a name is of, its document says, not another one: 922 rejections of weight 1 on
        # NLM-Gene cost 23 correct links of 4,790 where they counted for names that are no homonyms.
        net[(is_named & is_shared[:, None]) | (net < 0)] = 0
        net[(net > 0) & ~is_named & (species < species.max(axis=1, keepdims=True))] = 0
    strength = np.sign(net) * np.log2(1 + np.abs(net))
    is_right = strength > 0
    is_new = is_right & ~is_named
    scores = result.scores if species is None else result.scores - species
    best = np.where(is_new, -np.inf, scores).max(axis=1, keepdims=True)
    lacks = np.where(is_new & np.isfinite(best), best - np.where(is_new, scores, 0), 0)
    gain = np.maximum(lacks, 0) + strength * np.where(is_right, GAIN, LOSS)
    confidence = result.confidence
    if confidence is not None:
        first = (result.scores + gain).argmax(axis=1)[:, None] == np.arange(gain.shape[1])
        confidence = _confidence(confidence, strength, is_new & first)
    found = with_term(replace(result, confidence=confidence), VERDICT, gain)
    # A linker by vectors alone has no parts.
    parts = {name: found.parts[name] for name in (*result.parts, VERDICT)}
    return replace(found, parts=parts)


def _with_missing(
    query: Query, result: SearchResult, terms: Sequence[Term], settings: LinkerSettings
) -> SearchResult:
    """Return the candidates, followed by the entities that like mentions were corrected to, with
    the scores of the terms."""
    mentions, rows = query.alike
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


def _net(query: Query, result: SearchResult) -> np.ndarray:
    """Return the evidence for each candidate (q, k): the sum of the cosines with the mentions that
    are it, less `AGAINST` times those with the mentions that are not. Mentions without an entity
    count against all."""
    table, (mentions, rows) = query.kb.verdicts, query.alike
    cosines = _cosines(query, table, mentions, rows)
    net = np.zeros(result.entities.shape)
    found = result.entities >= 0
    for groups, weight in ((table.right, 1.0), (table.rejected, -AGAINST)):
        entities, owner = groups.take(rows)
        is_it = result.entities[mentions[owner]] == entities[:, None]
        pair, column = np.nonzero(is_it)
        np.add.at(net, (mentions[owner[pair]], column), weight * cosines[owner[pair]])
    is_none = table.no_entity[rows]
    none = np.bincount(mentions[is_none], cosines[is_none], minlength=len(net))
    return np.where(found, net - none[:, None], 0)


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


# Decision -----------------------------------------------------------------------------------------


class Said(NamedTuple):
    """Sum of all verdicts on a mention in its sentence.

    right: rows of its entities; empty: not known. rejected: rows of those that it is not.
    no_entity: it has none. row: of the verdict that decides, -1 for none.
    """

    right: tuple[int, ...] = ()
    rejected: frozenset[int] = frozenset()
    no_entity: bool = False
    row: int = -1

    def then(self, row: int, said: dict[str, Any]) -> "Said":
        """Return the sum with a later verdict: a correction replaces all before it, a rejection is
        added."""
        if said["entities"] or said["no_entity"]:
            right, rejected = tuple(said["entities"]), frozenset(said["rejected"])
            return Said(right, rejected, said["no_entity"], row)
        rejected = self.rejected.union(said["rejected"])
        right = tuple(each for each in self.right if each not in rejected)
        return Said(right, rejected, self.no_entity, self.row if right or self.no_entity else -1)


def _said(query: Query) -> Iterator[tuple[int, Said]]:
    """Yield the mentions of the query that are those of verdicts, by their sentences, with the sum
    of the verdicts. All fragments of a mention have the same sum.

    An inactive correction replaces all before it, too: they do not hold again when a release lacks
    the entity of the last one.
    """
    if not query.spans:
        return
    texts = _Documents(query)
    mentions = np.unique(query.alike[0]).tolist()
    keys = np.array([texts.key(mention) for mention in mentions], dtype=np.int64)
    own: dict[int, list[tuple[int, int, bool, int, dict[str, Any]]]] = {}
    for part in (query.kb, query.kb.inactive):
        if part is None:
            continue
        table = part.verdicts
        rows, owner = table.sentences.find(keys)
        is_kept = table.active[rows]
        rows, owner = rows[is_kept], owner[is_kept]
        numbers = table.numbers[rows].tolist()
        for index, number, (row, said) in zip(
            owner.tolist(), numbers, table.said(rows), strict=True
        ):
            level = texts.nearness(mentions[index], said)
            if level or not said["same_document"]:
                at = (level, number, part is query.kb, row, said)
                own.setdefault(mentions[index], []).append(at)
    for mention, found in own.items():
        total = Said()
        # Those of the same offsets count most, then those of the same document. The active part of
        # a verdict comes after its inactive one.
        for _, _, is_active, row, said in sorted(found, key=lambda each: each[:3]):
            if is_active:
                total = total.then(row, said)
            elif said["entities"]:
                total = Said()
        if total == Said():
            continue
        for fragment in texts.fragments(mention):
            yield fragment, total


class _Documents:
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
        number, span = int(self._query.doc_of[mention]), self._query.spans[mention]
        known = self._ids.get(number)
        if known is None:
            known = self._ids[number] = document_id(span.doc), text_hash(span.doc)
        if said["doc"] not in known and said["text_hash"] != known[1]:
            return 0
        return 1 + ((said["start"], said["end"]) == (span.start_char, span.end_char))

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


class _Table:
    """Copy of a result, changed row by row."""

    def __init__(self, result: SearchResult) -> None:
        self._result = result
        self.entities, self.scores, self.prototypes = (
            each.copy() for each in (result.entities, result.scores, result.prototypes)
        )
        self.parts = {name: values.copy() for name, values in result.parts.items()}
        optional = (result.confidence, result.by_name, result.match)
        self.confidence, self.by_name, self.match = (
            None if each is None else each.copy() for each in optional
        )
        self.ties = dict(result.ties)
        self.verdicts = np.full(len(self.entities), -1, dtype=np.int64)

    def result(self) -> SearchResult:
        changed = {name: value for name, value in vars(self).items() if name != "_result"}
        return replace(self._result, **changed)

    def reorder(self, row: int, columns: Sequence[int]) -> None:
        for values in (self.entities, self.scores, self.prototypes, *self._others()):
            values[row] = values[row][[*columns]]

    def clear(self, row: int, start: int) -> None:
        """Remove the candidates from column `start` on."""
        self.entities[row, start:] = self.prototypes[row, start:] = -1
        self.scores[row, start:] = -np.inf
        if self.confidence is not None:
            self.confidence[row, start:] = 0
        if self.match is not None:
            self.match[row, start:] = -1

    def insert(self, row: int, entity: int, prototype: int) -> int:
        """Put an entity that is no candidate in the last column. RETURNS: the column."""
        last = self.entities.shape[1] - 1
        self.entities[row, last], self.prototypes[row, last] = entity, prototype
        for values in (self.scores, *self._others()):
            values[row, last] = 0
        if self.match is not None:
            self.match[row, last] = MENTION
        return last

    def _others(self) -> list[np.ndarray]:
        optional = (self.confidence, self.by_name, self.match)
        return [*self.parts.values(), *(each for each in optional if each is not None)]


def _decided(kb: KBSnapshot, result: SearchResult, said: dict[int, Said]) -> SearchResult:
    """Return the candidates with the verdicts on these mentions."""
    table = _Table(result)
    for row, each in said.items():
        table.verdicts[row] = each.row
        own = result.entities[row].tolist()
        tied = table.ties.pop(row, np.zeros(0, dtype=np.int64))
        if each.no_entity:
            table.clear(row, 0)
        elif each.right:
            best = next((i for i, entity in enumerate(own) if entity in each.right), None)
            top = table.scores[row, 0]
            if best is None:
                of_entity = kb.prototypes.by_entity.at(each.right[0])
                best = table.insert(row, each.right[0], next(iter(of_entity.tolist()), 0))
            table.reorder(row, [best, *(i for i in range(len(own)) if i != best)])
            table.scores[row, 0] = max(table.scores[row, 0], top)
            if table.confidence is not None:
                table.confidence[row] = 0
                table.confidence[row, 0] = 1
        else:
            kept = [i for i, entity in enumerate(own) if entity not in each.rejected]
            table.reorder(row, [*kept, *(i for i in range(len(own)) if i not in kept)])
            table.clear(row, len(kept))
            left = tied[~np.isin(tied, [*each.rejected])]
            if len(left) > 1:
                table.ties[row] = left
    return table.result()
