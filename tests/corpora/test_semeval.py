"""SemEval-2015's clinical notes."""

import pytest
import spacy
from hypothesis import given
from hypothesis import strategies as st

from spacy_krissel.corpora.annotation import Mention
from spacy_krissel.corpora.convert import convert, read_docs
from spacy_krissel.corpora.readers.semeval import read_semeval
from spacy_krissel.corpora.report import CorpusReport
from spacy_krissel.errors import KrisselError
from spacy_krissel.mentions.discontinuous import DocMention
from spacy_krissel.mentions.gold_mentions import gold_mentions

TEXT = "Pain and swelling in knee.\nNo fever; some malaise."
PIPE = (
    "7.text|0-4,21-25|C0231749|no|*NULL*|patient\n"
    "7.text|9-25|C0152031|no|*NULL*\r\n"
    "\n"
    "7.text|30-35|C0015967|yes|30-32\n"
    "7.text|42-49|CUI-less\n"
)


def read(tmp_path, pipe=PIPE, text=TEXT):
    if text is not None:
        (tmp_path / "7.text").write_text(text, encoding="utf8", newline="")
    (tmp_path / "7.pipe").write_text(pipe, encoding="utf8", newline="")
    report = CorpusReport()
    return list(read_semeval(tmp_path / "7.pipe", report=report)), report


def test_mentions_are_read_with_fragments_and_nil(tmp_path):
    (note,), report = read(tmp_path)
    assert (note.id, note.text, report.to_dict()["counts"]) == ("7", TEXT, {})
    assert note.mentions == [
        Mention(((0, 4), (21, 25)), "Pain knee", "Disorder", "C0231749", 1),
        Mention(((9, 25),), "swelling in knee", "Disorder", "C0152031", 2),
        Mention(((30, 35),), "fever", "Disorder", "C0015967", 4),
        Mention(((42, 49),), "malaise", "Disorder", "NIL", 5),
    ]


def test_docs_keep_discontinuous_mentions(tmp_path):
    read(tmp_path)
    (doc,) = read_docs(tmp_path, spacy.blank("en"))
    assert [(span.text, span.kb_id_) for span in doc.spans["krissel"]] == [
        ("swelling in knee", "C0152031"),
        ("fever", "C0015967"),
        ("malaise", "NIL"),
    ]
    assert gold_mentions(doc)[3:] == [DocMention("C0231749", "Disorder", ((0, 1), (4, 5)))]


def test_the_format_is_detected_by_file_name(tmp_path):
    read(tmp_path)
    for path in (tmp_path, tmp_path / "7.pipe"):
        assert convert(path, tmp_path / "out.spacy", force=True)["mentions_read"] == 4


def test_bad_records_are_counted(tmp_path):
    bad = "7.text|0-4\n7.text|0-4;5-6|C1\n7.text|4-4|C1\n7.text|0-999|C1\n7.text|0-4|\npain\n"
    (note,), report = read(tmp_path, PIPE + bad)
    assert len(note.mentions) == 4 and report["bad_records"] == 6
    assert report.examples["bad_records"][0].endswith("7.pipe, line 6 ('7.text|0-4')")


def test_missing_and_foreign_files_raise_coded_errors(tmp_path):
    with pytest.raises(KrisselError, match=r"K226\].*7\.pipe.*'7\.text'"):
        read(tmp_path, text=None)
    with pytest.raises(KrisselError, match=r"K236\].*7\.pipe.*line 2 is 'T1 Finding'"):
        read(tmp_path, "\nT1 Finding\n")
    with pytest.raises(KrisselError, match=r"K201\].*\.pipe"):
        list(read_semeval(tmp_path / "missing.pipe"))


@given(st.lists(st.text(st.sampled_from("7|0123-, C\r"), max_size=20), max_size=6))
def test_arbitrary_lines_are_mentions_or_counted(tmp_path_factory, lines):
    tmp_path = tmp_path_factory.mktemp("semeval")
    (note,), report = read(tmp_path, "7.text|0-4|C1\n" + "\n".join([*lines, ""]))
    assert (
        note.mentions[0].text == "Pain"
        and len(note.mentions) + report["bad_records"] <= len(lines) + 1
    )
