"""Training mentions must not find themselves."""

import numpy as np
import pytest
import spacy
from term_search import search

from spacy_krissel.kb.prototype_kb import PrototypeKB
from spacy_krissel.kb.prototype_table import Prototype
from spacy_krissel.ontology.entity import Entity
from spacy_krissel.pipeline.linker.unseen import unseen_candidates
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
    return [(id_, round(float(score), 3)) for id_, score in zip(one.ids, one.scores, strict=True)]


def test_a_mention_is_not_its_own_prototype(kb):
    assert found(kb, CONTEXT, False) == [("B", 0.9), ("A", 0.6), ("C", 0.0)]


def test_hidden_name_is_hidden_for_all_entities(kb):
    """In any spelling, and of whatever entity."""
    assert found(kb, CONTEXT, True) == [("A", 0.6), ("C", 0.0)]


def test_a_name_that_is_not_hidden_finds_itself(kb):
    assert found(kb, name_view("ms"), False) == [("A", 1.0), ("B", 0.9), ("C", 0.0)]


def test_at_most_k_candidates_are_found(kb):
    assert found(kb, CONTEXT, False, k=2) == [("B", 0.9), ("A", 0.6)]


def test_several_mentions_are_searched_at_once(kb):
    vectors = np.array([[1, 0], [0, 1]], dtype="float32")
    both = unseen_candidates(kb, [CONTEXT, name_view("cold")], vectors, [True, True], 3)
    assert [each.ids for each in both] == [["A", "C"], ["A", "B"]]


# A mention's own prototype is told by its place in the text, whatever its score is ----------------


def made(vectors, references=None, weight=1.0, **settings):
    """Two entities: the mention's own with a name of it, and another with a name."""
    kb = PrototypeKB(spacy.blank("en").vocab, 2, **settings)
    kb.set_entities([Entity(id_, id_) for id_ in "AB"])
    names = [
        Prototype("A", "name", name_view("multiple sclerosis")),
        Prototype("B", "name", name_view("cold")),
    ]
    kb.add_prototypes(names, np.array(vectors[1:], dtype="float32"))
    kb.add_prototypes(
        [Prototype("A", "gold", CONTEXT)], np.array(vectors[:1], dtype="float32"), weight=weight
    )
    if references is not None:
        kb.set_references([(["A", "B"], np.array(references, dtype="float32"))])
    return kb


def test_own_prototype_is_hidden_with_references():
    kb = made([[1, 0], [0.6, 0.8], [0, 1]], references=[[0.25, 0], [0.5, 0]])
    assert found(kb, CONTEXT, False) == [("A", 0.85), ("B", 0.5)]


def test_own_prototype_is_hidden_with_normalized_vectors():
    kb = made([[3, 0], [0.6, 0.8], [0, 1]], normalize=True)
    (one,) = unseen_candidates(kb, [CONTEXT], np.array([[3, 0]], dtype="float32"), [False], 3)
    assert one.scores == pytest.approx([0.6, 0.0])


def test_own_prototype_is_hidden_whatever_its_weight():
    assert found(made([[1, 0], [0.6, 0.8], [0, 1]], weight=1.5), CONTEXT, False) == [
        ("A", 0.6),
        ("B", 0.0),
    ]


def test_own_prototype_is_hidden_if_the_abbreviation_is_written_out():
    """The query is made of the long form, the prototype of the short one; the context is the
    same."""
    kb = made([[0.9, 0], [0.6, 0.8], [0, 1]])
    written_out = CONTEXT._replace(mention="multiple sclerosis")
    assert found(kb, written_out, False) == [("A", 0.6), ("B", 0.0)]
    assert found(kb, written_out, True) == [("B", 0.0)]


@pytest.mark.parametrize("hidden", [False, True])
def test_other_names_in_its_own_context_are_hidden(kb, hidden):
    """A replaced name in the mention's own context would reveal too much."""
    kb.add_prototypes(
        [
            Prototype("A", "replaced", CONTEXT._replace(mention="disseminated sclerosis")),
            Prototype("A", "replaced", View("another ", "disseminated sclerosis", " context")),
        ],
        np.array([[0.95, 0], [0.7, 0]], dtype="float32"),
    )
    assert dict(found(kb, CONTEXT, hidden))["A"] == 0.7


