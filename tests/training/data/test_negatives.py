import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spacy_krissel.errors import KrisselError
from spacy_krissel.training.data.negatives import Negatives

HOMONYMS = {1: {2}, 2: {1}}


@given(
    gold=st.lists(st.integers(0, 29), min_size=1, max_size=6),
    n_negatives=st.integers(1, 12),
    hard_share=st.sampled_from([0.0, 0.5, 1.0]),
    shared=st.booleans(),
    seed=st.integers(0, 50),
)
def test_candidates_contain_gold_and_valid_negatives(gold, n_negatives, hard_share, shared, seed):
    rng = np.random.default_rng(seed)
    nearest = np.stack([rng.permutation(30)[:20] for _ in gold]) if hard_share else None
    draw = Negatives(
        30, HOMONYMS, n_negatives=n_negatives, hard_share=hard_share, shared=shared, seed=seed
    )
    entities, columns, negatives = draw.draw(gold, nearest)
    assert entities[columns].tolist() == gold
    assert negatives.shape == (len(gold), len(entities))
    assert ((0 <= entities) & (entities < 30)).all()
    for own, mask in zip(gold, negatives, strict=True):
        found = entities[mask].tolist()
        assert len(set(found)) == len(found)
        assert not {own, *HOMONYMS.get(own, ())} & set(found)
        if not shared:
            assert len(found) == n_negatives
    if shared:
        assert len(set(entities.tolist())) == len(entities) == len(set(gold)) + n_negatives
    else:
        assert len(entities) == len(gold) * (1 + n_negatives)


def test_hard_negatives_are_filled_up_with_random_ones():
    draw = Negatives(100, HOMONYMS, n_negatives=4, hard_share=0.5, shared=False)
    entities, _, negatives = draw.draw([1, 5], np.array([[1, 2, 7, 8, 9], [6, -1, -1, -1, -1]]))
    # The first: its homonym is left out; the second: too few, so that random ones take their place.
    assert entities[negatives[0]][:2].tolist() == [7, 8] and len(entities[negatives[0]]) == 4
    assert entities[negatives[1]][0] == 6 and len(entities[negatives[1]]) == 4


def test_distinct_candidates_are_the_same_entities():
    """An entity that is a negative of two mentions, and the own one of a third, is encoded three
    times."""
    negatives = Negatives(20, {}, 3, 0.5, shared=False)
    candidates = negatives.draw(
        [0, 1, 2, 0], np.array([[1, 2, 3], [0, 2, 3], [3, 0, 1], [5, 1, 2]])
    )
    merged = candidates.distinct()
    assert len(set(merged.entities.tolist())) == len(merged.entities) < len(candidates.entities)
    assert merged.entities[merged.gold].tolist() == [0, 1, 2, 0]
    for own, found in zip(candidates.negatives, merged.negatives, strict=True):
        assert sorted(merged.entities[found]) == sorted(candidates.entities[own])


def test_shared_hard_negatives_come_in_turns():
    draw = Negatives(100, HOMONYMS, n_negatives=3, hard_share=1.0, shared=True)
    entities, columns, negatives = draw.draw([1, 5], np.array([[2, 7, 8, 9], [6, 10, 11, 12]]))
    # 2 is a homonym of 1, so that of the first mention comes none in the first turn.
    assert entities.tolist() == [1, 5, 6, 7, 10]
    assert columns.tolist() == [0, 1]
    assert negatives.tolist() == [[False, True, True, True, True], [True, False, True, True, True]]


def test_hard_negative_is_never_a_homonym_of_the_mention():
    draw = Negatives(100, HOMONYMS, n_negatives=1, hard_share=1.0, shared=True)
    entities, _, negatives = draw.draw([1, 5], np.array([[7], [2]]))
    assert entities.tolist() == [1, 5, 7]
    entities, _, negatives = draw.draw([1, 5], np.array([[-1], [2]]))
    assert entities.tolist() == [1, 5, 2] and negatives.tolist() == [
        [False, True, False],
        [True, False, True],
    ]


def test_random_negatives_are_uniform_and_reproducible():
    def drawn(seed):
        draw = Negatives(10, {}, n_negatives=2, hard_share=0.0, shared=True, seed=seed)
        return [draw.draw([0]).entities[1:].tolist() for _ in range(500)]

    assert drawn(3) == drawn(3) != drawn(4)
    counts = np.bincount(np.concatenate(drawn(3)), minlength=10)
    assert counts[0] == 0 and counts[1:].min() > 70 and counts[1:].max() < 160


def test_small_ontology_gives_all_its_entities():
    entities, _, negatives = Negatives(
        3, HOMONYMS, n_negatives=8, hard_share=0.0, shared=False
    ).draw([1, 0])
    assert [sorted(entities[mask].tolist()) for mask in negatives] == [[0], [1, 2]]


def test_n_nearest_covers_the_hard_negatives():
    assert Negatives(1000, {}, n_negatives=64, hard_share=0.5, shared=False).n_nearest(32) == 48
    assert Negatives(1000, {}, n_negatives=64, hard_share=0.5, shared=True).n_nearest(32) == 20
    assert Negatives(1000, {}, n_negatives=64, hard_share=0.0, shared=True).n_nearest(32) == 0
    assert Negatives(10, {}, n_negatives=64, hard_share=0.5, shared=True).n_nearest(32) == 10


@pytest.mark.parametrize("settings", [{"n_negatives": 0}, {"hard_share": -0.1}, {"hard_share": 2}])
def test_invalid_settings_raise(settings):
    with pytest.raises(KrisselError, match="K006"):
        Negatives(10, {}, **{"n_negatives": 2, "hard_share": 0.5, "shared": True, **settings})
