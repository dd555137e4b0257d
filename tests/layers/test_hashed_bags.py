from functools import partial

import numpy as np
import pytest
from numpy.testing import assert_allclose
from thinc.api import SGD, Adam, RAdam, set_dropout_rate

from spacy_krissel.errors import KrisselError, KrisselWarning
from spacy_krissel.layers.features import Bags, WordBags
from spacy_krissel.layers.hashed_bags import HashedBags, HashedTable, average_weights
from spacy_krissel.layers.small import SmallEncoder

ROWS, WIDTH = 10, 3


def given_bags(X, scale=1):
    """Features that are the views themselves: each is a list of rows."""
    rows = [row * scale for view in X for row in view]
    bags = [bag for bag, view in enumerate(X) for _ in view]
    return Bags(np.array(rows, dtype=np.int64), np.array(bags, dtype=np.int64))


@pytest.fixture
def model():
    model = HashedBags(ROWS, WIDTH, given_bags, seed=1)
    model.initialize()
    return model


@pytest.fixture
def table():
    table = HashedTable(ROWS, WIDTH)
    table.initialize(seed=0)
    return table


def gradient_of(rows, seed=0):
    return np.random.default_rng(seed).standard_normal((len(rows), WIDTH)).astype("float32")


def test_output_is_the_mean_of_the_rows(model):
    table = model.shims[0].table
    Y = model.predict([[4], [0, 4], [2, 2, 0], []])
    assert_allclose(
        Y,
        [table[4], (table[0] + table[4]) / 2, (2 * table[2] + table[0]) / 3, np.zeros(WIDTH)],
        atol=1e-6,
    )
    assert Y.dtype == np.float32
    assert model.predict([]).shape == (0, WIDTH)
    assert model.predict([[], []]).tolist() == [[0] * WIDTH] * 2


def given_words(X):
    """The same features by words: each is one row, but for 0 with 4, which are one word where they
    follow each other, and for a last word without any."""
    words = [(0, 4), *((row,) for row in range(ROWS)), ()]
    texts = []
    for view in X:
        pairs = [i for i in range(len(view) - 1) if view[i : i + 2] == [0, 4]]
        texts.append(
            [0 if i in pairs else 1 + row for i, row in enumerate(view) if i - 1 not in pairs]
            + [len(words) - 1]
        )
    flat = [
        np.array([value for each in nested for value in each], dtype=np.int64)
        for nested in (words, texts)
    ]
    n_rows, n_words = (
        np.array([len(each) for each in nested], dtype=np.int64) for nested in (words, texts)
    )
    return WordBags(flat[0], n_rows, flat[1], n_words)


def test_features_by_word_have_the_same_mean_and_gradient(model):
    by_words = HashedBags(ROWS, WIDTH, given_bags, given_words, seed=1)
    by_words.initialize()
    X = [[4], [0, 4], [], [2, 2, 0]]
    for views in (X, [[], []], []):
        assert_allclose(by_words.predict(views), model.predict(views), atol=1e-6)
    dY = gradient_of(X)
    for each, is_train in ((model, True), (by_words, True), (by_words, False)):
        _, backprop = each(X, is_train)
        backprop(dY)
    ((expected_rows, expected),) = model.shims[0]._gradients
    for rows, gradient in by_words.shims[0]._gradients:
        assert (rows == expected_rows).all()
        assert_allclose(gradient, expected, atol=1e-6)
    assert len(by_words.shims[0]._gradients) == 2


def test_the_gradient_is_divided_among_the_rows(model):
    before = model.shims[0].table.copy()
    X = [[4], [0, 4], [2, 2, 0], []]
    dY = gradient_of(X)
    _, backprop = model.begin_update(X)
    backprop(dY)
    expected = np.zeros_like(before)
    expected[4] = dY[0] + dY[1] / 2
    expected[0] = dY[1] / 2 + dY[2] / 3
    expected[2] = dY[2] * 2 / 3
    # With an eps far above the gradient, Adam's first step is along it.
    eps, rate = 1e5, 1e5
    model.finish_update(Adam(rate, eps=eps, grad_clip=0.0, L2=0.0, use_averages=False))
    moved = (before - model.shims[0].table) / (rate / eps * np.sqrt(1 - 0.999))
    assert_allclose(moved, expected, atol=2e-4)


