"""A review of found names in commands: nothing that was typed is lost."""

import csv

import pytest
import spacy

pytestmark = pytest.mark.slow


def fill_in(path, verdict):
    with path.open(encoding="utf8", newline="") as file_:
        rows = list(csv.DictReader(file_, delimiter="\t"))
    with path.open("w", encoding="utf8", newline="") as file_:
        writer = csv.DictWriter(file_, rows[0], delimiter="\t")
        writer.writeheader()
        writer.writerows({**row, "verdict": verdict} for row in rows)


def stop_names(folder):
    return spacy.load(folder).get_pipe("krissel_finder").cfg.stop_names


def test_judged_names_survive_a_rebuild(run, refuse, toy_files, tmp_path):
    linker, texts, table = tmp_path / "linker", tmp_path / "texts.txt", tmp_path / "names.tsv"
    texts.write_text("A cold.\nThe Cold, and a migraine.\n")
    build = ("build", toy_files / "ontology.jsonl", "-o", linker)
    run(*build)
    printed = run("review", linker, texts, "-o", table, "--names", "--rows", "1")
    assert f"1 of 2 forms of found mentions in {table}" in " ".join(printed.split())
    fill_in(table, "no")
    typed = table.read_bytes()
    assert "row(s) that were filled in" in refuse("review", linker, texts, "-o", table, "--names")
    assert "names left out: 1" in run("correct", linker, table, "-o", linker)
    assert stop_names(linker) == ["cold"] and table.read_bytes() == typed

    assert f"K027] '{linker}' already exists: 1 name(s) to find" in refuse(*build)
    run(*build, "--force")
    assert stop_names(linker) == [] and stop_names(tmp_path / "linker.bak") == ["cold"]
    # The corrected pipeline is saved again with its names.
    run("correct", linker, table, "-o", linker)
    fill_in(table, "yes")
    assert "names kept or undone: 1" in run("correct", linker, table, "-o", linker)
    assert stop_names(linker) == []
    assert "[K006]" in refuse("correct", linker, table, "-o", linker, "--replace")


def test_gold_mentions_teach_the_finder(run, refuse, made, toy_files, tmp_path):
    run("build", toy_files / "ontology.jsonl", "-o", tmp_path / "linker")
    learn = ("--gold", made.path / "gold.spacy", "--learn-names")
    printed = run("prototypes", tmp_path / "linker", "-o", tmp_path / "learned", *learn)
    assert "names_added: " in printed and "names_left_out: " in printed
    assert "[K620]" in refuse("prototypes", made.path / "linker", "-o", tmp_path / "none", *learn)
    assert not (tmp_path / "none").exists()
