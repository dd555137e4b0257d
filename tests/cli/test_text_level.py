"""The chain that makes OSLAT's data: convert, text-split, psytar-names, ontology."""

import json

import pytest

from spacy_krissel.ontology.store import OntologyStore


@pytest.mark.filterwarnings("ignore:.*KW")
def test_psytar_is_converted_split_and_read_as_ontology(run, write_psytar, tmp_path):
    workbook = write_psytar(tmp_path / "psytar.xlsx")
    said = run("psytar", workbook, "-o", tmp_path / "psytar.spacy")
    assert (
        "aligned: in order: 1\n" in said
        and "unaligned_phrases: 1\n" in said
        and "sentences: 5\n" in said
    )
    said = run(
        "text-split",
        tmp_path / "psytar.spacy",
        "-o",
        tmp_path / "split",
        "--unseen",
        "0.4",
        "--min-train",
        1,
    )
    assert "7 pairs of 4 texts and 5 entities" in said and "| high | 2–2 | 1 | 0 |" in said
    report = json.loads((tmp_path / "split" / "report.json").read_text())
    assert report["settings"] == {
        "unit": "doc",
        "unseen": 0.4,
        "test": 0.1,
        "min_train": 1,
        "seed": 0,
    }
    train = report["train"]
    assert f"| training | {train['texts']} | {train['entities']} | {train['pairs']} |" in said
    said = run(
        "psytar-names",
        workbook,
        "-o",
        tmp_path / "names.jsonl",
        "--train",
        tmp_path / "split" / "train.spacy",
    )
    assert "5 entities, 0 of them in HPO" in said and "| unseen | 2 |" in said
    run("ontology", tmp_path / "names.jsonl", "-o", tmp_path / "store")
    assert OntologyStore(tmp_path / "store").find("pain in knee") == ["C0000001"]


def test_json_lines_are_converted_and_split(run, refuse, tmp_path):
    records = [
        {"text": f"text {i}", "entities": [{"id": f"C{j}", "spans": [[0, 4]]} for j in range(2)]}
        for i in range(30)
    ]
    (tmp_path / "labels.jsonl").write_text("\n".join(map(json.dumps, records)))
    assert "mentions: 60\n" in run(
        "convert", tmp_path / "labels.jsonl", "-o", tmp_path / "labels.spacy"
    )
    said = run(
        "text-split",
        tmp_path / "labels.spacy",
        "-o",
        tmp_path / "split",
        "--unseen",
        0,
        "--unit",
        "sentence",
    )
    assert "| training | 30 | 2 | 54 | 54 | 0 | 0.0 |\n| test, seen |" in said
    assert "[K006]" in refuse(
        "text-split", tmp_path / "labels.spacy", "-o", tmp_path / "split", "--unseen", "0.9"
    )
    assert "[K232]" in refuse("psytar", tmp_path / "labels.jsonl", "-o", tmp_path / "x.spacy")
    assert "[K201]" in refuse(
        "psytar-names", tmp_path / "missing.xlsx", "-o", tmp_path / "names.jsonl"
    )
