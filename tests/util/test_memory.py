"""Mapped arrays that give their memory back, collections of garbage, and what is remembered."""

import copy
import gc
import pickle
import re
import sys
from pathlib import Path

import numpy as np
import pytest

from spacy_krissel.util import memory
from spacy_krissel.util.memory import Remembered, few_collections, forget_pages


def resident_kib():
    return int(re.search(r"VmRSS:\s+(\d+)", Path("/proc/self/status").read_text())[1])


@pytest.mark.parametrize("mode", ["r", "r+"])
def test_a_mapped_array_keeps_its_values_and_frees_its_memory(tmp_path, mode):
    values = np.arange(2**22, dtype=np.float32).reshape(-1, 64)
    np.save(tmp_path / "a.npy", values)
    mapped = np.load(tmp_path / "a.npy", mmap_mode=mode)
    if mode == "r+":
        mapped[5] = values[5] = -1.0
    assert mapped.sum(dtype=float) == values.sum(dtype=float)
    before = resident_kib() if sys.platform == "linux" else 0
    forget_pages(mapped[10:])
    assert sys.platform != "linux" or resident_kib() < before - 12_000
    assert np.array_equal(mapped, values)
    forget_pages(values)
    assert values[5, 0] == mapped[5, 0] and values[-1, -1] == 2**22 - 1


def test_changes_that_no_file_has_stay(tmp_path):
    np.save(tmp_path / "a.npy", np.zeros((4096, 64), dtype=np.float32))
    mapped = np.load(tmp_path / "a.npy", mmap_mode="c")
    mapped[:] = 7
    forget_pages(mapped)
    assert (mapped == 7).all()


@pytest.mark.parametrize("before, within", [((700, 10, 10), 50_000), ((0, 10, 10), 0)])
def test_thresholds_of_collections_are_restored(before, within):
    """Whoever switched collections off keeps them off."""
    own = gc.get_threshold()
    gc.set_threshold(*before)
    try:
        with pytest.raises(ValueError, match="within"), few_collections():
            assert gc.get_threshold() == (within, *before[1:])
            raise ValueError("within")
        assert gc.get_threshold() == before
    finally:
        gc.set_threshold(*own)


@pytest.mark.parametrize("most", [None, 3])
def test_what_is_remembered_is_bounded(monkeypatch, most):
    monkeypatch.setattr(memory, "MAX_REMEMBERED", 3 if most is None else 10)
    found = Remembered(most)
    for number in range(10):
        found[number] = str(number)
        assert found[number] == str(number) and len(found) <= 3


def test_what_is_remembered_can_be_copied():
    found = Remembered(2)
    found["a"], found["b"] = 1, 2
    for other in (copy.deepcopy(found), pickle.loads(pickle.dumps(found))):
        assert other == found
        other["c"] = 3
        assert other == {"c": 3}
