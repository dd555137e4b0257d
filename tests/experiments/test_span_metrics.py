"""Figures worked out by hand on "pain(0) and(1) swelling(2) in(3) knee(4)", of which "and" and "in"
are stop words."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from lab.spans.metrics import link_figures, ratio_difference, slice_pairs, span_figures, span_leads
from lab.spans.records import SpanRecord

from spacy_krissel.errors import KrisselError
from spacy_krissel.evaluation.bootstrap import Bootstrap
from spacy_krissel.mentions.discontinuous import join_fragments

KNEE_PAIN = ((0, 1), (4, 5))
KNEE_SWELLING = ((2, 5),)


@pytest.fixture
def records():
    return [
        # The whole stretch was said to be knee pain: pain, swelling, knee, of which two are right.
        SpanRecord("1", "pain", KNEE_PAIN, ((0, 5),), 1, True, True, (1, 3)),
        # The two words without the stop word between them.
        SpanRecord("1", "swelling", KNEE_SWELLING, ((2, 3), (4, 5)), 2, False, False, (3,)),
        SpanRecord("2", "pain", ((0, 1),), (), 6, True, False, ()),
        # Linking alone.
        SpanRecord("3", "fever", None, ((0, 1),), 11, True, None, ()),
    ]


def test_tokens_are_summed_over_all_pairs(records):
    figures = span_figures(records)
    # Predicted 3 + 2 + 0, gold 2 + 2 + 1, right 2 + 2 + 0.
    whole = figures["slices"]["all"]
    assert (figures["n"], whole["n"], figures["n_without_content"]) == (3, 3, 0)
    assert whole["precision"] == pytest.approx(4 / 5)
    assert whole["recall"] == pytest.approx(4 / 5)
    assert whole["f1"] == pytest.approx(8 / 10)
    assert whole["exact"] == pytest.approx(1 / 3)


def test_slices_have_their_own_results(records):
    slices = span_figures(records)["slices"]
    assert {name: figures["n"] for name, figures in slices.items()} == {
        "all": 3,
        "contiguous": 2,
        "disjoint": 1,
        "seen": 2,
        "unseen": 1,
        "contiguous seen": 1,
        "disjoint seen": 1,
        "contiguous unseen": 1,
    }
    assert slices["disjoint"]["f1"] == pytest.approx(2 * 2 / (3 + 2))
    assert slices["contiguous"]["f1"] == pytest.approx(2 * 2 / (2 + 3))
    assert slices["contiguous seen"]["precision"] is None  # nothing was predicted
    assert slices["contiguous seen"]["recall"] == 0


def test_stop_words_can_be_counted(records):
    whole = span_figures(records, content_only=False)["slices"]["all"]
    # Predicted 5 + 2 + 0, gold 2 + 3 + 1, right 2 + 2 + 0; no set of pieces is the gold one.
    assert whole["precision"] == pytest.approx(4 / 7)
    assert whole["recall"] == pytest.approx(4 / 6)
    assert whole["exact"] == 0


def test_gold_spans_of_stop_words_only_are_left_out():
    records = [
        SpanRecord("1", "a", ((1, 2),), ((1, 3),), ignored=(1,)),
        SpanRecord("1", "b", ((0, 1),), ((0, 1),)),
    ]
    figures = span_figures(records)
    assert (figures["n"], figures["n_without_content"]) == (1, 1)
    assert figures["slices"]["all"]["precision"] == 1
    assert span_figures(records, content_only=False)["slices"]["all"]["precision"] == pytest.approx(
        2 / 3
    )


def test_accuracy_at_k_is_reported_per_slice(records):
    slices = link_figures(records)["slices"]
    assert slices["all"]["accuracy"] == {"1": 1 / 4, "5": 2 / 4, "10": 3 / 4}
    assert slices["seen"]["accuracy"] == {"1": 1 / 3, "5": 1 / 3, "10": 2 / 3}
    assert slices["disjoint"]["accuracy"]["1"] == 1
    assert slices["contiguous"]["accuracy"]["5"] == 0.5
    assert (
        link_figures([*records, SpanRecord("4", "x")])["slices"]["all"]["accuracy"]["10"] == 3 / 5
    )


def test_systems_without_spans_or_ranks_have_no_results(records):
    assert span_figures([replace(record, predicted=None) for record in records])["slices"] == {}
    assert link_figures([replace(record, rank=None) for record in records])["slices"] == {}
    assert span_figures([])["slices"] == link_figures([])["slices"] == {}


def test_intervals_resample_documents():
    # Two documents, one all right, one all wrong: any resample of pairs would lie between.
    records = [
        SpanRecord(str(i % 2), str(i), ((0, 1),), ((i % 2, i % 2 + 1),), 1 + i % 2)
        for i in range(40)
    ]
    for figures in (span_figures(records)["slices"]["all"], link_figures(records)["slices"]["all"]):
        assert all(
            figures["intervals"][name] == [0, 1]
            for name in figures["intervals"]
            if name not in ("5", "10")
        )


def test_leads_are_paired(records):
    worse = [replace(record, predicted=(), rank=7) for record in records]
    leads = span_leads(records, worse[::-1])
    assert leads["spans"]["all"]["f1"]["lead"] == pytest.approx(0.8)
    assert "precision" not in leads["spans"]["all"]
    assert leads["linking"]["all"]["1"]["lead"] == pytest.approx(0.25)
    assert leads["linking"]["all"]["10"]["lead"] == pytest.approx(-0.25)
    same = span_leads(records, records)
    assert same["spans"]["all"]["f1"] == {"lead": 0, "interval": [0, 0]}
    assert same["linking"]["unseen"]["5"] == {"lead": 0, "interval": [0, 0]}


def test_leads_require_the_same_pairs(records):
    with pytest.raises(KrisselError, match="K732.*1 of 4.*fever in 3"):
        span_leads(records, records[:3], name="short")
    blind = [replace(record, predicted=None) for record in records]
    assert span_leads(records, blind)["spans"] == {}


def test_ratio_differences_with_equal_denominators_equal_differences():
    rng = np.random.default_rng(0)
    docs = [str(i // 4) for i in range(80)]
    ours, theirs, one = rng.integers(0, 2, 80), rng.integers(0, 2, 80), np.ones(80)
    bootstrap = Bootstrap(docs)
    assert ratio_difference(bootstrap, (ours, one), (theirs, one)) == pytest.approx(
        bootstrap.difference(ours, theirs, one)
    )


pieces = st.lists(st.tuples(st.integers(0, 12), st.integers(1, 3)), max_size=4).map(
    lambda found: join_fragments((start, start + size) for start, size in found)
)
span_records = st.lists(
    st.builds(
        SpanRecord,
        doc=st.sampled_from("abc"),
        entity=st.text(max_size=2),
        gold=st.none() | pieces,
        predicted=pieces,
        rank=st.none() | st.integers(1, 12),
        seen=st.none() | st.booleans(),
        disjoint=st.none() | st.booleans(),
        ignored=st.lists(st.integers(0, 14)).map(tuple),
    ),
    max_size=8,
)


@given(span_records, st.booleans())
def test_invariants_hold(records, content_only):
    options = {"content_only": content_only, "resamples": 20}
    slices = span_figures(records, **options)["slices"]
    masks = slice_pairs(records)
    for name, figures in slices.items():
        assert figures["n"] <= masks[name].sum()
        assert 0 <= figures["f1"] <= 1 and 0 <= figures["exact"] <= 1
        low, high = sorted((figures["precision"] or 0, figures["recall"]))
        assert low - 1e-9 <= figures["f1"] <= high + 1e-9
        for interval in figures["intervals"].values():
            assert interval is None or 0 <= interval[0] <= interval[1] <= 1
    accuracy = [
        slice_["accuracy"] for slice_ in link_figures(records, resamples=20)["slices"].values()
    ]
    assert all(figures["1"] <= figures["5"] <= figures["10"] for figures in accuracy)
    # F1 does not tell which side was predicted, where both sides have tokens.
    both = [record for record in records if record.gold and record.predicted]
    turned = [replace(record, gold=record.predicted, predicted=record.gold) for record in both]
    options["content_only"] = False
    straight, back = (
        span_figures(side, **options)["slices"].get("all", {}) for side in (both, turned)
    )
    assert straight.get("f1") == back.get("f1") and straight.get("precision") == back.get("recall")


@given(span_records, st.booleans())
def test_the_gold_answer_is_perfect(records, content_only):
    perfect = [replace(record, predicted=record.gold) for record in records]
    for figures in span_figures(perfect, content_only=content_only, resamples=20)[
        "slices"
    ].values():
        assert figures["f1"] == figures["precision"] == figures["recall"] == figures["exact"] == 1
