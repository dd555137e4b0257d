"""`krissel update`: another release of the ontology under the same linker."""

import csv
import json
import shutil
from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
import spacy

from spacy_krissel import Entity, KrisselError, KrisselWarning, add_gold, build, update
from spacy_krissel.commands import update_linker
from spacy_krissel.commands.correct_links import correct
from spacy_krissel.commands.distill_encoder import distill
from spacy_krissel.commands.update_linker import show_update
from spacy_krissel.kb.prototype_kb import PrototypeKB
from spacy_krissel.kb.prototype_table import Origin, Prototype
from spacy_krissel.mentions.annotations import spans_of
from spacy_krissel.pipeline import pipeline_io
from spacy_krissel.pipeline.pipeline_io import configure, find_linker
from spacy_krissel.serving.corrected import CorrectedLinker, Document, Mention
from spacy_krissel.serving.corrections import CorrectionLog
from spacy_krissel.util.outputs import describe_loss
from spacy_krissel.views import name_view

FIRST = [
    Entity("A:1", "asthma", ("bronchial asthma",), types=("Disease",)),
    Entity("A:2", "rickets", ("rachitis",), types=("Disease",)),
    Entity("A:3", "gout", ("podagra",), types=("Disease",), alt_ids=("A:30",)),
    Entity("A:4", "scurvy", ("barlow disease",), types=("Disease",)),
    Entity("A:5", "cold", ("coryza",), types=("Disease",)),
    Entity("A:6", "measles", ("rubeola",), types=("Disease",)),
]
SECOND = [
    Entity("A:1", "Asthma", ("bronchial asthma",), types=("Disease",)),
    Entity("A:2", "rickets", ("rachitis", "gout"), types=("Disease",), alt_ids=("A:3",)),
    Entity("A:7", "scurvy", ("barlow disease",), types=("Disease",), alt_ids=("A:4",)),
    Entity("A:8", "head cold", types=("Disease",), alt_ids=("A:5",)),
    Entity("A:9", "chest cold", types=("Disease",), alt_ids=("A:5",)),
    Entity("A:10", "mumps", types=("Disease",)),
]
# A mention of each entity of the first release, by a text that is none of its names.
MENTIONS = (
    "whistling lungs",
    "soft legs",
    "red toes",
    "sailor teeth",
    "runny nose",
    "koplik spots",
)
TEXTS = "\n".join(
    ["She had gout and scurvy.", "No measles, no asthma.", "A cold; then mumps.", "Scurvy again."]
)
WORDS = ("gout", "scurvy", "measles", "asthma", "cold", "mumps", "Scurvy", *MENTIONS)
# An id is split on purpose.
pytestmark = pytest.mark.filterwarnings("ignore:.*KW103")


def write(path, entities):
    lines = [
        json.dumps(
            {
                "concept_id": each.id,
                "canonical_name": each.name,
                "aliases": each.aliases,
                "types": each.types,
                "alt_ids": each.alt_ids,
                "parents": each.parents,
            }
        )
        for each in entities
    ]
    path.write_text("".join(f"{line}\n" for line in lines))
    return path


@pytest.fixture(scope="module")
def linker_folder(tmp_path_factory):
    """A linker of the first release with a correction for each entity."""
    folder = tmp_path_factory.mktemp("update")
    finder = spacy.blank("en")
    finder.add_pipe("entity_ruler").add_patterns(
        [{"label": "D", "pattern": each} for each in WORDS]
    )
    finder.to_disk(folder / "finder")
    first = write(folder / "first.jsonl", FIRST)
    nlp = build(first, folder / "built", ner=str(folder / "finder"), precision=0.5).nlp
    docs = []
    for number, (entity, mention) in enumerate(zip(FIRST, MENTIONS, strict=True)):
        doc = nlp.make_doc(f"Case {number}: {mention} was seen.")
        start = doc.text.index(mention)
        doc.ents = [doc.char_span(start, start + len(mention), label="D", kb_id=entity.id)]
        doc.user_data["krissel_id"] = f"case {number}"
        docs.append(doc)
    add_gold(find_linker(nlp).kb, docs, source="curated")
    nlp.to_disk(folder / "linker")
    return folder


