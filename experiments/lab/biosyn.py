"""BioSyn's training step (Sung et al. 2020, §3), SapBERT's Table 1 "+ BioSyn": half of a mention's
candidates are the names nearest by character 3-grams, and the weight of that similarity is learned.

`krissel train --code` and `lab ablation` register it by loading this file.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from spacy import registry
from thinc.api import Adam, get_array_module
from thinc.types import Floats2d

from spacy_krissel.lexical.index import LexicalIndex
from spacy_krissel.ontology.store import OntologyStore
from spacy_krissel.training.objectives.belhd import NameObjective
from spacy_krissel.training.objectives.protocol import EncoderModel
from spacy_krissel.util.settings import Count, Fraction, Positive, PositiveInt, checked
from spacy_krissel.views import View


@registry.misc("spacy-krissel.BioSynObjective.v1")
@checked
@dataclass(eq=False)
class BioSynObjective(NameObjective):
    """`NameObjective` over `S(m, n) = m · n + λ s(m, n)`, where s is the lexical similarity of the
    linker (`LexicalIndex`), whose `lexical_weight` becomes λ.

    n_candidates: 20 in the paper.
    sparse_share: fraction of them that the lexical similarity finds, if it finds enough; the rest
        are the nearest by the encoder, which change during training ("iterative candidates"). 0.5
        in the paper.
    sparse_rate: learning rate of λ, by Adam; λ starts at 0.
    The rest as in `NameObjective`.
    """

    n_candidates: PositiveInt = 20
    n_shared: Count = 0
    context: Literal["window", "sentence"] | None = None
    sparse_share: Fraction = 0.5
    sparse_rate: Positive = 0.01

    def __post_init__(self) -> None:
        super().__post_init__()
        self._weight = np.zeros(1, dtype=np.float32)
        self._optimizer = Adam(self.sparse_rate, L2=0.0, grad_clip=0.0)

    @property
    def learned_settings(self) -> dict[str, Any]:
        return {"lexical_weight": float(self._weight[0])}

    def initialize(self, ontology: OntologyStore | None) -> None:
        super().initialize(ontology)
        # Each name by itself, as if it were an entity.
        self._lexical = LexicalIndex.of(self._texts.to_pylist(), np.arange(len(self._texts)))

    def _candidates(
        self, model: EncoderModel, views: Sequence[View], queries: Floats2d, k: int
    ) -> np.ndarray:
        dense = super()._candidates(model, views, queries, k)
        n_sparse = round(k * self.sparse_share)
        if not n_sparse:
            return dense
        sparse = self._lexical.search(
            self._lexical.vectors([view.mention for view in views]), n_sparse
        )
        both = [
            dict.fromkeys([*own[own >= 0].tolist(), *near.tolist()])
            for own, near in zip(sparse, dense, strict=True)
        ]
        return np.array([list(numbers)[:k] for numbers in both])

    def _scores(
        self, views: Sequence[View], numbers: np.ndarray, queries: Floats2d, names: Floats2d
    ) -> tuple[Floats2d, Callable]:
        dense, backprop_dense = super()._scores(views, numbers, queries, names)
        xp: Any = get_array_module(dense)
        n, texts = len(numbers), self._lexical.read([view.mention for view in views])
        sparse = self._lexical.similarity(
            texts, np.repeat(np.arange(len(views)), n), np.tile(numbers, len(views))
        )
        similarity = xp.asarray(sparse.reshape(len(views), n))

        def backprop(d_scores: Floats2d) -> tuple[Floats2d, Floats2d]:
            d_weight = np.array([float((d_scores * similarity).sum())], dtype=np.float32)
            weight, _ = self._optimizer((0, "weight"), self._weight, d_weight)
            # Of a linker no less than 0.
            self._weight = np.maximum(weight, 0)
            return backprop_dense(d_scores)

        return dense + float(self._weight[0]) * similarity, backprop
