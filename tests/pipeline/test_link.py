import csv
import json
import os
from html.parser import HTMLParser

import pytest
import spacy
from spacy.tokens import DocBin

from spacy_krissel.commands import link_texts
from spacy_krissel.commands.link_texts import link
from spacy_krissel.errors import KrisselError, KrisselWarning


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
    ruler.add_patterns(
        [{"label": "Disease", "pattern": name} for name in ("MS", "flu", "migraine", "Sneezing")]
    )
    nlp.to_disk(tmp_path / "with_ruler")
    return tmp_path / "with_ruler"


def read_jsonl(path):
    return [json.loads(line) for line in path.read_text(encoding="utf8").splitlines()]


def test_docs_are_linked_to_jsonl(docs_file, save_linker, nlp, make_docs, tmp_path):
    assert link(save_linker(), docs_file, tmp_path / "out" / "links.jsonl") == (7, 10)
    records = read_jsonl(tmp_path / "out" / "links.jsonl")
    assert [record["id"] for record in records] == ["first"] + [""] * 6
    expected = [nlp(doc) for doc in make_docs(nlp)]
    assert [record["text"] for record in records] == [doc.text for doc in expected]
    for record, doc in zip(records, expected, strict=True):
        found = [
            (m["start"], m["end"], m["text"], m["label"], m["kb_id"]) for m in record["mentions"]
        ]
        assert found == [(e.start_char, e.end_char, e.text, e.label_, e.kb_id_) for e in doc.ents]
        for mention in record["mentions"]:
            assert record["text"][mention["start"] : mention["end"]] == mention["text"]
            assert mention["candidates"][0]["id"] == mention["kb_id"]


def test_docs_are_linked_to_docs(docs_file, save_linker, tmp_path):
    link(save_linker(), docs_file, tmp_path / "links.spacy", batch_size=2)
    docs = list(DocBin().from_disk(tmp_path / "links.spacy").get_docs(spacy.blank("en").vocab))
    assert len(docs) == 7 and docs[0].user_data["krissel_id"] == "first"
    assert all(ent.kb_id_ and ent._.krissel_candidates for doc in docs for ent in doc.ents)


def test_progress_bar_reaches_its_total(docs_file, with_ruler, tmp_path, terminal):
    (tmp_path / "texts.txt").write_text("He has MS.\n\nShe has the flu.\n")
    link(with_ruler, docs_file, tmp_path / "links.jsonl", progress=True)
    assert "7/7" in terminal.readouterr().err
    link(with_ruler, tmp_path / "texts.txt", tmp_path / "links.jsonl", progress=True, force=True)
    assert "Linking: 100%" in terminal.readouterr().err


def test_docs_are_linked_as_a_stream(docs_file, nlp, monkeypatch):
    read = []
    original = link_texts.read_doc_bins

    def reading(*args):
        for doc in original(*args):
            read.append(doc)
            yield doc

    monkeypatch.setattr(link_texts, "read_doc_bins", reading)
    linked = link_texts._linked(nlp, docs_file, 1, False)
    next(linked)
    assert len(read) < 7 and len(list(linked)) == 6


def test_docs_keep_their_mentions(docs_file, with_ruler, tmp_path):
    """A component that finds mentions would change those of docs."""
    link(with_ruler, docs_file, tmp_path / "links.jsonl")
    texts = [
        mention["text"]
        for record in read_jsonl(tmp_path / "links.jsonl")
        for mention in record["mentions"]
    ]
    assert texts.count("cold") == 2 and "Sneezing" not in texts


def test_texts_are_linked(with_ruler, tmp_path):
    lines = [
        {"id": "a", "title": "Relapses", "text": "pointed to MS and flu."},
        {"id": "b", "text": "Nothing."},
    ]
    (tmp_path / "texts.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    assert link(with_ruler, tmp_path / "texts.jsonl", tmp_path / "links.jsonl", progress=True) == (
        2,
        2,
    )
    first, second = read_jsonl(tmp_path / "links.jsonl")
    assert (first["id"], first["text"]) == ("a", "Relapses pointed to MS and flu.")
    assert [m["text"] for m in first["mentions"]] == ["MS", "flu"]
    assert first["mentions"][1]["kb_id"] == "T10"
    assert (second["id"], second["mentions"]) == ("b", [])


