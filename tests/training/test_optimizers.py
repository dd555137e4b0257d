"""`AdamW` against torch's, with the norm of all gradients clipped."""

import copy
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from thinc.api import Adam, LayerNorm, Linear, chain, fix_random_seed

from spacy_krissel.distributed.processes import clip_gradients, gradient_norm, scale_gradients
from spacy_krissel.layers.hf.transformer import TransformerEncoder
from spacy_krissel.layers.small import SmallEncoder
from spacy_krissel.training.optimizers import make_adamw
from spacy_krissel.views import View, name_view

VIEWS = [View("the ", "cold", " of a week"), name_view("cold"), name_view("multiple sclerosis")]


@pytest.mark.parametrize("clip_norm", [0.0, 0.5])
def test_steps_equal_those_of_torch(clip_norm):
    torch = pytest.importorskip("torch")
    fix_random_seed(0)
    random = np.random.default_rng(0)
    X = random.normal(size=(6, 4)).astype("f")
    model = chain(Linear(3, 4), LayerNorm(3), Linear(2, 3)).initialize(
        X, np.zeros((6, 2), dtype="f")
    )
    names = [(node, name) for node in model.walk() for name in node.param_names]
    theirs = [torch.tensor(node.get_param(name).copy(), requires_grad=True) for node, name in names]
    groups = [
        {"params": [p for p in theirs if p.ndim > 1], "weight_decay": 0.1},
        {"params": [p for p in theirs if p.ndim == 1], "weight_decay": 0.0},
    ]
    reference, ours = (
        torch.optim.AdamW(groups, lr=0.001),
        make_adamw(0.001, weight_decay=0.1, clip_norm=clip_norm),
    )
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
def test_scaling_gradients_scales_their_norm(tiny_bert, kind):
    encoder = SmallEncoder(width=8, rows=512, context_rows=256, hidden=4)
    if kind == "bert":
        encoder = TransformerEncoder(str(tiny_bert), window=32, pooling="mean")
    encoder.initialize(X=VIEWS)
    vectors, backprop = encoder.begin_update(VIEWS)
    backprop(np.ones_like(vectors))
    before = gradient_norm(encoder)
    scale_gradients(encoder, 0.25)
    assert gradient_norm(encoder) == pytest.approx(before / 4, rel=1e-4) and before > 0


rates = st.floats(1e-5, 1e-3)


@given(
    rate=st.one_of(rates, st.lists(rates, min_size=2, max_size=4)),
    decay=st.sampled_from([0.0, 0.01, 0.1]),
    decoupled=st.booleans(),
    grad_clip=st.sampled_from([0.0, 0.1, 1.0]),
    eps=st.sampled_from([1e-8, 1e-3]),
    betas=st.sampled_from([(0.9, 0.999), (0.5, 0.9)]),
    ours=st.booleans(),
    seed=st.integers(0, 99),
)
@settings(max_examples=25)
def test_fused_steps_equal_thincs(rate, decay, decoupled, grad_clip, eps, betas, ours, seed):
    """Over 20 steps: weights that get a gradient later than others, and one of zeros, among
    them."""
    import torch

    from spacy_krissel.layers.hf import shim

    def optimizer():
        beta1, beta2 = betas
        schedule = list(rate) if isinstance(rate, list) else rate
        if ours:
            return make_adamw(schedule, decay, eps=eps, beta1=beta1, beta2=beta2)
        others = {"L2": decay, "L2_is_weight_decay": decoupled, "grad_clip": grad_clip, "eps": eps}
        return Adam(schedule, beta1=beta1, beta2=beta2, use_averages=False, **others)

    layers = torch.nn.Sequential(
        torch.nn.Linear(3, 4), torch.nn.LayerNorm(4), torch.nn.Linear(4, 2)
    )
    shims = [shim.TransformerShim({}, {}) for _ in range(2)]
    for each in shims:
        each._model = copy.deepcopy(layers)
    optimizers = [optimizer(), optimizer()]
    random = np.random.default_rng(seed)
    for step in range(20):
        for i, weights in enumerate(
            zip(*(each._model.parameters() for each in shims), strict=True)
        ):
            size = 0.0 if i == 2 and step == 7 else 10 ** random.uniform(-3, 1)
            gradient = size * random.normal(size=weights[0].shape).astype("f")
            for weight in weights:
                if i or step > 2:
                    weight.grad = torch.tensor(gradient)
        shims[0].finish_update(optimizers[0])
        with patch.object(shim, "FUSED_STEPS", {"cpu"}):
            shims[1].finish_update(optimizers[1])
        for each in optimizers:
            each.step_schedules()
        for theirs, own in zip(*(each._model.parameters() for each in shims), strict=True):
            assert_allclose(own.detach(), theirs.detach(), rtol=1e-6, atol=1e-6)
            assert theirs.grad is None or not own.grad.any()


@pytest.mark.parametrize(
    "settings", [{"use_averages": True}, {"use_averages": False, "beta1": 0.0, "beta2": 0.0}]
)
def test_other_optimizers_are_not_fused(tiny_bert, monkeypatch, settings):
    from spacy_krissel.layers.hf import shim

    monkeypatch.setattr(shim, "FUSED_STEPS", {"cpu"})
    monkeypatch.setattr(shim, "adam_step", None)
    encoder = TransformerEncoder(str(tiny_bert))
    encoder.initialize()
    vectors = encoder.predict(VIEWS)
    encoder.begin_update(VIEWS)[1](np.ones_like(vectors))
    optimizer = Adam(0.1, **settings)
    encoder.finish_update(optimizer)
    assert (
        not np.allclose(encoder.predict(VIEWS), vectors)
        and bool(optimizer.averages) == settings["use_averages"]
    )


def test_step_with_overflowed_gradients_is_skipped(tiny_bert, monkeypatch):
    from spacy_krissel.layers.hf import shim

    monkeypatch.setattr(shim, "FUSED_STEPS", {"cpu"})
    encoder = TransformerEncoder(str(tiny_bert))
    encoder.initialize()
    vectors = encoder.predict(VIEWS)
    encoder.begin_update(VIEWS)[1](np.ones_like(vectors))
    (held,) = [each for node in encoder.walk() for each in node.shims]
    held._grad_scaler._found_inf = True
    encoder.finish_update(Adam(0.1, use_averages=False))
    assert_array_equal(encoder.predict(VIEWS), vectors)
    assert not any(
        weight.grad.any() for weight in held.transformer.parameters() if weight.grad is not None
    )


@pytest.mark.parametrize("kind", ["small", "bert"])
def test_gradients_are_clipped_without_reading_them(tiny_bert, kind, monkeypatch):
    import torch

    encoder = SmallEncoder(width=8, rows=512, context_rows=256, hidden=4)
    if kind == "bert":
        encoder = TransformerEncoder(str(tiny_bert), window=32, pooling="mean")
    encoder.initialize(X=VIEWS)
    for bound in (1e9, 0.01, 0.0):
        vectors, backprop = encoder.begin_update(VIEWS)
        backprop(np.ones_like(vectors))
        before = gradient_norm(encoder)
        with monkeypatch.context() as patched:
            for name in ("item", "tolist", "__float__", "__bool__"):
                patched.setattr(torch.Tensor, name, None)
            norm = clip_gradients(encoder, bound)
        assert float(norm[0]) == pytest.approx(before, rel=1e-5) and before > 0.01
        assert gradient_norm(encoder) == pytest.approx(min(before, bound or before), rel=1e-4)
        encoder.finish_update(Adam(0.0, use_averages=False, L2=0.0))
