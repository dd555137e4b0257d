"""Linkers over the toy ontology, saved once and loaded fresh for each test."""

import re
from functools import partial

import pytest
import spacy
from built_linker import ENTITIES
from spacy.util import fix_random_seed
from thinc.api import Adam

from spacy_krissel import build
from spacy_krissel.building.sources import PrototypeSource
from spacy_krissel.commands.build_prototypes import build_prototypes
from spacy_krissel.mining.shards import MentionShards
from spacy_krissel.training.data.examples import text_example
from spacy_krissel.training.data.self_supervised import SelfSupervisedCorpus

SMALL = {
    "@architectures": "spacy-krissel.SmallEncoder.v1",
    "width": 32,
    "rows": 2048,
    "context_rows": 2048,
    "hidden": 16,
}
MARKED = re.compile(r"\[([^]|]*)\|(\w+)\]")
# Homonyms in two contexts each, a name that no ontology lists, and a mention at either edge.
TEXTS = (
    "Demyelinating lesions and relapses pointed to [MS|Disease] in this man.",
    "A diastolic murmur and an enlarged atrium pointed to [MS|Disease] too.",
    (
        "Sneezing, a running nose and a [cold|Disease], caught at school, with [migraine|Disease] "
        "and an aura."
    ),
    "[Lung cancer|Disease] was seen in the upper lobe.",
    "No mention stands here.",
    "The samples were kept in the [cold|Phenomenon] until thawed. Then came [wheeziness|Disease]",
    "[Anemia|Disease] [flu|Disease] [psoriasis vulgaris|Disease]",
)


@pytest.fixture(scope="session")
def make_doc():
    """Makes a doc of text in which each mention is marked as `[mention|LABEL]`, as entities or as a
    group of spans."""

    def make(nlp, marked, spans_key=""):
        text, spans, end = "", [], 0
        for match in MARKED.finditer(marked):
            text += marked[end : match.start()]
            spans.append((len(text), len(text) + len(match[1]), match[2]))
            text += match[1]
            end = match.end()
        doc = nlp.make_doc(text + marked[end:])
        found = [doc.char_span(start, end, label=label) for start, end, label in spans]
        if spans_key:
            doc.spans[spans_key] = found
        else:
            doc.ents = found
        return doc

    return make


@pytest.fixture(scope="session")
def make_docs(make_doc):
    """Makes the docs of `TEXTS`, unlinked."""

    def make(nlp):
        return [make_doc(nlp, text) for text in TEXTS]

    return make


@pytest.fixture(scope="session")
def source(toy_store, toy_shards):
    return PrototypeSource(toy_store, MentionShards(toy_shards))


@pytest.fixture(scope="session")
def encoders(tiny_bert):
    """The config of each kind of encoder, as small as it gets."""
    bert = {
        "@architectures": "spacy-krissel.TransformerEncoder.v1",
        "name": str(tiny_bert),
        "window": 32,
        "pooling": "mean",
        "normalize": True,
        # Without chance, so that a step is the same whatever ran before it.
        "transformer_config": {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0},
    }
    referenced = {
        "@architectures": "spacy-krissel.ReferencedEncoder.v1",
        "mention": SMALL,
        "reference": SMALL,
    }
    return {"small": SMALL, "transformer": bert, "referenced": referenced}


@pytest.fixture(scope="session")
def make_linker(encoders, toy_store, toy_shards):
    """Makes a pipeline with an initialized linker: `make_linker(encoder, **settings)`."""

    def make(encoder="small", **settings):
        nlp = spacy.blank("en")
        objective = {
            "@misc": "spacy-krissel.ContrastiveObjective.v1",
            "loss": {"@losses": "spacy-krissel.SoftmaxLoss.v1", "temperature": 0.1},
            "p_mask": 0.0,
            "p_replace": 0.0,
        }
        if encoder == "referenced":
            reference_loss = {"@losses": "spacy-krissel.SoftmaxLoss.v1", "temperature": 0.1}
            objective = {**objective, "reference_loss": reference_loss}
        nlp.add_pipe(
            "krissel_linker",
            config={"model": encoders[encoder], "objective": objective, **settings},
        )
        nlp.config["initialize"]["components"]["krissel_linker"] = {
            "ontology": {"@misc": "spacy-krissel.OntologyFromDisk.v1", "path": str(toy_store.path)},
            "dev_kb": {
                "@misc": "spacy-krissel.PrototypeSource.v1",
                "ontology": str(toy_store.path),
                "mentions": str(toy_shards),
            },
        }
        nlp.initialize(lambda: list(SelfSupervisedCorpus(toy_store.path, toy_shards)(nlp)))
        return nlp

    return make


