"""Discontinuous mentions of `krissel_finder` in each output format: whole where it can hold them,
else from their first to their last fragment."""

import io
import json

import pytest
import spacy
from spacy.tokens import DocBin
from test_formats import read_back

from spacy_krissel.mentions.annotations import SpanLink, write_links
from spacy_krissel.mentions.discontinuous import read_fragments
from spacy_krissel.render.formats import WRITERS
from spacy_krissel.render.links import doc_to_dict

KEY = "found"
TEXT = "Breast, ovarian and lung cancer;\ncleft lip and palate, pain."
NAMES = {
    "breast cancer": "MESH:B",
    "ovarian cancer": "MESH:O",
    "lung cancer": "MESH:U",
    "cleft lip": "MESH:L",
    "cleft palate": "MESH:P",
    "pain": "MESH:A",
}
WHOLE = {
    (((0, 6), (25, 31)), "MESH:B"),
    (((8, 15), (25, 31)), "MESH:O"),
    (((20, 31),), "MESH:U"),
    (((33, 42),), "MESH:L"),
    (((33, 38), (47, 53)), "MESH:P"),
    (((55, 59),), "MESH:A"),
}
AROUND = {(((fragments[0][0], fragments[-1][1]),), id_) for fragments, id_ in WHOLE}


@pytest.fixture(scope="module")
def doc():
    """A doc with found mentions and their links, which the linker writes likewise."""
    nlp = spacy.blank("en")
    nlp.add_pipe("krissel_finder", config={"spans_key": KEY}).set_names(NAMES.items())
    doc = nlp(TEXT)
    doc.user_data["krissel_id"] = "7"
    spans = list(doc.spans[KEY])
    of_mention = {span.id_: ids(span) for span in spans if span.id_ and span._.krissel_found}
    linked = [of_mention[span.id_] if span.id_ else ids(span) for span in spans]
    names = {id_: name for name, id_ in NAMES.items()}
    links = [
        SpanLink(id_, [{"id": id_, "name": names[id_], "score": 0.5, "match": "variant"}], [])
        for id_ in linked
    ]
    write_links(doc, spans, links, spans_key=KEY)
    return doc


def ids(span):
    (id_,) = span._.krissel_found["ids"]
    return id_


def written(ending, doc):
    file_ = io.BytesIO()
    WRITERS[ending](iter([doc]), KEY, file_)
    return file_.getvalue()


def test_the_doc_has_them(doc):
    found = {
        tuple((doc[start].idx, doc[end - 1].idx + len(doc[end - 1])) for start, end in fragments)
        for _, _, fragments in read_fragments(doc, KEY)
    }
    assert found == {fragments for fragments, _ in WHOLE}


@pytest.mark.parametrize(
    "ending, expected",
    [
        (".brat.tar.gz", WHOLE),
        (".bioc.xml", WHOLE),
        (".bigbio.jsonl", WHOLE),
        (".pubtator", AROUND),
        (".labelstudio.json", AROUND),
        (".prodigy.jsonl", AROUND),
        (".xmi.zip", AROUND),
    ],
)
def test_discontinuous_mentions_round_trip(doc, ending, expected, tmp_path):
    (back,) = read_back(ending, written(ending, doc), tmp_path)
    assert {(each.fragments, each.kb_id) for each in back.mentions} == expected
    for each in back.mentions:
        own = " ".join(TEXT[start:end] for start, end in each.fragments)
        assert each.text == own or ending == ".pubtator"


def test_docs_keep_them(doc):
    (back,) = DocBin().from_bytes(written(".spacy", doc)).get_docs(spacy.blank("en").vocab)
    assert read_fragments(back, KEY) == read_fragments(doc, KEY)
    for span, other in zip(doc.spans[KEY], back.spans[KEY], strict=True):
        assert [*map(str, other._.krissel_found)] == [*map(str, span._.krissel_found)]


def test_json_has_the_fragments(doc):
    (line,) = written(".jsonl", doc).splitlines()
    found = {
        (tuple(map(tuple, each.get("fragments", [(each["start"], each["end"])]))), each["kb_id"])
        for each in json.loads(line)["mentions"]
    }
    assert found == WHOLE
    for each in doc_to_dict(doc, KEY)["mentions"]:
        assert each["text"] == TEXT[each["start"] : each["end"]]
        assert ("fragments" in each) == (len(each.get("fragments", [])) > 1)


@pytest.mark.parametrize("ending", WRITERS)
def test_every_format_takes_them(doc, ending):
    content = written(ending, doc)
    assert content and content == written(ending, doc)


def test_candidates_are_those_of_the_mention(doc):
    """Though fragments of two mentions have the same offsets."""
    for each in doc_to_dict(doc, KEY)["mentions"]:
        if "fragments" in each and each["kb_id"] in ("MESH:B", "MESH:O"):
            assert each["candidates"][0]["id"] == each["kb_id"]
