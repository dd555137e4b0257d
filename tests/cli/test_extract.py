"""The whole way of entities without mentions: labels, split, training, knowledge base, `extract`,
`evaluate-spans`."""

import json
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest
import spacy
from lab.spans.pipes import pipe_systems
from spacy.cli.train import train
from spacy.tokens import DocBin

from spacy_krissel.ontology.store import OntologyStore

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
NAME = "krissel_span_extractor"
TEXT = "pain and swelling in knee"


@pytest.fixture(scope="module")
def made(run, tmp_path_factory):
    """Build the pipeline of the demo from its complaints."""
    path = tmp_path_factory.mktemp("complaints")
    run("ontology", ROOT / "assets" / "findings.jsonl", "--output", path / "findings")
    run("convert", ROOT / "assets" / "complaints.jsonl", "--output", path / "complaints.spacy")
    run("text-split", path / "complaints.spacy", "--output", path / "split")
    overrides = {
        "paths.ontology": str(path / "findings"),
        "paths.texts": str(path / "split" / "train.spacy"),
    }
    train(ROOT / "configs" / "oslat-small.cfg", path / "out", overrides=overrides)
    names = ("--ontology", path / "findings", "--mentions-per-entity", 0, "--no-class-names")
    run(
        "prototypes", path / "out" / "model-last", "-o", path / "pipeline", "--linker", NAME, *names
    )
    return path


def test_discontinuous_entities_are_extracted_with_their_fragments(run, made):
    printed = run(
        "extract", made / "pipeline", TEXT, "nothing of the kind", "--output", made / "found.html"
    )
    assert "knee pain: pain … knee" in printed and "knee swelling: swelling … knee" in printed
    assert printed.split("nothing of the kind")[1].lstrip().startswith("nothing found")
    assert "knee swelling" in (made / "found.html").read_text()
    run("extract", made / "pipeline", TEXT, "--output", made / "found.svg")
    ElementTree.parse(made / "found.svg")


def test_extract_refuses_unsupported_output_and_unknown_components(refuse, made):
    assert "K006" in refuse(
        "extract", made / "pipeline", TEXT, "again", "--output", made / "two.svg"
    )
    assert "K610" in refuse("extract", made / "pipeline", TEXT, "--extractor", "another")


def test_evaluate_spans_reports_spans_and_linking(run, made):
    pytest.importorskip("rapidfuzz")
    gold = made / "split" / "test.spacy"
    settings = (
        "--ontology",
        made / "findings",
        "--train",
        made / "split" / "train.spacy",
        "--output",
        made / "metrics",
    )
    printed = run(
        "evaluate-spans", made / "pipeline", gold, *settings, "--name", "oslat", "--gold-spans"
    )
    systems = json.loads((made / "metrics" / "oslat.json").read_text())["systems"]
    assert list(systems) == ["oslat", "oslat, gold spans", "rule", "fuzzy"]
    assert "| oslat |" in printed and "rule" in printed
    assert systems["oslat"]["spans"]["slices"]["all"]["f1"] > 0.9
    # Told where entities stand, the same classifier finds about as many.
    found = [
        systems[name]["linking"]["slices"]["all"]["accuracy"]["5"]
        for name in ("oslat", "oslat, gold spans")
    ]
    assert found[1] >= found[0] - 0.05 and found[0] > 0.9


def test_rank_limits_the_candidates_to_entities_of_the_given_texts(run, refuse, made):
    gold, few = made / "split" / "test.spacy", made / "few.spacy"
    docs = list(DocBin().from_disk(gold).get_docs(spacy.blank("en").vocab))[:6]
    DocBin(docs=docs).to_disk(few)
    settings = (
        "--ontology",
        made / "findings",
        "--output",
        made / "metrics",
        "--no-baselines",
        "--name",
        "few",
    )
    run("evaluate-spans", made / "pipeline", few, *settings, "--rank", few)
    found = json.loads((made / "metrics" / "few.json").read_text())
    assert found["n_entities"] == len({entity for doc in docs for entity in doc.cats}) < 40
    assert "K201" in refuse(
        "evaluate-spans", made / "pipeline", gold, *settings, "--rank", made / "none.spacy"
    )


def test_a_linker_is_compared_as_a_bi_encoder(run, made, save_linker_of_names):
    gold = made / "split" / "test.spacy"
    linker = save_linker_of_names(made / "findings")
    settings = ("--ontology", made / "findings", "--output", made / "metrics", "--no-baselines")
    run("evaluate-spans", made / "pipeline", gold, *settings, "--compare", f"vectors={linker}")
    systems = json.loads((made / "metrics" / "spans.json").read_text())["systems"]
    assert 0 < systems["vectors"]["linking"]["slices"]["all"]["accuracy"]["10"] <= 1


@pytest.fixture
def save_linker_of_names(tmp_path):
    def save(ontology):
        nlp = spacy.blank("en")
        encoder = {
            "@architectures": "spacy-krissel.SmallEncoder.v1",
            "width": 32,
            "rows": 4096,
            "context_rows": 64,
        }
        nlp.add_pipe("krissel_linker", config={"model": encoder})
        nlp.initialize()
        nlp.to_disk(tmp_path / "linker")
        return tmp_path / "linker"

    return save


def test_evaluate_spans_refuses_systems_and_gold_without_entities(refuse, made, tmp_path):
    gold = made / "split" / "test.spacy"
    settings = ("--ontology", made / "findings", "--output", made / "metrics", "--no-baselines")
    assert "K006" in refuse(
        "evaluate-spans", made / "pipeline", gold, *settings, "--compare", "nameless"
    )
    spacy.blank("en").to_disk(tmp_path / "empty")
    assert "K738" in refuse("evaluate-spans", tmp_path / "empty", gold, *settings)
    DocBin(docs=[spacy.blank("en")("no entity")]).to_disk(tmp_path / "none.spacy")
    found = refuse(
        "evaluate-spans", made / "pipeline", gold, *settings, "--train", tmp_path / "none.spacy"
    )
    assert "K721" in found and "none.spacy" in found


def test_gold_spans_change_scores_of_gold_entities_only(made):
    nlp = spacy.load(made / "pipeline")
    store = OntologyStore(made / "findings")
    systems = pipe_systems(nlp, store, name="own", with_gold_spans=True)
    plain, told = systems["own"], systems["own, gold spans"]
    (doc, *_) = (
        DocBin(store_user_data=True).from_disk(made / "split" / "test.spacy").get_docs(nlp.vocab)
    )
    ids = list(store.ids)
    before, after = plain.scores([doc], ids)[0], told.scores([doc], ids)[0]
    changed = {ids[i] for i in (before != after).nonzero()[0]}
    assert changed and changed <= set(doc.cats)
