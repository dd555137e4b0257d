import warnings

import pytest
from spacy.tokens import Span
from spacy.training import Example

from spacy_krissel.errors import KrisselWarning
from spacy_krissel.evaluation.scorers import make_link_scorer, score_links
from spacy_krissel.mentions.annotations import register_extensions


@pytest.fixture
def example(make_doc):
    def make(gold, predicted, text="He has MS and a cold", spans_key="", predicted_text=None):
        return Example(
            make_doc(predicted_text or text, predicted, spans_key=spans_key),
            make_doc(text, gold, spans_key=spans_key),
        )

    return make


def test_links_are_scored_by_offsets_and_id(example):
    scores = score_links(
        [example([(2, 3, "D1"), (5, 6, "D3")], [(2, 3, "D1", "OTHER"), (4, 6, "D3")])]
    )
    assert scores["krissel_acc"] == 0.5
    assert (scores["krissel_span_p"], scores["krissel_span_r"], scores["krissel_span_f"]) == (
        0.5,
        0.5,
        0.5,
    )
    assert scores["krissel_nil_f"] is None


def test_a_missing_link_is_never_correct(example):
    # spaCy's own link scorer counts "" == "" as a true positive.
    assert score_links([example([(2, 3, "")], [(2, 3, "")])])["krissel_acc"] is None
    scores = score_links([example([(2, 3, "D1")], [(2, 3, "")])])
    assert (scores["krissel_acc"], scores["krissel_span_f"]) == (0.0, 0.0)


def test_a_composite_is_correct_by_any_of_its_ids(example):
    gold = [(2, 3, "D1|D2"), (5, 6, "D3+D4")]
    assert score_links([example(gold, [(2, 3, "D2"), (5, 6, "D3")])])["krissel_acc"] == 1.0
    assert score_links([example([(2, 3, "X+1")], [(2, 3, "X+1")])])["krissel_acc"] == 1.0


def test_nil_is_scored_separately(example):
    gold = [(0, 1, "NIL"), (1, 2, "-1"), (2, 3, "D1"), (5, 6, "D3")]
    scores = score_links(
        [example(gold, [(0, 1, "NIL"), (1, 2, "D9"), (2, 3, "NIL"), (5, 6, "D3")])]
    )
    assert (scores["krissel_nil_p"], scores["krissel_nil_r"], scores["krissel_nil_f"]) == (
        0.5,
        0.5,
        0.5,
    )
    # Accuracy and span scores are about the mentions that have a concept.
    assert (scores["krissel_acc"], scores["krissel_span_p"]) == (0.5, 1.0)


def test_predictions_for_mentions_without_gold_ids_are_ignored(example):
    scores = score_links([example([(2, 3, ""), (5, 6, "D3")], [(2, 3, "D9"), (5, 6, "D3")])])
    assert (scores["krissel_acc"], scores["krissel_span_p"]) == (1.0, 1.0)


def test_ties_count_as_wrong_links(example):
    register_extensions()
    tied = example([(2, 3, "D1")], [(2, 3, "D1")])
    tied.predicted.ents[0]._.krissel_ties = ["D1", "D2"]
    scores = score_links([tied])
    assert (scores["krissel_acc"], scores["krissel_span_p"], scores["krissel_span_r"]) == (
        0.0,
        0.0,
        0.0,
    )


def test_span_groups_may_have_two_ids_at_the_same_offsets(example):
    gold = [(2, 3, "D1"), (2, 3, "D2"), (1, 3, "D3")]
    predicted = [(2, 3, "D2"), (2, 3, "D1"), (1, 3, "D3")]
    pair = example(gold, predicted, spans_key="sc")
    assert score_links([pair], spans_key="sc")["krissel_acc"] == 1.0
    assert score_links([pair])["krissel_acc"] is None
    pair.predicted.spans["sc"] = []
    with pytest.warns(KrisselWarning, match=r"KW034.*spans\['sc'\].* 1 document.* 3 gold mention"):
        assert set(score_links([pair], spans_key="sc").values()) == {None}


def test_white_space_may_differ(example):
    pair = example(
        [(5, 6, "D3")],
        [(6, 7, "D3")],
        text="He has MS and a cold",
        predicted_text="He  has MS and a cold",
    )
    assert score_links([pair])["krissel_acc"] == 1.0


def test_gold_docs_are_unchanged(example):
    pair = example([(2, 3, "D1")], [(2, 3, "D1")])
    before = pair.reference.to_bytes()
    score_links([pair])
    assert pair.reference.to_bytes() == before


def test_the_scorer_accepts_settings_of_the_component(example):
    scorer = make_link_scorer()
    scores = scorer(
        [example([(2, 3, "D1")], [(2, 3, "D1")])], spans_key="", threshold=0.3, n_candidates=5
    )
    assert scores["krissel_acc"] == 1.0


def test_scores_of_no_examples_are_none():
    assert set(score_links([]).values()) == {None}


def test_without_a_predicted_mention_scores_are_none(example):
    """A linker alone, on docs without entities, is not wrong in all of them."""
    with pytest.warns(KrisselWarning, match="KW034.*no predicted entity"):
        assert set(score_links([example([(2, 3, "D1")], []), example([], [])]).values()) == {None}
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert (
            score_links([example([(2, 3, "D1")], []), example([], [(5, 6, "D3")])])["krissel_acc"]
            == 0.0
        )
        score_links([example([], [])])


def linked(pair):
    """Add candidates to the entities, like a linker does."""
    for ent in pair.predicted.ents:
        ent._.krissel_candidates = [{"id": ent.kb_id_}]
    return pair


def test_two_linkers_have_separate_scores(example):
    """One of entities and one of a group, in either order, with and without gold for both."""
    both = linked(example([(2, 3, "D1")], [(2, 3, "D1")]))
    both.predicted.spans["sc"] = [Span(both.predicted, 5, 6, label="X", kb_id="D9")]
    for gold, acc in (([Span(both.reference, 5, 6, label="X", kb_id="D3")], 0.0), ([], None)):
        both.reference.spans["sc"] = gold
        for keys in (("", "sc"), ("sc", "")):
            scores = {}
            for key in keys:
                scores.update(score_links([both], spans_key=key))
            assert (scores["krissel_acc"], scores["krissel_sc_acc"]) == (1.0, acc)
            assert (scores["krissel_span_f"], scores["krissel_sc_span_f"]) == (1.0, acc)


def test_a_single_linker_of_a_span_group_also_has_plain_score_names(example):
    """Training configs choose the best model by them; entities that something else linked change
    nothing."""
    pair = example([(2, 3, "D1")], [(2, 3, "D1")], spans_key="sc")
    expected = {
        "krissel_acc": 1.0,
        "krissel_span_f": 1.0,
        "krissel_sc_acc": 1.0,
        "krissel_sc_span_f": 1.0,
    }
    for kb_id in ("", "Q1"):
        pair.predicted.ents = [Span(pair.predicted, 0, 1, label="X", kb_id=kb_id)]
        assert expected.items() <= score_links([pair], spans_key="sc").items()


def test_a_span_group_without_gold_removes_no_score(example):
    pair = example([(2, 3, "D1")], [(2, 3, "D1")], spans_key="a")
    pair.predicted.spans["b"] = [Span(pair.predicted, 0, 1, label="X", kb_id="D2")]
    scores = {**score_links([pair], spans_key="a"), **score_links([pair], spans_key="b")}
    assert (scores["krissel_acc"], scores["krissel_a_acc"], scores["krissel_b_acc"]) == (
        1.0,
        1.0,
        None,
    )
