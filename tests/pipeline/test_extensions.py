"""Annotations in `span._` and `doc._` survive every copy and conversion of a doc."""

import pytest
import spacy
from spacy.tokens import Doc, DocBin

SPANS = ["krissel_candidates", "krissel_ties"]


@pytest.fixture
def doc(nlp, make_docs):
    return nlp(make_docs(nlp)[0])


def test_bytes_copies_and_files_keep_links(doc, links_of):
    empty = spacy.blank("en")
    copies = [
        doc.copy(),
        Doc(empty.vocab).from_bytes(doc.to_bytes()),
        next(
            DocBin()
            .from_bytes(DocBin(docs=[doc], store_user_data=True).to_bytes())
            .get_docs(empty.vocab)
        ),
        doc[:].as_doc(copy_user_data=True),
        Doc.from_docs([doc]),
    ]
    assert [links_of(each) for each in copies] == [links_of(doc)] * len(copies)


def test_doc_slices_and_merged_docs_keep_links(doc, links_of):
    first = links_of(doc)[0]
    part = doc[1:].as_doc(copy_user_data=True)
    assert links_of(part)[0][3:] == first[3:]
    both = Doc.from_docs([doc, doc])
    assert [link[3:] for link in links_of(both)] == [link[3:] for link in links_of(doc) * 2]


@pytest.mark.parametrize("key", ["", "sc"])
def test_json_keeps_candidates(nlp, linker, make_doc, links_of, key):
    """spaCy's JSON leaves out the links of `doc.ents`."""
    linker.cfg["spans_key"] = key
    doc = nlp(make_doc(nlp, "Demyelinating lesions pointed to [MS|Disease] in this man.", key))
    again = Doc(spacy.blank("en").vocab).from_json(doc.to_json(underscore=SPANS))
    (before,), (after,) = links_of(doc, key), links_of(again, key)
    assert after[:3] == before[:3] and after[4:] == before[4:]
    assert not key or after[3] == before[3]
