"""OSLAT's training steps: contrast of the contexts that names attend to in a text (§3.2), and a
classifier of them (§3.3)."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import chain, pairwise
from pathlib import Path
from typing import Any, NamedTuple, cast

import numpy as np
from spacy.training import Example
from thinc.api import Ops
from thinc.types import Floats2d

from ...distributed.processes import begin_shared
from ...errors import wrong_setting
from ...layers.label_attention import PresenceInput, attention, mean_states, presence_layer
from ...layers.normalize import unit_rows
from ...layers.token_states import StatesModel, TokenStates
from ...losses.masked import Loss
from ...mentions.gold_mentions import document_entities
from ...ontology.store import OntologyStore
from ...util.folding import fold_name
from ...util.settings import PositiveInt, checked
from ..data.gold_corpus import seen_entities
from ..passes import begin_texts
from ..scores import Padding, inner
from .protocol import BatchCount, entity_row, require_ontology


class _NamedText(NamedTuple):
    """A text, the names of each of its entities, and the batch's negatives for it."""

    text: str
    names: list[list[str]]
    others: list[str]


class LossTerm(NamedTuple):
    """A term of a loss: names in a text.

    queries: rows of the names: the `n_positives` names of the text's entities first, then others.
        In the first loss they are preceded by the one name of an entity that they are compared
        with.
    tokens: rows of the text's tokens.
    """

    queries: list[int]
    tokens: slice
    n_positives: int


