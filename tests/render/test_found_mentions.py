"""Discontinuous mentions of `krissel_finder` in each output format: whole where it can hold them,
else from their first to their last fragment."""

import io
import json

import pytest
import spacy
from spacy.tokens import DocBin
from test_formats import read_back

from spacy_krissel.evaluation.end_to_end import predicted_links
from spacy_krissel.mentions.annotations import SpanLink, fragments_of, spans_of, write_links
from spacy_krissel.mentions.discontinuous import read_fragments
from spacy_krissel.ontology.entity import Entity
from spacy_krissel.ontology.store import write_store
from spacy_krissel.render.formats import WRITERS
from spacy_krissel.render.links import doc_to_dict

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


@pytest.fixture(scope="module", params=["found", ""])
def key(request):
    return request.param


@pytest.fixture(scope="module")
def doc(key):
    """A doc with found mentions and their links, which the linker writes likewise: in a group of
    spans, and in `doc.ents`, which hold the part that stands apart."""
    nlp = spacy.blank("en")
    nlp.add_pipe("krissel_finder", config={"spans_key": key}).set_names(NAMES.items())
    doc = nlp(TEXT)
    doc.user_data["krissel_id"] = "7"
    spans = list(spans_of(doc, key))
    of_mention = {span.id_: ids(span) for span in spans if span.id_ and span._.krissel_found}
    linked = [of_mention[span.id_] if span.id_ else ids(span) for span in spans]
    names = {id_: name for name, id_ in NAMES.items()}
    links = [
        SpanLink(id_, [{"id": id_, "name": names[id_], "score": 0.5, "match": "variant"}], [])
        for id_ in linked
    ]
    write_links(doc, spans, links, spans_key=key)
    return doc


def ids(span):
    (id_,) = span._.krissel_found["ids"]
    return id_


def written(ending, doc, key):
    file_ = io.BytesIO()
    WRITERS[ending](iter([doc]), key, file_)
    return file_.getvalue()


def test_the_doc_has_them(doc, key):
    if not key:
        found = {tuple(map(tuple, fragments_of(ent))) for ent in doc.ents}
    else:
        found = {
            tuple((doc[start].idx, doc[end - 1].idx + len(doc[end - 1])) for start, end in parts)
            for _, _, parts in read_fragments(doc, key)
        }
    assert found == {fragments for fragments, _ in WHOLE}


def test_evaluation_reads_them_whole(doc, key, tmp_path):
    entities = (Entity(id_, name) for name, id_ in NAMES.items())
    store = write_store(entities, tmp_path / "store")
    found = {(link.start, link.end, link.id) for link in predicted_links(doc, [key], store)}
    assert found == {(start, end, id_) for (((start, end),), id_) in AROUND}


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
def test_discontinuous_mentions_round_trip(doc, key, ending, expected, tmp_path):
    (back,) = read_back(ending, written(ending, doc, key), tmp_path)
    assert {(each.fragments, each.kb_id) for each in back.mentions} == expected
    for each in back.mentions:
        own = " ".join(TEXT[start:end] for start, end in each.fragments)
        assert each.text == own or ending == ".pubtator"


def test_docs_keep_them(doc, key):
    content = written(".spacy", doc, key)
    (back,) = DocBin().from_bytes(content).get_docs(spacy.blank("en").vocab)
    assert not key or read_fragments(back, key) == read_fragments(doc, key)
    for span, other in zip(spans_of(doc, key), spans_of(back, key), strict=True):
        # Lists come back as tuples.
        assert json.dumps(other._.krissel_found) == json.dumps(span._.krissel_found)


def test_json_has_the_fragments(doc, key):
    (line,) = written(".jsonl", doc, key).splitlines()
    found = {
        (tuple(map(tuple, each.get("fragments", [(each["start"], each["end"])]))), each["kb_id"])
        for each in json.loads(line)["mentions"]
    }
    assert found == WHOLE
    for each in doc_to_dict(doc, key)["mentions"]:
        assert each["text"] == TEXT[each["start"] : each["end"]]
        assert ("fragments" in each) == (len(each.get("fragments", [])) > 1)


@pytest.mark.parametrize("ending", WRITERS)
def test_every_format_takes_them(doc, key, ending):
    content = written(ending, doc, key)
    assert content and content == written(ending, doc, key)


def test_candidates_are_those_of_the_mention(doc, key):
    """Though fragments of two mentions have the same offsets."""
    for each in doc_to_dict(doc, key)["mentions"]:
        if "fragments" in each and each["kb_id"] in ("MESH:B", "MESH:O"):
            assert each["candidates"][0]["id"] == each["kb_id"]
