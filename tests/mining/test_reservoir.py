from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from spacy_krissel.mining.reservoir import Reservoir, priority

items = st.lists(st.tuples(st.integers(0, 3), st.integers(0, 2**64 - 1)), max_size=60, unique_by=lambda item: item[1])


def fill(cap, offers):
    reservoir = Reservoir(cap)
    for key, order in offers:
        reservoir.offer(key, order, f"{key}/{order}")
    return list(reservoir)


@given(items, st.integers(1, 5), st.randoms())
def test_sample_is_the_lowest_whatever_the_order(offers, cap, random):
    expected = []
    for key in range(4):
        lowest = sorted(order for k, order in offers if k == key)[:cap]
        expected += [(key, order, f"{key}/{order}") for order in lowest]
    random.shuffle(offers)
    assert fill(cap, offers) == expected


@given(items, st.integers(1, 5), st.integers(0, 60))
def test_samples_of_parts_hold_the_sample_of_the_whole(offers, cap, cut):
    parts = fill(cap, offers[:cut]) + fill(cap, offers[cut:])
    assert fill(cap, [(key, order) for key, order, _ in parts]) == fill(cap, offers)


@given(items)
def test_no_cap_keeps_all(offers):
    assert len(fill(None, offers)) == len(offers)


def test_items_are_never_compared():
    reservoir = Reservoir(2)
    for _ in range(4):
        reservoir.offer(0, 7, {})
    assert len(list(reservoir)) == 2


def test_offer_says_what_it_kept():
    reservoir = Reservoir(1)
    assert [reservoir.offer(0, order, None) for order in (5, 7, 3)] == [True, False, True]


def test_every_mention_has_the_same_chance():
    n, cap, seeds = 20, 5, 800
    kept = Counter()
    for seed in range(seeds):
        kept.update(item[1] for item in fill_places(seed, n, cap))
    expected = seeds * cap / n
    assert set(kept) == set(range(n))
    # Standard deviation of the count is 12.2; five of them.
    assert all(abs(count - expected) < 62 for count in kept.values())


def fill_places(seed, n, cap):
    reservoir = Reservoir(cap)
    for start in range(n):
        reservoir.offer(0, priority(seed, "doc", start, "D1"), (seed, start))
    return [item for _, _, item in reservoir]


def test_priority_is_the_same_everywhere():
    # The written shards depend on it: another value here would be another sample for the same seed.
    assert priority(0, "doc", 12, "D1") == 2287875057849412734
    assert (
        len(
            {
                priority(*args)
                for args in [(0, "d", 1, "e"), (1, "d", 1, "e"), (0, "d1", 1, "e"), (0, "d", 2, "e"), (0, "d", 1, "f")]
            }
        )
        == 5
    )
