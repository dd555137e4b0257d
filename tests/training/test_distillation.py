import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from spacy.util import fix_random_seed

from spacy_krissel.layers.small import SmallEncoder
from spacy_krissel.training.distillation import fit_to_vectors, narrowing_projection, to_unit
from spacy_krissel.views import View, name_view

VIEWS = [
    name_view(f"{kind} of the {organ}")
    for kind in ("cancer", "cyst", "injury")
    for organ in ("lung", "liver", "skin")
]
VIEWS += [View("the lesion was ", "it", " in the lung"), View("rain and ", "it", " was cold")]


def random_vectors(n, width, seed=0):
    return np.random.default_rng(seed).standard_normal((n, width)).astype(np.float32)


@given(rank=st.integers(1, 6), width=st.integers(1, 12), seed=st.integers(0, 20))
def test_narrowing_keeps_the_most_of_the_inner_products(rank, width, seed):
    """For unit vectors (n, d), as many singular values are kept as fit."""
    vectors = to_unit(random_vectors(30, rank, seed) @ random_vectors(rank, 8, seed + 1))
    kept = vectors @ narrowing_projection(vectors, width, seed)
    assert kept.shape == (30, width)
    products, singular = vectors @ vectors.T, np.linalg.svd(vectors, compute_uv=False)
    lost = np.linalg.norm(products - kept @ kept.T)
    assert lost == pytest.approx(np.linalg.norm(singular[width:] ** 2), abs=1e-4)


def test_narrowing_ignores_vector_lengths():
    vectors = random_vectors(40, 8) * np.geomspace(0.01, 100, 40, dtype=np.float32)[:, None]
    assert_allclose(
        abs(narrowing_projection(vectors, 3, 0)),
        abs(narrowing_projection(to_unit(vectors), 3, 0)),
        atol=1e-5,
    )
    assert not to_unit(np.zeros((2, 3))).any()


def fitted(seed=0, passes=150):
    model = SmallEncoder(width=16, rows=512, context_rows=512, hidden=8, seed=seed)
    fix_random_seed(seed)
    model.initialize(X=VIEWS)
    wanted = to_unit(random_vectors(len(VIEWS), 16))
    before = (model.predict(VIEWS) * wanted).sum(axis=1)
    fit_to_vectors(
        model,
        lambda rows: [VIEWS[row] for row in rows],
        lambda rows: wanted[rows],
        len(VIEWS),
        passes=passes,
        seed=seed,
        progress=False,
    )
    return before, (model.predict(VIEWS) * wanted).sum(axis=1), model.to_bytes()


def test_vectors_of_names_and_contexts_are_learned():
    before, after, _ = fitted()
    assert abs(before.mean()) < 0.3 and after.mean() > 0.9


def test_a_seed_gives_the_same_bytes():
    assert fitted(passes=3)[2] == fitted(passes=3)[2] != fitted(seed=1, passes=3)[2]


def test_the_first_step_follows_the_gradient_of_the_mean_squared_distance(monkeypatch):
    """By hand, 2 (y - t) / n for each of n views, all in one batch."""
    seen = []
    model = SmallEncoder(width=4, rows=64, context_rows=64, hidden=4)
    model.initialize(X=VIEWS)
    wanted, found = to_unit(random_vectors(len(VIEWS), 4)), model.predict(VIEWS)

    class Spy:
        ops = model.ops

        def begin_update(self, views):
            vectors, _ = model.begin_update(views)
            return vectors, seen.append

        def finish_update(self, optimizer):
            seen.append(float(optimizer.learn_rate))

    rows_of = {view: row for row, view in enumerate(VIEWS)}
    order = []

    def views(rows):
        order.extend(rows)
        return [VIEWS[row] for row in rows]

    fit_to_vectors(
        Spy(), views, lambda rows: wanted[rows], len(VIEWS), passes=2, seed=0, progress=False
    )
    assert sorted(order[: len(VIEWS)]) == sorted(rows_of.values())
    assert_allclose(seen[0], 2 * (found - wanted)[order[: len(VIEWS)]] / len(VIEWS), atol=1e-6)
    assert seen[1] > seen[3] > 0