@pytest.fixture
def linker(linker_folder, tmp_path):
    shutil.copytree(linker_folder / "linker", tmp_path / "linker")
    return tmp_path / "linker"


@pytest.fixture
def second(tmp_path):
    return write(tmp_path / "second.jsonl", SECOND)


def rows_of(path):
    with path.open(encoding="utf8", newline="") as file_:
        return list(csv.DictReader(file_, delimiter="\t"))


def gold_of(snapshot):
    rows = snapshot.prototypes.rows_of_kinds(["gold"])
    return {(each.entity, each.view.mention) for each in snapshot.prototypes_at(rows)}


def tree(path):
    return {str(each): each.is_file() and each.read_bytes() for each in sorted(path.rglob("*"))}


def test_a_linker_is_updated_and_the_report_names_each_change(run, linker, second, tmp_path):
    texts = tmp_path / "texts.txt"
    texts.write_text(f"{TEXTS}\n")
    said = run(
        *("update", linker, second, "-o", tmp_path / "newer"),
        *("--texts", texts, "--report", tmp_path / "changes.tsv"),
    )
    assert "Entities: 3 new, 1 renamed, 1 replaced, 1 merged, 1 split, 1 retired" in said
    assert "Corrections: 2 kept, 2 followed, 2 inactive" in said
    assert "inactive: runny nose: A:5 cold → A:8 | A:9" in said
    assert "min_confidence: 0." in said and f"Pipeline: {tmp_path / 'newer'}" in said
    nlp = spacy.load(tmp_path / "newer")
    kb = find_linker(nlp).kb
    assert kb.entity_ids[:] == ["A:1", "A:10", "A:2", "A:7", "A:8", "A:9"]
    assert gold_of(kb.inactive) == {("A:5", "runny nose"), ("A:6", "koplik spots")}
    assert {entity for entity, _ in gold_of(kb.current)} == {"A:1", "A:2", "A:7"}
    # Corrections link as before, at the entities of the release.
    doc = nlp("Soft legs: red toes and sailor teeth were seen.")
    assert {ent.text: ent.kb_id_ for ent in doc.ents} == {"red toes": "A:2", "sailor teeth": "A:7"}
    changes = [tuple(each.values()) for each in rows_of(tmp_path / "changes.tsv")]
    assert ("entity", "merged", "A:3", "gout", "A:2", "rickets") in [each[:6] for each in changes]
    corrections = [each for each in changes if each[0] == "correction"]
    assert [each[1] for each in corrections] == ["followed", "followed", "inactive", "inactive"]
    assert corrections[-1][2:11] == (
        *("A:6", "measles", "", "", "case 5", "8", "20", "koplik spots"),
        "Case 5: ⟦koplik spots⟧ was seen.",
    )
    links = {each[9]: each[1:6] for each in changes if each[0] == "link"}
    assert links["gout"] == ("followed", "A:3", "gout", "A:2", "rickets")
    assert links["mumps"] == ("linked now", "NIL", "", "A:10", "mumps")
    assert links["measles"] == ("NIL now", "A:6", "measles", "NIL", "")
    assert "asthma" not in links


