"""OSLAT's three stages on the toy ontology, with the paper's values and with those for a CPU."""

import numpy as np
import pytest
import spacy
from project_files import settings_of
from spacy.cli.train import train
from spacy.tokens import DocBin
from spacy.util import load_config
from tiers import nightly

from spacy_krissel.building.sources import PrototypeSource
from spacy_krissel.commands.build_prototypes import build_prototypes
from spacy_krissel.layers.label_attention import attend
from spacy_krissel.losses.softmax import SoftmaxLoss
from spacy_krissel.training.data.examples import linked_mentions
from spacy_krissel.training.data.synonyms import SynonymCorpus
from spacy_krissel.training.objectives.sapbert import SelfAlignmentObjective

NAME = "krissel_span_extractor"


@pytest.fixture(scope="module")
def texts(toy_names, tmp_path_factory):
    nlp = spacy.blank("en")
    docs = []
    for n, (entity, names) in enumerate(toy_names.items()):
        for name in names[:3]:
            doc = nlp.make_doc(f"the patient had {name} in acute fever number {n}")
            doc.cats = {entity: 1.0}
            docs.append(doc)
    path = tmp_path_factory.mktemp("texts") / "train.spacy"
    DocBin(docs=docs).to_disk(path)
    return path


@pytest.mark.slow
@pytest.mark.parametrize("cpu", [False, nightly(True)])
def test_the_three_stages_yield_probabilities(cpu, configs, texts, toy_store, tiny_bert, tmp_path):
    small = [settings_of("experiments/oslat", "train", line) if cpu else {} for line in range(3)]
    if cpu:
        # The tiny encoder's.
        small[0]["components.krissel_linker.model.hidden"] = 16
    paths = {"paths.encoder": str(tiny_bert), "paths.ontology": str(toy_store.path)}
    steps = {"training.max_epochs": 0, "training.max_steps": 4, "training.eval_frequency": 4}
    window = {"components.krissel_span_extractor.model.tokens.window": 32}
    names = {"corpora.train.held_out": 0.3, "training.batcher.pairs": 4}
    train(
        configs / "oslat-alignment.cfg",
        tmp_path / "aligned",
        overrides={**small[0], **paths, **steps, **names},
    )
    aligned = {"paths.aligned": str(tmp_path / "aligned" / "model-last"), "paths.texts": str(texts)}
    train(
        configs / "oslat.cfg",
        tmp_path / "attention",
        overrides={**small[1], **paths, **steps, **window, **aligned},
    )
    attention = {
        "paths.attention": str(tmp_path / "attention" / "model-last"),
        "paths.texts": str(texts),
    }
    stage = {**small[2], **paths, **steps, **window, **attention}
    train(configs / "oslat-classifier.cfg", tmp_path / "out", overrides=stage)
    stages = [spacy.load(tmp_path / stage / "model-last") for stage in ("attention", "out")]
    tokens = [nlp.get_pipe(NAME).model.layers[0].to_bytes() for nlp in stages]
    assert tokens[0] == tokens[1], "the classifier leaves the encoder alone"
    build_prototypes(
        stages[1],
        PrototypeSource(toy_store, None, mentions_per_entity=0, class_names=False),
        name=NAME,
    )
    found = (
        stages[1]
        .get_pipe(NAME)
        .scores([stages[1].make_doc("the patient had fever")], ["T01", "T03"])
    )
    assert ((0 < found) & (found < 1)).all()


def test_first_stage_sees_only_entities_of_the_training_texts(toy_store, toy_names, tmp_path):
    """Positive pairs, names to expand and negatives are all seen entities (§5.1)."""
    nlp = spacy.blank("en")
    doc = nlp.make_doc("MS and bronchial asthma")
    doc.cats = {"T01": 1.0, "T07": 1.0}
    DocBin(docs=[doc]).to_disk(tmp_path / "train.spacy")
    settings = {"ontology": toy_store.path, "held_out": 0.3, "seen": tmp_path / "train.spacy"}
    for split in ("train", "dev"):
        examples = list(SynonymCorpus(split=split, **settings)(nlp))
        found = {entity for each in examples for entity, _ in linked_mentions(each.reference)}
        assert found and found <= {"T01", "T07"}, split
    objective = SelfAlignmentObjective(
        SoftmaxLoss(), n_negatives=100, seen=tmp_path / "train.spacy"
    )
    objective.initialize(toy_store)
    drawn = {entity for _ in range(20) for entity, _ in objective._negatives(set(), {"T01"})}
    assert drawn == {"T07"} and len(toy_names) > 2


@pytest.mark.parametrize("name", ["oslat", "oslat-classifier"])
def test_attention_scale_spreads_the_weights(configs, name):
    """States have BioBERT's width; without the released scale, one word piece gets it all."""
    scale = load_config(configs / f"{name}.cfg")["components"]["krissel_span_extractor"]["model"][
        "scale"
    ]
    assert scale == pytest.approx(768**-0.5, rel=1e-3)
    random = np.random.default_rng(0)
    queries, states = random.normal(size=(50, 768)), random.normal(size=(16, 768))
    heaviest = [
        attend(queries, states, each)[0].weights.max(axis=1).mean() for each in (scale, 1.0)
    ]
    assert heaviest[0] < 0.35 and heaviest[1] > 0.9
