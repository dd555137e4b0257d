import numpy as np
import pytest

from spacy_krissel.errors import KrisselError
from spacy_krissel.index.exact import ExactIndex
from spacy_krissel.training.data import negatives as nearest_module
from spacy_krissel.training.data.negatives import NearestEntities

QUERY = np.eye(4)[:1]


class Encoder:
    """Entity `row` has its 1 in dimension `(row + turn) % 4`; counts what it encodes."""

    def __init__(self):
        self.turn = 0
        self.rows = []

    def __call__(self, rows):
        self.rows += rows
        return np.eye(4, dtype="float32")[[(row + self.turn) % 4 for row in rows]]


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch):
    monkeypatch.setattr(nearest_module, "BLOCK", 2)


def nearest_by_turn(refresh_every):
    """The entity nearest to the first dimension in each of seven searches, by an encoder that
    changes in each."""
    encoder = Encoder()
    index = NearestEntities(ExactIndex, 4, refresh_every)
    found = []
    for _ in range(7):
        found.append(index.search(encoder, QUERY, 2)[0, 0])
        encoder.turn += 1
    return found, encoder.rows


def test_index_is_refreshed_on_schedule():
    found, encoded = nearest_by_turn(3)
    assert found == [0, 0, 0, 1, 1, 1, 2]
    assert encoded == [0, 1, 2, 3] * 3


def test_refresh_every_zero_never_refreshes_the_index():
    found, encoded = nearest_by_turn(0)
    assert found == [0] * 7 and encoded == [0, 1, 2, 3]


@pytest.mark.parametrize("sizes", [[2, 3, 2, 3, 2], [5, 5, 5], [3, 3, 3, 3]])
def test_index_is_refreshed_after_each_epoch(sizes):
    """Refresh at the first search of an epoch, or at the next if a batch crosses its end."""
    encoder, index, refreshed = Encoder(), NearestEntities(ExactIndex, 4, "epoch"), []
    index.epoch = 5
    done = 0
    for size in sizes:
        index.search(encoder, np.eye(4)[np.zeros(size, dtype=int)], 2)
        if encoder.rows:
            refreshed.append(done)
        encoder.rows.clear()
        done += size
    assert refreshed == {5: [0, 5, 10], 3: [0, 6]}.get(sizes[0] if sizes[0] != 2 else 5)


def test_missing_neighbours_are_padded():
    found = NearestEntities(ExactIndex, 3, 500).search(Encoder(), QUERY, 5)
    assert sorted(found[0].tolist()) == [-1, -1, 0, 1, 2]


@pytest.mark.parametrize("refresh_every", [-1, "batch"])
def test_invalid_refresh_every_raises(refresh_every):
    with pytest.raises(KrisselError, match="K006"):
        NearestEntities(ExactIndex, 4, refresh_every=refresh_every)
