"""OSLAT's training steps: what a text shows to the names of its entities and to those of others (§3.2), and a
classifier of it (§3.3)."""

from pathlib import Path
from typing import Any, Callable, Dict, List, NamedTuple, Optional, Sequence, Tuple

import numpy as np
from spacy.training import Example
from spacy.vocab import Vocab
from thinc.types import Floats1d, Floats2d

from ...corpora.doc_bins import read_doc_bins
from ...distributed.processes import begin_shared
from ...errors import Errors, KrisselError
from ...layers.label_attention import Seen, attention, mean_states, presence_layer
from ...layers.token_states import StatesModel, TokenStates
from ...mentions.gold_mentions import text_entities
from ...ontology.folding import fold_name
from ...ontology.store import OntologyStore
from ..batch_count import BatchCount
from ..shared import begin_texts

# Contexts of one text and the number of synonyms among them, to gradient and loss.
ContextLossFunction = Callable[[Floats2d, int], Tuple[Floats2d, float]]
# Logits and truths to gradient and loss.
PresenceLossFunction = Callable[[Floats1d, Any], Tuple[Floats1d, float]]


class NamedText(NamedTuple):
    """A text, the names of each of its entities, and which of the batch's other names are none of theirs."""

    text: str
    names: List[List[str]]
    others: List[str]


