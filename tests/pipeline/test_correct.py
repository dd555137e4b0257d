import csv

import pytest
import spacy
from command_line import invoke

from spacy_krissel.commands.correct_links import correct
from spacy_krissel.commands.link_texts import link
from spacy_krissel.errors import KrisselError, KrisselWarning
from spacy_krissel.render.links import COLUMNS

TEXT = "The clinic saw STEMI twice."


@pytest.fixture
def pipeline(nlp, tmp_path):
    ruler = nlp.add_pipe("entity_ruler", before="krissel_linker")
    ruler.add_patterns([{"label": "Disease", "pattern": name} for name in ("STEMI", "flu", "cold")])
    nlp.to_disk(tmp_path / "pipeline")
    return tmp_path / "pipeline"


@pytest.fixture
def fill_in(pipeline, tmp_path):
    """Links texts, one per row, and fills in rows of the table, by number."""

    def fill_in(
        rows, *, texts=(TEXT,), columns=COLUMNS, encoding="utf8", name="links.tsv", **dialect
    ):
        (tmp_path / "texts.txt").write_text("".join(f"{text}\n" for text in texts))
        link(pipeline, tmp_path / "texts.txt", tmp_path / "links.tsv", force=True)
        with (tmp_path / "links.tsv").open(encoding="utf8", newline="") as file_:
            table = list(csv.DictReader(file_, delimiter="\t"))
        for number, cells in rows.items():
            table[number].update(cells)
        with (tmp_path / name).open("w", encoding=encoding, newline="") as file_:
            writer = csv.DictWriter(file_, columns, **{"delimiter": "\t", **dialect}, restval="")
            writer.writeheader()
            writer.writerows(table)
        return tmp_path / name

    return fill_in


def best(pipeline, text=TEXT):
    nlp = pipeline if callable(pipeline) else spacy.load(pipeline)
    return nlp(text).ents[0]._.krissel_candidates[0]


def test_correction_changes_the_link_and_can_be_undone(pipeline, fill_in, tmp_path):
    before = best(pipeline)
    wrong = "T10" if before["id"] != "T10" else "T01"
    found = correct(pipeline, fill_in({0: {"right_id": wrong}}), tmp_path / "fixed")
    assert found == {"rows": 1, "corrections": 1, "rejections": 0, "no_entity": 0, "new": 1}
    nlp = spacy.load(tmp_path / "fixed")
    after = best(nlp)
    assert {key: after[key] for key in ("id", "kind", "source", "doc", "confidence")} == {
        "id": wrong,
        "kind": "verdict",
        "source": "links",
        "doc": "texts.txt:1",
        "confidence": 1.0,
    }
    assert "1 of links" in nlp.meta["notes"]
    assert nlp.get_pipe("krissel_linker").kb.remove_verdicts(source="links") == 1
    assert best(nlp)["id"] == before["id"]
    assert best(pipeline)["id"] == before["id"]


def test_formula_guard_is_removed_from_the_context(pipeline, fill_in, tmp_path):
    correct(pipeline, fill_in({0: {"right_id": "T10"}}, texts=["- " + TEXT]), tmp_path / "fixed")
    kb = spacy.load(tmp_path / "fixed").get_pipe("krissel_linker").kb
    (found,) = kb.all_verdicts()
    assert (found.view.left, found.origin.start) == ("- The clinic saw ", 17)


def test_printed_table_shows_the_correction(pipeline, fill_in, tmp_path):
    correct = invoke(
        "correct", pipeline, fill_in({0: {"right_id": "T10"}}), "-o", tmp_path / "fixed"
    )
    assert (correct.exit_code, "corrections: 1" in correct.output) == (0, True)
    printed = invoke("link", tmp_path / "fixed", TEXT).output
    header, row = [
        line.split() for line in printed.splitlines() if "STEMI" in line or "mention" in line
    ]
    assert header == ["mention", "id", "name", "match", "score", "confidence", "alternatives"]
    assert row[:3] == ["STEMI", "T10", "influenza"] and row.count("|") == 1


