"""Training as spaCy does it: with the default config, beside other components, further after
loading."""

import json
import warnings

import pytest
import spacy
from components import LINKERS, each_model, with_kb
from spacy.cli.train import train
from spacy.tokens import DocBin, Span
from spacy.training import Example
from thinc.api import Adam
from tiers import nightly

from spacy_krissel.commands.build_prototypes import prototypes
from spacy_krissel.errors import KrisselError, KrisselWarning

pytestmark = pytest.mark.slow

FIRST_LINKER = pytest.mark.parametrize("component", LINKERS[:1], indirect=True)


def to_spans(examples, key="sc"):
    """The examples with their mentions in a span group alone."""
    for example in examples:
        for doc in (example.reference, example.predicted):
            doc.spans[key] = list(doc.ents)
            doc.ents = []
    return examples


# The default config -------------------------------------------------------------------------------


def test_the_default_linker_can_be_trained(make_examples):
    """On annotated examples, with nothing else given: no mention is replaced, and that is said
    once."""
    nlp = spacy.blank("en")
    nlp.add_pipe("krissel_linker")
    with pytest.warns(KrisselWarning, match="KW626.*ontology"):
        optimizer = nlp.initialize(lambda: make_examples(nlp))
    with warnings.catch_warnings():
        warnings.simplefilter("error", KrisselWarning)
        losses = [
            nlp.update(make_examples(nlp), sgd=optimizer)["krissel_linker"] for _ in range(20)
        ]
    assert 0 < min(losses) and sum(losses[-5:]) < sum(losses[:5])


def test_the_default_linker_trains_on_the_spans_that_it_links(make_examples):
    """`spans_key` of the pipe is all that is set."""
    nlp = spacy.blank("en")
    nlp.add_pipe("krissel_linker", config={"spans_key": "sc", "objective": {"p_replace": 0.0}})
    optimizer = nlp.initialize(lambda: to_spans(make_examples(nlp)))
    assert nlp.update(to_spans(make_examples(nlp)), sgd=optimizer)["krissel_linker"] > 0
    with pytest.warns(KrisselWarning, match="KW625.* 1 of 2 .*spans_key"):
        assert nlp.update(make_examples(nlp), sgd=optimizer)["krissel_linker"] == 0
    # As it is now, not as it was when the objective was made.
    nlp.get_pipe("krissel_linker").cfg["spans_key"] = ""
    assert nlp.update(make_examples(nlp), sgd=optimizer)["krissel_linker"] > 0


def test_the_default_reranker_requires_an_ontology(save_linker, make_examples, toy_store):
    """It needs descriptions of its candidates: `initialize` says so, and with them the default
    config trains."""
    nlp = spacy.load(save_linker("small"))
    reranker = nlp.add_pipe("krissel_reranker")
    with nlp.select_pipes(disable=["krissel_linker"]):
        with pytest.raises(KrisselError, match=r"K616.*\[initialize.components.krissel_reranker\]"):
            nlp.initialize(lambda: make_examples(nlp))
        reranker.initialize(lambda: make_examples(nlp), nlp=nlp, ontology=lambda: toy_store)
        assert (
            nlp.update(make_examples(nlp), sgd=Adam(0.001, use_averages=False))["krissel_reranker"]
            > 0
        )


def test_the_default_extractor_requires_an_ontology(make_text_examples, toy_store):
    """Training needs entity names. Without them `initialize` raises."""
    nlp = spacy.blank("en")
    extractor = nlp.add_pipe("krissel_span_extractor")
    with pytest.raises(KrisselError, match=r"K639.*\[initialize.components\]"):
        nlp.initialize(lambda: make_text_examples(nlp))
    extractor.initialize(lambda: make_text_examples(nlp), nlp=nlp, ontology=lambda: toy_store)
    assert (
        nlp.update(make_text_examples(nlp), sgd=Adam(0.001, use_averages=False))[
            "krissel_span_extractor"
        ]
        > 0
    )


# Batches ------------------------------------------------------------------------------------------


@each_model
def test_a_batch_with_nothing_to_learn_changes_nothing(component, nlp, pipe):
    """It adds 0 to the loss, moves no weight, and keeps the knowledge base."""
    if component.name == "krissel_reranker":
        nlp.select_pipes(disable=["krissel_linker"])
    empty = [Example(nlp.make_doc("Nothing."), nlp.make_doc("Nothing."))]
    before, losses = pipe.model.to_bytes(), {component.name: 1.5}
    with pytest.warns(KrisselWarning, match="KW625.* 1 of 1 "):
        nlp.update(empty, sgd=Adam(0.1, use_averages=False), losses=losses)
    nlp.update(empty, sgd=Adam(0.1, use_averages=False), losses=losses)
    assert losses[component.name] == 1.5 and pipe.model.to_bytes() == before
    assert component.name == "krissel_reranker" or not pipe.kb.is_empty()


def config_of(nlp, path, **training):
    """The pipeline's config for `spacy train` on the docs at `path`, in batches that no component
    chose."""
    config = nlp.config.copy()
    config["corpora"] = {
        name: {"@readers": "spacy.Corpus.v1", "path": str(path)} for name in ("train", "dev")
    }
    config["training"] = {
        **config["training"],
        "max_steps": 12,
        "eval_frequency": 6,
        "batcher": {"@batchers": "spacy.batch_by_sequence.v1", "size": 2},
        "logger": {
            "@loggers": "spacy.ConsoleLogger.v3",
            "output_file": str(path.parent / "log.jsonl"),
        },
        "score_weights": {"krissel_acc": 0.5, "ents_f": 0.5},
        **training,
    }
    return config


