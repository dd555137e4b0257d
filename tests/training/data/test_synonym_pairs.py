import random
from collections import Counter
from itertools import combinations

from hypothesis import given
from hypothesis import strategies as st

from spacy_krissel.ontology.folding import fold_name
from spacy_krissel.training.data.synonyms import different_names, draw_pairs, shuffled


def test_names_that_fold_to_the_same_are_one():
    names = ["Type-2 Diabetes", "NIDDM", "type 2 diabetes", "Niddm", "T2D"]
    assert different_names(names) == ["type-2 diabetes", "niddm", "t2d"]
    assert different_names(names, lowercase=False) == ["Type-2 Diabetes", "NIDDM", "T2D"]
    # No name has a line break.
    assert different_names(["lung\n cancer "]) == ["lung cancer"]


@given(st.lists(st.text(min_size=1, max_size=6), max_size=12))
def test_different_names_are_different(names):
    found = different_names([name for name in names if name.strip()])
    assert len({fold_name(name) for name in found}) == len(found)
    assert {fold_name(name) for name in found} == {fold_name(" ".join(name.split())) for name in names if name.strip()}


@given(st.integers(0, 30), st.integers(1, 60), st.integers(0, 99))
def test_pairs_are_all_or_so_many_of_them(n, limit, seed):
    names = [f"name {i}" for i in range(n)]
    every = list(combinations(names, 2))
    assert draw_pairs(names, 0, random.Random(seed)) == every
    drawn = draw_pairs(names, limit, random.Random(seed))
    assert len(drawn) == min(limit, len(every)) == len(set(drawn))
    assert set(drawn) <= set(every)
    assert drawn == draw_pairs(names, limit, random.Random(seed))


def test_any_pair_can_be_drawn_and_none_is_preferred():
    names = list("abcdefgh")
    counts = Counter(pair for seed in range(4000) for pair in draw_pairs(names, 2, random.Random(seed)))
    assert len(counts) == 28
    # 8000 / 28 = 286, with a standard deviation of 16.
    assert all(200 < count < 372 for count in counts.values())


def test_pairs_of_many_names_are_not_made():
    """All 5 · 10^11 of a million names would not fit."""
    names = range(10**6)
    drawn = draw_pairs(names, 50, random.Random(0))
    assert len(drawn) == 50 and all(first < second for first, second in drawn)


@given(st.lists(st.integers()), st.integers(1, 20), st.integers(0, 99))
def test_shuffled_keeps_every_item(items, size, seed):
    found = list(shuffled(items, size, random.Random(seed)))
    assert sorted(found) == sorted(items)
    assert found == list(shuffled(items, size, random.Random(seed)))


def test_shuffled_holds_as_many_as_its_buffer():
    read = 0

    def items():
        nonlocal read
        while read < 1000:
            read += 1
            yield read

    found = []
    for i, item in enumerate(shuffled(items(), 50, random.Random(0))):
        assert read - i <= 51
        found.append(item)
    moved = [abs(item - 1 - place) for place, item in enumerate(found)]
    assert max(moved) > 100 and sum(moved) > 1000 * 20
