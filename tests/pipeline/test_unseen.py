"""Training mentions must not find themselves."""

import numpy as np
import pytest
import spacy

from spacy_krissel.kb.prototype_kb import PrototypeKB
from spacy_krissel.kb.prototypes import Prototype
from spacy_krissel.ontology.entity import Entity
from spacy_krissel.pipeline.unseen import unseen_candidates
from spacy_krissel.views import View, name_view

CONTEXT = View("relapses of ", "MS", " in a man")


@pytest.fixture
def kb():
    kb = PrototypeKB(spacy.blank("en").vocab, 2)
    kb.set_entities([Entity(id_, id_) for id_ in "ABC"])
    kb.add_prototypes(
        [
            Prototype("A", "mention", CONTEXT),
            Prototype("A", "name", name_view("multiple sclerosis")),
            Prototype("B", "name", name_view("ms.")),
            Prototype("C", "name", name_view("cold")),
        ],
        np.array([[1, 0], [0.6, 0.8], [0.9, 0.4], [0, 1]], dtype="float32"),
    )
    return kb


def found(kb, view, hidden, k=3):
    (one,) = unseen_candidates(kb, [view], np.array([[1, 0]], dtype="float32"), [hidden], k)
    return [(id_, round(float(score), 3)) for id_, score in zip(one.ids, one.scores)]


def test_a_mention_is_not_its_own_prototype(kb):
    assert found(kb, CONTEXT, False) == [("B", 0.9), ("A", 0.6), ("C", 0.0)]


def test_a_hidden_name_is_nobodys(kb):
    """In any spelling, and of whatever entity."""
    assert found(kb, CONTEXT, True) == [("A", 0.6), ("C", 0.0)]


def test_a_name_that_is_not_hidden_finds_itself(kb):
    assert found(kb, name_view("ms"), False) == [("A", 1.0), ("B", 0.9), ("C", 0.0)]


def test_so_many_at_most(kb):
    assert found(kb, CONTEXT, False, k=2) == [("B", 0.9), ("A", 0.6)]


def test_several_at_once(kb):
    vectors = np.array([[1, 0], [0, 1]], dtype="float32")
    both = unseen_candidates(kb, [CONTEXT, name_view("cold")], vectors, [True, True], 3)
    assert [each.ids for each in both] == [["A", "C"], ["A", "B"]]
