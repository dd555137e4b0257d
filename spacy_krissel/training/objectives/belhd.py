"""BELHD's training step: marginal likelihood of mentions over candidate names, shared in a document (§4.2)."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
import pyarrow as pa
from spacy.training import Example
from thinc.types import Floats2d

from ...distributed.processes import make_shared
from ...errors import Errors, KrisselError
from ...layers.identity import fingerprint
from ...losses.masked import Loss
from ...ontology.store import OntologyStore
from ...util.settings import Count, PositiveInt, checked
from ...views import View, name_view
from ..data.examples import mentions_in_context
from ..data.nearest_entities import NearestEntities
from ..passes import begin_views, predict_views, search_shared
from ..scores import inner
from .protocol import LINKS, BatchCount, EncoderModel


class Names(NamedTuple):
    """All names of an ontology: `texts` (n,) and the row of the entity of each, `rows` (n,)."""

    store: OntologyStore
    texts: pa.Array
    rows: np.ndarray
    nearest: NearestEntities

    def views(self, numbers: Sequence[int]) -> list[View]:
        return [name_view(text) for text in self.texts.take(pa.array(numbers, type=pa.int64())).to_pylist()]


@checked
class NameObjective:
    """A loss over the scores of mentions with names, inner products of their vectors.

    The candidates of a mention are the `n_candidates` names of the ontology that the encoder finds nearest, and the
    `n_shared` most similar ones among the other mentions' candidates in its document (candidate sharing): these may be
    names of its own entity that its surface form would never find, or hard negatives.

    loss: of each mention with its candidates, such as `spacy-krissel.SoftmaxLoss.v1` with `positives = "sum"`: any of
        the candidates that are names of its entity may be right.
    n_candidates: 16 in the paper.
    n_shared: 16 in the paper; 0 leaves sharing out.
    gold_name: a mention without a right candidate has nothing to learn from. With this, the name of its entity that is
        most similar to it replaces its own least similar candidate. Not in the paper.
    refresh_every: steps until the vectors by which the nearest names are found are encoded again, see
        `NearestEntities`: in the paper after each epoch, and every 1,000 steps for a large ontology.
    cache: file for these vectors, see `NearestEntities`.
    index: makes the index of these, such as `spacy-krissel.ExactIndex.v1`.
    context: "sentence", all mentions of a sentence together; "window", each in the surrounding text; None, the mention
        alone. The same as the linker's.

    Raises KrisselError K006 for a wrong setting.
    """

    def __init__(
        self,
        loss: Loss,
        index: Callable[[], Any],
        n_candidates: PositiveInt = 16,
        n_shared: Count = 16,
        gold_name: bool = False,
        refresh_every: Count = 500,
        cache: str | Path | None = None,
        context: Literal["window", "sentence"] | None = "sentence",
    ) -> None:
        self.loss = loss
        self.index = index
        self.n_candidates = n_candidates
        self.n_shared = n_shared
        self.gold_name = gold_name
        self.refresh_every = refresh_every
        self.cache = cache
        self.context = context
        self._batches = BatchCount("linked mention", LINKS)
        self._names: Names | None = None

    def initialize(self, ontology: OntologyStore | None) -> None:
        """Take the ontology whose names are candidates. Raises KrisselError K639 without one."""
        if ontology is None:
            raise _no_names()
        texts: list[pa.Array] = []
        rows: list[np.ndarray] = []
        block: list[tuple[int, str]] = []
        for row, text, _ in ontology.names():
            block.append((row, text))
            if len(block) == 1 << 16:
                _append(block, texts, rows)
        _append(block, texts, rows)
        settings: Any = {"refresh_every": self.refresh_every, "cache": self.cache, "what": "names"}
        all_rows = np.concatenate(rows)
        nearest = NearestEntities(self.index, len(all_rows), **settings)
        self._names = Names(ontology, pa.concat_arrays(texts), all_rows, nearest)

    def update(self, model: EncoderModel, examples: Sequence[Example], spans_key: str = "") -> float:
        """Accumulate the gradient over the linked mentions of `examples`, documents. RETURNS: the loss; 0 where there
        is no mention, or none has a right candidate.

        Raises KrisselError K639 when `initialize` was never called, or a mention's id is not in the ontology.
        """
        if self._names is None:
            raise _no_names()
        views: list[View] = []
        gold: list[int] = []
        documents: list[int] = []
        for number, example in enumerate(examples):
            for entity, view in mentions_in_context(example.reference, self.context, spans_key):
                views.append(view)
                gold.append(self._row(entity))
                documents.append(number)
        if self._batches.is_empty(views):
            return 0.0
        queries, backprop_queries = begin_views(model.begin_update, views)
        found = self._search(model, queries)
        if self.gold_name:
            found = self._with_gold(model, queries, found, gold)
        numbers, own = np.unique(found[found >= 0], return_inverse=True)
        is_own = np.zeros((len(views), len(numbers)), dtype=bool)
        is_own[np.nonzero(found >= 0)[0], own] = True
        names, backprop_names = begin_views(model.begin_update, self._names.views(numbers.tolist()))
        scores, backprop_scores = inner(queries, names)
        candidates = is_own | self._shared(model.ops.to_numpy(scores), is_own, np.array(documents))
        right = self._names.rows[numbers][None] == np.array(gold)[:, None]
        xp: Any = model.ops.xp
        d_scores, loss = self.loss(scores, xp.asarray(candidates & right), xp.asarray(candidates & ~right))
        d_queries, d_names = backprop_scores(d_scores)
        backprop_names(d_names)
        backprop_queries(d_queries)
        return loss

    def _search(self, model: EncoderModel, queries: Floats2d) -> np.ndarray:
        """The indices of the nearest names of each mention (q, n_candidates), -1 for none."""
        assert self._names is not None
        names = self._names

        def encode(numbers: range) -> np.ndarray:
            return model.ops.to_numpy(model.predict(names.views(numbers)))

        names.nearest.step(encode, lambda: fingerprint(model), make_shared)
        k = min(self.n_candidates, len(names.rows))
        return search_shared(lambda vectors: names.nearest.search(vectors, k), model.ops.to_numpy(queries))

    def _with_gold(self, model: EncoderModel, queries: Floats2d, found: np.ndarray, gold: Sequence[int]) -> np.ndarray:
        """`found`, where the last candidate of each mention without a right one is its entity's nearest name."""
        assert self._names is not None
        names = self._names
        right = (found >= 0) & (names.rows[found] == np.array(gold)[:, None])
        missed = np.flatnonzero(~right.any(axis=1))
        if not len(missed):
            return found
        # Names come entity by entity.
        starts, ends = (np.searchsorted(names.rows, np.array(gold)[missed], side) for side in ("left", "right"))
        numbers = np.unique(np.concatenate([np.arange(*bounds) for bounds in zip(starts, ends, strict=True)]))
        vectors = model.ops.to_numpy(predict_views(model, names.views(numbers.tolist())))
        scores = model.ops.to_numpy(queries)[missed] @ vectors.T
        others = names.rows[numbers][None] != np.array(gold)[missed, None]
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

    def _row(self, entity: str) -> int:
        assert self._names is not None
        row = self._names.store.row(entity)
        if row is None:
            problem = f"a mention is linked to '{entity}', which the ontology does not hold"
            todo = "Use the ontology that the corpus was read with"
            raise KrisselError(Errors.K639.format(problem=problem, todo=todo))
        return row


def _append(block: list[tuple[int, str]], texts: list[pa.Array], rows: list[np.ndarray]) -> None:
    rows.append(np.array([row for row, _ in block], dtype=np.int64))
    texts.append(pa.array([text for _, text in block], type=pa.large_string()))
    block.clear()


def _no_names() -> KrisselError:
    todo = "Set `ontology` in [initialize.components.krissel_linker]"
    return KrisselError(Errors.K639.format(problem="there is no ontology whose names they could be", todo=todo))