def test_mentions_that_are_nil_are_counted_apart(with_ruler, tmp_path):
    nlp = spacy.load(with_ruler)
    nlp.get_pipe("krissel_linker").cfg["threshold"] = 1e6
    nlp.to_disk(tmp_path / "strict")
    texts = tmp_path / "texts.jsonl"
    texts.write_text(json.dumps({"id": "a", "text": "pointed to MS and flu."}) + "\n")
    for pipeline, n_linked in ((with_ruler, 2), (tmp_path / "strict", 0)):
        output = tmp_path / f"{n_linked}.tsv"
        found = link(pipeline, texts, output)
        assert (found, found.linked) == ((1, 2), n_linked)
        said = f"2 mentions of 1 docs in {output}: {n_linked} linked, {2 - n_linked} NIL"
        assert link_texts.show_link(found, output) == said
        again = link(pipeline, texts, tmp_path / f"{n_linked}", format="jsonl")
        assert (again, again.linked) == (found, found.linked)


def test_spans_of_a_group_are_linked(nlp, linker, make_doc, tmp_path):
    linker.cfg["spans_key"] = "sc"
    nlp.to_disk(tmp_path / "grouped")
    DocBin(docs=[make_doc(nlp, "Seen in [MS|Disease] and [flu|Disease]", "sc")]).to_disk(
        tmp_path / "docs.spacy"
    )
    assert link(tmp_path / "grouped", tmp_path / "docs.spacy", tmp_path / "links.jsonl") == (1, 2)
    (record,) = read_jsonl(tmp_path / "links.jsonl")
    assert [mention["text"] for mention in record["mentions"]] == ["MS", "flu"]


@pytest.mark.parametrize("name", ["links.txt", "links", "links.json"])
def test_output_of_unknown_kind_raises(save_linker, docs_file, tmp_path, name):
    with pytest.raises(
        KrisselError,
        match="K006.*output.*.jsonl, .spacy, .*, .phenopackets.jsonl; or a folder, with --format",
    ):
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
            link(save_linker(), texts, output, force=True)
    assert output.read_text() == "earlier"
    assert sorted(os.listdir(tmp_path)) == ["docs.spacy", "links.jsonl"]


def test_pipeline_that_cannot_link_raises(docs_file, tmp_path):
    with pytest.raises(KrisselError, match="K611"):
        link(tmp_path / "missing", docs_file, tmp_path / "links.jsonl")
    spacy.blank("en").to_disk(tmp_path / "blank")
    with pytest.raises(KrisselError, match="K610"):
        link(tmp_path / "blank", docs_file, tmp_path / "links.jsonl")


def test_docs_pass_all_components_but_mention_setters(save_reranker, make_docs, tmp_path):
    """The linked docs equal `nlp(doc)`, which is evaluated: reranked, with sentences."""
    nlp = spacy.load(save_reranker())
    nlp.add_pipe("sentencizer", first=True)
    ruler = nlp.add_pipe("entity_ruler", first=True)
    ruler.add_patterns([{"label": "Disease", "pattern": "cake"}])
    nlp.to_disk(tmp_path / "pipeline")
    docs = make_docs(nlp)
    DocBin(docs=docs).to_disk(tmp_path / "docs.spacy")
    link(tmp_path / "pipeline", tmp_path / "docs.spacy", tmp_path / "links.spacy")
    linked = list(DocBin().from_disk(tmp_path / "links.spacy").get_docs(nlp.vocab))
    with nlp.select_pipes(disable=["entity_ruler"]):
        expected = [nlp(doc) for doc in docs]
    with nlp.select_pipes(enable=["krissel_linker"]):
        linker_alone = [nlp(doc) for doc in make_docs(nlp)]

    def candidates(docs):
        return [
            (
                ent.kb_id_,
                [
                    (each["id"], pytest.approx(each["score"], abs=1e-4))
                    for each in ent._.krissel_candidates
                ],
            )
            for doc in docs
            for ent in doc.ents
        ]

    assert candidates(linked) == candidates(expected) != candidates(linker_alone)
    assert all(doc.has_annotation("SENT_START") for doc in linked)


def test_disabled_linker_is_enabled_for_linking(nlp, docs_file, tmp_path):
    nlp.disable_pipe("krissel_linker")
    nlp.to_disk(tmp_path / "disabled")
    link(tmp_path / "disabled", docs_file, tmp_path / "links.jsonl")
    assert all(
        mention["kb_id"]
        for record in read_jsonl(tmp_path / "links.jsonl")
        for mention in record["mentions"]
    )