def test_prototype_sharing_half_of_the_context_is_not_hidden(kb):
    for view in (CONTEXT._replace(left="a man with "), CONTEXT._replace(right="")):
        assert found(kb, view, False)[0] == ("A", 1.0)


# Spelling -----------------------------------------------------------------------------------------

NAMES = {
    "A": ["heart failure", "cardiac failure"],
    "B": ["heart attack"],
    "C": ["liver failure"],
    "D": ["cold"],
}
MENTION = View("signs of ", "heart failure", " at night")
WEIGHT = 0.7


@pytest.fixture(params=[False, True])
def spelt(request):
    """With and without references."""
    kb = PrototypeKB(spacy.blank("en").vocab, 3)
    kb.set_entities([Entity(id_, id_) for id_ in NAMES])
    prototypes = [
        Prototype(id_, "name", name_view(name)) for id_, names in NAMES.items() for name in names
    ]
    prototypes.append(Prototype("A", "mention", MENTION))
    vectors = np.random.default_rng(5).normal(size=(len(prototypes), 3)).astype("float32")
    kb.add_prototypes(prototypes, vectors)
    if request.param:
        kb.set_references(
            [(list(NAMES), np.random.default_rng(6).normal(size=(4, 3)).astype("float32"))]
        )
    return kb


QUERIES = np.random.default_rng(7).normal(size=(4, 3)).astype("float32")
TEXTS = ["heart failures", "heart attack", "livers", "zzz"]


@pytest.mark.parametrize("k", [1, 2, 4])
def test_candidates_with_spelling_equal_those_of_the_search(spelt, k):
    """For mentions that may see everything."""
    views = [name_view(text) for text in TEXTS]
    result = search(spelt, QUERIES, k, texts=TEXTS, lexical_weight=WEIGHT)
    all_seen = unseen_candidates(spelt, views, QUERIES, [False] * 4, k, WEIGHT)
    for one, entities, scores in zip(all_seen, result.entities, result.scores, strict=True):
        assert one.ids == [spelt.entity_ids[row] for row in entities]
        assert one.scores == pytest.approx(scores, abs=1e-5)


def plain(kb, query, view, hidden):
    """Every score by hand: {id: score} of all entities that a mention can see anything of."""
    lexicon = kb.prototypes.lexical_index
    spelling = lexicon.vectors([view.mention])
    scores = {}
    for id_ in NAMES:
        rows = kb.prototype_rows(id_)
        seen = [
            (row, prototype.view)
            for row, prototype in zip(rows, kb.prototypes_at(rows), strict=True)
        ]
        forms = {each.mention for _, each in seen if not hidden or each.mention != view.mention}
        vectors = [
            kb.vectors[row]
            for row, each in seen
            if (each.left, each.right) != (view.left, view.right) and each.mention in forms
        ]
        if vectors:
            lexical = (spelling @ lexicon.vectors(sorted(forms)).T).toarray().max()
            scores[id_] = max(vector @ query for vector in vectors) + WEIGHT * lexical
    return scores


@pytest.mark.parametrize("hidden", [False, True])
def test_spelling_counts_only_visible_names(spelt, hidden):
    for query in QUERIES:
        (one,) = unseen_candidates(spelt, [MENTION], query[None], [hidden], 4, WEIGHT)
        expected = plain(spelt, query, MENTION, hidden)
        assert dict(zip(one.ids, one.scores, strict=True)) == pytest.approx(expected, abs=1e-5)
        assert one.ids == sorted(expected, key=lambda id_: -expected[id_])


def test_an_entity_known_by_the_hidden_name_alone_is_not_proposed(spelt):
    view = View("signs of ", "heart attack", " at night")
    (one,) = unseen_candidates(spelt, [view], QUERIES[:1], [True], 4, WEIGHT)
    assert "B" not in one.ids and len(one.ids) == 3


def test_weights_of_zero_add_nothing(spelt):
    (without,) = unseen_candidates(spelt, [MENTION], QUERIES[:1], [True], 4)
    (zero,) = unseen_candidates(spelt, [MENTION], QUERIES[:1], [True], 4, 0.0)
    assert zero.ids == without.ids and (zero.scores == without.scores).all()