def test_a_dry_run_writes_nothing(run, linker, second, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    before = tree(tmp_path)
    said = run("update", linker, second)
    assert "Corrections: 2 kept, 2 followed, 2 inactive" in said and "Nothing was saved" in said
    assert tree(tmp_path) == before
    # Only what was asked for.
    run("update", linker, second, "--report", tmp_path / "changes.tsv")
    assert tree(tmp_path).keys() - before.keys() == {str(tmp_path / "changes.tsv")}


def test_retired_entities_return_with_their_corrections(linker, linker_folder, second, tmp_path):
    update(linker, second, tmp_path / "second")
    back = update(tmp_path / "second", write(tmp_path / "back.jsonl", [*SECOND, *FIRST[4:]]))
    assert back.counts["correction", "active again"] == 2
    assert back.counts["entity", "returned"] == 2
    kb = find_linker(back.nlp).kb
    assert kb.inactive is None and len(gold_of(kb.current)) == 6
    # Those that stay inactive are listed once more.
    still = update(tmp_path / "second", second)
    assert still.counts["correction", "still inactive"] == 2
    assert "still inactive: koplik spots: A:6 measles" in show_update(still, None, None)


def test_the_same_release_changes_nothing(linker, linker_folder):
    found = update(linker, linker_folder / "first.jsonl")
    assert not [kind for kind in found.counts if kind[0] != "correction"]
    assert found.counts["correction", "kept"] == 6
    before, after = find_linker(spacy.load(linker)), find_linker(found.nlp)
    for name in before.cfg.keys() - {"confidence", "min_confidence"}:
        assert after.cfg[name] == before.cfg[name], name
    old, new = before.kb, after.kb
    order = [
        {each: row for row, each in enumerate(kb.prototypes_at(np.arange(kb.n_prototypes)))}
        for kb in (old, new)
    ]
    assert order[0].keys() == order[1].keys()
    for each, row in order[0].items():
        np.testing.assert_allclose(new.vectors[order[1][each]], old.vectors[row], atol=1e-5)
    fit = [
        nlp.meta["krissel"]["confidence"]["krissel_linker"]["asked_precision"]
        for nlp in (spacy.load(linker), found.nlp)
    ]
    assert fit == [0.5, 0.5]


def test_what_the_finder_says_is_compared_by_the_new_finder(tmp_path):
    """Forms of names that only the finder knows, and a part of a coordination."""
    names = ("bone tumour", "soft palate", "soft tissue", "wheezing", "lung abscess")
    first = write(
        tmp_path / "first.jsonl", [Entity(f"B:{i}", name) for i, name in enumerate(names)]
    )
    build(first, tmp_path / "built")
    texts = tmp_path / "texts.txt"
    texts.write_text("Tumours of the bones, abscesses of the lung; soft palate and tissues.\n")
    for key in ("", "found"):
        linker = tmp_path / f"linker{key}"
        nlp = spacy.load(tmp_path / "built")
        for pipe in ("krissel_finder", "krissel_linker"):
            configure(nlp, pipe, spans_key=key)
        # What is only similar is not linked.
        configure(nlp, "krissel_linker", min_confidence=0.8)
        pipeline_io.save_pipeline(nlp, linker, name="krissel_linker")
        doc = nlp(texts.read_text().strip())
        assert sum(span.kb_id_ != "NIL" for span in spans_of(doc, key)) >= 3
        counts = update(linker, first, texts=texts).counts
        assert counts["link", "same entity"] == len(spans_of(doc, key))
    # A part of a name that is gone is found in its place.
    entities = [Entity(f"B:{i}", name) for i, name in enumerate(names)]
    second = write(tmp_path / "second.jsonl", [*entities[1:], Entity("B:9", "tumour")])
    found = update(linker, second, texts=texts, min_kept=0)
    rows = [each for each in found.changes if each.what == "link"]
    assert {(each.change, each.before[0], each.after[0], each.view.mention) for each in rows} == {
        ("not found now", "B:0", "", "Tumours of the bones"),
        ("found now", "", "B:9", "Tumours"),
    }
    kept = len(spans_of(doc, key)) - 1
    assert found.counts["link", "same entity"] == kept


def test_names_that_a_release_loses_are_reported(run, tmp_path):
    """A mention that is no longer found is not NIL, and its correction has no effect."""
    names = {"C:0": ("gout", "podagra"), "C:1": ("rickets", "rachitis"), "C:2": ("scurvy",)}
    entities = [Entity(id_, *each[:1], each[1:]) for id_, each in names.items()]
    build(entities, tmp_path / "built")
    table = rows_written(
        tmp_path / "said.tsv",
        ["a", "4", "11", "podagra", "His ⟦podagra⟧ hurt.", "C:0", "", "C:2"],
        ["a", "4", "10", "scurvy", "His ⟦scurvy⟧ hurt.", "C:2", "", "C:1"],
        ["a", "4", "12", "rachitis", "His ⟦rachitis⟧ hurt.", "C:1", "no", ""],
        ["a", "4", "12", "whatever", "His ⟦whatever⟧ hurt.", "", "", "C:0"],
    )
    # A correction whose text the finder does not find has no effect either, and is told at once.
    with pytest.warns(KrisselWarning, match=r"KW629\] 1 of 3 .*: 'whatever' \(C:0\)\."):
        correct(tmp_path / "built", table, tmp_path / "linker")
    later = write(
        tmp_path / "later.jsonl",
        [replace(each, aliases=()) for each in entities],
    )
    texts = tmp_path / "texts.txt"
    texts.write_text("His podagra hurt.\nGout, rachitis and scurvy.\n")
    with pytest.warns(KrisselWarning, match=r"KW629\] 1 of 3 .*'podagra' \(C:2\)\."):
        found = update(
            *(tmp_path / "linker", later, tmp_path / "newer"),
            texts=texts,
            report=tmp_path / "changes.tsv",
            min_kept=0,
        )
    said = show_update(found, None, None)
    assert "Corrections: 2 kept, 1 not found now" in said and "Rejections: 1 kept" in said
    assert "not found now: podagra: C:2 scurvy → C:2 scurvy" in said
    assert "2 same entity, 2 not found now" in said and "NIL now" not in said
    rows = [[*each.values()] for each in rows_of(tmp_path / "changes.tsv")]
    assert [each[:6] + each[9:10] for each in rows if each[1] == "not found now"] == [
        ["correction", "not found now", "C:2", "scurvy", "C:2", "scurvy", "podagra"],
        ["link", "not found now", "C:2", "scurvy", "", "", "podagra"],
        ["link", "not found now", "C:1", "rickets", "", "", "rachitis"],
    ]
    # The way out that the warning names.
    (tmp_path / "names.csv").write_text("text,mentions,verdict,right_id\npodagra,,,C:2\n")
    run("correct", tmp_path / "newer", tmp_path / "names.csv", "-o", tmp_path / "named")
    (ent,) = spacy.load(tmp_path / "named")("His podagra hurt.").ents
    assert (ent.kb_id_, ent._.krissel_candidates[0]["kind"]) == ("C:2", "verdict")
    # Neither lost nor found, with the same release.
    assert not update(tmp_path / "named", later, min_kept=0).counts["correction", "not found now"]


def test_names_that_were_given_to_the_finder_are_reported(tmp_path):
    """They follow to one entity, and are inactive without one or with several."""
    build(FIRST, tmp_path / "built")
    nlp = spacy.load(tmp_path / "built")
    added = {"whistling": "A:1", "sore toe": "A:3", "sailor": "A:4", "runny": "A:5", "spots": "A:6"}
    configure(nlp, "krissel_finder", added_names=added)
    pipeline_io.save_pipeline(nlp, tmp_path / "linker", name="krissel_linker")

    def become(updated):
        return {
            each.view.mention: (each.change, each.before[0], *each.after)
            for each in updated.changes
            if each.what == "own name"
        }

    second = write(tmp_path / "second.jsonl", SECOND)
    with pytest.warns(KrisselWarning, match=r"KW628.*2 of its 5 .*'runny' \(A:5\), 'spots'"):
        found = update(
            *(tmp_path / "linker", second, tmp_path / "newer"),
            report=tmp_path / "changes.tsv",
            min_kept=0,
        )
    assert become(found) == {
        "whistling": ("kept", "A:1", "A:1", "Asthma"),
        "sore toe": ("followed", "A:3", "A:2", "rickets"),
        "sailor": ("followed", "A:4", "A:7", "scurvy"),
        "runny": ("inactive", "A:5", "", "A:8 | A:9"),
        "spots": ("inactive", "A:6", "", ""),
    }
    assert "Names that were added by hand: 1 kept, 2 followed, 2 inactive" in show_update(
        found, None, None
    )
    rows = [[*each.values()] for each in rows_of(tmp_path / "changes.tsv")]
    assert ["own name", "inactive", "A:6", "measles", "", "", "spots"] in [
        each[:6] + each[9:10] for each in rows
    ]
    newer = spacy.load(tmp_path / "newer")
    assert [ent.kb_id_ for ent in newer("A sailor with a sore toe and spots.").ents] == [
        *("A:7", "A:2")
    ]
    with pytest.warns(KrisselWarning, match="KW628"):
        still = update(tmp_path / "newer", second)
    assert become(still)["spots"] == ("still inactive", "A:6", "", "")
    back = update(tmp_path / "newer", write(tmp_path / "back.jsonl", [*SECOND, *FIRST[4:]]))
    assert become(back)["spots"] == ("active again", "A:6", "A:6", "measles")


def test_settings_and_other_components_stay(linker, second, tmp_path):
    nlp = spacy.load(linker)
    configure(nlp, "krissel_linker", threshold=0.1, types_by_label={"D": ["Disease"]})
    find_linker(nlp).cfg.min_confidence = 0.77
    nlp.to_disk(tmp_path / "set")
    found = update(tmp_path / "set", second, tmp_path / "newer")
    assert any("set by hand" in note for note in found.notes)
    nlp = spacy.load(tmp_path / "newer")
    assert nlp.pipe_names == ["entity_ruler", "krissel_linker"]
    cfg = find_linker(nlp).cfg
    assert (cfg.threshold, cfg.min_confidence) == (0.1, 0.77)
    assert cfg.types_by_label == {"D": ["Disease"]} and cfg.confidence


@pytest.mark.slow
def test_a_killed_update_leaves_the_earlier_pipeline(linker, second, tmp_path, monkeypatch):
    before = tree(linker)

    def killed(*args, **settings):
        raise KeyboardInterrupt

    for where, name in (
        (update_linker, "fill_kb"),
        (update_linker, "fit_confidence"),
        (PrototypeKB, "to_disk"),
        (pipeline_io, "write_licences"),
        (pipeline_io, "commit_folder"),
    ):
        with monkeypatch.context() as patched:
            patched.setattr(where, name, killed)
            with pytest.raises(KeyboardInterrupt):
                update(linker, second, linker)
        assert tree(linker) == before, name
    update(linker, second, linker)
    assert find_linker(spacy.load(linker)).kb.inactive is not None


def test_files_of_another_vocabulary_are_refused(refuse, linker, tmp_path):
    other = write(tmp_path / "other.jsonl", [Entity("B:1", "x"), *SECOND[:1]])
    said = refuse("update", linker, other, "-o", tmp_path / "newer")
    assert "[K694] Only 1 of the 6 entities" in said and "16.7%" in said
    assert not (tmp_path / "newer").exists()
    assert update(linker, other, min_kept=0.1).counts["entity", "retired"] == 5
    with pytest.raises(KrisselError, match="K006"):
        update(linker, other, min_kept=2)
    # The ids are assigned again.
    shifted = [Entity(each.id, FIRST[number - 1].name) for number, each in enumerate(FIRST)]
    said = refuse("update", linker, write(tmp_path / "shifted.jsonl", shifted))
    assert "[K696] Only 0 of the 6 entities" in said
    assert update(linker, shifted, min_kept=0).counts["entity", "renamed"] == 6


@pytest.mark.nightly
def test_each_source_of_the_linker_is_needed(tmp_path, linker_folder):
    others = [Entity(f"B:{number}", f"name {number}", source="b") for number in range(4)]
    first = [Entity(each.id, each.name, source="a") for each in FIRST]
    build([*first, *others], tmp_path / "both")
    with pytest.raises(KrisselError, match="K694.* 0 of the 4 entities of 'b'"):
        update(tmp_path / "both", first)
    assert not update(tmp_path / "both", [*first, *others]).counts
    # Of tables, that do not name a source, only the number is known.
    parts = (FIRST[:4], FIRST[4:])
    paths = [write(tmp_path / f"{n}.jsonl", part) for n, part in enumerate(parts)]
    build(paths, tmp_path / "two")
    found = update(tmp_path / "two", paths[0])
    made_of, too_few = found.notes
    assert made_of == "The linker was made of 0.jsonl, 1.jsonl, and the release is 0.jsonl"
    assert too_few.startswith("Too few names to tell how many links are correct")
    assert found.counts["entity", "retired"] == 2


@pytest.mark.slow
def test_a_linker_that_would_lose_something_is_refused(refuse, linker, second, tmp_path):
    nlp = spacy.load(linker)
    configure(nlp, "krissel_linker", types_by_label={"D": ["Disease"]})
    nlp.to_disk(tmp_path / "typed")
    untyped = write(tmp_path / "untyped.jsonl", [Entity(each.id, each.name) for each in FIRST])
    assert "[K695]" in refuse("update", tmp_path / "typed", untyped, "-o", tmp_path / "x")
    configure(nlp, "krissel_linker", types_by_label={}, types=["Disease"])
    nlp.to_disk(tmp_path / "typed")
    assert "'Disease'" in refuse("update", tmp_path / "typed", untyped, "-o", tmp_path / "x")
    update(linker, untyped)
    # Part of an ontology.
    find_linker(nlp).kb.made_with = {**find_linker(nlp).kb.made_with, "max_entities": 3}
    nlp.to_disk(tmp_path / "part")
    assert "[K695]" in refuse("update", tmp_path / "part", second, "-o", tmp_path / "x")
    # Nothing to update.
    blank = spacy.blank("en")
    blank.add_pipe("krissel_linker")
    blank.initialize()
    blank.to_disk(tmp_path / "empty")
    assert "[K520]" in refuse("update", tmp_path / "empty", second)
    assert "[K610]" in refuse("update", linker, second, "--linker", "entity_ruler")
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "mine.txt").write_text("mine")
    assert "[K005]" in refuse("update", linker, second, "-o", tmp_path / "full")
    assert not (tmp_path / "x").exists()


