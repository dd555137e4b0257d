"""`krissel_span_extractor`: find the entities of a text, and the tokens that refer to them
(OSLAT)."""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, NamedTuple

import numpy as np
from spacy.tokens import Doc
from spacy.training import Example

from ..kb.snapshot import KBSnapshot
from ..layers.label_attention import (
    PresenceInput,
    attention,
    mean_states,
    predict,
    predict_presence,
)
from ..mentions.annotations import CANDIDATE_IDS, ENTITIES
from ..mentions.discontinuous import DocMention, join_fragments, write_fragments
from ..ontology.store import OntologyStore
from ..views import View, doc_text
from .kb_pipe import KBPipe
from .settings import ExtractorSettings

# Attribute of the span group that lists the found entities, for display.
GROUP_ATTR = "entities"


class FoundEntity(NamedTuple):
    """An entity found in a text.

    score: probability that the text refers to the entity.
    fragments: (start, end) in tokens; empty if no token has enough attention.
    attention: (n,) fraction of each token of the doc, the mean over the entity's names (§6.1).
    """

    id: str
    name: str
    score: float
    fragments: tuple[tuple[int, int], ...]
    attention: np.ndarray

    def to_dict(self) -> dict[str, Any]:
        """Return a dictionary of built-in types only: others would not survive `Doc.to_bytes`."""
        fragments = [list(fragment) for fragment in self.fragments]
        attention = [round(fraction, 4) for fraction in self.attention.tolist()]
        return {
            "id": self.id,
            "name": self.name,
            "score": self.score,
            "fragments": fragments,
            "attention": attention,
        }


def token_rows(doc: Doc, offsets: np.ndarray) -> np.ndarray:
    """Return the index of the doc's token in which each span of characters begins: (m, 2), in order
    → (m,)."""
    starts = np.asarray([token.idx for token in doc], dtype=np.int64)
    return np.searchsorted(starts, offsets[:, 0], side="right") - 1


def sum_by_token(weights: np.ndarray, rows: np.ndarray, n_tokens: int) -> np.ndarray:
    """Sum the weights (m,) of encoder tokens by the doc's tokens that they are in, `rows` (m,):
    (n_tokens,)."""
    return np.bincount(rows, weights, n_tokens).astype(np.float32)


def content_tokens(doc: Doc) -> np.ndarray:
    """Return a mask (n,) of the tokens that can be part of an entity: no stop words, punctuation or
    white space (§6.1)."""
    return np.asarray(
        [not (token.is_stop or token.is_punct or token.is_space) for token in doc], dtype=bool
    )


def attended_fragments(
    attention: np.ndarray, content: np.ndarray, threshold: float
) -> tuple[tuple[int, int], ...]:
    """Return the runs of tokens with at least `threshold` of the attention (n,), among those that
    are `content` (n,)."""
    return join_fragments(
        (int(i), int(i) + 1) for i in np.flatnonzero((attention >= threshold) & content)
    )


def _write_entities(doc: Doc, found: Sequence[FoundEntity], *, spans_key: str, label: str) -> None:
    """Write the fragments of entities to `doc.spans[spans_key]`, and all entities to
    `doc._.krissel_entities`, as `FoundEntity.to_dict` returns them.
    Results of an earlier run are replaced; a doc in which nothing was or is found is not changed.
    """
    if not found and spans_key not in doc.spans and not doc._.get(ENTITIES):
        return
    write_fragments(doc, [DocMention(each.id, label, each.fragments) for each in found], spans_key)
    doc.spans[spans_key].attrs[GROUP_ATTR] = [
        {"id": each.id, "name": each.name, "score": each.score} for each in found
    ]
    doc._.set(ENTITIES, [each.to_dict() for each in found])


def runs(content: np.ndarray, longest: int) -> list[tuple[int, int]]:
    """Return the runs of one to `longest` tokens whose first and last are `content` (n,), as
    (start, end)."""
    indices = np.flatnonzero(content).tolist()
    return [
        (i, j + 1)
        for n, i in enumerate(indices)
        for j in indices[n : n + longest]
        if j < i + longest
    ]


# Number of names and texts that initialize the encoder, as for the linker.
INIT_TEXTS = 20_000
# Names of a knowledge base that attend to a text at a time: few enough for a processor's cache.
# Fewer for a long text, so that the attention has at most `MAX_WEIGHTS` values.
BLOCK = 2048
MAX_WEIGHTS = 2**24
# Maximum number of characters encoded together, or one longer text: their vectors are held in
# memory.
MAX_CHARS = 2**18


class _TextStates(NamedTuple):
    """Encoded tokens of a text: `vectors` (m, d), and the index of the doc's token each is in,
    `rows` (m,), ascending."""

    vectors: Any
    rows: np.ndarray

    def between(self, start: int, end: int) -> slice:
        """Return the vectors in the tokens from `start` to `end`."""
        first, last = np.searchsorted(self.rows, (start, end))
        return slice(int(first), int(last))


