import math

import numpy as np
import pytest


@pytest.fixture(scope="session")
def names():
    """Makes vectors (n, width) with labels: three entities of 3, 2 and 1 names for n = 6, in no order."""

    def names(n=6, width=3, seed=0, dtype=np.float64):
        random = np.random.default_rng(seed)
        labels = np.array([0, 1, 0, 2, 1, 0, 3, 3, 1, 4])[np.arange(n) % 10]
        return random.standard_normal((n, width)).astype(dtype), labels

    return names


@pytest.fixture(scope="session")
def mined():
    """(positives, negatives) of each anchor as lists, by eq. 1 of SapBERT over every triplet; None: all pairs."""

    def mined(units, labels, margin=None):
        n = len(units)
        positives = [[p for p in range(n) if p != a and labels[p] == labels[a]] for a in range(n)]
        negatives = [[k for k in range(n) if labels[k] != labels[a]] for a in range(n)]
        if margin is None:
            return positives, negatives
        hard = [(set(), set()) for _ in range(n)]
        for a in range(n):
            for p in positives[a]:
                for k in negatives[a]:
                    if not math.dist(units[a], units[p]) < math.dist(units[a], units[k]) + margin:
                        hard[a][0].add(p)
                        hard[a][1].add(k)
        return [sorted(p) for p, _ in hard], [sorted(k) for _, k in hard]

    return mined


@pytest.fixture(scope="session")
def restated(names, mined):
    """Asserts that a loss is `equation(units, positives, negatives)`, over all pairs and over mined ones."""
    from spacy_krissel.losses.hard_pairs import HardPairMiner

    def restated(make, equation):
        seen = set()
        for n in (2, 5, 6, 10):
            for seed in range(6):
                for margin in (None, -0.2, 0.3):
                    vectors, labels = names(n, 4, seed)
                    units = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
                    expected = equation(units, *mined(units, labels, margin))
                    miner = None if margin is None else HardPairMiner(margin=margin)
                    found = make(miner=miner)(vectors, labels)[1]
                    assert found == pytest.approx(expected, rel=1e-9, abs=1e-12)
                    seen.add(round(found, 6))
        assert len(seen) > 20

    return restated
