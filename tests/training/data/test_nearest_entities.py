import numpy as np
import pytest

from spacy_krissel.errors import KrisselError
from spacy_krissel.index.exact import ExactIndex
from spacy_krissel.training.data import nearest_entities as nearest_module
from spacy_krissel.training.data.nearest_entities import NearestEntities


class Encoder:
    """Entity `row` has its 1 in dimension `(row + turn) % 4`; counts what it encodes."""

    def __init__(self):
        self.turn = 0
        self.rows = []
        self.fail_at = None

    def __call__(self, rows):
        if self.fail_at in rows:
            raise KeyboardInterrupt
        self.rows += rows
        return np.eye(4, dtype="float32")[[(row + self.turn) % 4 for row in rows]]

    def key(self):
        return f"state-{self.turn}"


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch):
    monkeypatch.setattr(nearest_module, "BLOCK", 2)


def test_refreshed_on_schedule():
    encoder = Encoder()
    found = NearestEntities(ExactIndex, 4, refresh_every=3)
    due = []
    for _ in range(7):
        due.append(found.step(encoder, encoder.key))
        encoder.turn += 1
    assert due == [True, False, False, True, False, False, True]
    # The last refresh was in turn 6: entity 2 has dimension 0.
    assert found.search(np.eye(4)[:1], 2)[0, 0] == 2


def test_refreshed_once():
    encoder = Encoder()
    found = NearestEntities(ExactIndex, 4, refresh_every=0)
    assert [found.step(encoder, encoder.key) for _ in range(5)] == [True, False, False, False, False]


def test_more_than_there_are_is_padded():
    encoder = Encoder()
    found = NearestEntities(ExactIndex, 3)
    found.step(encoder, encoder.key)
    assert sorted(found.search(np.eye(4)[:1], 5)[0].tolist()) == [-1, -1, 0, 1, 2]


def test_a_refresh_that_was_cut_off_goes_on(tmp_path):
    encoder = Encoder()
    encoder.fail_at = 4
    with pytest.raises(KeyboardInterrupt):
        NearestEntities(ExactIndex, 6, cache=tmp_path / "cache").step(encoder, encoder.key)
    assert encoder.rows == [0, 1, 2, 3]
    encoder.fail_at = None
    found = NearestEntities(ExactIndex, 6, cache=tmp_path / "cache", refresh_every=1)
    found.step(encoder, encoder.key)
    assert encoder.rows == [0, 1, 2, 3, 4, 5]
    assert found.search(np.eye(4)[1:2], 2)[0].tolist() == [1, 5]
    # Another state of the encoder: nothing of the old one is used, or kept.
    encoder.turn = 1
    found.step(encoder, encoder.key)
    assert encoder.rows[6:] == [0, 1, 2, 3, 4, 5]
    assert [path.name for path in (tmp_path / "cache").iterdir()] == ["krissel-vectors-state-1"]


def test_a_cache_deletes_what_it_did_not_make(tmp_path):
    """Trained pipelines, folders that are named like its own, and what somebody put into its own."""
    foreign = ["model-best/config.cfg", "state-0/0.npy", "krissel-vectors-old/0.npy", "notes.txt", ".ssh/id"]
    for name in foreign:
        (tmp_path / "training" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "training" / name).write_text("mine")
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    for name in (nearest_module.MARKER, "0.npy"):
        (elsewhere / name).write_text("mine")
    (tmp_path / "training" / "krissel-vectors-link").symlink_to(elsewhere)
    encoder = Encoder()
    found = NearestEntities(ExactIndex, 4, cache=tmp_path / "training", refresh_every=1)
    for turn in range(4):
        encoder.turn = turn
        found.step(encoder, encoder.key)
        if turn < 2:
            foreign.append(f"krissel-vectors-state-{turn}/thesis.txt")
            (tmp_path / "training" / foreign[-1]).write_text("mine")
    for name in foreign:
        assert (tmp_path / "training" / name).read_text() == "mine", name
    assert sorted(path.name for path in elsewhere.iterdir()) == ["0.npy", nearest_module.MARKER]
    # What it made itself goes.
    assert not (tmp_path / "training" / "krissel-vectors-state-2").exists()
    assert [path.name for path in (tmp_path / "training" / "krissel-vectors-state-0").iterdir()] == ["thesis.txt"]


@pytest.mark.parametrize("damage", [b"", b"\x93NUMPY", b"cut", None])
def test_damaged_vectors_of_a_cache_are_used(tmp_path, damage):
    encoder = Encoder()
    NearestEntities(ExactIndex, 4, cache=tmp_path).step(encoder, encoder.key)
    file_ = tmp_path / "krissel-vectors-state-0" / "2.npy"
    if damage is None:
        np.save(file_, np.full((2, 4), np.nan, dtype=np.float32))
    else:
        file_.write_bytes(damage)
    encoder.rows.clear()
    NearestEntities(ExactIndex, 4, cache=tmp_path).step(encoder, encoder.key)
    assert encoder.rows == [2, 3]


def test_a_cache_that_is_a_file_is_not_coded(tmp_path):
    (tmp_path / "cache").write_text("mine")
    with pytest.raises(KrisselError, match="K026.*cache"):
        NearestEntities(ExactIndex, 4, cache=tmp_path / "cache").step(Encoder(), Encoder().key)
    assert (tmp_path / "cache").read_text() == "mine"


def test_settings():
    with pytest.raises(KrisselError, match="K006"):
        NearestEntities(ExactIndex, 4, refresh_every=-1)
