"""Any loss serves any objective: one protocol."""

import numpy as np
import pytest
from test_data_parallel import CASES, DOCUMENTS, MENTIONS, RANKED, encoder, gradients, one_mention

from spacy_krissel.losses.focal import FocalLoss
from spacy_krissel.losses.multi_similarity import MultiSimilarity
from spacy_krissel.losses.proxy import ProxyLoss
from spacy_krissel.losses.softmax import SoftmaxLoss
from spacy_krissel.training.objectives.belhd import NameObjective
from spacy_krissel.training.objectives.oslat import LabelAttentionObjective
from spacy_krissel.training.objectives.reranking import RerankObjective

LOSSES = [
    *(SoftmaxLoss(temperature=0.5, positives=join) for join in ("pairs", "mean", "sum")),
    MultiSimilarity(),
    ProxyLoss(alpha=4.0),
    FocalLoss(),
]
OBJECTIVES = {
    "references": ("loss", "reference_loss"),
    "names": ("loss",),
    "entities": ("loss",),
    "candidate names": ("loss",),
    "words": ("loss", "presence_loss"),
    "re-ranking of lists": ("loss",),
}


@pytest.mark.parametrize("case", OBJECTIVES)
@pytest.mark.parametrize(
    "loss", LOSSES, ids=lambda each: f"{type(each).__name__} {getattr(each, 'positives', '')}"
)
def test_any_loss_trains_any_objective(toy_store, case, loss):
    make, kind, settings = CASES[case]
    model = encoder(kind, None)
    objective = make(**{**settings, **dict.fromkeys(OBJECTIVES[case], loss)})
    objective.initialize(toy_store)
    if make is RerankObjective:
        value = objective.step(model, RANKED, [2, 0, 1, 3])
    else:
        documents = make in (NameObjective, LabelAttentionObjective)
        value = objective.update(
            model, DOCUMENTS if documents else [one_mention(*each) for each in MENTIONS]
        )
    found = gradients(model)
    assert np.isfinite(value) and value > 0
    assert all(np.isfinite(gradient).all() for gradient in found.values())
    assert any(np.abs(gradient).max() > 1e-9 for gradient in found.values())
