import random
from collections import Counter
from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spacy_krissel.ontology.readers.ctd import read_medic
from spacy_krissel.training.data.synonyms import different_names, draw_pairs, shuffled


def test_names_that_differ_in_punctuation_are_different():
    names = ["Type-2 Diabetes", "NIDDM", "type 2 diabetes", "Niddm", "T2D", "NIDDM"]
    assert different_names(names) == ["type-2 diabetes", "niddm", "type 2 diabetes", "t2d"]
    assert different_names(names, lowercase=False) == names[:-1]
    # No name has a line break.
    assert different_names(["lung\n cancer "]) == ["lung cancer"]


@given(st.lists(st.text(min_size=1, max_size=6), max_size=12))
def test_different_names_are_lower_cased_and_distinct(names):
    found = different_names([name for name in names if name.strip()])
    assert len(set(found)) == len(found)
    assert set(found) == {" ".join(name.split()).lower() for name in names if name.strip()}


@pytest.mark.data
def test_medic_has_as_many_pairs_as_by_the_papers_rule(data_dir):
    """Names in lower case, each once, all pairs up to 50 per entity; 158,289 where punctuation does
    not count."""
    entities = read_medic(data_dir / "ontologies" / "medic_06Jul2012.txt")
    rng = random.Random(0)
    assert (
        sum(len(draw_pairs(different_names(entity.names), 50, rng)) for entity in entities)
        == 162_948
    )


@given(st.integers(0, 30), st.integers(1, 60), st.integers(0, 99))
def test_all_pairs_or_a_random_sample_are_drawn(n, limit, seed):
    names = [f"name {i}" for i in range(n)]
    every = list(combinations(names, 2))
    assert draw_pairs(names, 0, random.Random(seed)) == every
    drawn = draw_pairs(names, limit, random.Random(seed))
    assert len(drawn) == min(limit, len(every)) == len(set(drawn))
    assert set(drawn) <= set(every)
    assert drawn == draw_pairs(names, limit, random.Random(seed))


def test_pairs_are_drawn_uniformly():
    names = list("abcdefgh")
    counts = Counter(
        pair for seed in range(4000) for pair in draw_pairs(names, 2, random.Random(seed))
    )
    assert len(counts) == 28
    # 8000 / 28 = 286, with a standard deviation of 16.
    assert all(200 < count < 372 for count in counts.values())


def test_pairs_of_many_names_are_not_enumerated():
    """All 5 · 10^11 of a million names would not fit."""
    names = range(10**6)
    drawn = draw_pairs(names, 50, random.Random(0))
    assert len(drawn) == 50 and all(first < second for first, second in drawn)


@given(st.lists(st.integers()), st.integers(1, 20), st.integers(0, 99))
def test_shuffled_keeps_every_item(items, size, seed):
    found = list(shuffled(items, size, random.Random(seed)))
    assert sorted(found) == sorted(items)
    assert found == list(shuffled(items, size, random.Random(seed)))


def test_shuffled_holds_at_most_its_buffer():
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
