import json
import os

import pytest
import spacy
from spacy.tokens import DocBin

from spacy_krissel.errors import KrisselError
from spacy_krissel.pipeline.link import link


@pytest.fixture
def docs_file(nlp, make_docs, tmp_path):
    docs = make_docs(nlp)
    docs[0].user_data["krissel_id"] = "first"
    DocBin(docs=docs, store_user_data=True).to_disk(tmp_path / "docs.spacy")
    return tmp_path / "docs.spacy"


@pytest.fixture
def with_ruler(nlp, tmp_path):
    """The pipeline with a component that finds mentions."""
    ruler = nlp.add_pipe("entity_ruler", before="krissel_linker")
    ruler.add_patterns([{"label": "Disease", "pattern": name} for name in ("MS", "flu", "migraine", "Sneezing")])
    nlp.to_disk(tmp_path / "with_ruler")
    return tmp_path / "with_ruler"


def read_jsonl(path):
    return [json.loads(line) for line in path.read_text(encoding="utf8").splitlines()]


def test_docs_to_jsonl(docs_file, save_linker, nlp, make_docs, tmp_path):
    assert link(save_linker(), docs_file, tmp_path / "out" / "links.jsonl") == (7, 10)
    records = read_jsonl(tmp_path / "out" / "links.jsonl")
    assert [record["id"] for record in records] == ["first"] + [""] * 6
    expected = [nlp(doc) for doc in make_docs(nlp)]
    assert [record["text"] for record in records] == [doc.text for doc in expected]
    for record, doc in zip(records, expected):
        found = [(m["start"], m["end"], m["text"], m["label"], m["kb_id"]) for m in record["mentions"]]
        assert found == [(e.start_char, e.end_char, e.text, e.label_, e.kb_id_) for e in doc.ents]
        for mention in record["mentions"]:
            assert record["text"][mention["start"] : mention["end"]] == mention["text"]
            assert mention["candidates"][0]["id"] == mention["kb_id"]


def test_docs_to_docs(docs_file, save_linker, tmp_path):
    link(save_linker(), docs_file, tmp_path / "links.spacy", batch_size=2)
    docs = list(DocBin().from_disk(tmp_path / "links.spacy").get_docs(spacy.blank("en").vocab))
    assert len(docs) == 7 and docs[0].user_data["krissel_id"] == "first"
    assert all(ent.kb_id_ and ent._.krissel_candidates for doc in docs for ent in doc.ents)


def test_docs_keep_their_mentions(docs_file, with_ruler, tmp_path):
    """Only the linker runs on docs: a component that finds mentions would change theirs."""
    link(with_ruler, docs_file, tmp_path / "links.jsonl")
    texts = [mention["text"] for record in read_jsonl(tmp_path / "links.jsonl") for mention in record["mentions"]]
    assert texts.count("cold") == 2 and "Sneezing" not in texts


def test_texts(with_ruler, tmp_path):
    lines = [{"id": "a", "title": "Relapses", "text": "pointed to MS and flu."}, {"id": "b", "text": "Nothing."}]
    (tmp_path / "texts.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    assert link(with_ruler, tmp_path / "texts.jsonl", tmp_path / "links.jsonl", progress=True) == (2, 2)
    first, second = read_jsonl(tmp_path / "links.jsonl")
    assert (first["id"], first["text"]) == ("a", "Relapses pointed to MS and flu.")
    assert [m["text"] for m in first["mentions"]] == ["MS", "flu"]
    assert first["mentions"][1]["kb_id"] == "T10"
    assert (second["id"], second["mentions"]) == ("b", [])


def test_spans_of_a_group(nlp, linker, make_doc, tmp_path):
    linker.cfg["spans_key"] = "sc"
    nlp.to_disk(tmp_path / "grouped")
    DocBin(docs=[make_doc(nlp, "Seen in [MS|Disease] and [flu|Disease]", "sc")]).to_disk(tmp_path / "docs.spacy")
    assert link(tmp_path / "grouped", tmp_path / "docs.spacy", tmp_path / "links.jsonl") == (1, 2)
    (record,) = read_jsonl(tmp_path / "links.jsonl")
    assert [mention["text"] for mention in record["mentions"]] == ["MS", "flu"]


@pytest.mark.parametrize("name", ["links.txt", "links", "links.json"])
def test_output_of_unknown_kind(save_linker, docs_file, tmp_path, name):
    with pytest.raises(KrisselError, match="K006.*output.*.jsonl or .spacy"):
        link(save_linker(), docs_file, tmp_path / name)


def test_damaged_input_leaves_an_earlier_output(save_linker, docs_file, tmp_path):
    output = tmp_path / "links.jsonl"
    output.write_text("earlier")
    docs_file.write_bytes(docs_file.read_bytes()[:-50])
    for texts, code in (
        (docs_file, "K212"),
        (tmp_path / "missing.spacy", "K201"),
        (tmp_path / "missing.jsonl", "K201"),
    ):
        with pytest.raises(KrisselError, match=f"{code}.*{texts.name}"):
            link(save_linker(), texts, output)
    assert output.read_text() == "earlier"
    assert sorted(os.listdir(tmp_path)) == ["docs.spacy", "links.jsonl"]


def test_pipeline_that_cannot_link(docs_file, tmp_path):
    with pytest.raises(KrisselError, match="K611"):
        link(tmp_path / "missing", docs_file, tmp_path / "links.jsonl")
    spacy.blank("en").to_disk(tmp_path / "blank")
    with pytest.raises(KrisselError, match="K610"):
        link(tmp_path / "blank", docs_file, tmp_path / "links.jsonl")
