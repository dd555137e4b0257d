"""BELHD's training step: marginal likelihood of mentions over candidate names, shared within a
document (§4.2)."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, Literal, cast

import numpy as np
import pyarrow as pa
from spacy.training import Example
from thinc.types import Floats2d

from ...losses.masked import Loss
from ...ontology.store import OntologyStore
from ...util.settings import Count, PositiveInt, checked
from ...views import View, name_view
from ..data.examples import mentions_in_context
from ..data.negatives import NearestEntities, RefreshEvery
from ..passes import begin_views, predict_views
from ..scores import inner
from .protocol import LINKS, BatchCount, EncoderModel, entity_row, require_ontology

# Number of names copied from the ontology at a time.
BLOCK = 1 << 16


@checked
@dataclass(eq=False)
class NameObjective:
    """A loss over the scores of mentions with names, inner products of their vectors.

    The candidates of a mention are the `n_candidates` names of the ontology nearest to it by the
    encoder, and the `n_shared` most similar ones among the other mentions' candidates in its
    document (candidate sharing). These may be names of its own entity that its surface form would
    never find, or hard negatives.

    loss: of each mention with its candidates, such as `spacy-krissel.SoftmaxLoss.v1` with
        `positives = "sum"`: any of the candidates that are names of its entity may be correct.
    n_candidates: 16 in the paper.
    n_shared: 16 in the paper; 0 disables sharing.
    in_batch: also use the other mentions' candidates in the batch as negatives, unless they are
        names of a mention's entity (appendix E.1, the name-based bi-encoder).
    gold_name: add a correct candidate to mentions without one, from which nothing is learned
        otherwise: its entity's most similar name replaces its own least similar candidate. Not in
        the paper.
    refresh_every: number of steps until the name vectors are encoded again, or "epoch", see
        `NearestEntities`: in the paper after each epoch, and every 1,000 steps for a large
        ontology.
    index: makes the index of these, such as `spacy-krissel.ExactIndex.v1`.
    context: "sentence", all mentions of a sentence together; "window", each in the surrounding
        text; None, the mention alone. The same as the linker's.
    """

    loss: Loss
    index: Callable[[], Any]
    n_candidates: PositiveInt = 16
    n_shared: Count = 16
    in_batch: bool = False
    gold_name: bool = False
    refresh_every: RefreshEvery = 500
    context: Literal["window", "sentence"] | None = "sentence"

    def __post_init__(self) -> None:
        self._batches = BatchCount("linked mention", LINKS)
        self._store: OntologyStore | None = None

    def initialize(self, ontology: OntologyStore | None) -> None:
        """Set the ontology whose names are candidates. Raises KrisselError K639 without one."""
        self._store = require_ontology(ontology)
        names = self._store.names()
        texts: list[pa.Array] = []
        rows: list[int] = []
        while block := list(islice(names, BLOCK)):
            texts.append(pa.array([text for _, text, _ in block], type=pa.large_string()))
            rows += [row for row, *_ in block]
        # All names (n,), entity by entity, and the row of the entity of each.
        self._texts: pa.Array = pa.concat_arrays(texts)
        self._rows = np.array(rows, dtype=np.int64)
        self._nearest = NearestEntities(self.index, len(rows), self.refresh_every, "names")

    def set_epoch(self, n_mentions: int) -> None:
        """Set the number of linked mentions after which names are encoded again, with
        `refresh_every = "epoch"`."""
        self._nearest.epoch = n_mentions

    def update(
        self, model: EncoderModel, examples: Sequence[Example], spans_key: str = ""
    ) -> float:
        """Accumulate the gradient over the linked mentions of `examples`, documents. RETURNS: the
        loss; 0 if there is no mention, or none has a correct candidate.

        Raises KrisselError K639 if `initialize` was never called, or a mention's id is not in the
        ontology.
        """
        store = require_ontology(self._store)
        mentions = [
            (view, entity_row(store, entity), number)
            for number, example in enumerate(examples)
            for entity, view in mentions_in_context(example.reference, self.context, spans_key)
        ]
        if self._batches.is_empty(mentions):
            return 0.0
        views = [view for view, *_ in mentions]
        gold, documents = np.array([each[1:] for each in mentions]).T
        queries, backprop_queries = begin_views(model.begin_update, views)
        found = self._candidates(model, views, queries, min(self.n_candidates, len(self._rows)))
        if self.gold_name:
            found = self._with_gold(model, queries, found, gold)
        indices, own = np.unique(found[found >= 0], return_inverse=True)
        is_own = np.zeros((len(views), len(indices)), dtype=bool)
        is_own[np.nonzero(found >= 0)[0], own] = True
        names, backprop_names = begin_views(model.begin_update, self._views(indices))
        scores, backprop_scores = self._scores(views, indices, queries, names)
        candidates = is_own | self._shared(model.ops.to_numpy(scores), is_own, documents)
        right = self._rows[indices][None] == gold[:, None]
        wrong = ~right if self.in_batch else candidates & ~right
        # One copy to a GPU.
        positives, negatives = cast(Any, model.ops).asarray(np.stack([candidates & right, wrong]))
        d_scores, loss = self.loss(scores, positives, negatives)
        d_queries, d_names = backprop_scores(d_scores)
        backprop_names(d_names)
        backprop_queries(d_queries)
        return loss

    def _candidates(
        self, model: EncoderModel, views: Sequence[View], queries: Floats2d, k: int
    ) -> np.ndarray:
        """Return the indices of `k` names for each mention (q, k), nearest first, -1 for none."""
        return self._nearest.search(lambda indices: model.predict(self._views(indices)), queries, k)

    def _scores(
        self, views: Sequence[View], indices: np.ndarray, queries: Floats2d, names: Floats2d
    ) -> tuple[Floats2d, Callable[..., Any]]:
        """Return the scores (q, n) of mentions with the names at `indices`, and a backprop to the
        gradients of both."""
        return inner(queries, names)

    def _views(self, indices: Sequence[int] | np.ndarray) -> list[View]:
        return [
            name_view(text)
            for text in self._texts.take(pa.array(indices, type=pa.int64())).to_pylist()
        ]

    def _with_gold(
        self, model: EncoderModel, queries: Floats2d, found: np.ndarray, gold: np.ndarray
    ) -> np.ndarray:
        """Return `found`, with the last candidate of each mention without a correct one replaced by
        its entity's nearest name."""
        right = (found >= 0) & (self._rows[found] == gold[:, None])
        missed = np.flatnonzero(~right.any(axis=1))
        if not len(missed):
            return found
        starts, ends = (
            np.searchsorted(self._rows, gold[missed], side) for side in ("left", "right")
        )
        indices = np.unique(
            np.concatenate([np.arange(*bounds) for bounds in zip(starts, ends, strict=True)])
        )
        vectors = model.ops.to_numpy(predict_views(model, self._views(indices)))
        scores = model.ops.to_numpy(queries)[missed] @ vectors.T
        others = self._rows[indices][None] != gold[missed, None]
        found = found.copy()
        found[missed, -1] = indices[np.where(others, -np.inf, scores).argmax(axis=1)]
        return found

    def _shared(self, scores: np.ndarray, is_own: np.ndarray, documents: np.ndarray) -> np.ndarray:
        """Return a mask (q, n) of the `n_shared` most similar candidates of other mentions in a
        mention's document."""
        shared = np.zeros_like(is_own)
        if not self.n_shared:
            return shared
        for number in np.unique(documents):
            rows = np.flatnonzero(documents == number)
            pool = np.flatnonzero(is_own[rows].any(axis=0))
            left = np.where(is_own[np.ix_(rows, pool)], -np.inf, scores[np.ix_(rows, pool)])
            order = np.argsort(-left, axis=1, kind="stable")[:, : self.n_shared]
            for row, best, values in zip(rows, order, left, strict=True):
                shared[row, pool[best[np.isfinite(values[best])]]] = True
        return shared
