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


# A mention's own prototype is told by its place in the text, whatever its score is ------------------------------------


def made(vectors, references=None, weight=1.0, **settings):
    """Two entities: the mention's own with a name of it, and another with a name."""
    kb = PrototypeKB(spacy.blank("en").vocab, 2, **settings)
    kb.set_entities([Entity(id_, id_) for id_ in "AB"])
    names = [Prototype("A", "name", name_view("multiple sclerosis")), Prototype("B", "name", name_view("cold"))]
    kb.add_prototypes(names, np.array(vectors[1:], dtype="float32"))
    kb.add_prototypes([Prototype("A", "gold", CONTEXT)], np.array(vectors[:1], dtype="float32"), weight=weight)
    if references is not None:
        kb.set_references(["A", "B"], np.array(references, dtype="float32"))
    return kb


def test_own_prototype_with_references():
    kb = made([[1, 0], [0.6, 0.8], [0, 1]], references=[[0.25, 0], [0.5, 0]])
    assert found(kb, CONTEXT, False) == [("A", 0.85), ("B", 0.5)]


def test_own_prototype_of_a_scaled_vector():
    kb = made([[3, 0], [0.6, 0.8], [0, 1]], normalize=True)
    (one,) = unseen_candidates(kb, [CONTEXT], np.array([[3, 0]], dtype="float32"), [False], 3)
    assert one.scores == pytest.approx([0.6, 0.0])


def test_own_prototype_of_another_weight():
    assert found(made([[1, 0], [0.6, 0.8], [0, 1]], weight=1.5), CONTEXT, False) == [("A", 0.6), ("B", 0.0)]


def test_own_prototype_of_an_abbreviation_written_out():
    """The query is made of the long form, the prototype of the short one; the context is the same."""
    kb = made([[0.9, 0], [0.6, 0.8], [0, 1]])
    written_out = CONTEXT._replace(mention="multiple sclerosis")
    assert found(kb, written_out, False) == [("A", 0.6), ("B", 0.0)]
    assert found(kb, written_out, True) == [("B", 0.0)]


@pytest.mark.parametrize("hidden", [False, True])
def test_other_names_in_its_own_context(kb, hidden):
    """What is made of the mention's place with another name put there says too much of it as well."""
    kb.add_prototypes(
        [
            Prototype("A", "replaced", CONTEXT._replace(mention="disseminated sclerosis")),
            Prototype("A", "replaced", View("another ", "disseminated sclerosis", " context")),
        ],
        np.array([[0.95, 0], [0.7, 0]], dtype="float32"),
    )
    assert dict(found(kb, CONTEXT, hidden))["A"] == 0.7


def test_half_of_its_context_is_another_place(kb):
    for view in (CONTEXT._replace(left="a man with "), CONTEXT._replace(right="")):
        assert found(kb, view, False)[0] == ("A", 1.0)