@pytest.mark.parametrize("grad_clip", [0.0, 0.5, 100.0])
@pytest.mark.parametrize("L2, L2_is_weight_decay", [(0.0, True), (0.3, True), (0.3, False)])
def test_sparse_adam_equals_dense_adam_on_updated_rows(table, grad_clip, L2, L2_is_weight_decay):
    settings = {
        "grad_clip": grad_clip,
        "L2": L2,
        "L2_is_weight_decay": L2_is_weight_decay,
        "use_averages": False,
    }
    ours, theirs = Adam(0.01, **settings), Adam(0.01, **settings)
    rows = np.array([1, 4, 7])
    dense = table.table.copy()
    for step in range(4):
        gradient = gradient_of(rows, seed=step)
        full = np.zeros_like(dense)
        full[rows] = gradient
        touched, _ = theirs((0, "table"), dense[rows], full[rows])
        dense[rows] = touched
        table.accumulate(rows, gradient)
        table.finish_update(ours)
        assert_allclose(table.table, dense, atol=1e-6)
        ours.step_schedules()
        theirs.step_schedules()


@pytest.mark.parametrize("L2", [0.0, 0.1])
def test_rows_without_a_gradient_are_unchanged(table, L2):
    optimizer = Adam(0.01, L2=L2, use_averages=False)
    for rows in ([1, 2], [2, 3]):
        before = table.table.copy()
        table.accumulate(np.array(rows), gradient_of(rows))
        table.finish_update(optimizer)
        moved = np.flatnonzero((table.table != before).any(axis=1))
        assert moved.tolist() == rows
    before = table.table.copy()
    table.finish_update(optimizer)
    assert (table.table == before).all()


def test_gradients_of_several_backward_passes_are_summed(table):
    other = HashedTable(ROWS, WIDTH)
    other.initialize(seed=0)
    a, b = gradient_of([1, 2], 1), gradient_of([2, 5], 2)
    table.accumulate(np.array([1, 2]), a)
    table.accumulate(np.array([2, 5]), b)
    other.accumulate(np.array([1, 2, 5]), np.stack([a[0], a[1] + b[0], b[1]]))
    for each in (table, other):
        each.finish_update(Adam(0.01, use_averages=False))
    assert_allclose(table.table, other.table, atol=1e-7)


def test_the_learning_rate_is_that_of_the_optimizer(table):
    before = table.table.copy()
    table.accumulate(np.array([3]), gradient_of([3]))
    table.finish_update(Adam(0.001, use_averages=False))
    assert_allclose(np.abs(before - table.table)[3], 0.001, rtol=1e-3)


@pytest.mark.parametrize(
    "optimizer", [SGD(0.1), RAdam(0.1, use_averages=False), Adam(0.1, beta1=0.0, beta2=0.0)]
)
def test_unsupported_optimizers_raise(table, optimizer):
    table.accumulate(np.array([3]), gradient_of([3]))
    with pytest.raises(KrisselError, match="K409.*Adam.v1"):
        table.finish_update(optimizer)


def test_averages_raise_one_warning(table):
    with pytest.warns(KrisselWarning, match="KW401.*use_averages = false") as warned:
        for _ in range(3):
            table.accumulate(np.array([3]), gradient_of([3]))
            table.finish_update(Adam(0.1, use_averages=True))
    assert len(warned) == 1


def test_a_bytes_round_trip_keeps_vectors_and_training(model):
    data = model.to_bytes()
    assert model.to_bytes() == data
    other = HashedBags(ROWS, WIDTH, given_bags, seed=2).from_bytes(data)
    assert other.to_bytes() == data
    X = [[1, 2], [3]]
    assert (other.predict(X) == model.predict(X)).all()
    # What was loaded is trained like what was initialized: its table can be written, and its
    # moments start anew.
    for each in (model, other):
        _, backprop = each.begin_update(X)
        backprop(np.ones((2, WIDTH), dtype="float32"))
        each.finish_update(Adam(0.01, use_averages=False))
    assert_allclose(other.predict(X), model.predict(X), atol=1e-6)


def test_loading_over_a_trained_table_resets_its_moments(model):
    fresh = model.to_bytes()
    X, dY = [[1]], np.ones((1, WIDTH), dtype="float32")

    def train(model):
        _, backprop = model.begin_update(X)
        backprop(dY)
        model.finish_update(Adam(0.01, use_averages=False))

    train(model)
    after_one = model.predict(X)
    train(model)
    train(model)
    model.from_bytes(fresh)
    train(model)
    assert_allclose(model.predict(X), after_one, atol=1e-6)


def test_an_uninitialized_table_survives_a_bytes_round_trip(model):
    empty = HashedBags(ROWS, WIDTH, given_bags)
    assert HashedBags(ROWS, WIDTH, given_bags).from_bytes(empty.to_bytes()).shims[0].table is None


@pytest.mark.parametrize("shape", [(ROWS + 1, WIDTH), (ROWS, WIDTH + 1)])
def test_bytes_of_another_shape_raise(model, shape):
    with pytest.raises(KrisselError, match="K408"):
        HashedTable(*shape).from_bytes(model.shims[0].to_bytes())


