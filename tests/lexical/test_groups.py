import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from spacy_krissel.lexical.groups import Groups, pair_keys, ranges


def test_groups_agree_with_hand_computed_values():
    groups = Groups.of(np.array([1, 1, 3]), np.array([7, 5, 9]))
    assert groups.present.tolist() == [1, 3]
    assert [groups.at(key).tolist() for key in (-1, 0, 1, 2, 3, 4)] == [[], [], [7, 5], [], [9], []]
    values, places = groups.take(np.array([3, -1, 8, 1, 0, 3]))
    assert values.tolist() == [9, 7, 5, 9] and places.tolist() == [0, 3, 3, 5]
    none = np.zeros(0, dtype=np.int64)
    for empty in (groups.take(none), Groups.of(none, none).take(np.array([0, 2]))):
        assert [each.tolist() for each in empty] == [[], []]
    assert (
        Groups.of(none, none).present.tolist() == [] and Groups.of(none, none).at(0).tolist() == []
    )


@given(st.lists(st.tuples(st.integers(0, 50), st.integers(0, 4))))
def test_ranges_are_concatenated(pairs):
    starts, lengths = np.array(pairs, dtype=np.int64).reshape(-1, 2).T
    assert ranges(starts, lengths).tolist() == [
        start + i for start, length in pairs for i in range(length)
    ]


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9))))
def test_pair_keys_are_ordered_like_pairs(pairs):
    first, second = np.array(pairs, dtype=np.int64).reshape(-1, 2).T
    keys = pair_keys(first, second).tolist()
    assert sorted(range(len(pairs)), key=keys.__getitem__) == sorted(
        range(len(pairs)), key=pairs.__getitem__
    )
    assert len(set(keys)) == len(set(pairs))
