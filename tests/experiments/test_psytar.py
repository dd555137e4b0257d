import sys
import warnings

import pytest
import spacy
from lab.data.psytar import convert_psytar, psytar_concepts, read_psytar

from spacy_krissel.corpora.doc_bins import read_doc_bins
from spacy_krissel.corpora.report import CorpusReport
from spacy_krissel.errors import KrisselError, KrisselWarning


@pytest.fixture
def workbook(write_psytar, tmp_path):
    return write_psytar(tmp_path / "psytar.xlsx")


def test_phrases_are_aligned_to_their_sentences(workbook):
    report = CorpusReport()
    texts = {text.id: text for text in read_psytar(workbook, report=report)}
    assert {id_: text.text for id_, text in texts.items()} == {
        "d.1:1": "Pain and swelling in knee.",
        "d.1:2": "No sleep, bad headaches; no SLEEP at all",
        "d.2:1": "It worked.",
        "d.2:1:2": "Such a headache!",
        "d.2:2": "Pain, swelling in the other knee, and zaps.",
    }
    found = {
        id_: [
            (entity.kb_id, entity.label, [text.text[start:end] for start, end in entity.fragments])
            for entity in text.mentions
        ]
        for id_, text in texts.items()
    }
    assert found == {
        "d.1:1": [
            ("C0000001", "ADR", ["Pain", "in knee"]),
            ("C0000002", "ADR", ["swelling in knee"]),
        ],
        "d.1:2": [
            # Listed twice under one label: the second is the second in the sentence.
            ("C0000003", "ADR", ["No sleep"]),
            ("C0000003", "ADR", ["no SLEEP"]),
            ("C0000004", "SSI", ["headaches"]),
            ("C0000003", "DI", ["No sleep"]),
        ],
        "d.2:1": [],
        # UMLS1 has no code; of two sentences with one number, the one in which the phrase stands.
        "d.2:1:2": [("C0000004", "ADR", ["headache"])],
        "d.2:2": [("C0000001", "ADR", ["Pain", "knee"]), ("C0000005", "ADR", [])],
    }
    starts = [entity.fragments[0][0] for entity in texts["d.1:2"].mentions]
    assert starts == [0, 25, 14, 0]
    assert dict(report.counts) == {
        "sentences": 5,
        "phrases": 11,
        "without_id": 1,
        "aligned: in a row": 5,
        "aligned: in order": 1,
        "aligned: any order": 1,
        "aligned: stems in a row": 1,
        "aligned_fragments": 2,
        "unaligned: one word missing": 1,
        "unaligned_phrases": 1,
        # A sentence without text, a phrase without a post, and one of a post that is not there.
        "bad_records": 3,
    }
    assert "'brain zaps' of d.2:2" in report.examples["unaligned_phrases"][0]


def test_concepts_are_read_with_names_and_types(workbook):
    assert [tuple(concept) for concept in psytar_concepts(workbook)] == [
        ("C0000001", ("Knee Pain", "Pain in knee"), "Finding"),
        ("C0000002", ("swelling/fullness of knee",), "finding"),
        ("C0000003", ("Not sleeping",), "Sign or Symptom"),
        ("C0000004", ("Headache",), "Finding"),
        ("C0000005", ("Shock sensation",), "Finding"),
    ]


def test_docs_have_labels_and_spans(workbook, tmp_path):
    with pytest.warns(KrisselWarning) as said:
        report = convert_psytar(workbook, tmp_path / "psytar.spacy")
    assert sorted(str(each.message)[:7] for each in said) == ["[KW201]", "[KW231]"]
    docs = list(read_doc_bins(tmp_path / "psytar.spacy", spacy.blank("en").vocab))
    assert [sorted(doc.cats) for doc in docs] == [
        ["C0000001", "C0000002"],
        ["C0000003", "C0000004"],
        [],
        ["C0000004"],
        ["C0000001", "C0000005"],
    ]
    assert [span.text for span in docs[0].spans["krissel"]] == ["swelling in knee"]
    assert [span.text for span in docs[0].spans["krissel_disjoint"]] == ["Pain", "in knee"]
    assert report["documents"] == 5 and report["mentions"] == 8 and report["disjoint"] == 2
    assert report["without_offsets"] == 1


def test_invalid_workbooks_raise_coded_errors(write_psytar, tmp_path, monkeypatch):
    def refused(path):
        with pytest.raises(KrisselError) as caught:
            list(read_psytar(path))
        return str(caught.value)

    assert refused(tmp_path / "missing.xlsx").startswith("[K201]")
    whole = write_psytar(tmp_path / "whole.xlsx").read_bytes()
    (tmp_path / "cut.xlsx").write_bytes(whole[:-9])
    assert refused(tmp_path / "cut.xlsx").startswith("[K232]")
    (tmp_path / "text.xlsx").write_text("no workbook")
    assert refused(tmp_path / "text.xlsx").startswith("[K232]")
    found = refused(write_psytar(tmp_path / "other.xlsx", phrases={"ADR_Mapped": ()}))
    assert "no sheet WD-Mapped, but Sentence_Labeling, ADR_Mapped" in found
    sheets = dict.fromkeys(("ADR_Mapped", "WD-Mapped", "SSI_Mapped", "DI_Mapped"), ())
    assert "5 sentences and phrases of 0" in refused(
        write_psytar(tmp_path / "empty.xlsx", phrases=sheets)
    )
    path = write_psytar(tmp_path / "psytar.xlsx")
    monkeypatch.setitem(sys.modules, "openpyxl", None)
    assert refused(path).startswith("[K231]") and "spacy-krissel[psytar]" in refused(path)


@pytest.mark.nightly
@pytest.mark.data
def test_the_real_workbook_is_converted_with_known_counts(data_dir, tmp_path):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", KrisselWarning)
        report = convert_psytar(
            data_dir / "corpora" / "psytar" / "PsyTAR_dataset.xlsx", tmp_path / "p.spacy"
        )
    expected = {
        "sentences": 6003,
        "phrases": 7413,
        "without_id": 134,
        "aligned: in a row": 6707,
        "aligned: in order": 403,
        "aligned: any order": 12,
        "aligned: stems in a row": 37,
        "aligned: stems in order": 3,
        "aligned: stems in any order": 1,
        "aligned_fragments": 418,
        "unaligned: one word missing": 101,
        "unaligned: more words missing": 15,
        "mentions": 7161,
        "disjoint": 418,
        "bad_records": 7,
    }
    assert {name: report[name] for name in expected} == expected
