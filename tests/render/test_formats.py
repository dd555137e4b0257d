"""Linked docs in the formats of other tools: what is written is read back, places, labels, ids and
scores."""

import io
import json
import tarfile
import zipfile

import pyarrow.parquet
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from linked_docs import NLP, linked_doc, written
from project_files import ROOT
from spacy.tokens import Doc, Span

from spacy_krissel.corpora.convert import read_docs
from spacy_krissel.corpora.readers import READERS, detect_format
from spacy_krissel.corpora.readers.cas import load_cas, load_types
from spacy_krissel.corpora.report import CorpusReport
from spacy_krissel.mentions.annotations import NIL
from spacy_krissel.mentions.gold_ids import NIL_MARKS
from spacy_krissel.mentions.gold_mentions import ID_KEY
from spacy_krissel.render.formats import WRITERS, writer_of
from spacy_krissel.render.formats.cas import LAYER
from spacy_krissel.render.formats.label_studio import CONFIG

GOUT = {"id": "MESH:D006073", "name": "Gout & co", "score": 0.75, "confidence": 0.9}
FEVER = {"id": "D005334", "name": "Fever", "score": 0.25}
# A title, markup, a character beyond the first plane.
TEXT = "Gout in 𝛽-men\nHe <had> gout,\tfever & a rash."


MENTIONS = [
    (0, 4, "Disease", [GOUT, FEVER]),
    (23, 27, "Disease", [GOUT]),
    (29, 34, "Finding", [FEVER]),
    (39, 43, "X", []),
]


def a_doc(text=TEXT, id_="7", mentions=MENTIONS):
    return linked_doc(text, id_, mentions)


def answered(ending, content):
    """Return the file as the tool exports it when a person agrees with everything."""
    if ending == ".labelstudio.json":
        tasks = json.loads(content)
        for number, task in enumerate(tasks, 1):
            task["annotations"] = [
                {
                    "id": number,
                    "result": task.pop("predictions")[0]["result"],
                    "was_cancelled": False,
                }
            ]
        return json.dumps(tasks).encode()
    if ending == ".prodigy.jsonl":
        tasks = [
            {**json.loads(line), "answer": "accept", "_input_hash": 1}
            for line in content.splitlines()
        ]
        return "".join(json.dumps(task) + "\n" for task in tasks).encode()
    return content


def read_back(ending, content, tmp_path, report=None):
    path = tmp_path / f"links{ending}"
    path.write_bytes(answered(ending, content))
    return list(READERS[detect_format(path)](path, report=report or CorpusReport()))


def places(mentions):
    return [
        (each.fragments, each.label, "" if each.kb_id in NIL_MARKS else each.kb_id)
        for each in mentions
    ]


BACK = (
    ".pubtator",
    ".bioc.xml",
    ".brat.tar.gz",
    ".bigbio.jsonl",
    ".prodigy.jsonl",
    ".labelstudio.json",
    ".xmi.zip",
)


@pytest.mark.parametrize("ending", BACK)
def test_mentions_round_trip_through_each_format(ending, tmp_path):
    docs = a_doc(), a_doc("It was fever.", "8", [(7, 12, "Finding", [FEVER])])
    first, second = read_back(ending, written(ending, *docs), tmp_path)
    expected = [
        (((0, 4),), "Disease", "MESH:D006073"),
        (((23, 27),), "Disease", "MESH:D006073"),
        (((29, 34),), "Finding", "D005334"),
        (((39, 43),), "X", ""),
    ]
    assert places(first.mentions) == expected and [each.text for each in first.mentions] == [
        "Gout",
        "gout",
        "fever",
        "rash",
    ]
    assert first.text == (
        TEXT.replace("\n", " ").replace("\t", " ") if ending == ".pubtator" else TEXT
    )
    assert [first.id, second.id] == ["7", "8"] and places(second.mentions) == [
        (((7, 12),), "Finding", "D005334")
    ]


@pytest.mark.parametrize("ending", BACK)
def test_written_file_can_be_read_as_a_corpus(ending, tmp_path):
    path = tmp_path / f"links{ending}"
    path.write_bytes(answered(ending, written(ending, a_doc())))
    (doc,) = read_docs(path, NLP)
    assert [(ent.text, ent.label_) for ent in doc.ents][:3] == [
        ("Gout", "Disease"),
        ("gout", "Disease"),
        ("fever", "Finding"),
    ]


