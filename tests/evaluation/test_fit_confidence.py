"""Confidence fitted by a knowledge base's own names, and how true it is."""

import numpy as np
import pytest
import spacy

from spacy_krissel.commands.build_linker import build
from spacy_krissel.errors import KrisselError
from spacy_krissel.evaluation import confidence
from spacy_krissel.evaluation.confidence import (
    KNOWN_PRIOR,
    MIN_CONFIDENCE,
    NEAR,
    NEAR_SIMILARITY,
    NIL_SHARE,
    PRIOR,
    TRUST,
    CrossFitted,
    _as_in_texts,
    _fit,
    fit_confidence,
    lowest_confidence,
    parts_of_names,
    share_without_entity,
)
from spacy_krissel.evaluation.evaluate import evaluate
from spacy_krissel.evaluation.metrics import reliability
from spacy_krissel.evaluation.records import read_records, write_records
from spacy_krissel.kb.prototype_table import Prototype
from spacy_krissel.lexical.phrases import read_phrases
from spacy_krissel.ontology.entity import Entity
from spacy_krissel.pipeline.pipeline_io import save_pipeline
from spacy_krissel.views import name_view

pytestmark = pytest.mark.slow


def test_the_fit_recovers_the_true_coefficients():
    rng = np.random.default_rng(0)
    x, true = rng.normal(size=(60_000, 3)), np.array([-1.0, 2.0, 0.5, -3.0])
    right = rng.random(len(x)) < 1 / (1 + np.exp(-(true[0] + x @ true[1:])))
    assert _fit(x, right, np.ones(len(x)), PRIOR, 0.0) == pytest.approx(true, abs=0.1)
    # A mention with twice the weight counts as two.
    weights = rng.integers(1, 4, len(x))
    twice = _fit(
        np.repeat(x, weights, axis=0), np.repeat(right, weights), np.ones(weights.sum()), PRIOR, 0.1
    )
    assert _fit(x, right, weights.astype(float), PRIOR, 0.1) == pytest.approx(twice, abs=1e-6)


def test_the_minimum_confidence_reaches_the_requested_precision():
    confidence, right = np.array([0.25, 0.9, 0.6, 0.8]), np.array([0.0, 1.0, 0.5, 1.0])
    weights = np.array([1.0, 1.0, 2.0, 1.0])
    assert lowest_confidence(confidence, right, weights, 1.0) == 0.8
    assert lowest_confidence(confidence, right, weights, 0.75) == 0.6
    assert lowest_confidence(confidence, right, weights, 0.6) == 0.25
    # Mentions of equal confidence are linked together.
    assert lowest_confidence(np.array([0.9, 0.5, 0.5]), right[1:], weights[1:], 0.7) == 0.5
    assert lowest_confidence(np.array([0.9, 0.5, 0.5]), right[[1, 1, 0]], np.ones(3), 0.7) == 0.9
    # Out of reach: only the most confident are linked.
    assert lowest_confidence(confidence, np.zeros(4), weights, 0.5) == 0.9
    # Never all, however precise.
    assert lowest_confidence(confidence / 10, np.ones(4), weights, 0.5) == MIN_CONFIDENCE


def test_hidden_names_that_are_nearly_another_name_weigh_as_in_texts():
    lexical, weight = np.array([1.0, NEAR_SIMILARITY, 0.9, 0.5, 0.2]), np.array([3.0, 1, 0, 1, 2])
    found = _as_in_texts(lexical, weight)
    assert found[:3].sum() == pytest.approx(NEAR * found.sum())
    assert found[3:].tolist() == [1, 2] and found[0] == pytest.approx(3 * found[1])
    # With few of them, or nothing else, all stay.
    for few in (np.array([0.1, 0, 0, 1, 2]), np.array([3.0, 1, 0, 0, 0]), np.zeros(5)):
        assert _as_in_texts(lexical, few).tolist() == few.tolist()


@pytest.mark.filterwarnings("error::RuntimeWarning")
def test_zero_weights_cause_no_division_by_zero(tmp_path):
    confidence, right = np.array([0.95, 0.9, 0.25]), np.array([1.0, 1.0, 0.0])
    assert lowest_confidence(confidence, right, np.array([0.0, 1.0, 1.0]), 0.8) == 0.9
    # Of two entities with a name each, none is found without it.
    nlp = spacy.load(build([Entity("A", "gout"), Entity("B", "asthma")], tmp_path / "nlp").output)
    for nil_share in (0.03, 0.0):
        fit = fit_confidence(nlp, nil_share=nil_share)
        assert (
            fit.data["n_with_other_names"] == 0
            and np.isfinite([*vars(fit.confidence).values()]).all()
        )
    fitted = [*vars(fit.confidence).values()]
    assert fitted[:5] == pytest.approx([TRUST, *PRIOR]) and fit.confidence.synonym_trust == 0
    assert fitted[5:8] == pytest.approx(KNOWN_PRIOR, abs=3)