@pytest.fixture(scope="session")
def make_examples(toy_store, toy_shards):
    """Makes the same training examples at each call: six entities, two mentions each."""

    def make(nlp):
        corpus = SelfSupervisedCorpus(toy_store.path, toy_shards, names_per_entity=0, held_out=0.0)
        by_entity = {}
        for entity, view in corpus.linked_views():
            by_entity.setdefault(entity, []).append(text_example(nlp, (entity, view)))
        pairs = [examples[:2] for _, examples in sorted(by_entity.items()) if len(examples) > 1]
        return [example for pair in pairs[:6] for example in pair]

    return make


@pytest.fixture(scope="session")
def save_linker(make_linker, make_examples, source, make_once):
    """The folder of a pipeline whose linker was trained for a few steps and has a knowledge base;
    made once each."""

    def make(encoder, path):
        fix_random_seed(0)
        nlp = make_linker(encoder)
        optimizer = Adam(0.002 if encoder == "transformer" else 0.01, use_averages=False)
        for _ in range(10):
            nlp.update(make_examples(nlp), sgd=optimizer)
        build_prototypes(nlp, source)
        nlp.to_disk(path / "pipeline")

    def save(encoder="small"):
        return make_once(f"linker-{encoder}", partial(make, encoder)) / "pipeline"

    return save


@pytest.fixture(scope="session")
def built_linker(make_once):
    """The folder of a pipeline of `build`, with a confidence that links much."""
    made = make_once("built", lambda folder: build(ENTITIES, folder / "linker", precision=0.01))
    return made / "linker"


@pytest.fixture(scope="session")
def rerankers(tiny_bert):
    """The config of each kind of re-ranking model, as small as it gets."""
    no_dropout = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
    pairs = {
        "@architectures": "spacy-krissel.CrossEncoder.v1",
        "name": str(tiny_bert),
        "window": 24,
        "candidate_window": 24,
        "transformer_config": no_dropout,
    }
    lists = {"@architectures": "spacy-krissel.ListCrossEncoder.v1", "encoder": SMALL}
    return {"list": lists, "pairs": pairs, "plain": {**pairs, "bound": None}}


@pytest.fixture(scope="session")
def make_reranker(save_linker, rerankers, make_examples, toy_store):
    """Makes a pipeline of a trained linker and an initialized re-ranker:
    `make_reranker(kind, **settings)`."""

    def make(kind="list", **settings):
        # A tenth of the linker's own sharpness: on the toy data it is always right, and nothing
        # were left to learn.
        settings = {"temperature": 1.0, **settings}
        nlp = spacy.load(save_linker("small"))
        objective = {
            "@misc": "spacy-krissel.RerankObjective.v1",
            "loss": {"@losses": "spacy-krissel.SoftmaxLoss.v1"},
            "n_candidates": 4,
            "p_hide": 1.0,
            "insert_gold": True,
        }
        nlp.add_pipe(
            "krissel_reranker",
            config={"model": rerankers[kind], "objective": objective, **settings},
        )
        ontology = {"@misc": "spacy-krissel.OntologyFromDisk.v1", "path": str(toy_store.path)}
        nlp.config["initialize"]["components"]["krissel_reranker"] = {"ontology": ontology}
        with nlp.select_pipes(disable=["krissel_linker"]):
            nlp.initialize(lambda: make_examples(nlp))
        return nlp

    return make


@pytest.fixture(scope="session")
def save_reranker(make_reranker, make_examples, make_once):
    """The folder of a pipeline whose re-ranker was trained for a few steps and changes some links;
    made once each."""

    def make(kind, path):
        fix_random_seed(0)
        nlp = make_reranker(kind)
        optimizer = Adam(0.03 if kind == "list" else 0.002, use_averages=False)
        with nlp.select_pipes(disable=["krissel_linker"]):
            for _ in range(20 if kind == "list" else 10):
                nlp.update(make_examples(nlp), sgd=optimizer)
        nlp.to_disk(path / "pipeline")

    def save(kind="list"):
        return make_once(f"reranker-{kind}", partial(make, kind)) / "pipeline"

    return save


@pytest.fixture(scope="session")
def make_text_examples(make_examples):
    """Makes the examples of `make_examples` as texts that speak of an entity, without saying
    where."""

    def make(nlp):
        examples = make_examples(nlp)
        for example in examples:
            example.reference.cats = {ent.kb_id_: 1.0 for ent in example.reference.ents}
            example.reference.ents = []
            example.predicted.ents = []
        return examples

    return make


