"""BELHD's training step: marginal likelihood of mentions over candidate names, shared in a document (§4.2)."""

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
from .protocol import LINKS, BatchCount, EncoderModel, entity_row, given

# Names copied from the ontology at a time.
BLOCK = 1 << 16


@checked
@dataclass(eq=False)
class NameObjective:
    """A loss over the scores of mentions with names, inner products of their vectors.

    The candidates of a mention are the `n_candidates` names of the ontology that the encoder finds nearest, and the
    `n_shared` most similar ones among the other mentions' candidates in its document (candidate sharing): these may be
    names of its own entity that its surface form would never find, or hard negatives.

    loss: of each mention with its candidates, such as `spacy-krissel.SoftmaxLoss.v1` with `positives = "sum"`: any of
        the candidates that are names of its entity may be right.
    n_candidates: 16 in the paper.
    n_shared: 16 in the paper; 0 leaves sharing out.
    in_batch: all candidates of the other mentions of the batch that are no names of a mention's entity are negatives
        of it too (appendix E.1, the name-based bi-encoder).
    gold_name: a mention without a right candidate has nothing to learn from. With this, the name of its entity that is
        most similar to it replaces its own least similar candidate. Not in the paper.
    refresh_every: steps until the vectors by which the nearest names are found are encoded again, or "epoch", see
        `NearestEntities`: in the paper after each epoch, and every 1,000 steps for a large ontology.
    index: makes the index of these, such as `spacy-krissel.ExactIndex.v1`.
    context: "sentence", all mentions of a sentence together; "window", each in the surrounding text; None, the mention
        alone. The same as the linker's.
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
        """Take the ontology whose names are candidates. Raises KrisselError K639 without one."""
        self._store = given(ontology)
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
        """Take the number of linked mentions after which names are encoded again, with `refresh_every = "epoch"`."""
        self._nearest.epoch = n_mentions

    def update(self, model: EncoderModel, examples: Sequence[Example], spans_key: str = "") -> float:
        """Accumulate the gradient over the linked mentions of `examples`, documents. RETURNS: the loss; 0 where there
        is no mention, or none has a right candidate.

        Raises KrisselError K639 when `initialize` was never called, or a mention's id is not in the ontology.
        """
        store = given(self._store)
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
        numbers, own = np.unique(found[found >= 0], return_inverse=True)
        is_own = np.zeros((len(views), len(numbers)), dtype=bool)
        is_own[np.nonzero(found >= 0)[0], own] = True
        names, backprop_names = begin_views(model.begin_update, self._views(numbers))
        scores, backprop_scores = self._scores(views, numbers, queries, names)
        candidates = is_own | self._shared(model.ops.to_numpy(scores), is_own, documents)
        right = self._rows[numbers][None] == gold[:, None]
        wrong = ~right if self.in_batch else candidates & ~right
        # In one copy to a GPU.
        positives, negatives = cast(Any, model.ops).asarray(np.stack([candidates & right, wrong]))
        d_scores, loss = self.loss(scores, positives, negatives)
        d_queries, d_names = backprop_scores(d_scores)
        backprop_names(d_names)
        backprop_queries(d_queries)
        return loss

    def _candidates(self, model: EncoderModel, views: Sequence[View], queries: Floats2d, k: int) -> np.ndarray:
        """The numbers of `k` names for each mention (q, k), nearest first, -1 for none."""
        return self._nearest.search(lambda numbers: model.predict(self._views(numbers)), queries, k)

    def _scores(
        self, views: Sequence[View], numbers: np.ndarray, queries: Floats2d, names: Floats2d
    ) -> tuple[Floats2d, Callable[..., Any]]:
        """The scores (q, n) of mentions with the names `numbers`, and a backprop to the gradients of both."""
        return inner(queries, names)

    def _views(self, numbers: Sequence[int] | np.ndarray) -> list[View]:
        return [name_view(text) for text in self._texts.take(pa.array(numbers, type=pa.int64())).to_pylist()]

    def _with_gold(self, model: EncoderModel, queries: Floats2d, found: np.ndarray, gold: np.ndarray) -> np.ndarray:
        """`found`, where the last candidate of each mention without a right one is its entity's nearest name."""
        right = (found >= 0) & (self._rows[found] == gold[:, None])
        missed = np.flatnonzero(~right.any(axis=1))
        if not len(missed):
            return found
        starts, ends = (np.searchsorted(self._rows, gold[missed], side) for side in ("left", "right"))
        numbers = np.unique(np.concatenate([np.arange(*bounds) for bounds in zip(starts, ends, strict=True)]))
        vectors = model.ops.to_numpy(predict_views(model, self._views(numbers)))
        scores = model.ops.to_numpy(queries)[missed] @ vectors.T
        others = self._rows[numbers][None] != gold[missed, None]
        found = found.copy()
        found[missed, -1] = numbers[np.where(others, -np.inf, scores).argmax(axis=1)]
        return found

    def _shared(self, scores: np.ndarray, is_own: np.ndarray, documents: np.ndarray) -> np.ndarray:
        """The `n_shared` most similar candidates of other mentions in a mention's document (q, n) bool."""
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
