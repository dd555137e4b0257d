import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from spacy_krissel.pipeline.reranker import reorder

SCORES = st.lists(st.floats(-3, 3, width=32), min_size=1, max_size=8).map(
    lambda scores: sorted(scores, reverse=True)
)


def candidates(*scores):
    return [{"id": f"E{i}", "name": f"n{i}", "score": score} for i, score in enumerate(scores)]


def test_reordering_matches_a_hand_made_example():
    old = candidates(0.9, 0.8, 0.7, 0.6)
    link = reorder(old, [], np.array([-0.1, 0.1, 0.0]))
    assert link.kb_id == "E1" and link.ties == []
    assert [(each["id"], round(each["score"], 6)) for each in link.candidates] == [
        ("E1", 0.9),
        ("E0", 0.8),
        ("E2", 0.7),
        ("E3", 0.6),
    ]
    assert old == candidates(0.9, 0.8, 0.7, 0.6), "the dicts on the doc are not changed"


@given(SCORES)
def test_zero_corrections_change_nothing(scores):
    old = candidates(*scores)
    assert reorder(old, [], np.zeros(len(scores))) == ("E0", old, [])


@given(SCORES, st.data())
def test_reordered_candidates_are_sorted_and_complete(scores, data):
    k = data.draw(st.integers(1, len(scores)))
    changes = data.draw(st.lists(st.floats(-2, 2, width=32), min_size=k, max_size=k))
    link = reorder(candidates(*scores), [], np.array(changes))
    found = [each["score"] for each in link.candidates]
    assert found == sorted(found, reverse=True)
    assert sorted(each["id"] for each in link.candidates) == sorted(
        each["id"] for each in candidates(*scores)
    )
    assert link.kb_id == link.candidates[0]["id"]
    # Those beyond the k first stay behind, in their order.
    assert [each["id"] for each in link.candidates[k:]] == [f"E{i}" for i in range(k, len(scores))]


@given(SCORES, st.floats(0.01, 1), st.data())
def test_a_lead_of_twice_the_largest_correction_is_kept(scores, bound, data):
    """Rank regularisation: no correction, however wrong, turns two candidates that are far enough
    apart."""
    each = st.floats(-bound, bound)
    changes = data.draw(st.lists(each, min_size=len(scores), max_size=len(scores)))
    place = {
        c["id"]: i
        for i, c in enumerate(reorder(candidates(*scores), [], np.array(changes)).candidates)
    }
    for i in range(len(scores)):
        for j in range(i + 1, len(scores)):
            if scores[i] - scores[j] > 2 * bound + 1e-6:
                assert place[f"E{i}"] < place[f"E{j}"]


def test_ties_are_updated():
    old = candidates(0.9, 0.9, 0.5)
    assert reorder(old, ["E0", "E1"], np.zeros(3)).ties == ["E0", "E1"]
    assert reorder(old, ["E0", "E1"], np.array([0.1, 0.1, 0])).ties == ["E0", "E1"]
    assert reorder(old, ["E0", "E1"], np.array([0.0, 0.1, 0])).ties == []
    # Another has overtaken the two.
    assert reorder(old, ["E0", "E1"], np.array([0.0, 0.0, 0.9]))[2] == []


def test_written_scores_are_plain_floats():
    link = reorder(candidates(0.5, 0.4), [], np.array([0.1, 0.3], dtype="float32"))
    assert all(type(each["score"]) is float for each in link.candidates)
