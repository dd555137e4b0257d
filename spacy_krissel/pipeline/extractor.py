"""`krissel_span_extractor`: find the entities that a text speaks of, and the tokens that say so (OSLAT)."""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, NamedTuple

import numpy as np
from spacy.tokens import Doc
from spacy.training import Example

from ..kb.snapshot import KBSnapshot
from ..layers.label_attention import Seen, attention, mean_states, predict, predict_presence
from ..mentions.annotations import CANDIDATE_IDS, ENTITIES
from ..mentions.discontinuous import DocMention, join_fragments, write_fragments
from ..ontology.store import OntologyStore
from ..views import View, doc_text
from .kb_pipe import KBPipe
from .settings import ExtractorSettings

# What a text speaks of, for what displays a group, in the group's attributes.
GROUP_ATTR = "entities"


class FoundEntity(NamedTuple):
    """An entity that a text speaks of.

    score: the probability that it does.
    pieces: (start, end) in tokens, none where no token has enough of the attention.
    attention: (n,) the share of each token of the doc, the mean over the entity's names (§6.1).
    """

    id: str
    name: str
    score: float
    pieces: tuple[tuple[int, int], ...]
    attention: np.ndarray

    def to_dict(self) -> dict[str, Any]:
        """Python's own types alone: anything else would not survive `Doc.to_bytes`."""
        pieces = [list(piece) for piece in self.pieces]
        attention = [round(share, 4) for share in self.attention.tolist()]
        return {"id": self.id, "name": self.name, "score": self.score, "pieces": pieces, "attention": attention}


def token_rows(doc: Doc, places: np.ndarray) -> np.ndarray:
    """(m,) in which of the doc's tokens each of m places begins, in characters (m, 2) and in order."""
    starts = np.asarray([token.idx for token in doc], dtype=np.int64)
    return np.searchsorted(starts, places[:, 0], side="right") - 1


def by_token(weights: np.ndarray, rows: np.ndarray, n_tokens: int) -> np.ndarray:
    """(n_tokens,) of the attention (m,) of places in these tokens (m,): a token has what its places have."""
    return np.bincount(rows, weights, n_tokens).astype(np.float32)


def content_tokens(doc: Doc) -> np.ndarray:
    """(n,) which tokens can be part of an entity: no stop words, no punctuation, no white space (§6.1)."""
    return np.asarray([not (token.is_stop or token.is_punct or token.is_space) for token in doc], dtype=bool)


def pieces_of(attention: np.ndarray, content: np.ndarray, threshold: float) -> tuple[tuple[int, int], ...]:
    """The runs of tokens with at least `threshold` of the attention (n,), among those that are `content` (n,)."""
    return join_fragments((int(i), int(i) + 1) for i in np.flatnonzero((attention >= threshold) & content))


def _write_entities(doc: Doc, found: Sequence[FoundEntity], *, spans_key: str, label: str) -> None:
    """Write entities to `doc.spans[spans_key]`, the pieces of each with its id, and all of them to
    `doc._.krissel_entities`, as `FoundEntity.to_dict` has them. What an earlier run left there is gone; a doc in which
    nothing was or is found stays as it was."""
    if not found and spans_key not in doc.spans and not doc._.get(ENTITIES):
        return
    write_fragments(doc, [DocMention(each.id, label, each.pieces) for each in found], spans_key)
    doc.spans[spans_key].attrs[GROUP_ATTR] = [{"id": each.id, "name": each.name, "score": each.score} for each in found]
    doc._.set(ENTITIES, [each.to_dict() for each in found])


def runs(content: np.ndarray, longest: int) -> list[tuple[int, int]]:
    """The runs of one to `longest` tokens that begin and end with one that is `content` (n,), as (start, end)."""
    places = np.flatnonzero(content).tolist()
    return [(i, j + 1) for n, i in enumerate(places) for j in places[n : n + longest] if j < i + longest]


# Names and texts given to the encoder's initialisation, as for the linker.
INIT_TEXTS = 20_000
# Names of a knowledge base that attend to a text at a time: few enough to stay in a processor's cache; and of a long
# text fewer, so that no more than this many numbers are held.
BLOCK = 2048
MOST_WEIGHTS = 2**24
# Characters of the texts that are encoded together, or one text that is longer: their vectors are held.
MOST_CHARS = 2**18