def test_rows_become_verdicts(pipeline, fill_in, tmp_path):
    texts = ["He had flu.", "She had flu.", "They had flu."]
    rows = {0: {"verdict": "Yes"}, 1: {"verdict": "no"}, 2: {"right_id": "NIL"}}
    found = correct(pipeline, fill_in(rows, texts=texts), tmp_path / "fixed", source="mine")
    assert found == {"rows": 3, "corrections": 1, "rejections": 1, "no_entity": 1, "new": 3}
    nlp = spacy.load(tmp_path / "fixed")
    linked = best(pipeline, texts[0])["id"]
    right, wrong, none = nlp.get_pipe("krissel_linker").kb.all_verdicts()
    assert right.view[:3] == ("He had ", "flu", ".")
    assert right.origin[:4] == ("mine", "texts.txt:1", 7, 10)
    assert [(each.right, each.rejected, each.no_entity) for each in (right, wrong, none)] == [
        ((linked,), (), False),
        ((), (linked,), False),
        ((), (), True),
    ]
    first, second, third = (nlp(text).ents[0] for text in texts)
    assert first.kb_id_ == linked != second.kb_id_ and third.kb_id_ == "NIL"
    assert linked not in {each["id"] for each in second._.krissel_candidates}


def test_rejections_alone_are_added_and_replaced(pipeline, fill_in, tmp_path):
    before, fixed = best(pipeline)["id"], tmp_path / "fixed"
    assert correct(pipeline, fill_in({0: {"verdict": "no"}}), fixed)["rejections"] == 1
    assert best(fixed)["id"] != before
    correct(fixed, fill_in({0: {"verdict": "yes"}}), fixed, replace=True)
    assert best(fixed)["id"] == before


@pytest.mark.parametrize("same_document", [True, False])
def test_verdicts_may_hold_in_their_document_only(pipeline, fill_in, tmp_path, same_document):
    links = fill_in({0: {"right_id": "T10"}})
    correct(pipeline, links, tmp_path / "fixed", same_document=same_document)
    nlp = spacy.load(tmp_path / "fixed")
    doc = nlp.make_doc(TEXT)
    doc.user_data["krissel_id"] = "texts.txt:1"
    assert nlp(doc).ents[0].kb_id_ == "T10"
    other = nlp(f"In another text. {TEXT}").ents[0]._.krissel_candidates[0]
    assert (other["kind"] == "verdict") is not same_document


@pytest.mark.parametrize(
    "written",
    [
        {"encoding": "utf-8-sig", "lineterminator": "\r\n"},
        {"quoting": csv.QUOTE_ALL, "columns": COLUMNS[::-1]},
        {
            "delimiter": ";",
            "name": "links.csv",
            "columns": ("notes", *COLUMNS),
            "lineterminator": "\r\n",
        },
        {"delimiter": ",", "name": "links.csv", "encoding": "utf-8-sig"},
    ],
    ids=["windows", "quoted and reordered", "semicolons and another column", "commas"],
)
def test_tables_saved_by_spreadsheets_are_read(pipeline, fill_in, tmp_path, written):
    texts = ['Of "STEMI", and flu; one\'s own.']
    correct(pipeline, fill_in({0: {"right_id": "T10"}}, texts=texts, **written), tmp_path / "fixed")
    assert best(tmp_path / "fixed", texts[0])["evidence"] == 'Of "⟦STEMI⟧", and flu; one\'s own.'