# A file of many control characters is taken for binary data (K060).
TEXTS = st.text(
    st.characters(codec="utf-8", exclude_categories=["Cs", "Cn"]), min_size=1, max_size=60
).filter(lambda text: sum(char < " " for char in text) <= len(text) / 20)


@pytest.mark.parametrize("ending", BACK)
@settings(max_examples=60, deadline=None)
@given(texts=st.lists(TEXTS, min_size=1, max_size=4), data=st.data())
def test_any_text_round_trips_through_each_format(ending, texts, data, tmp_path_factory):
    docs = []
    for number, text in enumerate(texts):
        doc = NLP.make_doc(text)
        doc.user_data[ID_KEY] = f"d{number}"
        ents = []
        for i in data.draw(st.sets(st.integers(0, len(doc) - 1), max_size=3)):
            if not doc[i].is_space and doc[i].text.strip():
                ents.append(
                    Span(doc, i, i + 1, label="A", kb_id=data.draw(st.sampled_from(["M:1", "2"])))
                )
        doc.set_ents(sorted(ents))
        docs.append(doc)
    if ending != ".brat.tar.gz":
        docs = [
            doc for doc in docs if doc.text.strip() and (doc.ents or ending != ".prodigy.jsonl")
        ]
    if not docs:
        return
    found = read_back(ending, written(ending, *docs), tmp_path_factory.mktemp("any"))
    assert [each.id for each in found] == [doc.user_data[ID_KEY] for doc in docs]
    for doc, each in zip(docs, found, strict=True):
        # White space at the ends, and characters that XML has not, are not kept by all.
        expected = [(((ent.start_char, ent.end_char),), "A", ent.kb_id_) for ent in doc.ents]
        assert places(each.mentions) == expected


def test_scores_are_written():
    content = written(".bioc.xml", a_doc()).decode()
    assert '<infon key="score">0.75</infon><infon key="confidence">0.9</infon>' in content
    assert "Gout &amp; co" in content and "&lt;had&gt;" in content
    (row,) = map(json.loads, written(".bigbio.jsonl", a_doc()).splitlines())
    assert row["entities"][0]["normalized"] == [
        {
            **{"db_name": "MESH", "db_id": "D006073", "match": None, "matched_name": None},
            **{"score": 0.75, "confidence": 0.9},
        }
    ]
    with tarfile.open(fileobj=io.BytesIO(written(".brat.tar.gz", a_doc()))) as archive:
        lines = archive.extractfile("7.ann").read().decode().splitlines()
    assert lines[:3] == [
        "T1\tDisease 0 4\tGout",
        "N1\tReference T1 MESH:D006073\tGout & co",
        "#1\tAnnotatorNotes T1\tscore 0.7500, confidence 0.9000",
    ]
    table = pyarrow.parquet.read_table(io.BytesIO(written(".parquet", a_doc()))).to_pylist()
    assert table[0] == {
        **{
            "doc": "7",
            "start": 0,
            "end": 4,
            "text": "Gout",
            "label": "Disease",
            "id": "MESH:D006073",
            "name": "Gout & co",
        },
        **{
            "match": "",
            "matched_name": "",
            "score": 0.75,
            "confidence": 0.9,
            "candidates": [
                {"match": None, **{key: each[key] for key in ("id", "name", "score")}}
                for each in (GOUT, FEVER)
            ],
        },
    }
    assert table[3]["id"] == "" and table[3]["score"] is None
    tasks = [json.loads(line) for line in written(".prodigy.jsonl", a_doc()).splitlines()]
    assert [option["id"] for option in tasks[0]["options"]] == ["MESH:D006073", "D005334", NIL]
    assert tasks[0]["options"][0]["meta"] == {"score": 0.75} and tasks[0]["accept"] == [
        "MESH:D006073"
    ]
    assert tasks[3]["accept"] == [NIL]
    (task,) = json.loads(written(".labelstudio.json", a_doc()))
    results = task["predictions"][0]["result"]
    with zipfile.ZipFile(io.BytesIO(written(".xmi.zip", a_doc()))) as archive:
        cas = load_cas(
            archive.read("7.xmi").decode(), load_types(archive.read("TypeSystem.xml").decode())
        )
    annotations = [(each.identifier, each.score, each.confidence) for each in cas.select(LAYER)]
    assert annotations == [
        (GOUT["id"], 0.75, 0.9),
        (GOUT["id"], 0.75, 0.9),
        (FEVER["id"], 0.25, None),
        (None, None, None),
    ]
    assert results[0]["score"] == 0.9 and results[0]["meta"]["text"][1] == "D005334 Fever 0.250"


