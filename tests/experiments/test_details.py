"""Figures that can be worked out by hand: of two seeds, and of four mentions."""

import json

import pytest
from lab.ablation.details import (
    aupr_lead,
    detail_parts,
    drawn_nil_curve,
    gradient_figures,
    nil_figures,
    run_scores,
    seen_figures,
)

from spacy_krissel.evaluation.records import LinkRecord


def report(right, seen, unseen):
    def part(value, n):
        return {"n": n, "recall": {"1": value, "5": 0.9, "64": 1.0}}

    slices = {"seen": part(seen, 3), **({"unseen": part(unseen, 1)} if unseen is not None else {})}
    return {**part(right, 4), "slices": slices}


def record(i, score, gold):
    return LinkRecord(
        "d", i, i + 1, "x", "", (gold,), ranked=["D1"], scores=[score], prediction="D1"
    )


def test_seen_and_unseen_are_means_of_the_seeds():
    found = seen_figures([report(0.5, 0.6, 0.2), report(0.7, 0.8, 0.4)])
    assert {part: figures["n"] for part, figures in found.items()} == {
        "all": 4,
        "seen": 3,
        "unseen": 1,
    }
    assert [found[part]["recall"]["1"] for part in ("all", "seen", "unseen")] == pytest.approx(
        [0.6, 0.7, 0.3]
    )
    assert found["seen"]["recall"]["64"] == 1.0
    nothing = seen_figures([report(0.5, 0.5, None)])["unseen"]
    assert nothing == {"n": 0, "recall": {"1": None, "64": None}}


def calibration(threshold, share=None):
    return {
        "threshold": threshold,
        "nil_share": share,
        "after": {"precision": threshold, "recall": 0.5},
    }


def test_nil_results_agree_with_hand_computed_values():
    """Two of four mentions are called NIL, one of them rightly; with a stricter threshold, one,
    rightly."""
    run = [record(0, 0.9, "D1"), record(1, 0.1, "NIL"), record(2, 0.4, "D2"), record(3, 0.5, "NIL")]
    # As they were linked with another threshold.
    run[3].prediction = "NIL"
    found = nil_figures([run, run], [calibration(0.45), calibration(0.2)])
    assert found["thresholds"] == [0.45, 0.2] and found["share"] == 0.5
    assert found["fitted"] == {"precision": pytest.approx(0.325), "recall": 0.5}
    assert [found[key] for key in ("precision", "recall", "strict", "strict_linked")] == [
        0.75,
        0.5,
        0.5,
        0.5,
    ]
    # With 0.45 the third is NIL, and with 0.2 its entity is not among the candidates.
    assert found["recall_64"] == 0.5
    run[2].ranked.append("D2")
    assert nil_figures([run], [calibration(0.2)])["recall_64"] == 0.75
    # A NIL mention counts a third.
    rare = nil_figures([run], [calibration(0.45, 0.25)])
    assert [rare[key] for key in ("share", "precision", "recall")] == pytest.approx(
        [0.25, 0.25, 0.5]
    )
    assert rare["aupr"] < found["aupr"]


def test_the_drawn_nil_curve_has_at_most_200_points():
    records = [
        record(0, 0.9, "D1"),
        record(1, 0.1, "NIL"),
        record(2, 0.4, "D2"),
        record(3, 0.5, "NIL"),
    ]
    found = drawn_nil_curve(run_scores(records))
    assert found == {
        "recall": [0.5, 0.5, 1.0, 1.0],
        "precision": pytest.approx([1, 1 / 2, 2 / 3, 1 / 2]),
    }
    many = [record(i, i / 1000, "NIL" if i < 400 else "D1") for i in range(1000)]
    many = drawn_nil_curve(run_scores(many))
    assert len(many["recall"]) == 200 and many["recall"][-1] == 1.0
    unscored = LinkRecord("d", 9, 10, "x", "", ("NIL",), ranked=["D1"], prediction="D1")
    assert run_scores([unscored]) is None and drawn_nil_curve(None) is None


def test_the_aupr_lead_is_paired_by_mention():
    """By hand: NIL first is an area of 1, NIL second of one half; whatever order the mentions come
    in."""
    good = run_scores([record(0, 0.1, "NIL"), record(1, 0.9, "D1")])
    bad = run_scores([record(1, 0.2, "D1"), record(0, 0.8, "NIL")])
    found = aupr_lead([good], [bad])
    assert found == {"aupr": 0.5, "interval": [0.5, 0.5]}, (
        "one document: all resamples are the same"
    )
    assert aupr_lead([good, bad], [bad])["aupr"] == 0.25
    assert aupr_lead([good], [None]) is None
    assert aupr_lead([good], [run_scores([record(0, 0.1, "NIL")])]) is None, "other mentions"


def test_detail_tables_show_seen_unseen_and_nil():
    rows = [{"name": "a", "title": "the first"}]
    seen = {"dev": {"a": seen_figures([report(0.5, 0.6, None)])}}
    nil = {
        "dev": {
            "None": {
                "a": nil_figures(
                    [[record(0, 0.1, "NIL"), record(1, 0.5, "D1")]], [calibration(0.2)]
                )
            }
        }
    }
    parts = detail_parts({"rows": rows, "seen": seen, "nil": nil})
    assert (
        parts[0] == "## Seen and unseen entities: dev"
        and parts[1] == "Mentions: all 4, seen 3, unseen 0."
    )
    assert parts[2].splitlines()[-1] == "| the first | 50.0 | 100.0 | 60.0 | 100.0 | – | – |"
    assert parts[3] == "## NIL, 50.0 % of the mentions: dev"
    row = "| the first | 100.0 |  | 100.0 | 100.0 | 100.0 | 100.0 | 100.0 | 100.0 | 20.0 | 50.0 |"
    assert parts[4].splitlines()[-1] == row
    nil["dev"]["None"]["a"]["lead"] = {"aupr": 0.012, "interval": (-0.001, 0.025)}
    row = detail_parts({"rows": rows, "nil": nil})[1].splitlines()[-1]
    assert row.startswith("| the first | 100.0 | +1.2 (-0.1 to +2.5) | 100.0 |")
    assert detail_parts({"rows": rows}) == []


def test_gradient_norms_are_averaged_and_smoothed(tmp_path):
    lines = [
        {"step": i, "linker": {"loss": 0.0, "gradient_norm": norm}}
        for i, norm in enumerate([1.0, 3.0] + [2.0] * 30)
    ]
    (tmp_path / "steps.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    found = gradient_figures(tmp_path / "steps.jsonl", "linker")
    assert found["mean"] == 2.0 and found["deviation"] == pytest.approx((2 / 32) ** 0.5 / 2)
    # The first 25 together, then the last 25 of each.
    assert found["smoothed"][:2] == [1.0, 2.0]
    assert found["smoothed"][25] == pytest.approx((3 + 24 * 2) / 25) and found["smoothed"][
        26
    ] == pytest.approx(2.0)
    norms = {"a": {"mean": 2.0, "deviation": 0.125, "smoothed": []}}
    table = detail_parts({"rows": [{"name": "a", "title": "the first"}], "gradient_norms": norms})
    assert (
        table[0] == "## Gradient norms"
        and table[1].splitlines()[-1] == "| the first | 2.00 | 0.12 |"
    )
