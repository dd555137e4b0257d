from collections import Counter
from hashlib import blake2b
from unittest.mock import patch

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from spacy_krissel.mining import reservoir as reservoir_module
from spacy_krissel.mining.reservoir import Reservoir, doc_prefix, lowest, priorities

items = st.lists(
    st.tuples(st.integers(0, 3), st.integers(0, 2**64 - 1)),
    max_size=60,
    unique_by=lambda item: item[1],
)


def priority(seed, doc, start, entity):
    return int(priorities([doc_prefix(seed, doc)], [start], [entity.encode()])[0])


def columns(offers):
    return np.array([row for row, _ in offers], dtype=np.int32), np.array(
        [order for _, order in offers], np.uint64
    )


def sample(cap, offers):
    rows, orders = columns(offers)
    places = lowest(rows, orders, cap)
    return list(zip(rows[places].tolist(), orders[places].tolist(), strict=True))


@given(items, st.integers(1, 5), st.randoms())
def test_sample_is_the_lowest_in_any_order(offers, cap, random):
    expected = []
    for row in range(4):
        expected += [
            (row, order) for order in sorted(order for r, order in offers if r == row)[:cap]
        ]
    random.shuffle(offers)
    assert sample(cap, offers) == expected


@given(items, st.integers(1, 5), st.integers(0, 60))
def test_samples_of_parts_contain_the_sample_of_the_whole(offers, cap, cut):
    parts = sample(cap, offers[:cut]) + sample(cap, offers[cut:])
    assert sample(cap, parts) == sample(cap, offers)


@given(items)
def test_no_cap_keeps_all(offers):
    assert sample(None, offers) == sorted(offers)


@given(items, st.integers(1, 9), st.lists(st.integers(0, 60), max_size=5))
def test_reservoir_keeps_every_mention_of_the_sample(offers, cap, cuts):
    reservoir = Reservoir(cap, n_rows=4)
    kept = []
    with patch.object(reservoir_module, "MIN_NEW", 4):
        for start, end in zip([0, *sorted(cuts)], [*sorted(cuts), len(offers)], strict=True):
            part = offers[start:end]
            kept += [
                offer
                for offer, may in zip(part, reservoir.offer(*columns(part)), strict=True)
                if may
            ]
    assert sample(cap, kept) == sample(cap, offers)


def test_reservoir_drops_mentions_over_the_cap(monkeypatch):
    monkeypatch.setattr(reservoir_module, "MIN_NEW", 3)
    reservoir = Reservoir(2, n_rows=2)
    # Of a priority the last bits may be lost, here one; a limit is never below that of the sample.
    assert reservoir.offer(*columns([(0, 10), (0, 14), (0, 6), (1, 18)])).all()
    assert reservoir.limits.tolist() == [11, 2**64 - 1]
    assert reservoir.offer(*columns([(0, 12), (0, 8), (1, 2**64 - 1), (0, 10)])).tolist() == [
        False,
        True,
        True,
        True,
    ]
    # What was kept before counts, and a limit never rises.
    assert reservoir.offer(*columns([(0, 16), (1, 2), (1, 4), (0, 2)])).tolist() == [
        False,
        True,
        True,
        True,
    ]
    assert reservoir.limits.tolist() == [7, 5]
    assert Reservoir(None, n_rows=1).offer(*columns([(0, 2**64 - 1)] * 5)).all()


def test_equal_priorities_are_kept_in_order():
    rows, orders = columns([(0, 7)] * 4)
    assert lowest(rows, orders, 2).tolist() == [0, 1]


@given(
    st.text(max_size=9),
    st.lists(st.tuples(st.integers(0, 2**20), st.text(max_size=9)), min_size=1, max_size=4),
)
def test_priorities_together_equal_those_of_each_mention(doc, mentions):
    starts, entities = zip(*mentions, strict=True)
    prefixes = [doc_prefix(3, doc)] * len(mentions)
    together = priorities(prefixes, starts, [entity.encode() for entity in entities])
    assert together.tolist() == [priority(3, doc, start, entity) for start, entity in mentions]
    digest = blake2b(f"3\0{doc}\0{starts[0]}\0{entities[0]}".encode(), digest_size=8).digest()
    assert together[0] == int.from_bytes(digest, "big")


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
    orders = [priority(seed, "doc", start, "D1") for start in range(n)]
    return [
        (seed, start) for start in lowest(*columns([(0, order) for order in orders]), cap).tolist()
    ]


def test_priority_is_the_same_everywhere():
    # The written shards depend on it: another value here would be another sample for the same seed.
    assert priority(0, "doc", 12, "D1") == 2287875057849412734
    assert (
        len(
            {
                priority(*args)
                for args in [
                    (0, "d", 1, "e"),
                    (1, "d", 1, "e"),
                    (0, "d1", 1, "e"),
                    (0, "d", 2, "e"),
                    (0, "d", 1, "f"),
                ]
            }
        )
        == 5
    )
