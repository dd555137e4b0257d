"""`krissel out-of-kb` and `krissel zero-shot`."""

import json

import pytest

from spacy_krissel.errors import KrisselWarning
from spacy_krissel.ontology.store import OntologyStore


def test_out_of_kb_removes_entities_and_reports_nil_mentions(made, run, tmp_path):
    gold = made.path / "gold.spacy"
    said = run(
        "out-of-kb", made.path / "store", "--gold", f"train={gold}", "--gold", f"dev={gold}",
        "-o", tmp_path / "out",
        "--type", "T184",
    )  # fmt: skip
    assert "6 of 12 entities removed" in said and "| dev | NIL | 5 | 5 | 100.0 |" in said
    assert "| removed (ontology) | 6 |" in said
    assert len(OntologyStore(tmp_path / "out" / "ontology")) == 6
    assert (
        json.loads((tmp_path / "out" / "report.json").read_text())["splits"]["dev"]["nil"][
            "mentions"
        ]
        == 5
    )


def test_invalid_out_of_kb_arguments_are_refused(made, run, refuse, tmp_path):
    store, gold = made.path / "store", f"train={made.path / 'gold.spacy'}"
    output = ("-o", tmp_path / "out")
    assert "[K221]" in refuse("out-of-kb", store, "--gold", gold, *output)
    assert "[K221]" in refuse("out-of-kb", store, "--gold", gold, *output, "--preset", "pel")
    assert "[K222]" in refuse(
        "out-of-kb", store, "--gold", gold, *output, "--type", "T184", "--type", "T047"
    )
    assert "'pel'" in run("out-of-kb", store, "--gold", gold, *output, "--preset", "cake", code=2)
    assert "[K001]" in refuse(
        "out-of-kb", tmp_path / "missing", "--gold", gold, *output, "--type", "T184"
    )
    assert "[K201]" in refuse(
        "out-of-kb", store, "--gold", "dev=missing.spacy", *output, "--type", "T184"
    )
    for wrong in (["dev.spacy"], [gold, gold]):
        given = [each for pair in wrong for each in ("--gold", pair)]
        assert "name=path" in refuse("out-of-kb", store, *given, *output)
    assert not (tmp_path / "out").exists()
    with pytest.warns(KrisselWarning, match="KW221"):
        run("out-of-kb", store, "--gold", gold, *output, "--type", "T184", "--preset", "pel")


def test_zero_shot_writes_splits_and_refuses_invalid_arguments(made, run, refuse, tmp_path):
    gold, output = made.path / "gold.spacy", ("-o", tmp_path / "out")

    def shares(*given):
        return [each for share in given for each in ("--share", share)]

    known = ("--ontology", made.path / "store")
    said = run("zero-shot", gold, gold, *output, *shares(0.5, 0.5, 0), *known)
    assert "| dev |" in said and "| test |" not in said and "11 documents left out" in said
    assert (tmp_path / "out" / "train.spacy").exists() and (
        tmp_path / "out" / "report.json"
    ).exists()
    assert "[K006]" in refuse("zero-shot", gold, *output, *shares(0.5, 0.6, 0))
    assert "[K201]" in refuse("zero-shot", tmp_path / "missing", *output)
    assert "'--share'" in run("zero-shot", gold, *output, *shares("half"), code=2)
