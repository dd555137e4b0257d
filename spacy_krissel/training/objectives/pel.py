"""PEL's training step: mentions against their entities and negatives, with adversarial inputs (§4,
eq. 8)."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from spacy.training import Example

from ...errors import wrong_setting
from ...losses.masked import Loss
from ...ontology.store import OntologyStore
from ...util.settings import Count, Fraction, NotNegative, PositiveInt, checked
from ...views import ReferenceParts, View, reference_view
from ..data.batchers import homonym_groups
from ..data.examples import linked_mentions
from ..data.negatives import Candidates, NearestEntities, Negatives, RefreshEvery
from ..passes import adverse, begin_views, in_chunks, predict_views, with_adversary
from ..scores import inner
from .protocol import LINKS, BatchCount, EncoderModel, entity_row, require_ontology, required_parts


@checked
@dataclass(eq=False)
class RetrievalObjective:
    """A loss over the scores of mentions with entities, each written as its reference: `L + λ
    L_adv` (eq. 8).

    Each mention is compared with its entity and with negatives (`Negatives`). For `L_adv` the
    entities are encoded once more with the same dropout. Their input embeddings are moved by ε
    along the sign of the gradient of the score: away from the mention whose entity it is (eq. 6),
    or towards the mention whose negative it is (eq. 7). All mentions that share a candidate share
    its adversary: an entity of the batch moves away from its own mentions, another candidate
    towards the mentions together.

    Scores are inner products: cosines if the encoders return unit vectors, as the proxy loss needs.

    loss: of each mention with the entities, such as `spacy-krissel.ProxyLoss.v1`.
    n_negatives: number of negatives of each mention, see `Negatives`.
    hard_share: fraction of the negatives that are hard, see `Negatives`.
    homonym_negatives: whether entities that share a name with a mention's entity may be its
        negatives, as in the paper, which takes the highest scoring wrong entities: on ontologies
        with many homonyms the hardest pairs. Otherwise they never are, since a mention of their
        name may mean either.
    share_negatives: whether the mentions of a batch share one set of negatives, see `Negatives`.
    refresh_every: number of steps until the entities searched for hard negatives are encoded again,
        or "epoch", see `NearestEntities`.
    index: makes the index of these, such as `spacy-krissel.ExactIndex.v1`; needed with a hard_share
        above 0.
    fgsm_weight: λ; 0 skips the second pass.
    fgsm_epsilon: ε.
    chunk_size: entities encoded together, see `update_in_chunks`; 0: all of a batch; null: as many
        as fill a pass. An entity that is a candidate of several mentions is encoded once, except
        with FGSM, which moves each pair separately.
    seed: seed of random negatives.

    Raises KrisselError K006 for a wrong setting.
    """

    loss: Loss
    n_negatives: PositiveInt = 32
    hard_share: Fraction = 0.0
    homonym_negatives: bool = False
    share_negatives: bool = True
    refresh_every: RefreshEvery = 500
    index: Callable[[], Any] | None = None
    fgsm_weight: NotNegative = 0.0
    fgsm_epsilon: NotNegative = 0.01
    chunk_size: Count | None = 0
    seed: int = 0

    def __post_init__(self) -> None:
        if self.hard_share and self.index is None:
            expected = "an index, such as spacy-krissel.ExactIndex.v1, where hard_share is above 0"
            raise wrong_setting("index", None, expected)
        self._batches = BatchCount("linked mention", LINKS)
        self._store: OntologyStore | None = None

    def initialize(self, ontology: OntologyStore | None) -> None:
        """Set the ontology whose entities mentions are compared with. Raises KrisselError K639
        without one."""
        self._store = require_ontology(ontology)
        rows = {id_: row for row, id_ in enumerate(self._store.ids)}
        groups = {} if self.homonym_negatives else homonym_groups(self._store)
        homonyms: dict[int, set[int]] = {
            rows[id_]: {rows[other] for other in found} for id_, found in groups.items()
        }
        self._negatives = Negatives(
            len(rows), homonyms, self.n_negatives, self.hard_share, self.share_negatives, self.seed
        )
        self._nearest = None
        if self.index is not None and self._negatives.n_hard:
            self._nearest = NearestEntities(self.index, len(rows), self.refresh_every)

    def set_epoch(self, n_mentions: int) -> None:
        """Set the number of linked mentions after which entities are encoded again, with
        `refresh_every = "epoch"`."""
        if self._nearest is not None:
            self._nearest.epoch = n_mentions

    def update(
        self, model: EncoderModel, examples: Sequence[Example], spans_key: str = ""
    ) -> float:
        """Accumulate the gradient of `L + λ L_adv` over the linked mentions in `examples`. RETURNS:
        the loss; 0 if there is no mention.

        Raises KrisselError K639 if `initialize` was never called, or a mention's id is not in the
        ontology; K636 if the encoder has no references; K637 if λ is above 0 and the encoder of
        entities is no transformer.
        """
        store, parts = require_ontology(self._store), required_parts(model)
        mentions = [
            each for example in examples for each in linked_mentions(example.reference, spans_key)
        ]
        if self._batches.is_empty(mentions):
            return 0.0
        gold = [entity_row(store, entity) for entity, _ in mentions]
        views = [view for _, view in mentions]
        ranked = None
        if self._nearest is not None:
            k = self._negatives.n_nearest(len(mentions))
            queries = predict_views(model, views)
            ranked = self._nearest.search(
                lambda rows: model.predict(self.views(rows, parts)), queries, k
            )
        candidates = self._negatives.draw(gold, ranked)
        if not self.fgsm_weight:
            candidates = candidates.distinct()
        return self._step(model, views, self.views(candidates.entities.tolist(), parts), candidates)

    def views(self, rows: Sequence[int], parts: ReferenceParts) -> list[View]:
        """Return the references of the entities at these rows of the ontology."""
        store = require_ontology(self._store)
        return [reference_view(store.entity_at(row), parts) for row in rows]

    def _step(
        self,
        model: EncoderModel,
        mentions: list[View],
        entities: list[View],
        candidates: Candidates,
    ) -> float:
        xp: Any = model.ops.xp
        negatives = xp.asarray(candidates.negatives)
        positives = xp.asarray(candidates.gold)[:, None] == xp.arange(negatives.shape[1])[None]
        queries, backprop_mentions = begin_views(model.begin_update, mentions)
        d_queries = xp.zeros_like(queries)

        def compare(loss: Loss, scale: float) -> float:
            nonlocal d_queries
            vectors, backprop_entities = begin_views(in_chunks(model, self.chunk_size), entities)
            scores, backprop_scores = inner(queries, vectors)
            d_scores, value = loss(scores, positives, negatives)
            d_mentions, d_entities = backprop_scores(scale * d_scores)
            if loss is not adverse:
                d_queries += d_mentions
            backprop_entities(d_entities)
            return value

        loss = with_adversary(model, compare, self.loss, self.fgsm_weight, self.fgsm_epsilon)
        backprop_mentions(d_queries)
        return loss
