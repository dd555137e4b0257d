import random

import numpy as np
import pytest
from numpy.testing import assert_allclose
from thinc.api import Model, set_dropout_rate

from spacy_krissel.losses.softmax import SoftmaxLoss
from spacy_krissel.training.objectives.krissbert import ContrastiveObjective
from spacy_krissel.training.passes import update_in_chunks

# Over vectors, pairs adjacent.
LOSS = ContrastiveObjective(SoftmaxLoss(temperature=0.3)).joint_loss


@pytest.fixture(scope="module", params=["small", "transformer"])
def model(request, small_encoder):
    if request.param == "small":
        return small_encoder
    pytest.importorskip("torch")
    from spacy_krissel.layers.hf.transformer import TransformerEncoder

    model = TransformerEncoder(str(request.getfixturevalue("tiny_bert")), normalize=True)
    model.initialize()
    return model


def with_dropout(model, rate):
    model = model.copy()
    set_dropout_rate(model, rate)
    for node in model.walk():
        for shim in node.shims:
            if hasattr(shim, "transformer"):
                import torch

                for module in shim.transformer.modules():
                    if isinstance(module, torch.nn.Dropout):
                        module.p = rate
    return model


def seed(number):
    random.seed(number)
    np.random.seed(number)
    try:
        import torch
    except ImportError:
        return
    torch.manual_seed(number)


def all_at_once(model, views, chunks):
    """The gradient with the activations of every chunk held: each has one forward pass, with its
    own dropout."""
    passes = [model.begin_update([views[i] for i in chunk]) for chunk in chunks]
    vectors = np.zeros((len(views), passes[0][0].shape[1]), dtype="f")
    for chunk, (found, _) in zip(chunks, passes, strict=True):
        vectors[chunk] = found
    gradient, value = LOSS(vectors)
    for chunk, (_, backprop) in zip(chunks, passes, strict=True):
        backprop(gradient[chunk])
    return value


def assert_same_step(found, expected):
    (before, after), (_, expected_after) = found, expected
    moved = 0
    for name in before:
        assert_allclose(
            after[name],
            expected_after[name],
            rtol=1e-3,
            atol=2e-4 * step_size(before[name], after[name]),
        )
        moved += not np.array_equal(before[name], after[name])
    assert moved > 2


def step_size(before, after):
    return max(1e-6, float(np.abs(after - before).max()))


@pytest.mark.parametrize("chunk_size", [1, 2, 3, 5, 7])
def test_gradient_equals_that_of_one_pass(model, views, take_step, chunk_size):
    model = with_dropout(model, 0.0)
    losses = []
    plain = take_step(model, lambda model: losses.append(update_in_chunks(model, views, LOSS)))
    cached = take_step(
        model, lambda model: losses.append(update_in_chunks(model, views, LOSS, chunk_size))
    )
    assert losses[1] == pytest.approx(losses[0], rel=1e-4)
    assert_same_step(cached, plain)


def test_second_pass_has_the_dropout_of_the_first(model, views, take_step):
    model = with_dropout(model, 0.4)
    order = sorted(range(len(views)), key=lambda i: -sum(map(len, views[i][:3])))
    chunks = [order[i : i + 3] for i in range(0, len(order), 3)]
    losses = []

    def cached(model):
        seed(1)
        losses.append(update_in_chunks(model, views, LOSS, 3))

    def plain(model):
        seed(1)
        losses.append(all_at_once(model, views, chunks))

    found = take_step(model, cached)
    assert_same_step(found, take_step(model, plain))
    assert losses[0] == pytest.approx(losses[1], rel=1e-4)
    # Dropout was there: without it the loss is another.
    assert losses[0] != pytest.approx(LOSS(model.predict(views))[1], rel=1e-3)


def test_dropout_differs_between_steps(model, views):
    model = with_dropout(model, 0.4)
    seed(1)
    assert update_in_chunks(model, views, LOSS, 3) != update_in_chunks(model, views, LOSS, 3)


@pytest.mark.parametrize(
    "chunk_size, passes", [(0, [8]), (8, [8]), (99, [8]), (3, [3, 3, 2, 3, 3, 2])]
)
def test_chunk_size_decides_the_forward_passes(small_encoder, views, chunk_size, passes):
    sizes = []

    def forward(model, X, is_train):
        sizes.append(len(X))
        return model.layers[0](X, is_train)

    update_in_chunks(
        Model("counted", forward, layers=[small_encoder.copy()]), views, LOSS, chunk_size
    )
    assert sizes == passes


def test_views_of_similar_length_share_a_chunk(small_encoder, views):
    chunks = []

    def forward(model, X, is_train):
        chunks.append([len(view.left) + len(view.mention) + len(view.right) for view in X])
        return model.layers[0](X, is_train)

    update_in_chunks(Model("seen", forward, layers=[small_encoder.copy()]), views, LOSS, 3)
    lengths = [length for chunk in chunks[:3] for length in chunk]
    assert lengths == sorted(lengths, reverse=True)
    assert chunks[3:] == chunks[:3]
