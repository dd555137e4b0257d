"""The confidence of candidates: its equation, and what a linker does with it."""

import functools
import itertools
import math
import operator
from dataclasses import replace

import numpy as np
import pytest
import spacy
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import expit, logit
from scipy.stats import beta

from spacy_krissel.building.sources import PrototypeSource
from spacy_krissel.commands.build_prototypes import build_prototypes
from spacy_krissel.errors import KrisselError
from spacy_krissel.kb.prototype_kb import PrototypeKB
from spacy_krissel.kb.prototype_table import Prototype
from spacy_krissel.kb.search_result import SearchResult
from spacy_krissel.ontology.entity import Entity
from spacy_krissel.pipeline.linker.confidence import (
    PRIOR_OF_DOCUMENT,
    SHARE_EDGES,
    SPECIES_SHARPNESS,
    UNNAMED_SPECIES,
    Confidence,
    shares_in_documents,
    with_confidence,
    with_known,
)
from spacy_krissel.pipeline.linker.match import CONTEXT, LABEL
from spacy_krissel.pipeline.linker.query import Query
from spacy_krissel.pipeline.settings import LinkerSettings
from spacy_krissel.views import name_view

MODEL = Confidence(trust=0.95, bias=-2.0, lexical=3.0, lexical_lead=1.0, vector_lead=2.0)
SIMILAR = st.floats(0, 1, width=16)


def one(vector, lexical, j):
    """By the equation, for candidate j of one mention."""
    others = [i for i in range(len(vector)) if i != j and vector[i] != -math.inf]
    if lexical[j] == 1 and all(lexical[i] < 0.9999 for i in range(len(lexical)) if i != j):
        return 0.95
    leads = [
        min(1.0, mine[j] - max((mine[i] for i in others), default=-math.inf))
        for mine in (lexical, vector)
    ]
    logit = -2 + 3 * lexical[j] + leads[0] + 2 * leads[1]
    return min(0.89, 1 / (1 + math.exp(-logit)))


@given(st.lists(st.tuples(SIMILAR, SIMILAR), min_size=1, max_size=4))
def test_confidence_matches_its_equation(pairs):
    vector, lexical = (list(each) for each in zip(*pairs, strict=True))
    found, _ = MODEL(np.array([vector]), np.array([lexical]))
    assert found[0] == pytest.approx([one(vector, lexical, j) for j in range(len(pairs))], abs=1e-9)


@given(
    st.lists(st.tuples(SIMILAR, SIMILAR, st.integers(0, 2)), min_size=1, max_size=5),
    st.tuples(*[st.floats(-4, 0)] * 3),
)
def test_confidence_with_several_species_matches_its_equation(candidates, odds):
    vector, lexical, kind = (list(each) for each in zip(*candidates, strict=True))
    expected, by_names = [], []
    for j in range(len(kind)):
        mine = [i for i in range(len(kind)) if kind[i] == kind[j]]
        own = one([vector[i] for i in mine], [lexical[i] for i in mine], mine.index(j))
        by_names.append(own)
        nearest = {
            each: max(lexical[i] for i in range(len(kind)) if kind[i] == each) for each in kind
        }
        possible = [each for each in nearest if nearest[each] >= min(lexical[j], 0.9999)]
        weights = [math.exp(SPECIES_SHARPNESS * odds[each]) for each in possible]
        total = sum(weights) + UNNAMED_SPECIES * (1 - max(weights))
        expected.append(own * math.exp(SPECIES_SHARPNESS * odds[kind[j]]) / total)
    of_species = np.array([kind]), np.array([[odds[each] for each in kind]])
    found, by_name = MODEL(np.array([vector]), np.array([lexical]), *of_species)
    near = np.array(lexical) >= max(lexical) - 0.0001
    assert by_name[0] == pytest.approx(np.where(near, by_names, expected), abs=1e-6)
    assert found[0] == pytest.approx(expected, abs=1e-6)


