"""Support by other mentions of a document: its equation, order and ties, and a linker."""

import math
from dataclasses import replace

import numpy as np
import pytest
import spacy
from hypothesis import given
from hypothesis import strategies as st

from spacy_krissel.kb.search_result import SearchResult
from spacy_krissel.kb.ties import with_term
from spacy_krissel.pipeline.linker.confidence import Confidence
from spacy_krissel.pipeline.linker.query import Query
from spacy_krissel.pipeline.linker.terms.document import DocumentTerm, supports
from spacy_krissel.pipeline.settings import LinkerSettings
from spacy_krissel.util.folding import fold_name
from spacy_krissel.views import name_view

pytestmark = pytest.mark.slow

MODEL = Confidence(trust=0.95, bias=-2.0, lexical=3.0, lexical_lead=1.0, vector_lead=2.0)
MENTION = st.tuples(
    st.integers(0, 2),
    st.sampled_from(["cold", "Cold", "co-ld", "flu", "ms"]),
    st.lists(
        st.tuples(st.integers(-1, 4), st.floats(0, 1, width=16)),
        min_size=3,
        max_size=3,
        unique_by=lambda c: c[0],
    ),
)


@given(st.lists(MENTION, max_size=6))
def test_only_other_mentions_of_the_document_give_support(mentions):
    docs = np.array([doc for doc, _, _ in mentions], dtype=np.int64)
    texts = [text for _, text, _ in mentions]
    entities = np.array(
        [[entity for entity, _ in each] for *_, each in mentions], dtype=np.int64
    ).reshape(-1, 3)
    sure = np.array([[value for _, value in each] for *_, each in mentions], dtype=float).reshape(
        -1, 3
    )
    expected = np.zeros(entities.shape)
    for i, place in np.ndindex(*entities.shape):
        for j, other in np.ndindex(*entities.shape):
            is_other = docs[i] == docs[j] and fold_name(texts[i]) != fold_name(texts[j])
            if is_other and entities[i, place] == entities[j, other] >= 0:
                expected[i, place] = max(expected[i, place], sure[j, other])
    assert supports(docs, texts, entities, sure) == pytest.approx(expected)


def result_of(entities, scores, ties=None):
    entities, scores = np.array([entities]), np.array([scores], dtype=np.float32)
    return SearchResult(
        entities,
        scores,
        entities * 10,
        {} if ties is None else {0: np.array(ties)},
        {"lexical": scores / 2},
    )


def test_score_parts_move_with_their_candidates():
    before = replace(
        result_of([3, 5, -1], [0.9, 0.8, -np.inf]), match=np.array([[1, 6, -1]], dtype=np.int8)
    )
    result = with_term(before, "coherence", np.array([[0.0, 0.2, 0.0]]))
    assert result.match.tolist() == [[6, 1, -1]]
    assert result.entities.tolist() == [[5, 3, -1]] and result.prototypes.tolist() == [
        [50, 30, -10]
    ]
    assert result.scores[0] == pytest.approx([1.0, 0.9, -np.inf]) and result.parts["coherence"][
        0
    ] == pytest.approx([0.2, 0, 0])
    # The score was that of the vectors, and is more now.
    assert (
        result.parts["vector"][0] == pytest.approx([0.8, 0.9, -np.inf])
        and "species" not in result.parts
    )
    assert result.parts["lexical"][0] == pytest.approx([0.4, 0.45, -np.inf])


@pytest.mark.parametrize(
    "gain, first, ties",
    [
        # Nothing is said: the tie stays, an entity that is no candidate in it.
        ([0.0, 0.0, 0.0, 0.0], 3, [3, 4, 9]),
        # One of the tied ones is named elsewhere, and both are.
        ([0.0, 0.125, 0.0, 0.0], 4, None),
        ([0.125, 0.125, 0.0, 0.0], 3, [3, 4]),
        # Another entity comes first; so do two that were level; one comes as high as they are.
        ([0.0, 0.0, 0.5, 0.0], 7, None),
        ([0.0, 0.0, 0.5, 0.5], 7, [7, 8]),
        ([0.0, 0.0, 0.25, 0.0], 3, [3, 4, 9]),
        ([0.125, 0.0, 0.375, 0.0], 3, [3, 7]),
    ],
)
def test_support_breaks_ties(gain, first, ties):
    result = with_term(
        result_of([3, 4, 7, 8], [0.75, 0.75, 0.5, 0.5], [3, 4, 9]), "coherence", np.array([gain])
    )
    assert result.entities[0, 0] == first
    assert {query: rows.tolist() for query, rows in result.ties.items()} == (
        {} if ties is None else {0: ties}
    )


def test_order_of_equal_candidates_is_kept():
    """Three had one score, and their number of names put them in order."""
    result = with_term(
        result_of([1, 2, 3], [0.75, 0.75, 0.75]), "coherence", np.array([[0.0, 0.125, 0.125]])
    )
    assert result.entities.tolist() == [[2, 3, 1]] and not result.ties


def test_only_confident_candidates_give_support():
    shared = 1 / (1 + math.exp(-1))
    assert MODEL.confident(np.array([0.59, shared, 0.75, 0.95])).tolist() == [0, 0, 0.75, 0.95]
    low = Confidence(trust=0.95, bias=-3.0, lexical=3.0, lexical_lead=1.0, vector_lead=2.0)
    assert low.confident(np.array([0.5, 0.59, 0.6])).tolist() == [0, 0, 0.6]
    certain = Confidence(trust=0.95, bias=9.0, lexical=3.0, lexical_lead=1.0, vector_lead=2.0)
    assert certain.confident(np.array([0.95])).tolist() == [0.95]


