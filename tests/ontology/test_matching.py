from hypothesis import given
from hypothesis import strategies as st

from spacy_krissel.ontology.homonyms.matching import assign

wishes = st.lists(st.lists(st.sampled_from("abcde"), max_size=4), max_size=7)


def largest(wishes, taken=frozenset()):
    """The most seekers that can get something, by trying everything."""
    if not wishes:
        return 0
    first, *rest = wishes
    return max([largest(rest, taken), *(1 + largest(rest, taken | {thing}) for thing in set(first) - taken)])


def test_in_the_order_of_preference():
    assert assign([["a", "b"], ["a", "b"], ["a", "b"]]) == {"a": 0, "b": 1}
    # The last wish alone makes another move on.
    assert assign([["a", "b"], ["a"]]) == {"b": 0, "a": 1}
    assert assign([["a", "b"], ["c", "d"], ["a"]]) == {"b": 0, "c": 1, "a": 2}
    assert assign([]) == assign([[], []]) == {}


def test_others_move_on_for_the_least_change():
    # Both of the first could make room; the direct way is that of the first wish.
    assert assign([["a", "c"], ["b", "d"], ["a", "b"]]) == {"c": 0, "b": 1, "a": 2}
    # A chain of three.
    assert assign([["a", "b"], ["b", "c"], ["c"], ["a"]]) == {"c": 2, "b": 1, "a": 0}
    assert assign([["a", "b"], ["b", "c"], ["c", "d"], ["a"]]) == {"d": 2, "c": 1, "b": 0, "a": 3}


def test_extended():
    assert assign([["a"], ["a", "b"]], {"a": 1}) == {"b": 1, "a": 0}
    given = {"a": 0}
    assert assign([["a"], ["b"]], given) == {"a": 0, "b": 1} and given == {"a": 0}


@given(wishes, wishes)
def test_largest(first, second):
    owners = assign(first)
    assert len(owners) == largest(first) == len(set(owners.values()))
    assert all(thing in first[seeker] for thing, seeker in owners.items())
    more = [[*old, *new] for old, new in zip(first, [*second, *[[]] * len(first)], strict=False)]
    extended = assign(more, owners)
    assert len(extended) == largest(more) and set(owners.values()) <= set(extended.values())


def test_many_without_hope():
    """What a search in vain saw is not searched again."""
    owners = assign([["a", "b", "c", str(i // 2)] for i in range(20_000)])
    assert len(owners) == 10_003
