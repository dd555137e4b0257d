"""`krissel_span_extractor`: find the entities that a text speaks of, and the tokens that say so (OSLAT)."""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, NamedTuple

import numpy as np
from spacy.language import Language
from spacy.tokens import Doc
from spacy.training import Example, validate_get_examples
from spacy.vocab import Vocab

from ...kb.build.sources import PrototypeSource
from ...kb.prototype_kb import PrototypeKB
from ...layers.label_attention import Seen, attention, mean_states, predict, predict_presence
from ...layers.token_states import StatesModel
from ...mentions.annotations import CANDIDATE_IDS, register_extensions
from ...ontology.store import OntologyStore
from ...training.objectives.protocol import Objective
from ...views import View, doc_text
from ..kb_pipe import KBPipe, with_one_kb
from ..settings import ExtractorSettings
from .extraction import FoundEntity, by_token, content_tokens, pieces_of, runs, token_rows, write_entities

# Names and texts given to the encoder's initialisation, as for the linker.
INIT_TEXTS = 20_000
# Names of a knowledge base that attend to a text at a time: few enough to stay in a processor's cache; and of a long
# text fewer, so that no more than this many numbers are held.
BLOCK = 2048
MOST_WEIGHTS = 2**24
# Characters of the texts that are encoded together, or one text that is longer: their vectors are held.
MOST_CHARS = 2**18


