import gzip
import json

import pytest
import spacy
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from spacy_krissel.corpora.convert import convert, read_docs
from spacy_krissel.corpora.readers.zeshel import read_zeshel
from spacy_krissel.corpora.report import CorpusReport
from spacy_krissel.errors import KrisselError, KrisselWarning
from spacy_krissel.mentions.gold_mentions import SPANS_KEY
from spacy_krissel.ontology.build import build_ontology
from spacy_krissel.ontology.entity import Entity
from spacy_krissel.ontology.readers import detect_format

NLP = spacy.blank("en")
DOCUMENTS = {
    "lego": {
        "0A": ("Batmobile", "The  Batmobile ( 7784 ) isn't\nBatman 's car ."),
        "0B": ("Batman", "Batman is ."),
    },
    "muppets": {"0C": ("Kermit", "Kermit the Frog met Batman .")},
}
MENTIONS = [
    ("0A", 6, 7, "Batman 's", "0B", "lego"),
    ("0A", 1, 1, "Batmobile", "0A", "lego"),
    ("0A", 6, 6, "Batman", "0B", "lego"),
    ("0C", 0, 2, "kermit THE Frog", "0C", "muppets"),
]


def line(document, start, end, text, label, world, **more):
    record = {"context_document_id": document, "start_index": start, "end_index": end, "text": text}
    return json.dumps(
        {**record, "label_document_id": label, "corpus": world, "category": "LOW_OVERLAP", **more}
    )


@pytest.fixture
def folder(tmp_path):
    """`documents/` with a file a world, and `mentions.json`."""
    (tmp_path / "documents").mkdir()
    for world, documents in DOCUMENTS.items():
        lines = [
            json.dumps({"document_id": i, "title": t, "text": text})
            for i, (t, text) in documents.items()
        ]
        (tmp_path / "documents" / f"{world}.json").write_text(
            "\n".join(lines) + "\n", encoding="utf8"
        )
    (tmp_path / "mentions.json").write_text(
        "\n".join(line(*mention) for mention in MENTIONS) + "\n", encoding="utf8"
    )
    return tmp_path


def test_docs_are_tokenized_at_white_space(folder):
    with pytest.warns(KrisselWarning, match=r"KW204\] 1 mention.*kermit THE Frog"):
        first, second = read_docs(folder / "mentions.json", NLP, documents=folder / "documents")
    assert [token.text for token in first] == DOCUMENTS["lego"]["0A"][1].split()
    assert (
        first.text == "The Batmobile ( 7784 ) isn't Batman 's car ."
        and first.user_data["krissel_id"] == "0A"
    )
    assert [(span.text, span.label_, span.kb_id_) for span in first.spans[SPANS_KEY]] == [
        ("Batmobile", "lego", "0A"),
        ("Batman 's", "lego", "0B"),
        ("Batman", "lego", "0B"),
    ]
    # Of mentions that overlap, the longest is among the entities.
    assert [ent.text for ent in first.ents] == ["Batmobile", "Batman 's"]
    assert [(ent.text, ent.label_) for ent in second.ents] == [("Kermit the Frog", "muppets")]


def test_converted_ids_are_those_of_the_built_ontology(folder):
    worlds = [folder / "documents" / "lego.json", folder / "documents" / "muppets.json"]
    store = build_ontology(worlds, folder / "store", format="zeshel")
    with pytest.warns(KrisselWarning, match="KW204"):
        report = convert(
            folder / "mentions.json", folder / "gold.spacy", format="zeshel",
            documents=folder / "documents",
            ontology=store, labels=["lego", "muppets"],
        )  # fmt: skip
    assert (report["documents"], report["mentions"], report["ents"], report["unknown_ids"]) == (
        2,
        4,
        3,
        0,
    )
    assert store.get("0C") == Entity(
        "0C",
        "Kermit",
        types=("muppets",),
        definition="Kermit the Frog met Batman .",
        source="ZESHEL",
    )
    assert store.find("batman") == ["0B"]


def test_worlds_may_be_compressed(folder):
    path = folder / "documents" / "muppets.json"
    path.with_name("muppets.json.gz").write_bytes(gzip.compress(path.read_bytes()))
    path.unlink()
    texts = list(read_zeshel(folder / "mentions.json", documents=folder / "documents"))
    assert [text.id for text in texts] == ["0A", "0C"]
    (entity,) = build_ontology(path.with_name("muppets.json.gz"), folder / "store")
    assert entity.types == ("muppets",)


def test_invalid_mentions_and_documents_are_counted(folder):
    bad = [
        line("0A", 1, 1, "Batman", "0B", "lego"),
        line("0A", 9, 10, "nothing", "0B", "lego"),
        line("0A", -1, 0, "The", "0B", "lego"),
        line("0A", 2, 1, "The", "0B", "lego"),
        line("0Z", 0, 0, "lost", "0B", "lego"),
        line("0A", "1", 1, "Batmobile", "0A", "lego"),
        line("0A", True, 1, "Batmobile", "0A", "lego"),
        line("0A", 1, 1, "Batmobile", "\ud800", "lego"),
        line("0A", 1, 1, "Batmobile", None, "lego"),
        "{",
        "[]",
    ]
    (folder / "mentions.json").write_text("\n".join([line(*MENTIONS[1]), *bad]), encoding="utf8")
    with (folder / "documents" / "lego.json").open("r+", encoding="utf8") as file_:
        rest = file_.read()
        file_.seek(0)
        file_.write('{"document_id": 7}\n' + rest)
    with pytest.warns(KrisselWarning) as found:
        report = convert(
            folder / "mentions.json",
            folder / "gold.spacy",
            format="zeshel",
            documents=folder / "documents",
        )
    assert (report["mentions"], report["text_mismatches"], report["outside_text"]) == (1, 1, 3)
    # Six mentions, the lost one, and a document.
    assert report["bad_records"] == 8 and report["mentions_read"] == 5
    assert {str(each.message)[:7] for each in found} == {"[KW201]", "[KW203]", "[KW205]"}


