import numpy as np
import pytest

from spacy_krissel.evaluation.bootstrap import Bootstrap


def test_interval_agrees_with_a_plain_loop_over_documents():
    rng = np.random.default_rng(1)
    docs = np.repeat(np.arange(40), 5).astype(str)
    right = rng.integers(0, 2, size=200).astype(float)
    low, high = Bootstrap(docs, resamples=4000, seed=0).interval(right, np.ones(200))
    per_doc = right.reshape(40, 5)
    means = [per_doc[rng.integers(0, 40, size=40)].mean() for _ in range(4000)]
    assert low == pytest.approx(np.percentile(means, 2.5), abs=0.01)
    assert high == pytest.approx(np.percentile(means, 97.5), abs=0.01)


def test_documents_are_resampled_not_mentions():
    # Two documents, all right and all wrong: resampling mentions would never reach 0 or 1.
    docs = ["a"] * 50 + ["b"] * 50
    right = [1.0] * 50 + [0.0] * 50
    assert Bootstrap(docs).interval(right, [1.0] * 100) == [0.0, 1.0]


def test_intervals_depend_on_the_seed_only():
    docs = [str(i) for i in range(30)]
    right = [float(i % 3 == 0) for i in range(30)]
    one = [1.0] * 30
    first = Bootstrap(docs, resamples=50, seed=3).interval(right, one)
    assert first == Bootstrap(docs, resamples=50, seed=3).interval(right, one)
    assert first != Bootstrap(docs, resamples=50, seed=4).interval(right, one)


def test_differences_are_paired():
    # Theirs is ours minus one right mention in each document: the difference never varies, though
    # both figures do.
    docs = [str(i) for i in range(20) for _ in range(10)]
    ours = [float(i % 10 <= i // 10 % 8 + 1) for i in range(200)]
    theirs = [value * (i % 10 != 0) for i, value in enumerate(ours)]
    bootstrap = Bootstrap(docs)
    low, high = bootstrap.difference(ours, theirs, [1.0] * 200)
    assert (low, high) == pytest.approx((0.1, 0.1))
    low, high = bootstrap.interval(ours, [1.0] * 200)
    assert high - low > 0.05


def test_intervals_of_no_data_are_none():
    assert Bootstrap([]).interval([], []) is None
    assert Bootstrap(["a", "b"]).interval([0.0, 0.0], [0.0, 0.0]) is None