@pytest.mark.nightly
def test_species_that_the_linker_reads_are_needed(tmp_path):
    genes = [Entity(f"G:{n}", f"gene {n}", species=("9606", "10090")[n % 2]) for n in range(4)]
    nlp = build(genes, tmp_path / "genes").nlp
    configure(nlp, "krissel_linker", species_weight=0.1)
    nlp.to_disk(tmp_path / "genes")
    with pytest.raises(KrisselError, match="K695.*species"):
        update(tmp_path / "genes", [Entity(each.id, each.name) for each in genes])
    assert not update(tmp_path / "genes", genes).counts


@pytest.mark.slow
def test_inactive_corrections_are_protected_and_survive_other_commands(
    run, refuse, linker, second, tmp_path
):
    only_inactive = spacy.load(linker)
    kb = find_linker(only_inactive).kb
    kb.remove_prototypes(docs=[f"case {number}" for number in range(5)], kind="gold")
    only_inactive.to_disk(tmp_path / "one")
    update(tmp_path / "one", second, tmp_path / "newer")
    assert "2 gold mention(s)" in describe_loss(tmp_path / "newer")
    assert "[K027]" in refuse("update", linker, second, "-o", tmp_path / "newer")
    nlp = spacy.load(tmp_path / "newer")
    assert "2 of 2 entities of earlier releases, inactive" in nlp.meta["notes"]
    run("confidence", tmp_path / "newer", "-o", tmp_path / "sure")
    assert gold_of(find_linker(spacy.load(tmp_path / "sure")).kb.inactive)
    added = spacy.blank("en")
    added.add_pipe("krissel_linker", source=nlp)
    assert gold_of(find_linker(added).kb.inactive)
    distill(nlp, passes=1)
    kb = find_linker(nlp).kb
    assert gold_of(kb.inactive) == {("A:6", "koplik spots")} and kb.made_with
    nlp.to_disk(tmp_path / "distilled")
    back = update(tmp_path / "distilled", [*SECOND, FIRST[5]])
    assert back.counts["correction", "active again"] == 1


