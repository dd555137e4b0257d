import numpy as np
import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from sklearn.metrics import average_precision_score

from spacy_krissel.errors import KrisselError
from spacy_krissel.evaluation.metrics import nil_scores
from spacy_krissel.evaluation.nil import call_nil, fit_threshold, nil_curve, top_scores

INF = float("inf")
# Few values for many ties, and any float for what rounding does to them.
SCORES = st.sampled_from([0.1, 0.2, 0.3, 0.5, 0.9, -INF, INF]) | st.floats(-1e30, 1e30)
MENTIONS = st.lists(st.tuples(SCORES, st.booleans()), min_size=1, max_size=12)
SUBNORMAL = 5e-324


def judge(scores, is_nil, threshold):
    """Precision, recall and F1 of NIL with the linker's rule; None where nothing is called NIL."""
    called = [score < threshold for score in scores]
    right = sum(a and b for a, b in zip(called, is_nil, strict=True))
    if not any(called):
        return None
    return right / sum(called), right / sum(is_nil), 2 * right / (sum(called) + sum(is_nil))


def every_threshold(scores):
    """One at least for each way in which a threshold can divide the mentions."""
    below = [score for score in scores if np.isfinite(score)]
    return [*below, *(float(np.nextafter(score, INF)) for score in scores if score < INF)]


def test_the_nil_curve_agrees_with_hand_computed_values():
    """Two at 0.4 of which one is NIL enter together."""
    curve = nil_curve([0.4, 0.2, 0.8, 0.4, 1.0], [True, True, False, False, False])
    assert curve.thresholds.tolist() == pytest.approx([0.3, 0.6, 0.9, 1.0 + 0.8 / 3 / 2])
    assert curve.called.tolist() == [1, 3, 4, 5]
    assert curve.precision.tolist() == pytest.approx([1, 2 / 3, 2 / 4, 2 / 5])
    assert curve.recall.tolist() == [0.5, 1, 1, 1]
    assert curve.f1.tolist() == pytest.approx([2 / 3, 4 / 5, 4 / 6, 4 / 7])
    assert curve.average_precision == pytest.approx(0.5 * 1 + 0.5 * 2 / 3)


def test_a_mention_without_candidates_is_nil_at_any_threshold():
    curve = nil_curve([-INF, 0.5, 0.7, -INF], [True, False, True, False])
    assert curve.called.tolist() == [2, 3, 4] and curve.precision[0] == curve.recall[0] == 0.5
    assert curve.thresholds.tolist() == pytest.approx([0.4, 0.6, 0.8])


def test_a_mention_that_was_not_found_is_nil_at_no_threshold():
    curve = nil_curve([INF, 0.5, 0.7], [True, True, False])
    assert curve.called.tolist() == [1, 2]
    assert curve.recall.tolist() == [0.5, 0.5]
    assert curve.average_precision == 0.5
    assert nil_curve([INF, INF], [True, False]).average_precision == 0.0


@given(MENTIONS)
@example([(SUBNORMAL, True), (2 * SUBNORMAL, False)])
@example([(1.0, True), (float(np.nextafter(1.0, 2.0)), False)])
@example([(-INF, True), (-INF, False)])
def test_the_curve_agrees_with_the_linkers_rule(mentions):
    scores, is_nil = zip(*mentions, strict=True)
    assume(any(is_nil))
    curve = nil_curve(scores, is_nil)
    assert np.isfinite(curve.thresholds).all() and (np.diff(curve.thresholds) > 0).all()
    for i, threshold in enumerate(curve.thresholds):
        assert curve.called[i] == sum(score < threshold for score in scores)
        assert (curve.precision[i], curve.recall[i], curve.f1[i]) == judge(
            scores, is_nil, threshold
        )
    # And no division of the mentions is left out.
    found = {judge(scores, is_nil, threshold) for threshold in every_threshold(scores)} - {None}
    assert found == set(zip(curve.precision, curve.recall, curve.f1, strict=True))