@checked
@dataclass(eq=False)
class LabelAttentionObjective:
    """Two losses over texts and names. The first trains the encoder (LSS-NT-Xent, eq. 4). At each
    step a name of a text's entity is drawn. The context that it attends to should be similar to
    those of its synonyms, and dissimilar to those of entities outside the text.
    The second trains the classifier (§3.3); its gradient stops there.

    Negatives are drawn once per batch, first entities and then a name of each, so that entities
    with few names are not rare. A text's own entities, and those that share a name with one, are
    not its negatives. The paper leaves open whether each pair has its own.

    loss: of the cosines of one name's context with those of its synonyms and of other names, for
        each text and each of its entities, such as `spacy-krissel.SoftmaxLoss.v1` with `positives =
        "mean"`. None does not train the encoder, and caches its vectors of texts and names after
        the first epoch, as in the paper.
    presence_loss: of the logits of each text with names, such as `spacy-krissel.FocalLoss.v1`; None
        does not train the classifier.
    n_negatives: number of names of other entities; 100 in the paper.
    max_synonyms: maximum number of synonyms of a name, drawn at each step; an entity with one name
        has none, and is in the second loss only.
    seen: a .spacy file of the training texts: negatives are their entities, in the paper for the
        first loss. None: any of the ontology.
    seed: seed of all draws.

    Raises KrisselError K006 for a wrong setting.
    """

    loss: Loss | None = None
    presence_loss: Loss | None = None
    n_negatives: PositiveInt = 100
    max_synonyms: PositiveInt = 8
    seen: str | Path | None = None
    seed: int = 0

    def __post_init__(self) -> None:
        if self.loss is None and self.presence_loss is None:
            raise wrong_setting("loss", None, "a loss, or one for `presence_loss`")
        self._store: OntologyStore | None = None
        self._entities: list[str] = []
        self._random = np.random.default_rng(self.seed)
        self._states: dict[str, tuple[Floats2d, np.ndarray]] = {}
        todo = "Check that the examples carry the ids of entities as categories (`doc.cats`)"
        self._batches = BatchCount("text with an entity", todo)

    def initialize(self, ontology: OntologyStore | None) -> None:
        """Set the ontology whose names are synonyms. Raises KrisselError K639 without one, or if it
        contains no entity of `seen`."""
        self._store = require_ontology(ontology)
        self._entities = list(self._store.ids)
        self._states = {}
        if self.seen is not None:
            self._entities = seen_entities(self.seen, self._store)

    def update(self, model: StatesModel, examples: Sequence[Example], spans_key: str = "") -> float:
        """Accumulate the gradients over the texts of `examples` and the entities of their `cats`;
        `spans_key` is ignored. RETURNS: the sum of both losses, each the mean over its terms; 0 if
        no text has an entity.

        Raises KrisselError K639 if `initialize` was never called, or a text's entity is not in the
        ontology.
        """
        texts = self._named(examples)
        if self._batches.is_empty(texts):
            return 0.0
        names = list(
            dict.fromkeys(
                name for each in texts for group in (*each.names, each.others) for name in group
            )
        )
        frozen = self.loss is None
        states, backprop = self._encode(model, [*(each.text for each in texts), *names], frozen)
        where = states.texts()
        queries, backprop_means = mean_states(states)
        rows = {name: len(texts) + row for row, name in enumerate(names)}
        terms: list[LossTerm] = []
        seen: list[LossTerm] = []
        for each, tokens in zip(texts, where, strict=False):
            if tokens.stop == tokens.start:
                continue
            groups = [[rows[name] for name in group] for group in each.names]
            others = [rows[name] for name in each.others]
            terms += [
                LossTerm([*group, *others], tokens, len(group) - 1)
                for group in groups
                if len(group) > 1
            ]
            own = list(chain.from_iterable(groups))
            seen.append(LossTerm([*own, *others], tokens, len(own)))
        total = 0.0
        if self.loss is not None and terms:
            d_queries, d_vectors, total = self._contrast(
                self.loss, model, queries, states.vectors, terms
            )
            backprop(d_vectors + backprop_means(d_queries))
        if self.presence_loss is not None and seen:
            total += self._classify(self.presence_loss, model, queries, states.vectors, seen)
        return total

    def _contrast(
        self,
        loss: Loss,
        model: StatesModel,
        queries: Floats2d,
        vectors: Floats2d,
        terms: list[LossTerm],
    ) -> tuple[Floats2d, Floats2d, float]:
        """Return the gradients of names' queries and of texts' tokens, and the loss over the
        cosines of each term's first context with the others."""
        xp: Any = model.ops.xp
        rows, own = _rows_of(model.ops, terms)
        asked = queries[rows]
        scores, backprops = [], []
        for term, each in zip(terms, own, strict=True):
            found, backprop_attention = attention(model, asked[each], vectors[term.tokens])
            units, backprop_units = unit_rows(found.contexts)
            cosines, backprop_cosines = inner(units[:1], units[1:])
            scores.append(cosines[0])
            backprops.append((backprop_cosines, backprop_units, backprop_attention))
        lengths = [len(each) for each in scores]
        padding = Padding(model.ops, lengths, n_positives=[term.n_positives for term in terms])
        d_rows, value = loss(
            padding.pad(xp.concatenate(scores)), padding.positives, padding.negatives
        )
        d_asked, d_queries, d_vectors = (xp.zeros_like(each) for each in (asked, queries, vectors))
        for term, each, d_row, length, (
            backprop_cosines,
            backprop_units,
            backprop_attention,
        ) in zip(terms, own, d_rows, lengths, backprops, strict=True):
            d_units = xp.vstack(backprop_cosines(xp.reshape(d_row[:length], (1, length))))
            d_asked[each], d_text = backprop_attention(backprop_units(d_units))
            d_vectors[term.tokens] += d_text
        xp.add.at(d_queries, rows, d_asked)
        return d_queries, d_vectors, value

    def _classify(
        self,
        loss: Loss,
        model: StatesModel,
        queries: Floats2d,
        vectors: Floats2d,
        terms: list[LossTerm],
    ) -> float:
        """Return the loss over the logits of each text with its names, and accumulate the
        classifier's gradient."""
        xp: Any = model.ops.xp
        rows, own = _rows_of(model.ops, terms)
        asked = queries[rows]
        contexts = [
            attention(model, asked[each], vectors[term.tokens])[0].contexts
            for term, each in zip(terms, own, strict=True)
        ]
        seen = PresenceInput(xp.vstack(contexts), asked)
        layer = presence_layer(model)

        def begin(items: list[int]) -> tuple[Any, Callable[..., Any]]:
            some = slice(None) if len(items) == len(asked) else xp.asarray(items)
            return layer.begin_update(PresenceInput(seen.contexts[some], seen.queries[some]))

        logits, backprop = begin_shared(begin, [1] * len(asked))
        padding = Padding(
            model.ops,
            [len(each) for each in contexts],
            n_positives=[term.n_positives for term in terms],
        )
        d_scores, value = loss(padding.pad(logits), padding.positives, padding.negatives)
        backprop(padding.unpad(d_scores))
        return value

    def _named(self, examples: Sequence[Example]) -> list[_NamedText]:
        """Return the texts with entities, with names drawn for this step."""
        require_ontology(self._store)
        n = min(self.n_negatives, len(self._entities))
        drawn = [
            self._entities[i] for i in self._random.choice(len(self._entities), n, replace=False)
        ]
        others = [(entity, self._draw(entity, 1)[0]) for entity in drawn]
        found = []
        for example in examples:
            present = document_entities(example.reference)
            if not present:
                continue
            own = {fold_name(name) for entity in present for name in self._names(entity)}
            negatives = [
                name
                for entity, name in others
                if entity not in present and fold_name(name) not in own
            ]
            names = [self._draw(entity, 1 + self.max_synonyms) for entity in present]
            found.append(_NamedText(example.reference.text, names, negatives))
        return found

    def _draw(self, entity: str, n: int) -> list[str]:
        names = self._names(entity)
        return [names[i] for i in self._random.permutation(len(names))[:n]]

    def _names(self, entity: str) -> Sequence[str]:
        store = require_ontology(self._store)
        return store.entity_at(entity_row(store, entity)).names

    def _encode(
        self, model: StatesModel, texts: list[str], frozen: bool
    ) -> tuple[TokenStates, Callable[..., Any]]:
        if not frozen:
            return begin_texts(model.begin_update, texts)
        new = [text for text in dict.fromkeys(texts) if text not in self._states]
        if new:
            states, _ = begin_texts(lambda own: (model.predict(own), lambda d_vectors: own), new)
            for text, index in zip(new, states.texts(), strict=True):
                self._states[text] = states.vectors[index], states.offsets[index]
        kept = [self._states[text] for text in texts]
        xp: Any = model.ops.xp
        lengths = np.asarray([len(offsets) for _, offsets in kept], dtype=np.int64)
        vectors = xp.vstack([vectors for vectors, _ in kept])
        return TokenStates(
            vectors, lengths, np.vstack([offsets for _, offsets in kept])
        ), lambda d_vectors: texts


def _rows_of(ops: Ops, terms: Sequence[LossTerm]) -> tuple[Any, list[slice]]:
    """Return the rows of all terms' queries, concatenated, and the slice of each term."""
    ends = np.cumsum([len(term.queries) for term in terms]).tolist()
    # One copy to a GPU.
    rows = cast(Any, ops).asarray(np.concatenate([term.queries for term in terms]))
    return rows, [slice(start, end) for start, end in pairwise([0, *ends])]