@pytest.fixture(scope="session")
def token_encoders(tiny_bert, encoders):
    """The config of each kind of encoder of texts by their tokens, as small as it gets."""
    bert = {key: encoders["transformer"][key] for key in ("name", "window", "transformer_config")}
    return {
        "words": {
            "@architectures": "spacy-krissel.WordStates.v1",
            "encoder": {**SMALL, "context_weight": 0.1},
        },
        "pieces": {"@architectures": "spacy-krissel.PieceStates.v1", **bert},
    }


@pytest.fixture(scope="session")
def make_extractor(token_encoders, toy_store, make_text_examples):
    """Makes a pipeline with an initialized span extractor: `make_extractor(kind, **settings)`."""

    def make(kind="words", **settings):
        settings = {"max_entities": 2, **settings}
        nlp = spacy.blank("en")
        model = {
            "@architectures": "spacy-krissel.LabelAttention.v1",
            "tokens": token_encoders[kind],
            "scale": 20.0 if kind == "words" else 0.5,
            "classifier": "pair",
        }
        objective = {
            "@misc": "spacy-krissel.LabelAttentionObjective.v1",
            "loss": {
                "@losses": "spacy-krissel.SoftmaxLoss.v1",
                "temperature": 0.5,
                "positives": "mean",
            },
            "presence_loss": {"@losses": "spacy-krissel.FocalLoss.v1", "alpha": 0.5, "gamma": 0.0},
            "n_negatives": 12,
        }
        nlp.add_pipe(
            "krissel_span_extractor", config={"model": model, "objective": objective, **settings}
        )
        store = str(toy_store.path)
        nlp.config["initialize"]["components"]["krissel_span_extractor"] = {
            "ontology": {"@misc": "spacy-krissel.OntologyFromDisk.v1", "path": store},
            "dev_kb": {
                "@misc": "spacy-krissel.PrototypeSource.v1",
                "ontology": store,
                "mentions_per_entity": 0,
            },
        }
        nlp.initialize(lambda: make_text_examples(nlp))
        for node in nlp.get_pipe("krissel_span_extractor").model.walk():
            for shim in node.shims if node.name == "hf-pytorch" else ():
                # As they begin in earnest: those of the tiny transformer make all tokens alike.
                for module in shim.transformer.modules():
                    if type(module).__name__ == "LayerNorm":
                        module.reset_parameters()
        return nlp

    return make


@pytest.fixture(scope="session")
def save_extractor(make_extractor, make_text_examples, names_source, make_once):
    """The folder of a pipeline whose extractor was trained for a few steps and has a knowledge
    base; made once each."""

    def make(kind, path):
        fix_random_seed(0)
        nlp = make_extractor(kind)
        optimizer = Adam(0.01 if kind == "words" else 0.002, use_averages=False)
        for _ in range(20 if kind == "words" else 60):
            nlp.update(make_text_examples(nlp), sgd=optimizer)
        build_prototypes(nlp, names_source, name="krissel_span_extractor")
        nlp.to_disk(path / "pipeline")

    def save(kind="words"):
        return make_once(f"extractor-{kind}", partial(make, kind)) / "pipeline"

    return save


@pytest.fixture(scope="session")
def names_source(toy_store):
    """The names of the toy ontology alone."""
    return PrototypeSource(toy_store, None, mentions_per_entity=0, class_names=False)


@pytest.fixture(scope="session")
def entities_of():
    """Return what a span extractor wrote to a doc, with scores that compare approximately."""

    def read(doc, spans_key="krissel_entities"):
        spans = [
            (span.start, span.end, span.kb_id_, span.id_) for span in doc.spans.get(spans_key, ())
        ]
        entities = [
            (
                each["id"],
                each["name"],
                [pytest.approx(n, abs=2e-4) for n in (each["score"], *each["attention"])],
            )
            for each in doc._.krissel_entities
        ]
        return [(spans, entities)]

    return read


@pytest.fixture
def nlp(save_linker):
    """The pipeline with the small encoder, loaded afresh."""
    return spacy.load(save_linker("small"))


@pytest.fixture
def linker(nlp):
    return nlp.get_pipe("krissel_linker")


@pytest.fixture(scope="session")
def links_of():
    """Return what a linker wrote to a doc, with scores that compare approximately.

    A list that was in a file comes back as a tuple: that is spaCy's way, and no difference.
    """

    def read(doc, spans_key=""):
        links = []
        for span in doc.spans.get(spans_key, ()) if spans_key else doc.ents:
            candidates = [
                {
                    key: pytest.approx(value, abs=1e-5) if isinstance(value, float) else value
                    for key, value in each.items()
                }
                for each in span._.krissel_candidates
            ]
            links.append(
                (
                    span.start,
                    span.end,
                    span.label_,
                    span.kb_id_,
                    candidates,
                    list(span._.krissel_ties),
                )
            )
        return links

    return read
