"""Recall over the nearest names, which is not that over the nearest entities."""

import pytest
import spacy
from lab.name_recall import name_recall
from spacy.tokens import Span

from spacy_krissel.building.fill import fill_kb
from spacy_krissel.building.sources import PrototypeSource
from spacy_krissel.views import name_view

GOLD = {"MS": "T02", "migraine": "T08", "asthma": "T08"}


@pytest.fixture
def nlp(trained, toy_store):
    nlp = spacy.load(trained)
    linker = nlp.get_pipe("krissel_linker")
    linker.cfg["context"] = "none"
    source = PrototypeSource(toy_store, class_names=False, use_references=False, shared_names=True)
    linker.set_kb(fill_kb(linker.new_kb(), source, linker.encode))
    return nlp


@pytest.fixture
def docs(nlp):
    docs = []
    for text, kb_id in GOLD.items():
        doc = nlp.make_doc(text)
        doc.ents = [Span(doc, 0, len(doc), label="Disease", kb_id=kb_id)]
        docs.append(doc)
    return docs


def test_a_shared_name_counts_in_recall_and_by_random_choice(nlp, docs, toy_store):
    found = name_recall(nlp, docs, toy_store)
    # "MS" is the nearest name to itself, and T01's too; "asthma" is of another entity.
    assert found.n == 3
    assert found.recall[1] == pytest.approx(2 / 3)
    assert found.random == pytest.approx((0.5 + 1) / 3)
    assert found.shared == pytest.approx(1 / 3)


def test_recall_counts_each_name_among_the_nearest(nlp, docs, toy_store):
    names = sorted({name.lower() for _, name, _ in toy_store.names()})
    encode = nlp.get_pipe("krissel_linker").encode
    every = encode([name_view(name) for name in names])
    for k in (2, 5, 9):
        right = 0
        for text, kb_id in GOLD.items():
            order = (every @ encode([name_view(text)])[0]).argsort()[::-1][:k]
            right += any(kb_id in toy_store.find(names[place]) for place in order)
        assert name_recall(nlp, docs, toy_store, at=[k]).recall[k] == pytest.approx(right / 3)