@given(
    st.lists(SIMILAR, min_size=1, max_size=4), st.floats(-9, 9), st.floats(0, 1, exclude_max=True)
)
def test_the_probability_of_a_known_entity_follows_bayes_rule(lexical, likeness, share):
    model = replace(MODEL, known_bias=-4.0, known_lexical=6.0, known_likeness=0.5)
    (known,) = model.known(np.array([lexical]), np.array([likeness]), share)
    highest = max(lexical)
    ratio = 60.0
    if highest < 0.9999:
        ratio = math.exp(-4 + 6 * highest + 0.5 * likeness) * 0.4 / 0.99
    assert known == pytest.approx((1 - share) * ratio / ((1 - share) * ratio + share))


def test_homonyms_of_other_species_hardly_lower_confidence():
    vector, lexical, kind = np.full((1, 3), 0.9), np.ones((1, 3)), np.array([[0, 1, 2]])
    sure, *others = MODEL(vector, lexical, kind, np.array([[0.0, -4.0, -4.0]]))[0][0]
    assert sure == pytest.approx(0.95 / (1 + 2 * math.exp(-4 * SPECIES_SHARPNESS)))
    assert max(others) < 0.02
    assert MODEL(vector, lexical)[0][0] == pytest.approx(one([0.9] * 3, [1] * 3, 0))


def test_missing_candidate_has_confidence_zero():
    found, _ = MODEL(np.array([[0.9, -np.inf]]), np.array([[0.5, 0.0]]))
    assert found[0, 1] == 0 and found[0, 0] == pytest.approx(one([0.9, -math.inf], [0.5, 0.0], 0))


@pytest.fixture
def nlp(toy_store):
    nlp = spacy.blank("en")
    nlp.add_pipe("entity_ruler").add_patterns(
        [{"label": "Disease", "pattern": text} for text in ("rickets", "MS", "asthmatic cough")]
    )
    names = spacy.blank("en")
    names.add_pipe("krissel_linker", config={"lexical_weight": 0.3})
    names.initialize()
    build_prototypes(names, PrototypeSource(toy_store, class_names=False))
    nlp.add_pipe("krissel_linker", source=names)
    return nlp


TEXT = "rickets, MS and asthmatic cough"


def found(nlp):
    return {ent.text: (ent.kb_id_, ent._.krissel_candidates) for ent in nlp(TEXT).ents}


def test_candidates_have_no_confidence_before_it_is_fitted(nlp):
    assert not any(
        "confidence" in candidate
        for _, candidates in found(nlp).values()
        for candidate in candidates
    )


def test_score_parts_add_up_to_the_score(nlp):
    for _, candidates in found(nlp).values():
        for each in candidates:
            assert each["vector"] + 0.3 * each["lexical"] == pytest.approx(each["score"], abs=1e-5)
    assert found(nlp)["rickets"][1][0]["lexical"] == pytest.approx(1)


def test_mentions_of_labels_that_have_no_entity_are_less_certain(nlp):
    cfg = nlp.get_pipe("krissel_linker").cfg
    cfg["confidence"] = vars(MODEL)
    before = {text: candidates for text, (_, candidates) in found(nlp).items()}
    cfg["nil_share_by_label"] = {"Disease": 0.997}
    # A name of one entity: 0.95 times 60 to 0.997 / 0.003 against it.
    after = found(nlp)["rickets"][1]
    assert after[0]["confidence"] == pytest.approx(0.95 / (1 + 0.997 / 0.003 / 60))
    cfg["nil_share_by_label"] = {"Gene": 0.997}
    assert {text: candidates for text, (_, candidates) in found(nlp).items()} == before
    cfg["confidence"] = {**vars(MODEL), "known_likeness": 0.5, "nil_share": 0.1}
    with pytest.raises(KrisselError, match="K006.*weights of n-grams"):
        found(nlp)


