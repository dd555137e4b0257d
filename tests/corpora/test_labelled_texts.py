import gzip
import json

import pytest
import spacy
from hypothesis import given
from hypothesis import strategies as st

from spacy_krissel.corpora.annotation import AnnotatedText, Mention
from spacy_krissel.corpora.convert import convert
from spacy_krissel.corpora.doc_bins import read_doc_bins
from spacy_krissel.corpora.docs import to_doc
from spacy_krissel.corpora.readers.text_labels import read_text_labels
from spacy_krissel.corpora.report import CorpusReport
from spacy_krissel.errors import KrisselError, KrisselWarning
from spacy_krissel.mentions.gold_mentions import document_entities, gold_mentions

NLP = spacy.blank("en")
TEXT = "pain and swelling in knee"


def lines(path, records):
    path.write_text(
        "".join((each if isinstance(each, str) else json.dumps(each)) + "\n" for each in records)
    )
    return path


def entity(id_, label="", fragments=(), line=0):
    return Mention(fragments, "", label, id_, line)


def doc_of(*entities, text=TEXT, report=None):
    return to_doc(
        AnnotatedText("t", text, list(entities), weak=True), NLP, report=report or CorpusReport()
    )


def test_json_lines_are_read_with_entities(tmp_path):
    records = [
        {
            "id": 7,
            "text": TEXT,
            "entities": [{"id": "C1", "spans": [[18, 25], [0, 4]]}, {"id": "C2", "label": "X"}],
        },
        {"text": "nothing", "entities": None},
        "",
        {"id": "bare", "text": "no entities"},
    ]
    texts = list(read_text_labels(lines(tmp_path / "labels.jsonl", records)))
    assert [(text.id, text.text) for text in texts] == [
        ("7", TEXT),
        ("labels.jsonl:2", "nothing"),
        ("bare", "no entities"),
    ]
    assert texts[0].mentions == [entity("C1", "", ((0, 4), (18, 25)), 1), entity("C2", "X", line=1)]
    assert texts[1].mentions == texts[2].mentions == []


@pytest.mark.parametrize(
    "bad",
    [
        "{", "[]", '"text"', "[" * 100_000, '{"text": ""}', '{"text": 3}', '{"text": "\\ud800"}',
        {"text": "x", "entities": {"C1": []}}, {"text": "x", "entities": ["C1"]},
        {"text": "x", "entities": [{"id": 3}]},
        {"text": "x", "entities": [{"id": " "}]},
        {"text": "x", "entities": [{"id": "C1", "spans": [[0]]}]},
        {"text": "x", "entities": [{"id": "C1", "spans": [[0, "1"]]}]},
        {"text": "x", "entities": [{"id": "C1", "spans": [[False, True]]}]},
        {"text": "x", "entities": [{"id": "C1", "label": 1}]},
    ],
)  # fmt: skip
def test_some_bad_lines_raise_a_warning_and_only_bad_lines_an_error(bad, tmp_path):
    path = lines(tmp_path / "labels.jsonl", [bad, {"text": "good"}])
    with pytest.warns(KrisselWarning, match=r"KW201\] 1 record.*line 1"):
        assert [text.text for text in read_text_labels(path)] == ["good"]
    with pytest.raises(KrisselError, match="K204.*line 1"):
        list(read_text_labels(lines(path, [bad])))


def test_docs_have_categories_and_spans():
    report = CorpusReport()
    doc = doc_of(
        entity("C3", "", ((9, 25),)),
        entity("C1", "Sign", ((0, 4), (18, 25))),
        entity("C2"),
        entity("-1", "", ((0, 4),)),
        entity("C4|C5", "", ((0, 4),)),
        report=report,
    )
    assert doc.cats == dict.fromkeys(["C1", "C2", "C3", "C4", "C5"], 1.0)
    assert document_entities(doc) == ("C1", "C2", "C3", "C4", "C5")
    whole = [(span.text, span.kb_id_, span.label_) for span in doc.spans["krissel"]]
    assert whole == [
        ("pain", "C4", "ENTITY"),
        ("pain", "C5", "ENTITY"),
        ("swelling in knee", "C3", "ENTITY"),
    ]
    disjoint = [(span.text, span.kb_id_, span.label_) for span in doc.spans["krissel_disjoint"]]
    assert disjoint == [("pain", "C1", "Sign"), ("in knee", "C1", "Sign")]
    assert [ent.text for ent in doc.ents] == ["pain", "swelling in knee"]
    assert doc.user_data["krissel_id"] == "t"
    assert {key: report[key] for key in ("mentions_read", "mentions", "disjoint", "without_offsets", "nil")} == {  # noqa: E501
        "mentions_read": 5, "mentions": 4, "disjoint": 1, "without_offsets": 1, "nil": 1,
    }  # fmt: skip