def test_invalid_files_raise(folder, tmp_path):
    def refuse(code, mentions=None, **settings):
        settings = {"documents": folder / "documents", "format": "zeshel", **settings}
        with pytest.raises(KrisselError, match=rf"\[{code}\]"):
            convert(mentions or folder / "mentions.json", folder / "gold.spacy", **settings)

    refuse("K006", documents=None)
    refuse("K006", documents=None, format="auto")
    refuse("K006", format="pubtator")
    refuse("K201", mentions=folder / "missing.json")
    refuse("K201", documents=folder)
    refuse("K224", mentions=folder / "documents" / "lego.json")
    (tmp_path / "empty.json").write_text("\n\n")
    refuse("K204", mentions=tmp_path / "empty.json")
    (tmp_path / "up.json").write_text(
        line("0A", 1, 1, "Batmobile", "0A", "../documents/../../secret")
    )
    refuse("K201", mentions=tmp_path / "up.json")
    assert not (folder / "gold.spacy").exists()


def test_a_document_in_two_mention_files_raises_a_warning(folder):
    paths = [folder / "mentions.json", folder / "more.json"]
    paths[0].write_text(
        line(*MENTIONS[0]) + "\n" + line(*MENTIONS[3]).replace("kermit THE", "Kermit the")
    )
    paths[1].write_text(line("0A", 0, 0, "The", "0B", "lego") + "\n")
    with pytest.warns(KrisselWarning, match=r"KW202\] 1 document.*more\.json, line 1"):
        docs = list(read_docs(paths, NLP, documents=folder / "documents"))
    assert len(docs) == 2


def test_the_format_of_documents_is_detected(folder, tmp_path):
    assert detect_format(folder / "documents" / "lego.json") == "zeshel"
    (tmp_path / "a.jsonl").write_text(
        '{"concept_id": "D1", "canonical_name": "a", "definition": "\\"document_id\\""}'
    )
    assert detect_format(tmp_path / "a.jsonl") == "jsonl"


def test_bad_documents_are_skipped_with_a_warning_by_the_ontology_reader(folder):
    path = folder / "documents" / "lego.json"
    bad = [
        '{"document_id": 7, "title": "a", "text": "b"}',
        '{"document_id": "7", "title": " ", "text": "b"}',
        "[]",
    ]
    bad += [
        '{"document_id": "7", "title": "a"}',
        '{"document_id": "7", "title": "\\ud800", "text": "b"}',
        "{",
    ]
    path.write_text(path.read_text(encoding="utf8") + "\n".join(bad) + "\n", encoding="utf8")
    with pytest.warns(
        KrisselWarning, match=r"KW101\] Left out 6 of 8 records.*line 3 has a int instead of a text"
    ):
        store = build_ontology(path, folder / "store", format="zeshel")
    assert list(store.ids) == ["0A", "0B"]


@settings(max_examples=30)
@given(
    words=st.lists(
        st.text(st.characters(codec="utf8", exclude_categories=["Z", "C"]), min_size=1), min_size=1
    ),
    spaces=st.sampled_from([" ", "  ", "\n", "\t "]),
    data=st.data(),
)
def test_token_offsets_hold_for_arbitrary_text(tmp_path_factory, words, spaces, data):
    folder = tmp_path_factory.mktemp("zeshel")
    words = spaces.join(words).split()
    start = data.draw(st.integers(0, len(words) - 1))
    end = data.draw(st.integers(start, len(words) - 1))
    record = {"document_id": "1", "title": "t", "text": spaces.join(words)}
    (folder / "w.json").write_text(json.dumps(record), encoding="utf8")
    (folder / "m.json").write_text(
        line("1", start, end, " ".join(words[start : end + 1]), "2", "w"), encoding="utf8"
    )
    report = CorpusReport()
    (doc,) = read_docs(folder / "m.json", NLP, documents=folder, report=report)
    assert [token.text for token in doc] == words
    assert [(span.start, span.end) for span in doc.spans[SPANS_KEY]] == [(start, end + 1)]
    assert not report.examples and not report["split_tokens"]


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.binary(max_size=200)
    | st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
        lambda values: st.dictionaries(
            st.sampled_from(["corpus", "text", "start_index", "context_document_id"]), values
        ),
        max_leaves=8,
    ).map(lambda value: json.dumps(value).encode()),
    st.booleans(),
)
@pytest.mark.filterwarnings("ignore::spacy_krissel.errors.KrisselWarning")
def test_arbitrary_mention_lines_give_documents_or_a_coded_error(folder, content, after_sample):
    start = (line(*MENTIONS[1]) + "\n").encode() * after_sample
    (folder / "wild.json").write_bytes(start + content)
    try:
        texts = list(read_zeshel(folder / "wild.json", documents=folder / "documents"))
    except KrisselError as error:
        assert str(error).startswith(("[K2", "[K057]"))
    else:
        assert [text.id for text in texts] == ["0A"]