@given(st.lists(st.tuples(st.integers(0, 6), st.booleans()), min_size=1, max_size=20))
def test_average_precision_agrees_with_its_definition_and_sklearn(mentions):
    scores, is_nil = zip(*mentions, strict=True)
    assume(any(is_nil))
    expected = before = 0.0
    for limit in sorted(set(scores)):
        below = [nil for score, nil in mentions if score <= limit]
        recall = sum(below) / sum(is_nil)
        expected += sum(below) / len(below) * (recall - before)
        before = recall
    found = nil_curve(scores, is_nil).average_precision
    assert found == pytest.approx(expected)
    assert found == pytest.approx(average_precision_score(is_nil, [-score for score in scores]))


@given(MENTIONS)
def test_the_fitted_threshold_has_the_best_f1(mentions):
    scores, is_nil = zip(*mentions, strict=True)
    assume(any(is_nil) and not all(is_nil) and any(np.isfinite(score) for score in scores))
    judged = [each for each in (judge(scores, is_nil, t) for t in every_threshold(scores)) if each]
    f1 = max(each[2] for each in judged)
    # Of equal ones the lowest threshold, which is the most precise.
    assert judge(scores, is_nil, fit_threshold(scores, is_nil)) == max(
        each for each in judged if each[2] == f1
    )


@given(MENTIONS, st.sampled_from([0.2, 0.5, 0.75, 0.9, 1.0]))
def test_the_fitted_threshold_has_the_best_recall_at_a_precision(mentions, precision):
    scores, is_nil = zip(*mentions, strict=True)
    assume(any(is_nil) and not all(is_nil) and any(np.isfinite(score) for score in scores))
    judged = [each for each in (judge(scores, is_nil, t) for t in every_threshold(scores)) if each]
    reached = [each for each in judged if each[0] >= precision]
    if not reached:
        with pytest.raises(KrisselError, match="K713"):
            fit_threshold(scores, is_nil, precision)
        return
    recall = max(each[1] for each in reached)
    best = max(each for each in reached if each[1] == recall)
    assert judge(scores, is_nil, fit_threshold(scores, is_nil, precision)) == best


@given(
    st.lists(st.tuples(st.integers(0, 6), st.booleans()), min_size=2, max_size=20),
    st.integers(1, 5),
)
@example([(0, False)] * 2 + [(0, True)] * 3 + [(1, False)] * 2 + [(1, True), (2, False)], 1)
def test_a_nil_fraction_is_equivalent_to_repeated_mentions(mentions, times):
    scores, is_nil = zip(*mentions, strict=True)
    assume(any(is_nil) and not all(is_nil))
    more = [each for each in mentions for _ in range(times if each[1] else 1)]
    repeated = nil_curve(*zip(*more, strict=True))
    share = sum(nil for _, nil in more) / len(more)
    found = nil_curve(scores, is_nil, share)
    for theirs, ours in zip(repeated, found, strict=True):
        assert_allclose(ours, theirs)
    assert fit_threshold(scores, is_nil, share=share) == pytest.approx(
        fit_threshold(*zip(*more, strict=True))
    )


def test_average_precision_depends_on_the_nil_fraction():
    """NIL by 1.5 standard deviations lower: 84.8 where 48.5 % are NIL, 51.7 where 11.8 % are, as in
    PEL's MedMentions. By chance the area is the share."""
    random = np.random.default_rng(0)
    is_nil = random.random(200_000) < 0.485
    for distance, areas in ((1.5, (0.848, 0.517)), (0.0, (0.485, 0.118))):
        scores = random.normal(size=len(is_nil)) - distance * is_nil
        found = [nil_curve(scores, is_nil, share).average_precision for share in (None, 0.118)]
        assert found == pytest.approx(areas, abs=0.01)