@pytest.mark.parametrize("size", [0, -1])
def test_invalid_batch_size_raises_and_keeps_an_earlier_output(tmp_path, size):
    """Before anything is read: there is no such pipeline."""
    (tmp_path / "links.jsonl").write_text("earlier")
    with pytest.raises(KrisselError, match="K006.*batch_size"):
        link(
            tmp_path / "missing",
            tmp_path / "missing",
            tmp_path / "links.jsonl",
            batch_size=size,
            force=True,
        )
    assert (tmp_path / "links.jsonl").read_text() == "earlier"


def test_texts_beyond_the_limit_are_counted_and_left_out(with_ruler, tmp_path, monkeypatch):
    nlp = spacy.load(with_ruler)
    nlp.max_length = 30
    monkeypatch.setattr(
        "spacy_krissel.commands.linking_workers.load_pipeline", lambda path, **settings: nlp
    )
    lines = [{"id": str(number), "text": "flu " * number} for number in (2, 9, 3, 10, 11, 12)]
    (tmp_path / "texts.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    with pytest.warns(KrisselWarning, match="KW620.*4 of 6 texts.*30 characters.*first: 9, 10, 11"):
        assert link(with_ruler, tmp_path / "texts.jsonl", tmp_path / "links.jsonl") == (2, 5)
    assert [record["id"] for record in read_jsonl(tmp_path / "links.jsonl")] == ["2", "3"]


def test_text_without_a_mention_detector_raises(save_linker, nlp, tmp_path):
    (tmp_path / "texts.txt").write_text("pointed to MS\n")
    with pytest.raises(KrisselError, match="K676.*krissel_linker.*doc.ents"):
        link(save_linker(), tmp_path / "texts.txt", tmp_path / "links.jsonl")
    nlp.add_pipe("sentencizer")
    ruler = nlp.add_pipe("entity_ruler", first=True)
    ruler.add_patterns([{"label": "Disease", "pattern": "MS"}])
    nlp.disable_pipe("entity_ruler")
    nlp.to_disk(tmp_path / "disabled")
    with pytest.raises(KrisselError, match="K676"):
        link(tmp_path / "disabled", tmp_path / "texts.txt", tmp_path / "links.jsonl")
    assert not (tmp_path / "links.jsonl").exists()


def test_no_mention_at_all_warns(with_ruler, nlp, tmp_path):
    (tmp_path / "texts.txt").write_text("Nothing here.\nNor here.\n")
    with pytest.warns(KrisselWarning, match="KW621.*docs: 2.*doc.ents.*entity_ruler"):
        assert link(with_ruler, tmp_path / "texts.txt", tmp_path / "links.jsonl") == (2, 0)
    DocBin(docs=[nlp.make_doc("pointed to MS")]).to_disk(tmp_path / "docs.spacy")
    with pytest.warns(KrisselWarning, match="KW621.*docs: 1"):
        link(with_ruler, tmp_path / "docs.spacy", tmp_path / "links.jsonl", force=True)


def test_missing_linker_error_lists_all_components(nlp, docs_file, tmp_path):
    nlp.disable_pipe("krissel_linker")
    nlp.to_disk(tmp_path / "disabled")
    with pytest.raises(KrisselError, match="K610.*cake.*krissel_linker"):
        link(tmp_path / "disabled", docs_file, tmp_path / "links.jsonl", name="cake")


def read_table(path):
    with path.open(encoding="utf8", newline="") as file_:
        return list(csv.DictReader(file_, delimiter="\t"))


def test_table_rows_match_the_links(docs_file, save_linker, tmp_path):
    link(save_linker(), docs_file, tmp_path / "links.jsonl")
    link(save_linker(), docs_file, tmp_path / "links.tsv")
    records, rows = read_jsonl(tmp_path / "links.jsonl"), read_table(tmp_path / "links.tsv")
    mentions = [(record, mention) for record in records for mention in record["mentions"]]
    assert len(rows) == len(mentions) == 10 and rows[0]["doc"] == "first"
    for row, (record, mention) in zip(rows, mentions, strict=True):
        best, *others = mention["candidates"]
        place = int(row["start"]), int(row["end"])
        left, right = record["text"][: place[0]], record["text"][place[1] :]
        assert (*place, row["mention"]) == (mention["start"], mention["end"], mention["text"])
        assert row["context"] == f"{left}⟦{row['mention']}⟧{right}"
        assert (row["id"], row["name"], row["score"]) == (
            best["id"],
            best["name"],
            f"{best['score']:.3f}",
        )
        assert row["alternatives"].split(" | ") == [
            f"{o['id']} {o['name']} {o['score']:.3f}" for o in others
        ]
        assert row["verdict"] == row["right_id"] == ""


def test_table_text_is_safe_in_spreadsheets(with_ruler, tmp_path):
    (tmp_path / "texts.jsonl").write_text(json.dumps({"id": "=1", "text": '@SUM says "x\ty"\nMS'}))
    link(with_ruler, tmp_path / "texts.jsonl", tmp_path / "links.tsv")
    (row,) = read_table(tmp_path / "links.tsv")
    assert (row["doc"], row["context"]) == ("'=1", '\'@SUM says "x y" ⟦MS⟧')


class Page(HTMLParser):
    def __init__(self, text):
        super().__init__()
        self.tags, self.titles, self.links, self.text = set(), [], [], ""
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        self.tags.add(tag)
        self.titles += [value for key, value in attributes if key == "title"]
        self.links += [value for key, value in attributes if key == "href"]

    def handle_data(self, data):
        self.text += data


def test_page_has_links_and_escapes_text(nlp, linker, with_ruler, tmp_path):
    texts = [
        {"id": "<i>1</i>", "text": "<b>Dépistage</b> of MS and flu"},
        {"id": "2", "text": "migraine"},
    ]
    (tmp_path / "texts.jsonl").write_text("".join(json.dumps(each) + "\n" for each in texts))
    assert link(with_ruler, tmp_path / "texts.jsonl", tmp_path / "links.html") == (2, 3)
    page = Page((tmp_path / "links.html").read_text(encoding="ascii"))
    assert not {"i", "b", "script", "link"} & page.tags and "<b>Dépistage</b> of" in page.text
    assert "<i>1</i>" in page.text and "influenza T10" in " ".join(page.text.split())
    assert len(page.titles) == 3 and any("T10 influenza" in title for title in page.titles)


def test_page_shows_one_of_overlapping_spans(nlp, linker, make_doc, tmp_path):
    linker.cfg["spans_key"] = "sc"
    nlp.to_disk(tmp_path / "grouped")
    doc = make_doc(nlp, "Seen in [MS|Disease] today", "sc")
    doc.spans["sc"] = [*doc.spans["sc"], doc[1:3]]
    DocBin(docs=[doc]).to_disk(tmp_path / "docs.spacy")
    link(tmp_path / "grouped", tmp_path / "docs.spacy", tmp_path / "links.html")
    page = Page((tmp_path / "links.html").read_text())
    assert len(page.titles) == 1 and page.text.count("MS") == 1


def test_texts_and_missing_files_are_distinguished(with_ruler, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for text in ("He has MS and/or flu", "flu", "MS " * 2000, "a path/of words with flu"):
        rows = link(with_ruler, text)
        assert rows and {row["mention"] for row in rows} <= {"MS", "flu"}
    for missing in (
        "missing.jsonl",
        "a folder/missing.txt",
        "missing/folder",
        "missing.spacy",
        "text.jsnl",
    ):
        with pytest.raises(KrisselError, match="K201"):
            link(with_ruler, missing, "links.jsonl")
    with pytest.raises(KrisselError, match="K006.*texts.*and/or.*several words"):
        link(with_ruler, "and/or")
    assert link(with_ruler, "He has the flu", "links.jsonl") == (1, 1)
    (tmp_path / "flu").write_text("")
    with pytest.raises(KrisselError, match="K006.*output"):
        link(with_ruler, "flu")


@pytest.mark.parametrize(
    "url, href",
    [
        ('https://x.org/?q="&id=1', 'https://x.org/?q="&id=1'),
        ("javascript:alert(1)", "#"),
        ("", "#"),
    ],
)
def test_page_links_no_script(url, href, with_ruler, tmp_path, monkeypatch):
    monkeypatch.setattr("spacy_krissel.render.links.entity_url", lambda id: url)
    link(with_ruler, "Only flu", tmp_path / "links.html")
    assert Page((tmp_path / "links.html").read_text()).links == [href]