def test_a_class_name_is_no_evidence_that_the_entity_is_known():
    """It is a guess: "renal" of Kidney Diseases is in many texts that name no disease."""
    model = replace(MODEL, known_bias=-4.0, known_lexical=6.0, nil_share=0.25)
    settings, lexical = LinkerSettings(lexical_weight=0.3, confidence=vars(model)), []
    prototypes = [
        Prototype("A", "name", name_view("renal disease")),
        Prototype("B", "name", name_view("heart disease")),
        Prototype("A", "class", name_view("renal")),
    ]
    for n in (2, 3):
        kb = PrototypeKB(spacy.blank("en").vocab, 2)
        kb.set_entities([Entity("A", "renal disease"), Entity("B", "heart disease")])
        kb.add_prototypes(prototypes[:n], np.ones((n, 2), dtype=np.float32))
        query = Query(kb.snapshot(), [name_view("renal")], vectors=np.ones((1, 2)))
        result = SearchResult(
            np.array([[0, 1]]), np.ones((1, 2)), np.zeros((1, 2), dtype=int), {}, {}
        )
        known = with_confidence(query, result, settings).known
        names = query.lexical.of_candidates(result.entities, names_only=True)
        assert known == pytest.approx(model.known(names, np.zeros(1), 0.25)[:, None])
        lexical.append(query.lexical.of_candidates(result.entities)[0, 0])
    assert lexical[0] < 0.9 < lexical[1]


def test_unsure_mention_is_nil_and_keeps_its_candidates(nlp, tmp_path):
    linker = nlp.get_pipe("krissel_linker")
    linker.cfg["confidence"] = vars(MODEL)
    before = found(nlp)
    confidence = {text: candidates[0]["confidence"] for text, (_, candidates) in before.items()}
    # A name of one entity, one of two, and none.
    assert confidence["rickets"] == pytest.approx(0.95)
    assert confidence["MS"] < 0.95 and confidence["asthmatic cough"] < 0.95
    linker.cfg["min_confidence"] = 0.9
    nlp.to_disk(tmp_path / "nlp")
    for each in (nlp, spacy.load(tmp_path / "nlp")):
        after = found(each)
        assert [kb_id for kb_id, _ in after.values()] == ["T12", "NIL", "NIL"]
        for text, (_, candidates) in after.items():
            assert [each["id"] for each in candidates] == [each["id"] for each in before[text][1]]
            assert candidates[0]["confidence"] == pytest.approx(confidence[text], abs=1e-3)


def test_confidence_is_independent_of_the_lexical_weight(nlp):
    linker = nlp.get_pipe("krissel_linker")
    linker.cfg["confidence"] = vars(MODEL)
    with_weight = found(nlp)["rickets"][1][0]["confidence"]
    linker.cfg["lexical_weight"] = 0.0
    candidate = found(nlp)["rickets"][1][0]
    assert candidate["confidence"] == pytest.approx(with_weight) and "lexical" not in candidate


def test_min_confidence_without_a_fitted_confidence_raises(nlp):
    nlp.get_pipe("krissel_linker").cfg["min_confidence"] = 0.5
    with pytest.raises(KrisselError, match="K006.*min_confidence.*krissel confidence"):
        nlp(TEXT)
    nlp.get_pipe("krissel_linker").cfg["confidence"] = {"bias": 1.0}
    with pytest.raises(KrisselError, match="K006.*confidence.*trust"):
        nlp(TEXT)


@given(
    st.lists(st.tuples(st.integers(0, 2), st.integers(0, 2)), min_size=1, max_size=8),
    st.lists(st.floats(-6, 6), min_size=9, max_size=9),
    st.floats(0.001, 0.999),
)
def test_shares_in_documents_match_a_plain_restatement(mentions, odds, prior):
    # Equal texts of a group have equal odds.
    own = [odds[3 * group + text] for group, text in mentions]
    texts = {pair: odds[3 * pair[0] + pair[1]] for pair in mentions}
    below = beta(PRIOR_OF_DOCUMENT * prior, PRIOR_OF_DOCUMENT * (1 - prior)).cdf(SHARE_EDGES)
    intervals = [high - low for low, high in itertools.pairwise(below)]
    shares = [(low + high) / 2 for low, high in itertools.pairwise(SHARE_EDGES)]

    def mean_share(others):
        """By Bayes's rule, over the middle of each interval."""
        weights = [
            expected * math.prod((1 - share) * math.exp(each) + share for each in others)
            for expected, share in zip(intervals, shares, strict=True)
        ]
        return sum(map(operator.mul, weights, shares)) / sum(weights)

    groups, index = np.array(mentions).T
    found = shares_in_documents(groups, index, np.array(own), prior)
    moved = [
        logit(mean_share(others)) - logit(mean_share([]))
        for pair in mentions
        for others in [[texts[each] for each in texts if each[0] == pair[0] and each != pair]]
    ]
    assert found == pytest.approx(expit(logit(prior) + np.array(moved)), abs=1e-9)


