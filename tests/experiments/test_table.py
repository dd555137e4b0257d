"""Figures that can be worked out by hand: four mentions in two documents, or in one."""

import pytest
from lab.ablation.settings import Ablation
from lab.ablation.table import (
    ablation_report,
    ablation_table,
    answers,
    difference,
    mention_scores,
    recall_curve,
    strict_accuracy,
    summarize,
)

from spacy_krissel.errors import KrisselError
from spacy_krissel.evaluation.records import LinkRecord


def records(right, docs="aabb"):
    """Answers about mentions of D1, each linked to D1 or, where `right` has a 0, to D2."""
    found = []
    for i, (value, doc) in enumerate(zip(right, docs, strict=False)):
        answer = "D1" if value else "D2"
        found.append(
            LinkRecord(doc, i, i + 1, "x", "", ("D1",), ranked=[answer], prediction=answer)
        )
    return answers(found)


def test_mention_scores_are_means_over_seeds():
    scores = mention_scores({0: records([1, 1, 0, 0]), 1: records([1, 0, 0, 1])})
    assert list(scores.values()) == [1.0, 0.5, 0.0, 0.5]


def test_strict_accuracy_resamples_documents():
    found = strict_accuracy({0: records([1, 1, 0, 0]), 1: records([1, 1, 1, 0])})
    assert (
        found["n"] == 4 and found["strict"] == 0.625 and found["by_seed"] == {"0": 0.5, "1": 0.75}
    )
    # Drawn are the documents aa, ab or bb: a is always right, b has a quarter.
    assert found["interval"] == [0.25, 1.0]


def test_differences_are_paired():
    ours, theirs = {0: records([1, 1, 1, 0])}, {0: records([0, 1, 0, 0])}
    found = difference(ours, theirs)
    # Document a gains a half, so does b: whatever is drawn, the gain is a half.
    assert found == {"strict": 0.5, "interval": [0.5, 0.5]}
    assert difference(theirs, ours) == {"strict": -0.5, "interval": [-0.5, -0.5]}
    # By one document alone: nothing, half of it, or all.
    assert difference({0: records([1, 1, 0, 0])}, {0: records([0, 0, 0, 0])}) == {
        "strict": 0.5,
        "interval": [0.0, 1.0],
    }


def test_differences_are_of_means_over_seeds():
    ours = {0: records([1, 1, 1, 1]), 1: records([1, 0, 1, 0])}
    assert difference(ours, {5: records([1, 0, 1, 0])}) == {
        "strict": 0.25,
        "interval": [0.25, 0.25],
    }


def test_differences_do_not_depend_on_mention_order():
    ours = records([1, 0, 1, 0])
    assert difference({0: ours}, {0: dict(reversed(ours.items()))}) == {
        "strict": 0.0,
        "interval": [0.0, 0.0],
    }


def test_comparing_other_mentions_raises():
    with pytest.raises(KrisselError, match="K904.*1 are.*b 3-4"):
        difference({0: records([1, 1, 1, 1])}, {0: records([1, 1, 1])})


def test_the_recall_curve_counts_distinct_entities():
    runs = [
        LinkRecord("a", 0, 1, "x", "", ("D1",), ranked=["D1", "D2"]),
        # An entity that stands there twice is one candidate; of a composite any id will do.
        LinkRecord("a", 2, 3, "x", "", ("D3", "D4"), ranked=["D1", "D1", "D4", "D3"]),
        LinkRecord("a", 4, 5, "x", "", ("D9",), ranked=["D1"]),
        LinkRecord("a", 6, 7, "x", "", ("D2",), ranked=["D5", "D6", "D2"]),
        LinkRecord("a", 8, 9, "x", "", ("NIL",), ranked=["D1"]),
        LinkRecord("a", 10, 11, "x", "", (), ranked=["D1"]),
    ]
    assert recall_curve({0: answers(runs)}, 4) == [0.25, 0.5, 0.75, 0.75]
    assert recall_curve({0: answers(runs[:1]), 1: answers(runs[2:3])}, 2) == [0.5, 0.5]


@pytest.fixture
def ablation():
    data = {"ontology": "o", "mentions": "m"}
    gold = {"gold": "g", **data}
    rows = {name: {"title": name.upper()} for name in ("full", "less", "part")}
    rows["less"]["seeds"] = [7]
    return Ablation(train={"config": "c", **data}, sets={"one": gold, "two": gold}, rows=rows)


def test_summary_table_and_report_agree(ablation):
    right, half = records([1, 1, 1, 1]), records([1, 0, 1, 0])
    found = summarize(
        ablation,
        {
            "full": {"one": {0: right}, "two": {0: right}},
            "less": {"one": {7: half}, "two": {7: right}},
            "part": {"two": {0: half}},
        },
    )
    full, less, part = found["rows"]
    assert full["mean"] == 1.0 and less["mean"] == 0.75 and part["mean"] is None
    assert "difference" not in full["sets"]["one"]
    assert less["sets"]["one"]["difference"] == {"strict": -0.5, "interval": [-0.5, -0.5]}
    assert ablation_table(found).splitlines()[2:] == [
        "| FULL | 100.0 (100.0 to 100.0) |  | 100.0 (100.0 to 100.0) |  | 100.0 |",
        "| LESS | 50.0 | -50.0 (-50.0 to -50.0) | 100.0 | +0.0 (+0.0 to +0.0) | 75.0 |",
        "| PART | – |  | 50.0 | -50.0 (-50.0 to -50.0) | – |",
    ]
    ablation.rows["part"] = ablation.rows["part"].model_copy(update={"baseline": "less"})
    beside = summarize(
        ablation,
        {"full": {"two": {0: right}}, "less": {"two": {7: half}}, "part": {"two": {0: half}}},
    )
    assert (
        ablation_table(beside).splitlines()[-1]
        == "| PART | – |  | 50.0 | +0.0 (+0.0 to +0.0), to LESS | – |"
    )
    shot = {"shots": 1, "strict": [0.5, 0.75], "prototypes": 3.0}
    report = ablation_report(
        {**found, "top_k": {"one": {"full": [0.25, 0.5, 0.75]}}, "few_shot": {"two": [shot]}}
    )
    assert "Mentions: one 4, two 4. Seeds: 0; LESS: 7." in report
    assert "| set, system | K = 1 | K = 2 |\n" in report and "| one, FULL | 25.0 | 50.0 |" in report
    assert "## Few-shot: two" in report and "50.0 to 75.0" in report
