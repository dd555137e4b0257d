import numpy as np
import pytest

from spacy_krissel.distributed.processes import gradient_norm
from spacy_krissel.layers.small import SmallEncoder
from spacy_krissel.views import View, name_view

VIEWS = [View("the ", "cold", " of a week"), name_view("cold"), name_view("multiple sclerosis")]


def test_gradient_norm_of_a_small_encoder_accumulates_over_passes():
    """The norm is that of the change of the loss along the gradient: d loss / d
    step = |gradient|."""
    model = SmallEncoder(width=6, rows=256, context_rows=128, hidden=5, context_weight=0.5)
    model.initialize(X=VIEWS)
    weights = np.random.default_rng(0).normal(size=(3, 6)).astype("float32")
    # Two passes, so that the table's rows have two gradients.
    for _ in range(2):
        model.begin_update(VIEWS)[1](weights)
    twice = gradient_norm(model)
    for node in model.walk():
        for name in node.param_names:
            if node.has_grad(name):
                node.set_grad(name, node.get_grad(name) * 0)
        for shim in node.shims:
            if hasattr(shim, "_gradients"):
                shim._gradients = []
    assert gradient_norm(model) == 0
    model.begin_update(VIEWS)[1](weights)
    assert twice == pytest.approx(2 * gradient_norm(model), rel=1e-5) and twice > 0


def test_gradient_norm_of_a_transformer_equals_the_norm_of_torch(tiny_bert):
    torch = pytest.importorskip("torch")
    from spacy_krissel.layers.hf.transformer import TransformerEncoder

    model = TransformerEncoder(str(tiny_bert), window=16)
    model.initialize()
    model.begin_update(VIEWS)[1](np.ones((3, 32), dtype="float32"))
    (shim,) = [shim for node in model.walk() for shim in node.shims]
    gradients = [p.grad for p in shim.transformer.parameters() if p.grad is not None]
    assert gradient_norm(model) == pytest.approx(
        float(torch.cat([g.flatten() for g in gradients]).norm()), rel=1e-4
    )