def test_a_fraction_without_an_entity_of_none_or_all_is_that_of_each_document():
    groups, texts, odds = np.zeros(3, dtype=int), np.arange(3), np.array([-5.0, 0.0, 4.0])
    for prior in (0.0, 1.0):
        assert shares_in_documents(groups, texts, odds, prior).tolist() == [prior] * 3


def test_other_mentions_of_a_document_tell_the_fraction_without_an_entity(nlp):
    nlp.get_pipe("entity_ruler").add_patterns(
        [{"label": "Disease", "pattern": text} for text in ("zzz", "qqq qqq", "xyxyx")]
    )
    linker = nlp.get_pipe("krissel_linker")
    # The vector of a mention is then the same in all texts.
    linker.configure(context="none")
    linker.cfg["confidence"] = {
        **vars(MODEL),
        "known_bias": -4.0,
        "known_lexical": 6.0,
        "nil_share": 0.25,
    }

    def confidence(text):
        return {ent.text: ent._.krissel_candidates[0]["confidence"] for ent in nlp(text).ents}

    alone, known = confidence("asthmatic cough"), confidence("rickets and asthmatic cough")
    others = confidence("rickets, asthmatic cough, zzz, qqq qqq and xyxyx")
    assert others["asthmatic cough"] < alone["asthmatic cough"] < known["asthmatic cough"]
    # A mention is no evidence for itself, and a listed name needs none.
    assert confidence("asthmatic cough, asthmatic cough") == pytest.approx(alone)
    assert others["rickets"] == known["rickets"]


@given(
    st.sampled_from(["motor", "moderately", "mouse"]),
    st.sampled_from(["stem", "septum", "salivary", "speech"]),
)
def test_a_short_form_of_other_words_is_no_evidence_for_its_name(toy_store, first, second):
    nlp = _with_spelling(toy_store)

    def confidence(long):
        doc = nlp(f"{long} (MS) was seen. MS is here." if long else "MS is here.")
        best = max(doc.ents[-1]._.krissel_candidates, key=operator.itemgetter("confidence"))
        return best["name"], best["confidence"]

    alone, same, other = map(confidence, ("", "multiple sclerosis", f"{first} {second}"))
    # Two entities have the name.
    assert alone[1] > 0.4 and same == ("multiple sclerosis", 0.95)
    assert other[1] < 0.3


@functools.cache
def _with_spelling(store):
    nlp = spacy.blank("en")
    nlp.add_pipe("entity_ruler").add_patterns([{"label": "Disease", "pattern": "MS"}])
    names = spacy.blank("en")
    names.add_pipe("krissel_linker", config={"lexical_weight": 0.3, "spelling_weight": 0.2})
    names.initialize()
    build_prototypes(names, PrototypeSource(store, class_names=False))
    nlp.add_pipe("krissel_linker", source=names)
    nlp.get_pipe("krissel_linker").cfg["confidence"] = vars(MODEL)
    return nlp


def test_candidates_with_one_name_share_the_confidence_unless_species_decide():
    rows, codes = np.zeros((1, 3), dtype=np.int64), np.array([[LABEL, LABEL, CONTEXT]])
    scores, confidence = np.zeros((1, 3), dtype=np.float32), np.array([[0.9, 0.6, 0.3]])
    result = SearchResult(rows, scores, rows, {}, confidence=confidence, match=codes)
    assert with_known(result).confidence[0].tolist() == pytest.approx([0.6, 0.4, 0.3])
    several = replace(result, parts={"species": scores})
    assert with_known(several).confidence.tolist() == confidence.tolist()
