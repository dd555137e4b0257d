"""PEL's training step: mentions against their entities and negatives, and with adversarial inputs (§4, eq. 8)."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from spacy.training import Example

from ...distributed.processes import make_shared
from ...errors import Errors, KrisselError
from ...layers.identity import fingerprint
from ...layers.referenced import reference_parts
from ...losses.masked import Loss
from ...ontology.store import OntologyStore
from ...util.settings import Count, Fraction, NotNegative, PositiveInt, checked
from ...views import ReferenceParts, View, reference_view
from ..data.batchers import homonym_groups
from ..data.examples import linked_mentions
from ..data.nearest_entities import NearestEntities
from ..data.negatives import Candidates, Negatives
from ..passes import begin_views, predict_views, search_shared, with_adversary
from ..scores import inner
from .protocol import LINKS, BatchCount, EncoderModel


class Entities(NamedTuple):
    """What `initialize` makes of an ontology."""

    store: OntologyStore
    negatives: Negatives
    nearest: NearestEntities | None


@checked
class RetrievalObjective:
    """A loss over the scores of mentions with entities, each written as its reference: `L + λ L_adv` (eq. 8).

    Each mention is compared with its entity and with negatives (`Negatives`). For `L_adv` the entities are encoded a
    second time, with the same dropout, their input embeddings moved by ε along the sign of the gradient of L: a
    candidate of one mention moves away from it if it is the mention's entity, and towards it if it is a negative (eq. 6
    and 7), since L falls with the score of the first and rises with those of the others. A candidate that several
    mentions share moves to where L as a whole is higher.

    Scores are inner products: cosines where the encoders give unit vectors, as the proxy loss needs them.

    loss: of each mention with the entities, such as `spacy-krissel.ProxyLoss.v1`.
    n_negatives: of each mention, see `Negatives`.
    hard_share: fraction of these that are hard, see `Negatives`.
    share_negatives: whether the mentions of a batch have one set of negatives, see `Negatives`.
    refresh_every: steps until the entities among which hard negatives are found are encoded again, see
        `NearestEntities`.
    cache: file for their vectors, see `NearestEntities`.
    index: makes the index of these, such as `spacy-krissel.ExactIndex.v1`; needed with a hard_share above 0.
    fgsm_weight: λ; 0 leaves the second pass out.
    fgsm_epsilon: ε.
    seed: of random negatives.

    Raises KrisselError K006 for a wrong setting.
    """

    def __init__(
        self,
        loss: Loss,
        n_negatives: PositiveInt = 32,
        hard_share: Fraction = 0.0,
        share_negatives: bool = True,
        refresh_every: Count = 500,
        cache: str | Path | None = None,
        index: Callable[[], Any] | None = None,
        fgsm_weight: NotNegative = 0.0,
        fgsm_epsilon: NotNegative = 0.01,
        seed: int = 0,
    ) -> None:
        if hard_share and index is None:
            expected = "an index, such as spacy-krissel.ExactIndex.v1, where hard_share is above 0"
            raise KrisselError(Errors.K006.format(setting="index", found=index, expected=expected))
        self.loss = loss
        self.n_negatives = n_negatives
        self.hard_share = hard_share
        self.share_negatives = share_negatives
        self.refresh_every = refresh_every
        self.cache = cache
        self.index = index
        self.fgsm_weight = fgsm_weight
        self.fgsm_epsilon = fgsm_epsilon
        self._batches = BatchCount("linked mention", LINKS)
        self.seed = seed
        self._entities: Entities | None = None

    def initialize(self, ontology: OntologyStore | None) -> None:
        """Take the ontology whose entities mentions are compared with. Raises KrisselError K636 without one."""
        if ontology is None:
            raise _no_ontology()
        rows = {id_: row for row, id_ in enumerate(ontology.ids)}
        homonyms: dict[int, set[int]] = {
            rows[id_]: {rows[other] for other in others} for id_, others in homonym_groups(ontology).items()
        }
        negatives = Negatives(
            len(ontology),
            homonyms,
            n_negatives=self.n_negatives,
            hard_share=self.hard_share,
            shared=self.share_negatives,
            seed=self.seed,
        )
        nearest = None
        if self.index is not None and negatives.n_hard:
            settings: dict[str, Any] = {"refresh_every": self.refresh_every, "cache": self.cache}
            nearest = NearestEntities(self.index, len(ontology), **settings)
        self._entities = Entities(ontology, negatives, nearest)

    def update(self, model: EncoderModel, examples: Sequence[Example], spans_key: str = "") -> float:
        """Accumulate the gradient of `L + λ L_adv` over the linked mentions in `examples`. RETURNS: the loss; 0 where
        there is no mention.

        Raises KrisselError K636 when `initialize` was never called, the encoder has no references, or a mention's id is
        not in the ontology; K637 when λ is above 0 and the encoder of entities is no transformer.
        """
        if self._entities is None:
            raise _no_ontology()
        parts = reference_parts(model)
        if parts is None:
            todo = "Use the architecture 'spacy-krissel.ReferencedEncoder.v1' in [components.krissel_linker.model]"
            raise KrisselError(Errors.K636.format(problem="the model encodes mentions alone", todo=todo))
        mentions = [each for example in examples for each in linked_mentions(example.reference, spans_key)]
        if self._batches.is_empty(mentions):
            return 0.0
        gold = [self._row(entity) for entity, _ in mentions]
        nearest = self._nearest(model, parts, [view for _, view in mentions])
        candidates = self._entities.negatives.draw(gold, nearest)
        return self._step(
            model, [view for _, view in mentions], self.views(candidates.entities.tolist(), parts), candidates
        )

    def views(self, rows: Sequence[int], parts: ReferenceParts) -> list[View]:
        """The references of the entities at these rows of the ontology."""
        assert self._entities is not None
        return [reference_view(self._entities.store.entity_at(row), parts) for row in rows]

    def _nearest(self, model: EncoderModel, parts: ReferenceParts, mentions: list[View]) -> np.ndarray | None:
        assert self._entities is not None
        nearest = self._entities.nearest
        if nearest is None:
            return None

        def encode(rows: range) -> np.ndarray:
            return model.ops.to_numpy(model.predict(self.views(rows, parts)))

        nearest.step(encode, lambda: fingerprint(model), make_shared)
        k = self._entities.negatives.n_nearest(len(mentions))
        queries = model.ops.to_numpy(predict_views(model, mentions))
        return search_shared(lambda vectors: nearest.search(vectors, k), queries)

    def _step(self, model: EncoderModel, mentions: list[View], entities: list[View], candidates: Candidates) -> float:
        xp: Any = model.ops.xp
        negatives = xp.asarray(candidates.negatives)
        positives = xp.asarray(candidates.gold)[:, None] == xp.arange(negatives.shape[1])[None]
        queries, backprop_mentions = begin_views(model.begin_update, mentions)
        d_queries = xp.zeros_like(queries)

        def compare(scale: float) -> float:
            nonlocal d_queries
            vectors, backprop_entities = begin_views(model.begin_update, entities)
            scores, backprop_scores = inner(queries, vectors)
            d_scores, loss = self.loss(scores, positives, negatives)
            d_mentions, d_entities = backprop_scores(scale * d_scores)
            d_queries += d_mentions
            backprop_entities(d_entities)
            return loss

        loss = with_adversary(compare, self.fgsm_weight, self.fgsm_epsilon)
        backprop_mentions(d_queries)
        return loss

    def _row(self, entity: str) -> int:
        assert self._entities is not None
        row = self._entities.store.row(entity)
        if row is None:
            problem = f"a mention is linked to '{entity}', which the ontology does not hold"
            todo = "Use the ontology that the corpus was read with"
            raise KrisselError(Errors.K636.format(problem=problem, todo=todo))
        return row


def _no_ontology() -> KrisselError:
    todo = "Set `ontology` in [initialize.components.krissel_linker]"
    return KrisselError(Errors.K636.format(problem="there is no ontology to write entities from", todo=todo))