def test_a_table_of_changes_can_be_filled_in(run, linker, second, tmp_path):
    """A person decides on what no rule can."""
    table = tmp_path / "changes.tsv"
    update(linker, second, tmp_path / "newer", report=table)
    with pytest.raises(KrisselError, match="K027"):
        update(linker, second, report=table)
    rows = rows_of(table)
    (row,) = [each for each in rows if each["mention"] == "runny nose"]
    row["right_id"] = "A:8"
    with table.open("w", encoding="utf8", newline="") as file_:
        writer = csv.DictWriter(file_, rows[0], delimiter="\t")
        writer.writeheader()
        writer.writerows(rows)
    said = run("correct", tmp_path / "newer", table, "-o", tmp_path / "decided")
    assert "corrections: 1" in said
    (verdict,) = find_linker(spacy.load(tmp_path / "decided")).kb.all_verdicts()
    assert (verdict.right, verdict.view.mention) == (("A:8",), "runny nose")
    # Decided once and for all.
    again = update(tmp_path / "decided", second)
    assert again.counts["correction", "overruled by a later one"] == 1
    (other,) = [each for each in again.changes if each.change == "still inactive"]
    assert other.view.mention == "koplik spots"
    assert "Corrections: 5 kept, 1 still inactive, 1 overruled by a later one" in show_update(
        again, None, None
    )
    assert "row(s) that were filled in" in run("update", linker, second, "--report", table, code=1)