def test_bad_rows_are_counted_and_the_others_applied(pipeline, fill_in, tmp_path):
    rows = {
        0: {"right_id": "T999"},
        1: {"right_id": "T10", "context": "without brackets"},
        2: {"verdict": "perhaps"},
        3: {"right_id": "T10", "start": "1e9"},
        4: {"right_id": "T10"},
        # Which is the mention?
        5: {"right_id": "T10", "context": "a ⟦STEMI⟧ and ⟦another⟧"},
    }
    links = fill_in(rows, texts=[TEXT] * 7)
    with pytest.warns(
        KrisselWarning,
        match=r"KW201.*5 record.*links.tsv, line 2 \(the knowledge base has no 'T999'\)",
    ):
        found = correct(pipeline, links, tmp_path / "fixed")
    assert (found["rows"], found["corrections"]) == (6, 1)


@pytest.mark.parametrize(
    "cells, problem",
    [
        ({"context": "a ⟦STEMI⟧ and ⟦another⟧"}, "one mention in"),
        ({"start": "", "end": ""}, "no offsets in start and end.*table of text and right_id"),
    ],
)
def test_what_a_row_lacks_is_said(pipeline, fill_in, tmp_path, cells, problem):
    links = fill_in({0: {"right_id": "T10", **cells}, 1: {"right_id": "T10"}}, texts=[TEXT] * 2)
    with pytest.warns(KrisselWarning, match=f"KW201.*1 record.*line 2.*{problem}"):
        assert correct(pipeline, links, tmp_path / "fixed")["corrections"] == 1


def test_unclosed_quote_warns(pipeline, fill_in, tmp_path):
    links = fill_in({0: {"right_id": "T10"}})
    links.write_text(links.read_text() + '"' + "x\t\n" * 3)
    with pytest.warns(KrisselWarning, match="KW201.*line 3 .a quote is not closed"):
        assert correct(pipeline, links, tmp_path / "fixed")["corrections"] == 1


@pytest.mark.parametrize("content", ["", "doc\tverdict\n", "\n\n", "a,b\n1,yes\n"])
def test_table_without_corrections_raises(pipeline, tmp_path, content):
    (tmp_path / "links.tsv").write_text(content)
    with pytest.raises(KrisselError, match="K204.*right_id"):
        correct(pipeline, tmp_path / "links.tsv", tmp_path / "fixed")
    assert not (tmp_path / "fixed").exists()


def test_file_that_is_not_utf8_raises(pipeline, tmp_path):
    (tmp_path / "links.tsv").write_bytes(b"doc\tverdict\n\xff\tyes\n")
    with pytest.raises(KrisselError, match="K203"):
        correct(pipeline, tmp_path / "links.tsv", tmp_path / "fixed")


def test_changed_verdict_replaces_the_first(pipeline, fill_in, tmp_path):
    fixed = tmp_path / "fixed"
    correct(pipeline, fill_in({0: {"right_id": "T10"}}), fixed)
    # A second time adds nothing.
    assert correct(fixed, tmp_path / "links.tsv", fixed)["new"] == 0
    assert correct(fixed, fill_in({0: {"right_id": "T01"}}), fixed, replace=True)["new"] == 1
    nlp = spacy.load(fixed)
    assert nlp.get_pipe("krissel_linker").kb.description()["verdict_sources"] == {"links": 1}
    assert best(nlp)["id"] == "T01"


def test_corrections_leave_a_shared_knowledge_base_unchanged(pipeline, fill_in, tmp_path):
    nlp = spacy.load(pipeline)
    nlp.get_pipe("krissel_linker").kb.to_disk(tmp_path / "kb")
    nlp.get_pipe("krissel_linker").kb_path = str(tmp_path / "kb")
    nlp.get_pipe_config("krissel_linker")["kb_path"] = str(tmp_path / "kb")
    links = fill_in({0: {"right_id": "T10"}})
    nlp.to_disk(tmp_path / "shared")
    correct(tmp_path / "shared", links, tmp_path / "fixed")
    assert best(tmp_path / "fixed")["id"] == "T10"
    assert (
        spacy.load(tmp_path / "shared")
        .get_pipe("krissel_linker")
        .kb.description()["verdict_sources"]
        == {}
    )
