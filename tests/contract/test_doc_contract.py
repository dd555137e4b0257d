"""Links are part of a doc: they go wherever spaCy takes a doc, and no component minds where it
comes from."""

import json
import pickle

import pytest
import spacy
from components import each_pipe, with_mentions
from spacy.tokens import Doc, DocBin

CANDIDATES = ["krissel_candidates", "krissel_ties"]


@pytest.fixture
def docs(component, nlp):
    return list(nlp.pipe(component.docs(nlp)))


@each_pipe
@pytest.mark.parametrize(
    "way",
    [
        Doc.copy,
        lambda doc: pickle.loads(pickle.dumps(doc)),
        lambda doc: Doc(spacy.blank("en").vocab).from_bytes(doc.to_bytes()),
    ],
    ids=["copy", "pickle", "bytes"],
)
def test_links_survive_copies_pickles_and_bytes(component, docs, way):
    assert [component.links(way(doc)) for doc in docs] == [component.links(doc) for doc in docs]


@each_pipe
def test_links_survive_saving_a_doc(component, docs, tmp_path):
    for doc in docs:
        doc.to_disk(tmp_path / "doc")
        assert component.links(
            Doc(spacy.blank("en").vocab).from_disk(tmp_path / "doc")
        ) == component.links(doc)


@pytest.mark.parametrize(
    "component", ["krissel_linker-small", "krissel_reranker-list"], indirect=True
)
def test_links_survive_joining_docs(component, docs):
    """Each mention keeps what it has, further back in the text."""
    joined, start = component.links(Doc.from_docs(docs)), 0
    expected = []
    for doc in docs:
        expected += [(start + link[0], start + link[1], *link[2:]) for link in component.links(doc)]
        start += len(doc)
    assert joined == expected and len(expected) == 10


@pytest.mark.parametrize(
    "component", ["krissel_linker-small", "krissel_reranker-list"], indirect=True
)
def test_links_survive_in_a_part_of_a_doc(component, docs):
    for doc in docs:
        for ent, link in zip(doc.ents, component.links(doc), strict=True):
            part = doc[ent.start : len(doc)].as_doc(copy_user_data=True)
            assert component.links(part)[0] == (0, ent.end - ent.start, *link[2:])


@pytest.mark.parametrize(
    "component", ["krissel_linker-small", "krissel_reranker-list"], indirect=True
)
def test_links_survive_merging_tokens(component, docs):
    for doc in docs:
        before = component.links(doc)
        with doc.retokenize() as retokenizer:
            for ent in doc.ents:
                retokenizer.merge(ent)
        assert [link[2:] for link in component.links(doc)] == [link[2:] for link in before]
        assert all(len(ent) == 1 for ent in doc.ents)


@pytest.mark.parametrize(
    "component", ["krissel_linker-small", "krissel_reranker-list"], indirect=True
)
def test_candidates_survive_json_on_request(component, docs, nlp):
    """spaCy writes the ids of spans, and no `kb_id_` of `doc.ents`; what is on `_` is written where
    it is asked for."""
    for doc in docs:
        ids = [ent.kb_id_ for ent in doc.ents]
        doc.spans["links"] = list(doc.ents)
        plain = Doc(nlp.vocab).from_json(json.loads(json.dumps(doc.to_json())))
        assert [span.kb_id_ for span in plain.spans["links"]] == ids
        assert all(not ent._.krissel_candidates for ent in plain.ents)
        if not ids:
            continue
        back = Doc(nlp.vocab).from_json(json.loads(json.dumps(doc.to_json(underscore=CANDIDATES))))
        for ent, before in zip(back.ents, doc.ents, strict=True):
            assert list(ent._.krissel_candidates) == before._.krissel_candidates
            assert list(ent._.krissel_ties) == before._.krissel_ties


@pytest.mark.parametrize("component", ["krissel_span_extractor-words"], indirect=True)
def test_found_entities_survive_json(component, docs, nlp):
    for doc in docs:
        back = Doc(nlp.vocab).from_json(
            json.loads(json.dumps(doc.to_json(underscore=["krissel_entities"])))
        )
        ((spans, entities),) = component.links(doc)
        assert component.links(back)[0][1] == entities
        # spaCy writes no group without a span.
        found = [
            (span.start, span.end, span.kb_id_) for span in back.spans.get("krissel_entities", ())
        ]
        assert found == [span[:3] for span in spans]


@with_mentions
def test_links_without_user_data_keep_ids_only(component, docs):
    """Without it the ids are in the file all the same, and candidates are none."""
    data = DocBin(docs=docs, store_user_data=False).to_bytes()
    for doc, back in zip(
        docs, DocBin().from_bytes(data).get_docs(spacy.blank("en").vocab), strict=True
    ):
        assert [ent.kb_id_ for ent in back.ents] == [ent.kb_id_ for ent in doc.ents]
        assert not any(ent._.krissel_candidates for ent in back.ents)


@each_pipe
def test_a_doc_read_from_disk_is_linked_the_same(component, docs, nlp):
    data = DocBin(docs=docs, store_user_data=True).to_bytes()
    back = list(DocBin().from_bytes(data).get_docs(nlp.vocab))
    expected = [component.links(doc) for doc in docs]
    assert [component.links(doc) for doc in nlp.pipe(back)] == expected


@each_pipe
def test_a_doc_without_mentions_has_no_user_data(component, nlp):
    """A doc without a mention is stored as it would be without the component."""
    doc = nlp("No mention stands here.") if component.name != "krissel_span_extractor" else nlp("")
    assert doc.user_data == {}


@each_pipe
@pytest.mark.parametrize("n_process", [1, pytest.param(2, marks=pytest.mark.slow)])
def test_contexts_stay_with_their_docs(component, nlp, n_process):
    pairs = [(doc, {"number": i}) for i, doc in enumerate(component.docs(nlp))]
    found = list(nlp.pipe(pairs, as_tuples=True, n_process=n_process, batch_size=2))
    assert [context["number"] for _, context in found] == list(range(len(pairs)))
    assert [component.links(doc) for doc, _ in found] == component.run(nlp)


@each_pipe
def test_a_generator_is_read_one_batch_ahead_at_most(component, nlp):
    """No further than a batch."""
    read = []

    def texts():
        for doc in component.docs(nlp) * 3:
            read.append(doc)
            yield doc

    stream = nlp.pipe(texts(), batch_size=2)
    next(stream)
    assert len(read) <= 2 * len(nlp.pipe_names) + 2
