"""Build, review, fill in, correct, build again without thinking, review again: nothing that was
typed is gone."""

import csv

import pytest
import spacy

TEXTS = [
    "She had rickets, MS and a common cold.",
    "MS is no rickets.",
    "A common cold again, and MS.",
]


@pytest.fixture
def finder(tmp_path):
    nlp = spacy.blank("en")
    patterns = [{"label": "Disease", "pattern": name} for name in ("rickets", "MS", "common cold")]
    nlp.add_pipe("entity_ruler").add_patterns(patterns)
    nlp.to_disk(tmp_path / "finder")
    return tmp_path / "finder"


def fill_in(path):
    """Type an answer into every row."""
    with path.open(encoding="utf8", newline="") as file_:
        rows = list(csv.DictReader(file_, delimiter="\t"))
    for row in rows:
        row["right_id"] = "T07" if row["mention"] == "MS" else row["id"]
    with path.open("w", encoding="utf8", newline="") as file_:
        writer = csv.DictWriter(file_, rows[0], delimiter="\t")
        writer.writeheader()
        writer.writerows(rows)
    return path.read_bytes()


def gold(folder):
    return spacy.load(folder).get_pipe("krissel_linker").kb.description()["verdicts"]


@pytest.mark.slow
def test_typed_corrections_survive_a_rebuild(run, refuse, toy_files, finder, tmp_path):
    linker, texts, table = tmp_path / "linker", tmp_path / "texts.txt", tmp_path / "review.tsv"
    texts.write_text("".join(f"{text}\n" for text in TEXTS))
    build = ("build", toy_files / "ontology.jsonl", "-o", linker, "--ner", finder)
    run(*build)
    run("review", linker, texts, "-o", table)
    typed = fill_in(table)

    # The same command as an hour before.
    assert "row(s) that were filled in" in refuse("review", linker, texts, "-o", table)
    assert "row(s) that were filled in" in refuse("link", linker, texts, "-o", table)
    run("correct", linker, table, "-o", linker)
    n_gold = gold(linker)
    assert n_gold
    assert f"K027] '{linker}' already exists: {n_gold} gold mention(s)" in refuse(*build)
    other = tmp_path / "other"
    run(*build[:3], other, *build[4:])
    assert "gold mention(s)" in refuse("correct", other, table, "-o", linker)
    assert table.read_bytes() == typed and gold(linker) == n_gold

    # And with --force, all of it is beside the new one.
    run(*build, "--force")
    run("review", linker, texts, "-o", table, "--force")
    assert (tmp_path / "review.tsv.bak").read_bytes() == typed
    assert gold(linker) == 0 and gold(tmp_path / "linker.bak") == n_gold
    run("correct", linker, tmp_path / "review.tsv.bak", "-o", linker)
    assert gold(linker) == n_gold
