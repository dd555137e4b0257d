"""`AdamW` against torch's, with the norm of all gradients clipped."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from thinc.api import LayerNorm, Linear, chain, fix_random_seed

from spacy_krissel.distributed.processes import gradient_norm, scale_gradients
from spacy_krissel.layers.hf.transformer import TransformerEncoder
from spacy_krissel.layers.small import SmallEncoder
from spacy_krissel.training.optimizers import make_adamw
from spacy_krissel.views import View, name_view

VIEWS = [View("the ", "cold", " of a week"), name_view("cold"), name_view("multiple sclerosis")]


@pytest.mark.parametrize("clip_norm", [0.0, 0.5])
def test_steps_differ_from_torch(clip_norm):
    torch = pytest.importorskip("torch")
    fix_random_seed(0)
    random = np.random.default_rng(0)
    X = random.normal(size=(6, 4)).astype("f")
    model = chain(Linear(3, 4), LayerNorm(3), Linear(2, 3)).initialize(X, np.zeros((6, 2), dtype="f"))
    names = [(node, name) for node in model.walk() for name in node.param_names]
    theirs = [torch.tensor(node.get_param(name).copy(), requires_grad=True) for node, name in names]
    groups = [
        {"params": [p for p in theirs if p.ndim > 1], "weight_decay": 0.1},
        {"params": [p for p in theirs if p.ndim == 1], "weight_decay": 0.0},
    ]
    reference, ours = torch.optim.AdamW(groups, lr=0.001), make_adamw(0.001, weight_decay=0.1, clip_norm=clip_norm)
    for _ in range(5):
        for (node, name), weight in zip(names, theirs, strict=True):
            gradient = random.normal(size=weight.shape).astype("f")
            node.set_grad(name, gradient.copy())
            weight.grad = torch.tensor(gradient)
        if clip_norm:
            torch.nn.utils.clip_grad_norm_(theirs, clip_norm)
            scale_gradients(model, min(1.0, clip_norm / gradient_norm(model)))
        reference.step()
        model.finish_update(ours)
    for (node, name), weight in zip(names, theirs, strict=True):
        assert_allclose(node.get_param(name), weight.detach().numpy(), atol=2e-6, err_msg=name)


@pytest.mark.parametrize("kind", ["small", "bert"])
def test_scaled_gradients_are_of_another_size(tiny_bert, kind):
    encoder = SmallEncoder(width=8, rows=512, context_rows=256, hidden=4)
    if kind == "bert":
        encoder = TransformerEncoder(str(tiny_bert), window=32, pooling="mean")
    encoder.initialize(X=VIEWS)
    vectors, backprop = encoder.begin_update(VIEWS)
    backprop(np.ones_like(vectors))
    before = gradient_norm(encoder)
    scale_gradients(encoder, 0.25)
    assert gradient_norm(encoder) == pytest.approx(before / 4, rel=1e-4) and before > 0