MATCHED = {**GOUT, "match": "spelling", "kind": "name", "evidence": "the ⟦Go; <ut>⟧ toe"}
OTHER = {**FEVER, "match": "context", "kind": "name", "evidence": "⟦Fever⟧"}


def _notes(content):
    with tarfile.open(fileobj=io.BytesIO(content)) as archive:
        return archive.extractfile("7.ann").read().decode().splitlines()[2]


def _features(content):
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        types = load_types(archive.read("TypeSystem.xml").decode())
        (each,) = load_cas(archive.read("7.xmi").decode(), types).select(LAYER)
    return each.match, each.matchedName


def _first(content):
    return json.loads(content.splitlines()[0])


def _cells(content):
    header, row = (line.split("\t") for line in content.decode().splitlines())
    return [dict(zip(header, row, strict=True))[key] for key in ("match", "matched_name")]


def _extension(content):
    _, mention = json.loads(content)["entry"]
    parts = mention["resource"]["extension"][0]["extension"]
    return [part for part in parts if part["url"].startswith("match")]


def _parquet(content):
    (row,) = pyarrow.parquet.read_table(io.BytesIO(content)).to_pylist()
    return row["match"], row["matched_name"], [each["match"] for each in row["candidates"]]


@pytest.mark.parametrize(
    "ending, read, expected",
    [
        (".tsv", _cells, ["spelling", "Go; <ut>"]),
        (
            ".jsonl",
            lambda content: [
                each["match"] for each in _first(content)["mentions"][0]["candidates"]
            ],
            ["spelling", "context"],
        ),
        (
            ".html",
            lambda content: b"Gout &amp; co 0.750 spelling\n" in content,
            True,
        ),
        (".parquet", _parquet, ("spelling", "Go; <ut>", ["spelling", "context"])),
        (
            ".bioc.xml",
            lambda content: (
                b'"match">spelling</infon><infon key="matched_name">Go; &lt;ut&gt;<' in content
            ),
            True,
        ),
        (
            ".brat.tar.gz",
            _notes,
            "#1\tAnnotatorNotes T1\tscore 0.7500, confidence 0.9000, match spelling Go; <ut>",
        ),
        (
            ".bigbio.jsonl",
            lambda content: [
                _first(content)["entities"][0]["normalized"][0][key]
                for key in ("match", "matched_name")
            ],
            ["spelling", "Go; <ut>"],
        ),
        (
            ".prodigy.jsonl",
            lambda content: [
                _first(content)["options"][0]["meta"]["match"],
                _first(content)["meta"]["match"],
                _first(content)["meta"]["matched_name"],
            ],
            ["spelling", "spelling", "Go; <ut>"],
        ),
        (
            ".labelstudio.json",
            lambda content: json.loads(content)[0]["predictions"][0]["result"][0]["meta"]["text"],
            ["MESH:D006073 Gout & co 0.750 spelling", "D005334 Fever 0.250 context"],
        ),
        (".xmi.zip", _features, ("spelling", "Go; <ut>")),
        (
            ".fhir.json",
            _extension,
            [
                {"url": "match", "valueCode": "spelling"},
                {"url": "matchedName", "valueString": "Go; <ut>"},
            ],
        ),
        (
            ".note_nlp.csv",
            lambda content: b"match=spelling;matched_name=Go%3B <ut>;score=0.75" in content,
            True,
        ),
        (
            ".phenopackets.jsonl",
            lambda content: _first(content)["metaData"]["externalReferences"][0]["description"],
            "id=MESH:D006073;text=gout;match=spelling;matched_name=Go%3B <ut>;score=0.75;"
            "confidence=0.9",
        ),
    ],
)
def test_match_is_written(ending, read, expected):
    doc = a_doc("gout", "7", [(0, 4, "Disease", [MATCHED, OTHER])])
    assert read(written(ending, doc)) == expected