def test_fragments_are_widened_to_whole_tokens():
    report = CorpusReport()
    doc = doc_of(
        # Within "swelling", with blanks; two fragments of one token; a repeat once widened.
        entity("C1", "", ((8, 14),)),
        entity("C2", "", ((9, 11), (13, 17))),
        entity("C1", "", ((9, 17),)),
        report=report,
    )
    assert [(m.kb_id, m.fragments) for m in gold_mentions(doc)] == [
        ("C1", ((2, 3),)),
        ("C2", ((2, 3),)),
    ]
    assert (
        report["widened_mentions"] == 2
        and report["duplicate_mentions"] == 1
        and report["mentions"] == 2
    )


@pytest.mark.parametrize(
    "fragments", [((20, 26),), ((-1, 4),), ((4, 4),), ((5, 3),), ((4, 5),), ((0, 4), (30, 40))]
)
def test_spans_outside_the_text_are_counted(fragments):
    report = CorpusReport()
    doc = doc_of(entity("C1", "", fragments), report=report)
    assert doc.cats == {"C1": 1.0} and gold_mentions(doc) == [] and report["outside_text"] == 1


def test_text_entities_fall_back_to_mentions_without_cats():
    doc = doc_of(entity("C2", "", ((0, 4), (18, 25))), entity("C1", "", ((0, 4),)))
    doc.cats = {}
    assert document_entities(doc) == ("C1", "C2")
    doc.cats = {"C3": 1.0, "C4": 0.0}
    assert document_entities(doc) == ("C3",)
    assert document_entities(NLP("text")) == ()


def test_compressed_files_are_converted_without_duplicates(tmp_path):
    record = {"id": "a", "text": TEXT, "entities": [{"id": "C1", "spans": [[0, 4], [18, 25]]}]}
    path = tmp_path / "labels.jsonl.gz"
    path.write_bytes(gzip.compress(f"{json.dumps(record)}\n{json.dumps(record)}\n".encode()))
    with pytest.warns(KrisselWarning, match="KW202"):
        report = convert(path, tmp_path / "labels.spacy")
    (doc,) = read_doc_bins(tmp_path / "labels.spacy", NLP.vocab)
    assert doc.cats == {"C1": 1.0} and [m.fragments for m in gold_mentions(doc)] == [
        ((0, 1), (3, 5))
    ]
    assert report["documents"] == 1 and report["disjoint"] == 1
    for settings in ({"format": "xml"}, {"lang": "zz9"}, {"sentences": True}):
        with pytest.raises(KrisselError, match="K006"):
            convert(path, tmp_path / "labels.spacy", force=True, **settings)
    with pytest.raises(KrisselError, match="K006"):
        convert(path, tmp_path / "labels.bin")


places = st.lists(st.tuples(st.integers(-2, 12), st.integers(-2, 12)), max_size=3)


@given(st.text(max_size=10), st.lists(places, max_size=4))
def test_kept_mentions_cover_their_stated_spans(text, all_fragments):
    """Kept mentions cover the spans that the source states."""
    report = CorpusReport()
    entities = [entity(f"C{i}", "", tuple(fragments)) for i, fragments in enumerate(all_fragments)]
    doc = doc_of(*entities, text=text, report=report)
    assert set(doc.cats) == {each.kb_id for each in entities}
    found = {mention.kb_id: mention for mention in gold_mentions(doc)}
    assert len(found) + report["without_offsets"] + report["outside_text"] == len(entities)
    for each in entities:
        if each.kb_id in found:
            spans = [doc[start:end] for start, end in found[each.kb_id].fragments]
            covered = {i for span in spans for i in range(span.start_char, span.end_char)}
            asked = {i for start, end in each.fragments for i in range(start, end)}
            assert all(i in covered or text[i].isspace() for i in asked)