@pytest.mark.parametrize("share", [0.02, 0.3, 0.9, 1.0])
def test_the_fraction_without_an_entity_is_recovered(share):
    rng = np.random.default_rng(0)
    is_nil = rng.random(20_000) < share
    # Two normal distributions of unit variance: their log-likelihood ratio is linear.
    x = rng.normal(np.where(is_nil, -1.0, 1.0))
    assert share_without_entity(2 * x) == pytest.approx(share, abs=0.02)


def test_parts_of_names_are_no_names():
    names = ["Renal failure", "failure", "Acute renal failure", "Ulcer, peptic", "IgA deficiency"]
    parts = parts_of_names([*names, "Type 2", "Gout"], np.random.default_rng(0))
    assert sorted(parts) == ["acute", "acute renal", "deficiency", "iga", "renal", "type"]
    # Starts and ends in turn, as long as there are both.
    assert parts[1] == "deficiency"
    assert parts_of_names(["Gout", "A, b"], np.random.default_rng(0)) == []


def test_a_text_is_compared_by_a_model_that_has_not_seen_it():
    names = [f"{first} {second}" for first in ("renal", "heart", "liver") for second in "abcdefgh"]
    model = CrossFitted.fit(names, read_phrases()[:2000])
    alone = CrossFitted.fit([*names, "glioma"], read_phrases()[:2000])
    assert alone(["glioma"]) == pytest.approx(model(["glioma"]), abs=0.2)
    assert (model(names) > model(["Patients treated", "significant increase"]).max()).mean() > 0.9
    more = CrossFitted.fit(names, [*read_phrases()[:2000], "glioma"])
    assert more(["glioma"]) == pytest.approx(model(["glioma"]), abs=0.2)
    assert CrossFitted.fit([], read_phrases()[:50])(["glioma"]) == 0


def test_the_fit_leaves_the_species_of_a_name_to_the_document(tmp_path):
    """Which species it is, a name by itself does not say: that is left to the document."""
    names = ["alpha kinase", "beta globin", "gamma tubulin", "delta catenin"]
    taxa = ("9606", "10090", "10116")
    genes = [
        Entity(f"{name}{taxon}", name, (f"{name} 1",), species=taxon)
        for name in names
        for taxon in taxa
    ]
    nlp = spacy.load(build(genes, tmp_path / "nlp").output)
    assert fit_confidence(nlp).data["right_without_the_name"] == 1
    nlp.get_pipe("krissel_linker").cfg["species_weight"] = 0.0
    assert fit_confidence(nlp).data["right_without_the_name"] < 0.5


@pytest.fixture
def nlp(gold_linker):
    nlp = spacy.load(gold_linker)
    nlp.get_pipe("krissel_linker").cfg["lexical_weight"] = 0.3
    return nlp


def test_a_fit_is_kept_in_the_pipeline(nlp, tmp_path):
    fit = fit_confidence(nlp, precision=0.9)
    cfg = nlp.get_pipe("krissel_linker").cfg
    assert cfg["confidence"] == vars(fit.confidence) and cfg["min_confidence"] == fit.min_confidence
    assert fit.confidence.trust == TRUST
    # What is nearer to its entity than to others is likelier.
    assert fit.confidence.vector_lead > 0
    assert 0.9 <= fit.data["precision"] <= TRUST and 0 <= fit.data["linked_other"] <= 1
    assert fit.data["nil_share"] == fit.confidence.nil_share == NIL_SHARE
    assert nlp.meta["krissel"]["confidence"]["krissel_linker"] == fit.data
    nlp.to_disk(tmp_path / "nlp")
    again = spacy.load(tmp_path / "nlp").get_pipe("krissel_linker").cfg
    assert again["min_confidence"] == pytest.approx(fit.min_confidence) and again[
        "confidence"
    ] == pytest.approx(cfg["confidence"])
    linkers = (each.get_pipe("krissel_linker") for each in (nlp, spacy.load(tmp_path / "nlp")))
    first, second = (linker.likeness.to_bytes() for linker in linkers)
    assert first == second
    assert fit_confidence(nlp, precision=0.9).data == fit.data