@pytest.mark.nightly
def test_the_ontology_is_read_with_the_settings_of_before(run, refuse, tmp_path):
    records = [
        Entity("A:0", "top"),
        Entity("A:1", "asthma", parents=("A:0",)),
        Entity("B:1", "elsewhere"),
    ]
    first = write(tmp_path / "first.jsonl", records)
    run("build", first, "-o", tmp_path / "linker", "--below", "A:0")
    later = write(tmp_path / "later.jsonl", [*records, Entity("A:2", "gout", parents=("A:0",))])
    said = run("update", tmp_path / "linker", later, "-o", tmp_path / "two")
    assert "Entities: 1 new" in said and "was read with below: ['A:0']" in said
    assert "B:1" not in find_linker(spacy.load(tmp_path / "two")).kb
    # And likewise in the next release.
    assert "entities: 3 → 3" in run("update", tmp_path / "two", later)
    # A store is used unchanged, and other settings may be given.
    run("ontology", later, "-o", tmp_path / "store")
    assert "entities: 2 → 4" in run("update", tmp_path / "linker", tmp_path / "store")
    assert "1 retired" in run("update", tmp_path / "linker", later, "--below", "A:1")
    header = "source_language\ttranslation_language\tsubject_id\tpredicate_id\tsource_value"
    (tmp_path / "fr.tsv").write_text(
        f"{header}\ttranslation_value\ttranslation_status\n"
        "en\tfr\tA:1\trdfs:label\tasthma\tasthme\tOFFICIAL\n"
    )
    french = ("--translation", tmp_path / "fr.tsv")
    run("build", first, "-o", tmp_path / "french", *french)
    assert "(translations)" in refuse("update", tmp_path / "french", later)
    assert "Entities: 1 new" in run("update", tmp_path / "french", later, *french)
    run("ontology", first, first, "-o", tmp_path / "merged", "--merge")
    run("build", tmp_path / "merged", "-o", tmp_path / "of-merged")
    assert "[K695]" in refuse("update", tmp_path / "of-merged", later)
    assert "1 new" in run("update", tmp_path / "of-merged", tmp_path / "store")