class KrisselSpanExtractor(KBPipe):
    """Find entities of a `PrototypeKB` in a text, without given mentions.

    Each name of a candidate entity attends to the text's tokens. From the attended context, a
    classifier predicts the probability that the text refers to it; an entity's score is the highest
    of its names' (OSLAT §3.3, §7.1). Its tokens are those with enough attention, the mean over its
    names (§6.1), contiguous or not. Made by the factory `krissel_span_extractor`; all of its parts
    come from the config.
    """

    cfg: ExtractorSettings

    def _vectors(self, views: list[View]) -> Any:
        """Return the queries of names: the mean of each name's tokens."""
        return mean_states(self.model.predict([view.mention for view in views]))[0]

    def _kb_to_search(self) -> KBSnapshot:
        self.require_weights()
        return super()._kb_to_search()

    # Finding --------------------------------------------------------------------------------------

    def predict(self, docs: Iterable[Doc]) -> list[list[FoundEntity]]:
        """Return the entities of every doc, most probable first, without writing any."""
        docs = list(docs)
        if not docs:
            return []
        kb = self._kb_to_search()
        found = []
        for doc, states in zip(docs, self._states(docs), strict=True):
            rows = self._candidates(kb, doc, states)
            found.append(
                self._found(kb, doc, states, rows, self.cfg.threshold, self.cfg.max_entities)
            )
        return found

    def set_annotations(self, docs: Iterable[Doc], found: list[list[FoundEntity]]) -> None:
        """Write what `predict` found: `doc.spans[spans_key]` and `doc._.krissel_entities`."""
        for doc, entities in zip(docs, found, strict=True):
            _write_entities(doc, entities, spans_key=self.cfg.spans_key, label=self.cfg.label)

    def extract(self, doc: Doc, entities: Sequence[str]) -> dict[str, FoundEntity]:
        """Return the result for each of `entities` in the text, whatever its probability, by id.
        Entities without a name in the knowledge base are left out.
        """
        kb = self._kb_to_search()
        (states,) = self._states([doc])
        return {
            each.id: each for each in self._found(kb, doc, states, _rows_of(kb, entities), None)
        }

    def scores(self, docs: Sequence[Doc], entities: Sequence[str]) -> np.ndarray:
        """Return the probability that each doc refers to each of `entities`: (docs, entities); 0
        for an unknown one."""
        kb = self._kb_to_search()
        columns = kb.entities.rows(entities)
        rows = _rows_of(kb, entities)
        answers = np.zeros((len(docs), len(entities)), dtype=np.float32)
        for answer, states in zip(answers, self._states(docs), strict=True):
            by_entity = np.zeros(kb.n_entities + 1, dtype=np.float32)
            np.maximum.at(
                by_entity, kb.prototypes.entity_rows[rows], self._probabilities(kb, states, rows)
            )
            answer[:] = by_entity[columns]
        return answers

    def scores_at(self, doc: Doc, tokens: Mapping[str, Collection[int]]) -> dict[str, float]:
        """Return the probability that the doc refers to each entity of `tokens`, if its names
        attend to exactly these tokens (OSLAT's row GT); 0 for an unknown entity, or without tokens.

        tokens: indices of the doc's tokens, by entity id.
        """
        kb = self._kb_to_search()
        (states,) = self._states([doc])
        found = dict.fromkeys(tokens, 0.0)
        for entity, own in tokens.items():
            rows, inside = _rows_of(kb, [entity]), np.isin(states.rows, list(own))
            if len(rows) and inside.any():
                contexts = (
                    states.vectors[inside].mean(axis=0, keepdims=True).repeat(len(rows), axis=0)
                )
                found[entity] = float(
                    predict_presence(
                        self.model, PresenceInput(contexts, self._queries(kb, rows))
                    ).max()
                )
        return found

    def _states(self, docs: Sequence[Doc]) -> Iterator[_TextStates]:
        texts = [doc_text(doc) for doc in docs]
        first = 0
        while first < len(docs):
            last, chars = first, 0
            while last < len(docs) and (last == first or chars + len(texts[last]) <= MAX_CHARS):
                chars += len(texts[last])
                last += 1
            states = self.model.predict(texts[first:last])
            for doc, index in zip(docs[first:last], states.texts(), strict=True):
                yield _TextStates(states.vectors[index], token_rows(doc, states.offsets[index]))
            first = last

    def _found(
        self,
        kb: KBSnapshot,
        doc: Doc,
        states: _TextStates,
        rows: np.ndarray,
        threshold: float | None,
        limit: int = 0,
    ) -> list[FoundEntity]:
        """Return the entities of the prototypes at `rows` that are probable enough, most probable
        first, then by id.

        limit: maximum number of entities; 0 for all.
        """
        if not len(rows) or not len(states.vectors):
            return []
        owners = kb.prototypes.entity_rows[rows]
        best = np.zeros(kb.n_entities, dtype=np.float32)
        np.maximum.at(best, owners, self._probabilities(kb, states, rows))
        entities = np.unique(owners)
        if threshold is not None:
            entities = entities[best[entities] >= threshold]
        # Entity rows are in the order of their ids.
        entities = entities[np.argsort(-best[entities], kind="stable")][: limit or None]
        content = content_tokens(doc)
        found = []
        for entity, attended in zip(
            entities.tolist(), self._attended(kb, states, rows, owners, entities), strict=True
        ):
            weights = sum_by_token(attended, states.rows, len(doc))
            fragments = attended_fragments(weights, content, self.cfg.attention_threshold)
            name, score = kb.entities.names[entity], float(best[entity])
            found.append(FoundEntity(kb.entity_ids[entity], name, score, fragments, weights))
        return found

    def _queries(self, kb: KBSnapshot, rows: np.ndarray) -> Any:
        vectors: Any = kb.prototypes.base_vectors(rows)
        return self.model.ops.asarray(vectors)

    def _attended(
        self,
        kb: KBSnapshot,
        states: _TextStates,
        rows: np.ndarray,
        owners: np.ndarray,
        entities: np.ndarray,
    ) -> Iterator[np.ndarray]:
        """Yield the attention (m,) of each entity, the mean over its names, which are at some of
        `rows`."""
        step = max(1, MAX_WEIGHTS // (len(states.vectors) * int(np.bincount(owners).max())))
        for start in range(0, len(entities), step):
            some = entities[start : start + step]
            chosen = np.isin(owners, some)
            # Many entities at once, to wait for a GPU only once.
            attended, own = self._attention(kb, states, rows[chosen]), owners[chosen]
            yield from (attended[own == entity].mean(axis=0) for entity in some)

    def _attention(self, kb: KBSnapshot, states: _TextStates, rows: np.ndarray) -> np.ndarray:
        """Return the attention (rows, m) of names to the text's encoder tokens."""
        found, _ = attention(self.model, self._queries(kb, rows), states.vectors)
        return self.model.ops.to_numpy(found.weights)

    def _probabilities(self, kb: KBSnapshot, states: _TextStates, rows: np.ndarray) -> np.ndarray:
        """Return the classifier's probabilities (rows,)."""
        if not len(states.vectors):
            return np.zeros(len(rows), dtype=np.float32)
        found = []
        block = max(1, min(BLOCK, MAX_WEIGHTS // len(states.vectors)))
        for start in range(0, len(rows), block):
            found.append(
                predict(self.model, self._queries(kb, rows[start : start + block]), states.vectors)[
                    1
                ]
            )
        return np.concatenate(found) if found else np.zeros(0, dtype=np.float32)

    # Candidates -----------------------------------------------------------------------------------

    def _candidates(self, kb: KBSnapshot, doc: Doc, states: _TextStates) -> np.ndarray:
        """Return the prototype rows of the entities that are searched for in a doc."""
        how, given = self.cfg.candidates, doc._.get(CANDIDATE_IDS)
        if how == "auto":
            how = "doc" if given else "all" if kb.n_prototypes <= self.cfg.max_all else "retrieved"
        if how == "doc":
            return _rows_of(kb, given)
        if how == "all":
            return np.arange(kb.n_prototypes)
        return _rows_of(kb, self._retrieved(kb, doc, states))

    def _retrieved(self, kb: KBSnapshot, doc: Doc, states: _TextStates) -> list[str]:
        """Return the entities whose names are nearest to runs of the text's words. A run's vector
        is the mean of its tokens, as for a name."""
        windows = runs(content_tokens(doc), self.cfg.longest_run)
        vectors = self.model.ops.to_numpy(states.vectors)
        means = []
        for start, end in windows:
            inside = states.between(start, end)
            if inside.start < inside.stop:
                means.append(vectors[inside].mean(axis=0))
        if not means:
            return []
        result = kb.search(np.stack(means), self.cfg.n_retrieved)
        rows = np.unique(result.entities[result.entities >= 0])
        return [kb.entity_ids[int(row)] for row in rows]

    def _init_sample(self, examples: Iterable[Example], store: OntologyStore | None) -> list[str]:
        sample = [example.reference.text for example in islice(examples, INIT_TEXTS)] or ["text"]
        if store is not None:
            sample.extend(entity.name for entity in islice(store, INIT_TEXTS))
        return sample


def _rows_of(kb: KBSnapshot, entities: Sequence[str]) -> np.ndarray:
    """Return the prototype rows of entities."""
    found = [kb.prototype_rows(kb.resolve(entity) or entity) for entity in dict.fromkeys(entities)]
    return np.concatenate(found) if found else np.zeros(0, dtype=np.int64)