def test_supported_confidence_is_capped_and_zero_stays_zero():
    confidence, support = np.array([[0.5, 0.0, 0.9, 0.2]]), np.array([[0.5, 1.0, 1.0, 0.0]])
    expected = [1 / (1 + math.exp(-0.75)), 0.0, 0.95, 0.2]
    assert MODEL.supported(confidence, support)[0] == pytest.approx(expected)


def test_document_support_matches_a_hand_computed_example():
    """Mentions 0 and 3 are of one document, and 3 is sure of entity 6; so is 1, of another."""
    entities, scores = (
        np.array([[5, 6], [6, 7], [5, 6], [6, 7]]),
        [[0.8, 0.75], [0.9, 0.5], [0.8, 0.75], [0.9, 0.5]],
    )
    confidence = np.array([[0.4, 0.3], [0.3, 0.2], [0.4, 0.3], [0.9, 0.1]])
    by_name = np.array([[0.4, 0.3], [0.3, 0.2], [0.95, 0.3], [0.9, 0.1]])
    before = SearchResult(
        entities, np.array(scores, np.float32), entities, {}, {}, confidence, by_name
    )
    settings = LinkerSettings(confidence=vars(MODEL), coherence_weight=0.2)
    texts = ["flu", "cold", "flu", "cold"]
    query = Query(None, [name_view(text) for text in texts], doc_of=np.array([0, 1, 1, 0]))
    found = DocumentTerm.of(settings, None).revise(query, before)
    # 0.2 × 0.9 × (1 - 0.4).
    assert found.entities.tolist() == [[6, 5], [6, 7], [5, 6], [6, 7]]
    assert found.scores[0] == pytest.approx([0.858, 0.8])
    assert found.parts["coherence"][1:].tolist() == [[0, 0]] * 3
    raised = 1 / (1 + math.exp(-(math.log(0.3 / 0.7) + 1.5 * 0.9)))
    assert found.confidence == pytest.approx(np.array([[raised, 0.4], *confidence[1:].tolist()]))
    assert found.scores[1:] == pytest.approx(before.scores[1:])
    assert (
        DocumentTerm.of(LinkerSettings(confidence=vars(MODEL), coherence_weight=0.0), None) is None
    )


@pytest.fixture
def nlp(toy_store):
    from spacy_krissel.building.sources import PrototypeSource
    from spacy_krissel.commands.build_prototypes import build_prototypes

    nlp = spacy.blank("en")
    labels = ["multiple sclerosis", "mitral stenosis", "MS", "rickets"]
    nlp.add_pipe("entity_ruler").add_patterns(
        [{"label": "Term", "pattern": text} for text in labels]
    )
    names = spacy.blank("en")
    settings = {
        "lexical_weight": 0.3,
        "confidence": vars(MODEL),
        "use_abbreviations": False,
        "context": "none",
    }
    names.add_pipe("krissel_linker", config=settings)
    names.initialize()
    build_prototypes(names, PrototypeSource(toy_store, class_names=False))
    nlp.add_pipe("krissel_linker", source=names)
    return nlp


def ms(doc):
    return next(ent for ent in doc.ents if ent.text == "MS")


def test_another_mention_of_the_document_disambiguates(nlp):
    """ "MS" is a name of both: each text tells which by its other mention, and neither does where
    it is off."""
    texts = ["multiple sclerosis and MS", "mitral stenosis and MS", "rickets and MS"]
    sclerosis, stenosis, neither = map(ms, nlp.pipe(texts))
    names = [ent._.krissel_candidates[0]["name"] for ent in (sclerosis, stenosis)]
    assert names == ["multiple sclerosis", "mitral stenosis"]
    for ent in (sclerosis, stenosis):
        best, second = ent._.krissel_candidates[:2]
        assert (
            best["coherence"] > 0 == second["coherence"]
            and best["confidence"] > second["confidence"]
        )
        parts = best["vector"] + 0.3 * best["lexical"] + best["coherence"]
        assert best["score"] == pytest.approx(parts, abs=1e-5) and not ent._.krissel_ties
    assert {each["coherence"] for each in neither._.krissel_candidates[:2]} == {0}
    # What stands in one batch stays apart.
    alone = [ms(nlp(text))._.krissel_candidates for text in texts]
    assert alone == [ent._.krissel_candidates for ent in (sclerosis, stenosis, neither)]


@pytest.mark.parametrize("text", ["multiple sclerosis and MS", "rickets and MS"])
def test_candidates_with_the_same_name_share_the_confidence(nlp, text):
    """Where the document supports both, neither is likely."""
    both = ms(nlp("multiple sclerosis, mitral stenosis and MS"))._.krissel_candidates[:2]
    assert {each["name"] for each in both} == {"multiple sclerosis", "mitral stenosis"}
    assert [each["confidence"] for each in both] == pytest.approx([0.5, 0.5], abs=0.05)
    assert sum(each["confidence"] for each in both) == pytest.approx(1)
    one = ms(nlp(text))._.krissel_candidates[:2]
    assert sum(each["confidence"] for each in one) <= 1 + 1e-6


@pytest.mark.parametrize("off", [{"coherence_weight": 0.0}, {"confidence": {}}])
def test_coherence_can_be_switched_off(nlp, off):
    cfg = nlp.get_pipe("krissel_linker").cfg
    for key, value in off.items():
        cfg[key] = value
    found = [
        ms(doc)._.krissel_candidates
        for doc in nlp.pipe(["multiple sclerosis and MS", "rickets and MS"])
    ]
    assert found[0] == found[1] and not any("coherence" in each for each in found[0])