def test_label_studio_gets_its_documented_form():
    """Label Studio documents pre-annotations so, for the interface in docs/tools.md."""
    assert CONFIG in (ROOT / "docs" / "tools.md").read_text(encoding="utf8")
    (task,) = json.loads(written(".labelstudio.json", a_doc()))
    label, entity = task["predictions"][0]["result"][:2]
    assert label["id"] == entity["id"] and {label["type"], entity["type"]} == {"labels", "textarea"}
    assert label["value"] == {"start": 0, "end": 4, "text": "Gout", "labels": ["Disease"]}
    assert entity["value"] == {"start": 0, "end": 4, "text": ["MESH:D006073"]}
    for result in (label, entity):
        assert f'name="{result["from_name"]}" toName="{result["to_name"]}"' in CONFIG


def test_unanswered_tasks_do_not_become_gold(tmp_path):
    tasks = json.loads(written(".labelstudio.json", a_doc(id_="1"), a_doc(id_="2"), a_doc(id_="3")))
    result = tasks[0]["predictions"][0]["result"]
    corrected = [
        {**result[0]},
        {**result[1], "value": {**result[1]["value"], "text": ["D1 ", "D2"]}},
    ]
    tasks[0]["annotations"] = [
        {"result": []},
        {"result": corrected},
        {"result": result, "was_cancelled": True},
    ]
    tasks[1]["annotations"] = []
    path = tmp_path / "a.json"
    path.write_text(json.dumps(tasks))
    report = CorpusReport()
    (document,) = READERS["label-studio"](path, report=report)
    assert (
        places(document.mentions) == [(((0, 4),), "Disease", "D1|D2")] and report["unanswered"] == 2
    )

    answers = [json.loads(line) for line in written(".prodigy.jsonl", a_doc()).splitlines()]
    for answer, said in zip(answers, ("accept", "reject", "ignore", "accept"), strict=True):
        answer["answer"] = said
    answers[0]["accept"] = ["D005334"]
    path.write_text("".join(json.dumps(answer) + "\n" for answer in answers))
    report = CorpusReport()
    (document,) = READERS["prodigy"](path, report=report)
    assert places(document.mentions) == [(((0, 4),), "Disease", "D005334"), (((39, 43),), "X", "")]
    assert document.mentions[1].kb_id == NIL and report["unanswered"] == 2


@pytest.mark.parametrize("ending", [*BACK, ".parquet", ".html", ".jsonl", ".tsv", ".spacy"])
def test_no_docs_give_a_valid_and_reproducible_file(ending):
    """And the same docs are the same file."""
    assert written(ending) == written(ending)
    assert written(ending, a_doc("", "1", [])) == written(ending, a_doc("", "1", []))
    if ending in (".pubtator", ".prodigy.jsonl", ".bigbio.jsonl", ".jsonl"):
        assert written(ending) == b""
    if ending == ".parquet":
        assert pyarrow.parquet.read_table(io.BytesIO(written(ending))).num_rows == 0


def test_docs_of_the_same_name_get_separate_files(tmp_path):
    docs = [a_doc(id_=id_) for id_ in ("a/b", "a_b_2", "a b", "a_b")]
    for ending in (".brat.tar.gz", ".xmi.zip"):
        found = read_back(ending, written(ending, *docs), tmp_path)
        assert sorted(each.id for each in found) == ["a_b", "a_b_2", "a_b_3", "a_b_4"]


def test_answers_to_a_long_text_are_detected_and_read(tmp_path):
    doc = a_doc(f"{TEXT} {'word ' * 2_000}", mentions=[(0, 4, "Disease", [GOUT])])
    (found,) = read_back(".prodigy.jsonl", written(".prodigy.jsonl", doc), tmp_path)
    assert places(found.mentions) == [(((0, 4),), "Disease", "MESH:D006073")]


def test_longest_matching_file_ending_wins():
    assert writer_of("a.prodigy.jsonl") is not writer_of("a.jsonl") is WRITERS[".jsonl"]
    assert writer_of("a.json") is writer_of("a.xml") is None


def test_mentions_of_another_span_group_are_written():
    doc = a_doc()
    doc.spans["sc"] = [doc[0:1]]
    file_ = io.BytesIO()
    WRITERS[".bigbio.jsonl"]([doc], "sc", file_)
    assert len(json.loads(file_.getvalue())["entities"]) == 1
    assert isinstance(doc, Doc)