@pytest.mark.nightly
def test_a_table_is_read_by_the_columns_of_before(run, refuse, tmp_path):
    rows = ["Code;Term;Notes", *(f"A:{number};disease {number};x" for number in range(3))]
    (tmp_path / "first.csv").write_text("\n".join([*rows, ""]))
    columns = ("--id-column", "Code", "--name-column", "Term")
    run("build", tmp_path / "first.csv", "-o", tmp_path / "linker", *columns)
    (tmp_path / "later.csv").write_text("\n".join([*rows, "A:9;gout;x", ""]))
    assert "entities: 3 → 4" in run("update", tmp_path / "linker", tmp_path / "later.csv")
    # Those of a table are not for a file of another format.
    others = [Entity(f"A:{number}", f"disease {number}") for number in range(3)]
    assert "entities: 3 → 3" in run(
        "update", tmp_path / "linker", write(tmp_path / "later.jsonl", others)
    )
    (tmp_path / "renamed.csv").write_text("Number;Word\nA:1;disease 1\n")
    assert "✘ [K" in refuse("update", tmp_path / "linker", tmp_path / "renamed.csv")


def test_mined_mentions_stay(linker, second, tmp_path):
    nlp = spacy.load(linker)
    kb = find_linker(nlp).kb
    view = name_view("gout")._replace(left="he had ", right=" and pain")
    kb.add_prototypes(
        [
            Prototype("A:3", "mention", view, Origin("", "text 1", 7, 11)),
            Prototype("A:6", "mention", view, Origin("", "text 2", 7, 11)),
        ]
    )
    nlp.to_disk(tmp_path / "mined")
    found = update(tmp_path / "mined", second)
    assert found.figures["mined mentions"] == (2, 1)
    kb = find_linker(found.nlp).kb
    (mention,) = kb.prototypes_at(kb.prototypes.rows_of_kinds(["mention"]))
    assert (mention.entity, mention.view) == ("A:2", view)