class _TextStates(NamedTuple):
    """A text as the names of a knowledge base see it: `vectors` (m, d) of its tokens by the encoder, and which of the
    doc's tokens each is in, `rows` (m,), ascending."""

    vectors: Any
    rows: np.ndarray

    def between(self, start: int, end: int) -> slice:
        """The vectors in the tokens from `start` to `end`."""
        first, last = np.searchsorted(self.rows, (start, end))
        return slice(int(first), int(last))


class KrisselSpanExtractor(KBPipe):
    """Find entities of a `PrototypeKB` in a text, with no mention given.

    Each name of a candidate entity attends to the text's tokens, and a classifier tells from what it sees there how
    likely the text speaks of it; the score of an entity is the highest of its names' (OSLAT §3.3, §7.1). Its tokens are
    those with enough attention, the mean over its names (§6.1), in one piece or in several. Made by the factory
    `krissel_span_extractor`; all of its parts come from the config.
    """

    cfg: ExtractorSettings

    def _vectors(self, views: list[View]) -> Any:
        """The queries of names: the mean of each name's tokens."""
        return mean_states(self.model.predict([view.mention for view in views]))[0]

    def _kb_to_search(self) -> KBSnapshot:
        self.require_weights()
        return super()._kb_to_search()

    # Finding -------------------------------------------------------------------------------------------------------

    def predict(self, docs: Iterable[Doc]) -> list[list[FoundEntity]]:
        """The entities of every doc, most probable first, without writing any."""
        docs = list(docs)
        if not docs:
            return []
        kb = self._kb_to_search()
        found = []
        for doc, states in zip(docs, self._states(docs), strict=True):
            rows = self._candidates(kb, doc, states)
            found.append(self._found(kb, doc, states, rows, self.cfg.threshold, self.cfg.max_entities))
        return found

    def set_annotations(self, docs: Iterable[Doc], found: list[list[FoundEntity]]) -> None:
        """Write what `predict` found: `doc.spans[spans_key]` and `doc._.krissel_entities`."""
        for doc, entities in zip(docs, found, strict=True):
            _write_entities(doc, entities, spans_key=self.cfg.spans_key, label=self.cfg.label)

    def extract(self, doc: Doc, entities: Sequence[str]) -> dict[str, FoundEntity]:
        """What the text shows of each of `entities`, whatever their probability: by id, without those that the
        knowledge base has no name of."""
        kb = self._kb_to_search()
        (states,) = self._states([doc])
        return {each.id: each for each in self._found(kb, doc, states, _rows_of(kb, entities), None)}

    def scores(self, docs: Sequence[Doc], entities: Sequence[str]) -> np.ndarray:
        """The probability that each doc speaks of each of `entities`: (docs, entities); 0 of an unknown one."""
        kb = self._kb_to_search()
        columns = kb.entities.rows(entities)
        rows = _rows_of(kb, entities)
        answers = np.zeros((len(docs), len(entities)), dtype=np.float32)
        for answer, states in zip(answers, self._states(docs), strict=True):
            by_entity = np.zeros(kb.n_entities + 1, dtype=np.float32)
            np.maximum.at(by_entity, kb.prototypes.entity_rows[rows], self._probabilities(kb, states, rows))
            answer[:] = by_entity[columns]
        return answers

    def scores_at(self, doc: Doc, places: Mapping[str, Collection[int]]) -> dict[str, float]:
        """The probability that the doc speaks of each entity of `places` where what its names see are just these tokens
        of the doc (OSLAT's row GT); 0 of an unknown one, and where there are no tokens."""
        kb = self._kb_to_search()
        (states,) = self._states([doc])
        found = dict.fromkeys(places, 0.0)
        for entity, tokens in places.items():
            rows, inside = _rows_of(kb, [entity]), np.isin(states.rows, list(tokens))
            if len(rows) and inside.any():
                contexts = states.vectors[inside].mean(axis=0, keepdims=True).repeat(len(rows), axis=0)
                found[entity] = float(predict_presence(self.model, Seen(contexts, self._queries(kb, rows))).max())
        return found

    def _states(self, docs: Sequence[Doc]) -> Iterator[_TextStates]:
        texts = [doc_text(doc) for doc in docs]
        first = 0
        while first < len(docs):
            last, chars = first, 0
            while last < len(docs) and (last == first or chars + len(texts[last]) <= MOST_CHARS):
                chars += len(texts[last])
                last += 1
            states = self.model.predict(texts[first:last])
            for doc, place in zip(docs[first:last], states.texts(), strict=True):
                yield _TextStates(states.vectors[place], token_rows(doc, states.places[place]))
            first = last

    def _found(
        self, kb: KBSnapshot, doc: Doc, states: _TextStates, rows: np.ndarray, threshold: float | None, limit: int = 0
    ) -> list[FoundEntity]:
        """The entities of the prototypes at `rows` that are probable enough, most probable first, then by id; the first
        `limit` of them, 0 for all."""
        if not len(rows) or not len(states.vectors):
            return []
        owners = kb.prototypes.entity_rows[rows]
        best = np.zeros(kb.n_entities, dtype=np.float32)
        np.maximum.at(best, owners, self._probabilities(kb, states, rows))
        entities = np.unique(owners)
        if threshold is not None:
            entities = entities[best[entities] >= threshold]
        # Rows of entities are in the order of their ids.
        entities = entities[np.argsort(-best[entities], kind="stable")][: limit or None]
        content = content_tokens(doc)
        found = []
        for entity, attended in zip(entities.tolist(), self._attended(kb, states, rows, owners, entities), strict=True):
            weights = by_token(attended, states.rows, len(doc))
            pieces = pieces_of(weights, content, self.cfg.attention_threshold)
            name, score = kb.entities.names[entity], float(best[entity])
            found.append(FoundEntity(kb.entity_ids[entity], name, score, pieces, weights))
        return found

    def _queries(self, kb: KBSnapshot, rows: np.ndarray) -> Any:
        vectors: Any = kb.prototypes.own(rows)
        return self.model.ops.asarray(vectors)

    def _attended(
        self, kb: KBSnapshot, states: _TextStates, rows: np.ndarray, owners: np.ndarray, entities: np.ndarray
    ) -> Iterator[np.ndarray]:
        """The attention (m,) of each entity, the mean over its names, which are at some of `rows`."""
        step = max(1, MOST_WEIGHTS // (len(states.vectors) * int(np.bincount(owners).max())))
        for start in range(0, len(entities), step):
            some = entities[start : start + step]
            chosen = np.isin(owners, some)
            # Of many entities at once: a GPU is waited for once.
            attended, own = self._attention(kb, states, rows[chosen]), owners[chosen]
            yield from (attended[own == entity].mean(axis=0) for entity in some)

    def _attention(self, kb: KBSnapshot, states: _TextStates, rows: np.ndarray) -> np.ndarray:
        """(rows, m) of the text's tokens by the encoder."""
        found, _ = attention(self.model, self._queries(kb, rows), states.vectors)
        return self.model.ops.to_numpy(found.weights)

    def _probabilities(self, kb: KBSnapshot, states: _TextStates, rows: np.ndarray) -> np.ndarray:
        """(rows,) by the classifier."""
        if not len(states.vectors):
            return np.zeros(len(rows), dtype=np.float32)
        found = []
        block = max(1, min(BLOCK, MOST_WEIGHTS // len(states.vectors)))
        for start in range(0, len(rows), block):
            found.append(predict(self.model, self._queries(kb, rows[start : start + block]), states.vectors)[1])
        return np.concatenate(found) if found else np.zeros(0, dtype=np.float32)

    # Candidates ----------------------------------------------------------------------------------------------------

    def _candidates(self, kb: KBSnapshot, doc: Doc, states: _TextStates) -> np.ndarray:
        """The prototypes, by row, of the entities that are looked for in a doc."""
        how, given = self.cfg.candidates, doc._.get(CANDIDATE_IDS)
        if how == "auto":
            how = "doc" if given else "all" if kb.n_prototypes <= self.cfg.max_all else "retrieved"
        if how == "doc":
            return _rows_of(kb, given)
        if how == "all":
            return np.arange(kb.n_prototypes)
        return _rows_of(kb, self._retrieved(kb, doc, states))

    def _retrieved(self, kb: KBSnapshot, doc: Doc, states: _TextStates) -> list[str]:
        """The entities whose names are nearest to runs of the text's words, each run the mean of its tokens, as a name
        is."""
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
    """The prototypes of entities, by row."""
    found = [kb.prototype_rows(kb.resolve(entity) or entity) for entity in dict.fromkeys(entities)]
    return np.concatenate(found) if found else np.zeros(0, dtype=np.int64)
