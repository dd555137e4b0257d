"""Verdicts of people: the link of a mention in its own sentence, and evidence for mentions like
it."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from ...kb.candidates import VERDICT
from ...kb.search_result import SearchResult
from ...kb.snapshot import KBSnapshot
from ..settings import LinkerSettings
from .evidence import Documents, like_mentions, with_evidence, with_missing
from .match import MENTION
from .query import Query
from .terms.term import Term


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
    like = like_mentions(query)
    result = with_missing(query, like, result, terms, settings)
    result = with_evidence(query, like, result, settings)
    result = _annotated(result)
    said = dict(_said(query))
    return _decided(query.kb, result, said) if said else result


def _annotated(result: SearchResult) -> SearchResult:
    """Return the candidates that gain by corrections of like mentions as annotated ones, unless
    they have the mention as a name."""
    gain, match = result.parts.get(VERDICT), result.match
    if gain is None or match is None:
        return result
    return replace(
        result, match=np.where((gain > 0) & (match >= 0), np.maximum(match, MENTION), match)
    )


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
    texts = Documents(query)
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
    # Evidence makes all entities of a composite correction equal: the better one comes first.
    alone = result.scores - result.parts.get(VERDICT, np.zeros_like(result.scores))
    for row, each in said.items():
        table.verdicts[row] = each.row
        own = result.entities[row].tolist()
        tied = table.ties.pop(row, np.zeros(0, dtype=np.int64))
        if each.no_entity:
            table.clear(row, 0)
        elif each.right:
            right = [i for i, entity in enumerate(own) if entity in each.right]
            best = max(right, key=alone[row].__getitem__, default=None)
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