class TextStates(NamedTuple):
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

    def __init__(
        self,
        vocab: Vocab,
        model: StatesModel,
        name: str = "krissel_span_extractor",
        *,
        objective: Objective | None,
        generate_empty_kb: Callable[[Vocab, int], PrototypeKB],
        settings: ExtractorSettings,
        kb_path: str | None = None,
        scorer: Callable | None = None,
    ) -> None:
        """
        model: `spacy-krissel.LabelAttention.v1`.
        settings: see `ExtractorSettings`.
        The rest as in `KBPipe`.
        """
        super().__init__(
            vocab,
            model,
            name,
            objective=objective,
            generate_empty_kb=generate_empty_kb,
            settings=settings,
            kb_path=kb_path,
            scorer=scorer,
        )
        register_extensions()

    def encode(self, views: Sequence[View]) -> np.ndarray:
        """The queries of names: views → (n, width) float32 on the CPU, the mean of the name's tokens.

        Raises KrisselError K604 when the encoder has no weights.
        """
        self.require_weights()
        if not views:
            return np.zeros((0, self._width()), dtype=np.float32)
        means, _ = mean_states(self.model.predict([view.mention for view in views]))
        return self.model.ops.to_numpy(means).astype(np.float32, copy=False)

    # Finding -------------------------------------------------------------------------------------------------------

    @with_one_kb
    def predict(self, docs: Iterable[Doc]) -> list[list[FoundEntity]]:
        """The entities of every doc, most probable first, without writing any."""
        docs = list(docs)
        found = []
        for doc, states in zip(docs, self._states(docs), strict=True):
            rows = self._candidates(doc, states)
            found.append(self._found(doc, states, rows, self.cfg.threshold, self.cfg.max_entities))
        return found

    def set_annotations(self, docs: Iterable[Doc], found: list[list[FoundEntity]]) -> None:
        """Write what `predict` found: `doc.spans[spans_key]` and `doc._.krissel_entities`."""
        for doc, entities in zip(docs, found, strict=True):
            write_entities(doc, entities, spans_key=self.cfg.spans_key, label=self.cfg.label)

    @with_one_kb
    def extract(self, doc: Doc, entities: Sequence[str]) -> dict[str, FoundEntity]:
        """What the text shows of each of `entities`, whatever their probability: by id, without those that the
        knowledge base has no name of."""
        (states,) = self._states([doc])
        return {each.id: each for each in self._found(doc, states, self._rows_of(entities), None)}

    @with_one_kb
    def scores(self, docs: Sequence[Doc], entities: Sequence[str]) -> np.ndarray:
        """The probability that each doc speaks of each of `entities`: (docs, entities); 0 of an unknown one."""
        kb = self._kb_to_search()
        columns = kb.entities.rows(entities)
        rows = self._rows_of(entities)
        answers = np.zeros((len(docs), len(entities)), dtype=np.float32)
        for answer, states in zip(answers, self._states(docs), strict=True):
            by_entity = np.zeros(kb.n_entities + 1, dtype=np.float32)
            np.maximum.at(by_entity, kb.prototypes.entity_rows[rows], self._probabilities(states, rows))
            answer[:] = by_entity[columns]
        return answers

    @with_one_kb
    def scores_at(self, doc: Doc, places: Mapping[str, Collection[int]]) -> dict[str, float]:
        """The probability that the doc speaks of each entity of `places` where what its names see are just these tokens
        of the doc (OSLAT's row GT); 0 of an unknown one, and where there are no tokens."""
        (states,) = self._states([doc])
        found = dict.fromkeys(places, 0.0)
        for entity, tokens in places.items():
            rows, inside = self._rows_of([entity]), np.isin(states.rows, list(tokens))
            if len(rows) and inside.any():
                contexts = states.vectors[inside].mean(axis=0, keepdims=True).repeat(len(rows), axis=0)
                found[entity] = float(predict_presence(self.model, Seen(contexts, self._queries(rows))).max())
        return found

    def _states(self, docs: Sequence[Doc]) -> Iterator[TextStates]:
        self.require_weights()
        texts = [doc_text(doc) for doc in docs]
        first = 0
        while first < len(docs):
            last, chars = first, 0
            while last < len(docs) and (last == first or chars + len(texts[last]) <= MOST_CHARS):
                chars += len(texts[last])
                last += 1
            states = self.model.predict(texts[first:last])
            for doc, place in zip(docs[first:last], states.texts(), strict=True):
                yield TextStates(states.vectors[place], token_rows(doc, states.places[place]))
            first = last

    def _found(
        self, doc: Doc, states: TextStates, rows: np.ndarray, threshold: float | None, limit: int = 0
    ) -> list[FoundEntity]:
        """The entities of the prototypes at `rows` that are probable enough, most probable first, then by id; the first
        `limit` of them, 0 for all."""
        if not len(rows) or not len(states.vectors):
            return []
        kb = self._kb_to_search()
        owners = kb.prototypes.entity_rows[rows]
        best = np.zeros(kb.n_entities, dtype=np.float32)
        np.maximum.at(best, owners, self._probabilities(states, rows))
        entities = np.unique(owners)
        if threshold is not None:
            entities = entities[best[entities] >= threshold]
        # Rows of entities are in the order of their ids.
        entities = entities[np.argsort(-best[entities], kind="stable")][: limit or None]
        content = content_tokens(doc)
        found = []
        for entity in entities.tolist():
            weights = by_token(self._attention(states, rows[owners == entity]).mean(axis=0), states.rows, len(doc))
            pieces = pieces_of(weights, content, self.cfg.attention_threshold)
            name, score = kb.entities.names[entity], float(best[entity])
            found.append(FoundEntity(kb.entity_ids[entity], name, score, pieces, weights))
        return found

    def _queries(self, rows: np.ndarray) -> Any:
        kb = self._kb_to_search()
        vectors: Any = np.asarray(kb.prototypes.own.array[rows], dtype=np.float32)
        return self.model.ops.asarray(vectors)

    def _attention(self, states: TextStates, rows: np.ndarray) -> np.ndarray:
        """(rows, m) of the text's tokens by the encoder."""
        found, _ = attention(self.model, self._queries(rows), states.vectors)
        return self.model.ops.to_numpy(found.weights)

    def _probabilities(self, states: TextStates, rows: np.ndarray) -> np.ndarray:
        """(rows,) by the classifier."""
        if not len(states.vectors):
            return np.zeros(len(rows), dtype=np.float32)
        found = []
        block = max(1, min(BLOCK, MOST_WEIGHTS // len(states.vectors)))
        for start in range(0, len(rows), block):
            found.append(predict(self.model, self._queries(rows[start : start + block]), states.vectors)[1])
        return np.concatenate(found) if found else np.zeros(0, dtype=np.float32)

    # Candidates ----------------------------------------------------------------------------------------------------

    def _candidates(self, doc: Doc, states: TextStates) -> np.ndarray:
        """The prototypes, by row, of the entities that are looked for in a doc."""
        kb = self._kb_to_search()
        how, given = self.cfg.candidates, doc._.get(CANDIDATE_IDS)
        if how == "auto":
            how = "doc" if given else "all" if kb.n_prototypes <= self.cfg.max_all else "retrieved"
        if how == "doc":
            return self._rows_of(given)
        if how == "all":
            return np.arange(kb.n_prototypes)
        return self._rows_of(self._retrieved(doc, states))

    def _rows_of(self, entities: Sequence[str]) -> np.ndarray:
        kb = self._kb_to_search()
        found = [kb.prototype_rows(kb.resolve(entity) or entity) for entity in dict.fromkeys(entities)]
        return np.concatenate(found) if found else np.zeros(0, dtype=np.int64)

    def _retrieved(self, doc: Doc, states: TextStates) -> list[str]:
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
        kb = self._kb_to_search()
        result = kb.search(np.stack(means), self.cfg.n_retrieved)
        rows = np.unique(result.entities[result.entities >= 0])
        return [kb.entity_ids[int(row)] for row in rows]

    # Training ------------------------------------------------------------------------------------------------------

    def initialize(
        self,
        get_examples: Callable[[], Iterable[Example]],
        *,
        nlp: Language | None = None,
        ontology: Callable[[], OntologyStore] | None = None,
        dev_kb: Callable[[], PrototypeSource] | None = None,
        encoder: Callable[[StatesModel], None] | None = None,
    ) -> None:
        """Give the encoder its weights, and training its ontology and its development knowledge base: as in
        `KrisselLinker.initialize`."""
        validate_get_examples(get_examples, "KrisselSpanExtractor.initialize")
        sample = [example.reference.text for example in islice(get_examples(), INIT_TEXTS)] or ["text"]
        store = ontology() if ontology is not None else None
        if store is not None:
            sample.extend(entity.name for entity in islice(store, INIT_TEXTS))
        self.model.initialize(X=sample)
        if encoder is not None:
            encoder(self.model)
        self._weights_changed()
        if self.objective is not None:
            self.objective.initialize(store)
        self._dev = dev_kb() if dev_kb is not None else None