@pytest.fixture
def annotated(make_linker, make_examples, tmp_path):
    """A .spacy file of linked mentions, and a pipeline of `ner` and a linker that was never
    initialized."""
    nlp = make_linker("small")
    nlp.add_pipe("ner", first=True)
    DocBin(docs=[example.reference for example in make_examples(nlp)]).to_disk(
        tmp_path / "train.spacy"
    )
    return nlp, tmp_path / "train.spacy"


def test_joint_training_continues_after_a_batch_without_a_pair(annotated, tmp_path):
    """`ner` and `krissel_linker`, in batches of two examples."""
    nlp, path = annotated
    config_of(nlp, path, annotating_components=["ner"]).to_disk(tmp_path / "train.cfg")
    with pytest.warns(KrisselWarning, match="KW625"):
        train(tmp_path / "train.cfg", tmp_path / "out")
    rows = [json.loads(line) for line in (tmp_path / "log.jsonl").read_text().splitlines()]
    assert [row["step"] for row in rows] == [0, 6, 12]
    assert all(row["losses"]["ner"] > 0 for row in rows[1:])
    trained = spacy.load(tmp_path / "out" / "model-last")
    assert trained.pipe_names == ["ner", "krissel_linker"]


def test_joint_training_trains_ner_and_linker(annotated, tmp_path):
    nlp, path = annotated
    batcher = {"@batchers": "spacy.batch_by_sequence.v1", "size": 16}
    config_of(nlp, path, batcher=batcher).to_disk(tmp_path / "train.cfg")
    train(tmp_path / "train.cfg", tmp_path / "out")
    rows = [json.loads(line) for line in (tmp_path / "log.jsonl").read_text().splitlines()]
    assert all(row["losses"][name] > 0 for row in rows[1:] for name in ("ner", "krissel_linker"))


# Further training ---------------------------------------------------------------------------------


@each_model
def test_a_loaded_pipeline_can_be_trained_further(component, nlp, pipe):
    others = [name for name in nlp.pipe_names if name != component.name]
    with nlp.select_pipes(disable=others), warnings.catch_warnings():
        warnings.simplefilter("ignore", KrisselWarning)
        optimizer = nlp.resume_training()
        optimizer.learn_rate = component.learn_rate
        before = pipe.model.to_bytes()
        losses = [
            nlp.update(component.examples(nlp), sgd=optimizer)[component.name] for _ in range(3)
        ]
    assert min(losses) > 0 and pipe.model.to_bytes() != before


@with_kb
@pytest.mark.parametrize("onto_itself", [True, nightly(False)])
def test_an_outdated_kb_can_be_rebuilt(component, toy_store, toy_shards, tmp_path, onto_itself):
    """Trained further, saved onto its folder, loaded, and given its knowledge base again, as KW601
    says."""
    spacy.load(component.save()).to_disk(tmp_path / "pipeline")
    nlp = spacy.load(tmp_path / "pipeline")
    nlp.get_pipe(component.name).objective.initialize(toy_store)
    with pytest.warns(KrisselWarning, match="KW601.*krissel prototypes"):
        nlp.update(component.examples(nlp), sgd=Adam(0.0001, use_averages=False))
    nlp.to_disk(tmp_path / "pipeline")
    loaded = spacy.load(tmp_path / "pipeline")
    with pytest.raises(KrisselError, match="K603.*krissel prototypes"):
        component.run(loaded)
    output = tmp_path / ("pipeline" if onto_itself else "other")
    mentions = None if "extractor" in component.name else toy_shards
    prototypes(
        tmp_path / "pipeline", output, toy_store.path, mentions, name=component.name, progress=False
    )
    again = spacy.load(output)
    before, after = (
        each.get_pipe(component.name).to_bytes(exclude=["kb"]) for each in (loaded, again)
    )
    assert after == before
    found = [link for doc in component.run(again) for link in doc]
    assert found and not again.get_pipe(component.name).kb.is_empty()


@FIRST_LINKER
def test_a_reinitialized_pipeline_can_be_loaded(component, tmp_path):
    spacy.load(component.save()).to_disk(tmp_path / "pipeline")
    nlp = spacy.load(tmp_path / "pipeline")
    nlp.config["initialize"]["components"] = {}
    with pytest.warns(KrisselWarning, match="KW601"):
        nlp.initialize()
    nlp.to_disk(tmp_path / "pipeline")
    assert spacy.load(tmp_path / "pipeline").get_pipe(component.name).kb.is_empty()


@FIRST_LINKER
def test_evaluation_is_independent_of_the_example_source(component, nlp, make_examples, tmp_path):
    """Made of texts, of docs, or read from a file: `nlp.evaluate` gives the same."""
    examples = make_examples(nlp)
    expected = nlp.evaluate(make_examples(nlp))
    DocBin(docs=[example.reference for example in examples]).to_disk(tmp_path / "gold.spacy")
    read = []
    for doc in DocBin().from_disk(tmp_path / "gold.spacy").get_docs(nlp.vocab):
        predicted = nlp.make_doc(doc.text)
        predicted.ents = [Span(predicted, ent.start, ent.end, label=ent.label_) for ent in doc.ents]
        read.append(Example(predicted, doc))
    found = nlp.evaluate(read, batch_size=3)
    assert {key: value for key, value in found.items() if key != "speed"} == {
        key: value for key, value in expected.items() if key != "speed"
    }