def test_corrections_of_the_service_follow_replaced_entities(linker, second, tmp_path):
    log = CorrectionLog()
    right = {"A:30": "A:2", "A:4": "A:7", "A:1": "A:1", "A:6": None, "A:5": None}
    texts = {id_: f"a strange {word}" for id_, word in zip(right, WORDS, strict=False)}
    for id_, text in texts.items():
        log.add(log.new(text=text, start=0, end=len(text), right=(id_,)))
    update(linker, second, tmp_path / "newer")
    served = CorrectedLinker(spacy.load(tmp_path / "newer"))
    with pytest.warns(KrisselWarning, match=r"KW682.* 2 of 5.*: A:6\."):
        served.follow(log.in_force)
    for id_, text in texts.items():
        (found,) = served.link([Document(text, mentions=(Mention(0, len(text)),))])
        best = found["mentions"][0]["candidates"][0]
        assert (best["id"] == right[id_] and best["source"] == "corrections") or not right[id_]


def rows_written(path, *rows):
    names = ["doc", "start", "end", "mention", "context", "id", "verdict", "right_id"]
    lines = ["\t".join(each) for each in (names, *rows)]
    path.write_text("\n".join([*lines, ""]), encoding="utf8")
    return path


@pytest.mark.slow
def test_the_last_correction_counts_in_any_release(run, linker, linker_folder, tmp_path):
    """Also if the entity of an earlier one is back, and if that of the last one is gone."""
    text = "Case 9: measles was seen."
    row = ["case 9", "8", "15", "measles", "Case 9: ⟦measles⟧ was seen.", "A:6", ""]

    def link(folder):
        (ent,) = spacy.load(folder)(text).ents
        return ent.kb_id_, ent._.krissel_candidates[0]["confidence"] if ent.kb_id_ != "NIL" else 0

    def correct(before, source, right, after):
        table = rows_written(tmp_path / f"{source}.tsv", [*row, right])
        run("correct", before, table, "-o", after)
        return after

    def release(before, ids, after):
        entities = [each for each in FIRST if each.id not in ids]
        return update(before, write(tmp_path / "r.jsonl", entities), after, min_kept=0.1)

    def folder(name):
        return tmp_path / name

    correct(linker, "one", "A:1", folder("one"))
    release(folder("one"), ["A:1"], folder("without 1"))
    assert link(folder("without 1")) != ("A:1", 1)
    correct(folder("without 1"), "two", "A:2", folder("two"))
    back = release(folder("two"), [], folder("back"))
    assert link(folder("two")) == link(folder("back")) == ("A:2", 1)
    assert back.counts["correction", "overruled by a later one"] == 1
    assert back.counts["correction", "active again"] == 1  # The gold mention of A:1.
    # The earlier one holds again as soon as the last one is undone, and not if its entity is gone.
    gone = release(folder("back"), ["A:2"], folder("without 2"))
    assert link(folder("without 2")) != ("A:1", 1)
    assert gone.counts["correction", "inactive"] == 2
    for name in ("back", "without 2"):
        nlp = spacy.load(folder(name))
        find_linker(nlp).kb.remove_verdicts(source="two")
        nlp.to_disk(folder("undone"))
        assert link(folder("undone")) == ("A:1", 1)
    # A NIL is counted, too.
    correct(folder("without 2"), "nil", "NIL", folder("nil"))
    said = release(folder("nil"), [], folder("all"))
    assert link(folder("all"))[0] == "NIL"
    assert "Without an entity: 1 kept" in show_update(said, None, None)
    assert said.counts["correction", "overruled by a later one"] == 1


def test_the_shown_examples_are_few():
    changes = [
        update_linker.Change("entity", "retired", (f"A:{number}", "x")) for number in range(9)
    ]
    counts = Counter({("entity", "retired"): 9})
    updated = update_linker.Updated(None, changes, counts)
    said = show_update(updated, None, None)
    assert "A:4" in said and "A:5" not in said and "… and 4 more" in said
