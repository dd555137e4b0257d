"""BRAT's standoff format."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spacy_krissel.corpora.annotation import Mention
from spacy_krissel.corpora.convert import read_docs
from spacy_krissel.corpora.readers.brat import read_brat
from spacy_krissel.corpora.report import CorpusReport
from spacy_krissel.errors import KrisselError
from spacy_krissel.mentions.discontinuous import DocMention
from spacy_krissel.mentions.gold_mentions import gold_mentions

TEXT = "Pain and swelling\nin knee."
ANN = (
    "T1\tFinding 0 4;21 25\tPain knee\n"
    "N2\tReference T1 MESH:D10\tknee pain\n"
    "N3\tReference T2 UMLS:C7\tswelling\n"
    "T2\tFinding 9 17;18 25\tswelling in knee\n"
    "N1\tReference T1 OMIM:3\n"
    "T3\tCL:0000540 21 25\tknee\r\n"
    "\n"
    "T4\tPlace 21 25\tknee\n"
)
OTHERS = (
    "R1\tPart-of Arg1:T1 Arg2:T2\nE1\tHurts:T1 Theme:T2\n*\tEquiv T1 T2\nA1\tSevere T1\n"
    "#1\tAnnotatorNotes T1\tSo\n"
)


def read(tmp_path, ann=ANN, text=TEXT):
    if text is not None:
        (tmp_path / "7.txt").write_text(text, encoding="utf8", newline="")
    (tmp_path / "7.ann").write_text(ann, encoding="utf8", newline="")
    report = CorpusReport()
    return list(read_brat(tmp_path / "7.ann", report=report)), report


def test_mentions_are_read_with_their_references(tmp_path):
    (text,), report = read(tmp_path)
    assert (text.id, text.text) == ("7", TEXT)
    assert text.mentions == [
        Mention(((0, 4), (21, 25)), "Pain knee", "Finding", "MESH:D10|OMIM:3", 1),
        Mention(((9, 17), (18, 25)), "swelling in knee", "Finding", "UMLS:C7", 4),
        Mention(((21, 25),), "knee", "CL", "CL:0000540", 6),
        Mention(((21, 25),), "knee", "Place", "", 8),
    ]
    assert report.to_dict()["counts"] == {}


def test_docs_keep_discontinuous_mentions(tmp_path):
    """BRAT writes what goes over a line end as two fragments; it is one."""
    import spacy

    read(tmp_path)
    report = CorpusReport()
    (doc,) = read_docs(tmp_path, spacy.blank("en"), report=report)
    assert [(span.text, span.kb_id_) for span in doc.spans["krissel"]] == [
        ("swelling\nin knee", "UMLS:C7"),
        ("knee", "CL:0000540"),
        ("knee", ""),
    ]
    assert gold_mentions(doc)[3:] == [DocMention("MESH:D10|OMIM:3", "Finding", ((0, 1), (5, 6)))]
    assert (report["disjoint"], report["joined_fragments"], report["text_differences"]) == (1, 1, 0)


def test_other_and_bad_records_are_counted(tmp_path):
    bad = (
        "T5\tFinding 0\tPain\nT6\tFinding 0 4\nT1\tFinding 0 4\tPain\n"
        "N9\tReference T99 MESH:D1\tx\nN8\tReference T1\n"
        "pain\n"
    )
    (text,), report = read(tmp_path, ANN + OTHERS + bad)
    assert len(text.mentions) == 4
    assert report.to_dict()["counts"] == {"relations": 3, "bad_records": 6}
    assert report.examples["bad_records"][0].endswith("7.ann, line 14 ('T5\\tFinding 0\\tPain')")


def test_a_text_without_annotations_has_no_mentions(tmp_path):
    (text,), _ = read(tmp_path, "")
    assert (text.text, text.mentions) == (TEXT, [])


def test_offsets_count_every_character(tmp_path):
    """A carriage return and a character outside Unicode's first plane are one each, and no line is
    normalised."""
    text = "A\r\n\N{MICROBE} gout"
    (found,), _ = read(tmp_path, "T1\tFinding 5 9\tgout\n", text)
    assert found.text == text and found.text[5:9] == "gout"


def test_folders_are_read_in_order(tmp_path):
    for name in ("b/2", "a/10", "a/1"):
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.with_suffix(".ann").write_text("")
        path.with_suffix(".txt").write_text(name)
    assert [text.text for text in read_brat(tmp_path)] == ["a/1", "a/10", "b/2"]


def test_missing_and_foreign_files_raise_coded_errors(tmp_path):
    with pytest.raises(KrisselError, match=r"K226\].*7\.ann.*'7\.txt'"):
        read(tmp_path, text=None)
    with pytest.raises(KrisselError, match=r"K227\].*7\.ann.*line 2 is '7\|t\|Pain'"):
        read(tmp_path, "\n7|t|Pain\n")
    with pytest.raises(KrisselError, match=r"K201\].*\.ann"):
        list(read_brat(tmp_path / "missing.ann"))


@given(st.lists(st.text(st.sampled_from("TN#R12 ;\tab:|\r"), max_size=20), max_size=6))
def test_arbitrary_lines_are_mentions_or_counted(tmp_path_factory, lines):
    tmp_path = tmp_path_factory.mktemp("brat")
    (text,), report = read(tmp_path, "T0\tFinding 0 4\tPain\n" + "\n".join([*lines, ""]))
    assert (
        text.mentions[0].text == "Pain"
        and len(text.mentions) + report["bad_records"] <= len(lines) + 1
    )