def test_a_fit_of_an_earlier_version_does_not_prevent_saving(nlp, tmp_path):
    data = fit_confidence(nlp).data
    save_pipeline(nlp, tmp_path / "one", name="krissel_linker")
    del data["linked_other"]
    save_pipeline(nlp, tmp_path / "two", name="krissel_linker")
    stated = [
        "other kinds" in (tmp_path / name / "meta.json").read_text() for name in ("one", "two")
    ]
    assert stated == [True, False]


@pytest.mark.parametrize("weight", [0.0, 0.3])
def test_a_fit_depends_neither_on_blocks_nor_on_shared_searches(nlp, monkeypatch, weight):
    """Mentions are searched once for both ways to hide names."""
    nlp.get_pipe("krissel_linker").cfg["lexical_weight"] = weight
    expected = fit_confidence(nlp).data["confidence"]
    monkeypatch.setattr(confidence, "nearest_prototypes", lambda *_: None)
    monkeypatch.setattr(confidence, "BLOCK", 7)
    monkeypatch.setattr(confidence, "BLOCK_TEXTS", 99)
    assert fit_confidence(nlp).data["confidence"] == pytest.approx(expected, abs=1e-6)


def test_higher_precision_links_fewer_mentions(nlp):
    fits = [fit_confidence(nlp, precision=precision) for precision in (0.5, 0.8, 0.95)]
    least = [fit.min_confidence for fit in fits]
    linked = [fit.data["linked_other"] for fit in fits]
    assert least == sorted(least) and linked == sorted(linked, reverse=True)
    assert least[0] >= MIN_CONFIDENCE and least[-1] <= TRUST


@pytest.mark.parametrize(
    "settings", [{"precision": 0.99}, {"precision": 0.0}, {"nil_share": 1.0}, {"n_mentions": 0}]
)
def test_invalid_settings_raise(nlp, settings):
    with pytest.raises(KrisselError, match=f"K006.*{next(iter(settings))}"):
        fit_confidence(nlp, **settings)


def test_a_kb_without_names_raises(nlp):
    linker = nlp.get_pipe("krissel_linker")
    linker.kb.add_prototypes([Prototype("T01", "class", name_view("sclerosis"))])
    for kind in ("name", "mention"):
        linker.kb.remove_prototypes(kind=kind)
    assert linker.kb.n_prototypes
    with pytest.raises(KrisselError, match="K715.*class"):
        fit_confidence(nlp)


def test_reliability_agrees_with_hand_computed_values(make_record, tmp_path):
    records = [
        make_record(prediction="D5", confidence=0.95),
        make_record(prediction="D5", confidence=0.91),
        make_record(prediction="D1", confidence=0.31),
        # Not linked, though right; and one that no candidate is right of.
        make_record(prediction="NIL", ranked=["D5"], confidence=0.35),
        make_record(gold=("NIL",), prediction="D1", confidence=1.0),
        make_record(prediction="D5"),
    ]
    found = reliability(records)
    assert found["n"] == 5
    assert [(each["n"], each["right"]) for each in found["bins"]] == [
        (2, 0.5),
        (3, pytest.approx(2 / 3)),
    ]
    assert found["ece"] == pytest.approx(
        (2 * abs(0.33 - 0.5) + 3 * abs((0.95 + 0.91 + 1) / 3 - 2 / 3)) / 5
    )
    assert reliability(records[-1:]) is None
    write_records(records, tmp_path / "x.links.jsonl")
    assert read_records(tmp_path / "x.links.jsonl") == records


def test_a_report_has_reliability_and_calibration_error(nlp, toy_store, toy_files, tmp_path):
    fit_confidence(nlp)
    report = evaluate(
        nlp, toy_files / "gold.pubtator", toy_store, tmp_path, name="toy", baselines=False
    )
    assert report.data["reliability"]["n"] == report.data["n"]
    assert "expected calibration error" in (tmp_path / "toy.md").read_text()


def test_a_report_states_the_fraction_of_linked_mentions(nlp, toy_store, toy_files, tmp_path):
    asked = {"name": "toy", "baselines": False}
    evaluate(nlp, toy_files / "gold.pubtator", toy_store, tmp_path, **asked)
    scores = sorted(record.scores[0] for record in read_records(tmp_path / "toy.links.jsonl"))
    nlp.get_pipe("krissel_linker").cfg["threshold"] = (scores[0] + scores[-1]) / 2
    report = evaluate(nlp, toy_files / "gold.pubtator", toy_store, tmp_path, **asked)
    linked = report.data["linked"]
    assert 0 < linked["share"] < 1
    assert linked["precision"] * linked["share"] == pytest.approx(report.data["strict"])
    assert f"{100 * linked['share']:.1f} % of mentions" in (tmp_path / "toy.md").read_text()