class LabelAttentionObjective:
    """Two losses over texts and names. The first trains the encoder: a text's entity by one of its names, drawn anew
    each time, shall see the same of the text as by its synonyms, and something else than entities that the text does
    not speak of. The second trains the classifier, and no gradient of it goes to the encoder.

    Negatives are drawn once for a batch, entities first and a name of each then, so that entities of few names are not
    rare; those that a text speaks of, or that share a name with one, are none for it. The paper leaves open whether
    each pair has its own.

    loss: such as `spacy-krissel.LabelSynonymNCE.v1`; None leaves the encoder as it is. What it makes of a text and of
        names is then kept after the first epoch, as in the paper.
    presence_loss: such as `spacy-krissel.FocalLoss.v1`; None leaves the classifier as it is.
    n_negatives: names of other entities; 100 in the paper.
    max_synonyms: so many synonyms of a name at most, drawn anew each time.
    seen: a .spacy file of the texts that are trained on: negatives are entities of theirs, as in the paper. None: any
        of the ontology.

    Raises KrisselError K006 for a wrong setting.
    """

    def __init__(
        self,
        loss: Optional[ContextLossFunction],
        presence_loss: Optional[PresenceLossFunction],
        *,
        n_negatives: int = 100,
        max_synonyms: int = 8,
        seen: Optional[Path] = None,
        seed: int = 0,
    ) -> None:
        for setting, value in (("n_negatives", n_negatives), ("max_synonyms", max_synonyms)):
            if value < 1:
                raise KrisselError(Errors.K006.format(setting=setting, found=value, expected="at least 1"))
        if loss is None and presence_loss is None:
            expected = "a loss, or one for `presence_loss`"
            raise KrisselError(Errors.K006.format(setting="loss", found=None, expected=expected))
        self.loss = loss
        self.presence_loss = presence_loss
        self.n_negatives = n_negatives
        self.max_synonyms = max_synonyms
        self.seen = seen
        self._store: Optional[OntologyStore] = None
        self._entities: List[str] = []
        self._random = np.random.default_rng(seed)
        self._states: Dict[str, Tuple[Floats2d, np.ndarray]] = {}
        todo = "Check that the examples carry the ids of entities as categories (`doc.cats`)"
        self._batches = BatchCount("text with an entity", todo)

    def initialize(self, ontology: Optional[OntologyStore]) -> None:
        """Take the ontology whose names are synonyms. Raises KrisselError K639 without one, or with one that holds no
        entity of `seen`."""
        if ontology is None:
            raise KrisselError(Errors.K639.format(problem="there is no ontology", todo=ADVICE))
        entities = list(ontology.ids)
        if self.seen is not None:
            found = {entity for doc in read_doc_bins(self.seen, Vocab()) for entity in text_entities(doc)}
            entities = sorted({id_ for id_ in map(ontology.resolve, found) if id_ is not None})
            if not entities:
                problem = f"the ontology holds no entity of the texts of '{self.seen}'"
                raise KrisselError(Errors.K639.format(problem=problem, todo=ADVICE))
        self._store, self._entities = ontology, entities
        self._states = {}

    def update(self, model: StatesModel, examples: Sequence[Example], spans_key: str = "") -> float:
        """Accumulate the gradients over the texts of `examples` and the entities of their `cats`, whatever the
        `spans_key`. RETURNS: the sum of both losses, each the mean over its terms; 0 where no text has an entity.

        Raises KrisselError K639 when `initialize` was never called, or a text's entity is not in the ontology.
        """
        texts = self._named(examples)
        if self._batches.is_empty(texts):
            return 0.0
        names = list(dict.fromkeys(name for each in texts for group in (*each.names, each.others) for name in group))
        frozen = self.loss is None
        states, backprop = self._encode(model, [*(each.text for each in texts), *names], frozen)
        where = states.texts()
        queries, backprop_means = mean_states(states)
        rows = {name: len(texts) + row for row, name in enumerate(names)}
        xp: Any = model.ops.xp
        d_vectors, d_queries = xp.zeros_like(states.vectors), xp.zeros_like(queries)
        total, n_terms = 0.0, 0
        seen: List[Seen] = []
        truths: List[np.ndarray] = []
        for each, place in zip(texts, where, strict=False):
            if place.stop == place.start:
                continue
            others = [rows[name] for name in each.others]
            if self.loss is not None:
                for group in each.names:
                    if len(group) < 2:
                        continue
                    chosen = [*(rows[name] for name in group), *others]
                    found, backprop_attention = attention(model, queries[chosen], states.vectors[place])
                    d_contexts, loss = self.loss(found.contexts, len(group) - 1)
                    d_asked, d_text = backprop_attention(d_contexts)
                    xp.add.at(d_queries, chosen, d_asked)
                    d_vectors[place] += d_text
                    total, n_terms = total + loss, n_terms + 1
            if self.presence_loss is not None:
                own = [rows[name] for group in each.names for name in group]
                found, _ = attention(model, queries[[*own, *others]], states.vectors[place])
                seen.append(Seen(found.contexts, queries[[*own, *others]]))
                truths.append(np.repeat([1.0, 0.0], [len(own), len(others)]))
        if n_terms:
            backprop((d_vectors + backprop_means(d_queries)) / n_terms)
            total /= n_terms
        return total + self._classify(model, seen, truths)

    def _classify(self, model: StatesModel, seen: List[Seen], truths: List[np.ndarray]) -> float:
        if self.presence_loss is None or not seen:
            return 0.0
        xp: Any = model.ops.xp
        whole = Seen(xp.vstack([each.contexts for each in seen]), xp.vstack([each.queries for each in seen]))
        layer = presence_layer(model)
        logits, backprop = begin_shared(
            lambda own: layer.begin_update(Seen(whole.contexts[own], whole.queries[own])), [1] * len(whole.contexts)
        )
        d_logits, loss = self.presence_loss(logits, xp.asarray(np.concatenate(truths)))
        backprop(d_logits)
        return loss

    def _named(self, examples: Sequence[Example]) -> List[NamedText]:
        """The texts that speak of entities, with names that are drawn anew."""
        if self._store is None:
            raise KrisselError(Errors.K639.format(problem="the objective was given no ontology", todo=ADVICE))
        n = min(self.n_negatives, len(self._entities))
        drawn = [self._entities[i] for i in self._random.choice(len(self._entities), n, replace=False)]
        others = [(entity, self._draw(entity, 1)[0]) for entity in drawn]
        found = []
        for example in examples:
            present = text_entities(example.reference)
            if not present:
                continue
            borne = {fold_name(name) for entity in present for name in self._names(entity)}
            negatives = [name for entity, name in others if entity not in present and fold_name(name) not in borne]
            names = [self._draw(entity, 1 + self.max_synonyms) for entity in present]
            found.append(NamedText(example.reference.text, names, negatives))
        return found

    def _draw(self, entity: str, n: int) -> List[str]:
        names = self._names(entity)
        return [names[i] for i in self._random.permutation(len(names))[:n]]

    def _names(self, entity: str) -> List[str]:
        assert self._store is not None, "checked before"
        if self._store.row(entity) is None:
            raise KrisselError(Errors.K639.format(problem=f"the ontology does not hold '{entity}'", todo=ADVICE))
        return list(self._store.get(entity).names)

    def _encode(self, model: StatesModel, texts: List[str], frozen: bool) -> Tuple[TokenStates, Callable]:
        if not frozen:
            return begin_texts(model.begin_update, texts)
        new = [text for text in dict.fromkeys(texts) if text not in self._states]
        if new:
            states, _ = begin_texts(lambda own: (model.predict(own), lambda d_vectors: own), new)
            for text, place in zip(new, states.texts(), strict=True):
                self._states[text] = states.vectors[place], states.places[place]
        kept = [self._states[text] for text in texts]
        xp: Any = model.ops.xp
        lengths = np.asarray([len(places) for _, places in kept], dtype=np.int64)
        vectors = xp.vstack([vectors for vectors, _ in kept])
        return TokenStates(vectors, lengths, np.vstack([places for _, places in kept])), lambda d_vectors: texts


ADVICE = "Set `ontology` in [initialize.components], and use the store that the texts were made with"


def make_label_attention_objective(
    loss: Optional[ContextLossFunction] = None,
    presence_loss: Optional[PresenceLossFunction] = None,
    n_negatives: int = 100,
    max_synonyms: int = 8,
    seen: Optional[Path] = None,
    seed: int = 0,
) -> LabelAttentionObjective:
    """Registered in misc as `spacy-krissel.LabelAttentionObjective.v1`; see `LabelAttentionObjective`."""
    return LabelAttentionObjective(
        loss, presence_loss, n_negatives=n_negatives, max_synonyms=max_synonyms, seen=seen, seed=seed
    )