def test_fitted_thresholds_agree_with_hand_computed_values():
    scores, is_nil = [0.1, 0.2, 0.3, 0.4, 0.5], [True, False, True, True, False]
    assert fit_threshold(scores, is_nil) == pytest.approx(0.45)
    assert fit_threshold(scores, is_nil, 0.75) == pytest.approx(0.45)
    assert fit_threshold(scores, is_nil, 0.8) == pytest.approx(0.15)
    assert fit_threshold(scores, is_nil, 1.0) == pytest.approx(0.15)
    # A wider gap leaves room on both sides: small changes of the scores change no decision.
    assert fit_threshold([0.1, 0.9], [True, False]) == pytest.approx(0.5)


def test_unsuitable_scores_and_settings_raise():
    with pytest.raises(KrisselError, match="K711.* 2 mentions"):
        fit_threshold([0.1, 0.2], [False, False])
    with pytest.raises(KrisselError, match="K711"):
        fit_threshold([], [])
    with pytest.raises(KrisselError, match="K712.* 2 mentions"):
        fit_threshold([0.1, 0.2], [True, True])
    with pytest.raises(
        KrisselError, match=r"K713.* of 0\.9\. .* is 0\.6666, at a recall of 1\.0000"
    ):
        fit_threshold([0.1, 0.2, 0.3], [False, True, True], 0.9)
    assert fit_threshold([0.1, 0.2, 0.3], [False, True, True], 0.6666) > 0.3, (
        "what the message says can be reached"
    )
    with pytest.raises(KrisselError, match="K714.* 1 of 2 .*not a number"):
        fit_threshold([0.1, float("nan")], [True, False])
    with pytest.raises(KrisselError, match="K714.* 2 of 2 .*no candidate"):
        fit_threshold([-INF, -INF], [True, False])
    for precision in (0.0, -0.1, 1.1, float("nan")):
        with pytest.raises(KrisselError, match="K006.*precision"):
            fit_threshold([0.1, 0.2], [True, False], precision)
    for share in (0.0, 1.0):
        with pytest.raises(KrisselError, match="K006.*share"):
            fit_threshold([0.1, 0.2], [True, False], share=share)


def test_top_scores_of_records_include_nil(make_record):
    """A linker that said NIL keeps the score that was too low."""
    linked = make_record(prediction="D5", ranked=["D5", "D1"], scores=[0.7, 0.6])
    said_nil = make_record(gold=("NIL",), prediction="NIL", ranked=["D1"], scores=[0.2])
    without = [make_record(prediction="NIL"), make_record(prediction="")]
    lost = make_record(found=False)
    assert top_scores([linked, said_nil, *without, lost]).tolist() == [0.7, 0.2, -INF, -INF, INF]
    assert top_scores([linked, make_record(prediction="D5", ranked=["D5"])]) is None
    assert top_scores([make_record(prediction="X9", ranked=[])]) is None


def test_records_below_the_threshold_become_nil(make_record):
    records = [
        make_record(prediction="D5", scores=[0.5]),
        make_record(prediction="D1", scores=[0.4]),
    ]
    assert [record.prediction for record in call_nil(records, [0.5, 0.4], 0.5)] == ["D5", "NIL"]
    assert call_nil(records, [0.5, 0.4], None) == records
    assert records[1].prediction == "D1"


def test_nil_scores_include_average_precision_and_accuracy(make_record):
    records = [
        make_record(gold=("NIL",), prediction="NIL", ranked=["D1"], scores=[0.2]),
        make_record(gold=("NIL",), prediction="D1", ranked=["D1"], scores=[0.6]),
        make_record(gold=("D5",), prediction="NIL", ranked=["D5"], scores=[0.3]),
        make_record(gold=("D5",), prediction="D5", ranked=["D5"], scores=[0.9]),
        make_record(gold=("D5",), prediction="D5", ranked=["D5"], scores=[0.7]),
    ]
    scores = nil_scores(records)
    # NIL at rank 1 of 1 and 2 of 3.
    assert scores["aupr"] == pytest.approx(0.5 * 1 + 0.5 * 2 / 3)
    assert (scores["strict"], scores["strict_linked"]) == (3 / 5, pytest.approx(2 / 3))
    assert nil_scores(records[:2])["strict_linked"] is None
    assert nil_scores([*records, make_record(prediction="D5", ranked=["D5"])])["aupr"] is None