def test_initial_values_depend_on_the_seed(model):
    same, other = (
        HashedBags(ROWS, WIDTH, given_bags, seed=1),
        HashedBags(ROWS, WIDTH, given_bags, seed=2),
    )
    same.initialize()
    other.initialize()
    assert same.to_bytes() == model.to_bytes() != other.to_bytes()


def test_rare_features_have_larger_initial_vectors():
    model = HashedBags(ROWS, 64, given_bags)
    model.initialize(X=[[0, 1], [0, 0, 2], [0], [0, 3]])
    lengths = np.linalg.norm(model.shims[0].table, axis=1)
    assert lengths[0] < lengths[1:4].min() and lengths[1:4].max() < lengths[4:].max() * 1.2


def test_features_are_dropped_only_in_training(model):
    X = [list(range(ROWS)) * 100]
    set_dropout_rate(model, 0.5)
    plain = model.predict(X)
    assert (model.predict(X) == plain).all()
    np.random.seed(0)
    first, second = model.begin_update(X)[0], model.begin_update(X)[0]
    assert (first != second).any()
    # The mean over what is left needs no rescaling.
    assert_allclose(first, plain, atol=0.1)
    set_dropout_rate(model, 0.0)
    assert_allclose(model.begin_update(X)[0], plain)


def test_the_backward_pass_uses_the_dropout_of_the_forward_pass(model):
    set_dropout_rate(model, 0.5)
    np.random.seed(3)
    X = [list(range(ROWS))]
    Y, backprop = model.begin_update(X)
    before = model.shims[0].table.copy()
    backprop(np.ones_like(Y))
    model.finish_update(Adam(0.01, use_averages=False))
    moved = np.flatnonzero((model.shims[0].table != before).any(axis=1))
    assert 0 < len(moved) < ROWS
    assert_allclose(Y[0], before[moved].mean(axis=0), atol=1e-6)


def test_the_feature_function_may_be_a_partial():
    model = HashedBags(ROWS, WIDTH, partial(given_bags, scale=2))
    model.initialize()
    assert_allclose(model.predict([[3]])[0], model.shims[0].table[6])


def test_a_rounded_table_is_unchanged_by_saving(table):
    table.table[3] = 0
    before = table.table.copy()
    table.round()
    largest = np.abs(before).max(axis=1, keepdims=True)
    assert (np.abs(table.table - before) <= largest / 127 / 2 + 1e-7).all() and (
        table.table != before
    ).any()
    saved = table.to_bytes()
    loaded = HashedTable(ROWS, WIDTH).from_bytes(saved)
    assert (loaded.table == table.table).all() and loaded.to_bytes() == saved
    loaded.round()
    assert (loaded.table == table.table).all()


def test_a_rounded_table_takes_about_a_quarter_of_the_bytes(table):
    wide = HashedTable(64, 256)
    wide.initialize(seed=0)
    whole = len(wide.to_bytes())
    wide.round()
    assert len(wide.to_bytes()) < 0.27 * whole


def test_training_after_rounding_is_exact(table):
    table.round()
    exact = HashedTable(ROWS, WIDTH).from_bytes(table.to_bytes())
    rows = np.array([1, 4])
    for each in (table, exact):
        each.accumulate(rows, gradient_of(rows))
        each.finish_update(Adam(1e-5, grad_clip=0.0, L2=0.0, use_averages=False))
    again = HashedTable(ROWS, WIDTH).from_bytes(table.to_bytes())
    assert (again.table == table.table).all() and (table.table == exact.table).all()


def small(seed):
    model = SmallEncoder(width=8, rows=128, context_rows=64, hidden=4, seed=seed)
    model.initialize()
    return model


def weights_of(model):
    tables = [shim.table for node in model.walk() for shim in node.shims]
    params = [
        node.get_param(name)
        for node in model.walk()
        for name in node.param_names
        if node.has_param(name)
    ]
    return [np.array(each) for each in (*tables, *params)]


def test_average_is_the_weighted_mean_of_tables_and_parameters():
    models = [small(seed) for seed in range(3)]
    given = [weights_of(each) for each in models]
    shares = [0.2, 0.5, 0.3]
    average_weights(models, shares)
    expected = [
        sum(share * each for share, each in zip(shares, of_one, strict=True))
        for of_one in zip(*given, strict=True)
    ]
    assert len(expected) > 3
    for found, wanted in zip(weights_of(models[0]), expected, strict=True):
        assert_allclose(found, wanted, atol=1e-6)
    # The others stay as they are.
    for model, before in zip(models[1:], given[1:], strict=True):
        for found, wanted in zip(weights_of(model), before, strict=True):
            assert_allclose(found, wanted)
