"""All configs on a device that is not there: `tests/standin` has stand-ins for CuPy and for torch's
CUDA, which refuse what these refuse and count copies and waits. They run in a process of their own,
once for all tests, so that no other test ever sees them."""

import json
import os
import subprocess
import sys
from functools import cache, partial
from pathlib import Path

import pytest
import spacy
from spacy.tokens import Doc, DocBin
from standin_rules import RULES
from tiers import first_of
from toy_links import link

from spacy_krissel.corpora.convert import read_docs

pytestmark = pytest.mark.slow

STANDIN = Path(__file__).parents[1] / "standin"
CONFIGS = sorted(path.stem for path in (Path(__file__).parents[2] / "configs").glob("*.cfg"))
# One of each component, and both kinds of encoder; with them all of `USES`.
FEW = ("small", "transformer", "reranker", "oslat-small")
each_config = pytest.mark.parametrize("name", first_of(CONFIGS, *FEW))


# Copies to the device, copies to the host, and waits: of one training step, and of four docs linked
# at once. The transformers library's own waits, one per pass, are not among them.
EXPECTED = {
    "belhd": ((17, 5, 3), (3, 1, 0)),
    "krissbert": ((3, 0, 4), (1, 1, 0)),
    "oslat": ((3, 0, 2), (9, 8, 0)),
    "oslat-alignment": ((2, 0, 1), (1, 1, 0)),
    "oslat-classifier": ((2, 0, 2), (9, 8, 0)),
    "oslat-small": ((2, 0, 2), (13, 8, 0)),
    "pel": ((5, 1, 3), (1, 1, 0)),
    "pel-ranker": ((7, 1, 4), (3, 2, 0)),
    "reranker": ((16, 3, 2), (16, 5, 0)),
    "reranker-pairs": ((9, 1, 2), (7, 2, 0)),
    "sapbert": ((2, 0, 1), (1, 1, 0)),
    "sapbert-fine-tune": ((2, 0, 1), (1, 1, 0)),
    "small": ((4, 0, 2), (5, 1, 0)),
    "small-references": ((9, 0, 4), (5, 1, 0)),
    "supervised": ((4, 0, 2), (5, 1, 0)),
    "transformer": ((4, 0, 4), (2, 1, 0)),
}
# Why each file of the package copies or waits; anything else is a finding. `tests/standin/count.py`
# prints how often each of its functions does.
REASONS = {
    "to_device": {
        "layers/hashed_bags.py": "rows and bags of a table: one copy forward, one backward",
        "layers/heads.py": (
            "thinc's layer norm makes an array of one number, twice forward and back"
        ),
        "layers/hf/cross_encoder.py": "the linker's log-odds, which an unbounded head replaces",
        "layers/hf/passes.py": "word pieces of all passes and their order, in one copy",
        "layers/hf/transformer.py": "which views also have a vector of the name alone",
        "layers/list_cross_encoder.py": "features and vectors of candidates, and their mentions",
        "layers/referenced.py": "the order of mentions and references",
        "layers/small.py": "which surface form each view has",
        "pipeline/extractor.py": "names of the knowledge base, twice per doc",
        "training/objectives/belhd.py": "which candidates are right and wrong",
        "training/objectives/oslat.py": "the rows of all names",
        "training/objectives/pel.py": "the entity and the negatives of each mention",
        "training/objectives/reranking.py": "the linker's log-odds",
        "training/objectives/sapbert.py": "the entity of each name",
        "training/scores.py": "where values of ragged rows are, and which are positives",
    },
    "to_host": {
        "layers/label_attention.py": "probabilities, once per doc",
        "layers/list_cross_encoder.py": "vectors of mentions and of new names, to be kept",
        "pipeline/extractor.py": "attention of the found entities, once per doc",
        "pipeline/kb_pipe.py": "vectors that an index on the host searches for",
        "pipeline/reranker.py": "corrections",
        "training/data/negatives.py": "vectors that an index on the host searches for or holds",
        "training/objectives/belhd.py": "scores, of which the host shares candidates",
    },
    "waits": {
        "pipeline/pipe.py": "the gradient's norm, which is logged",
        "losses/focal.py": "the loss",
        "losses/multi_similarity.py": "the loss",
        "losses/proxy.py": "the loss",
        "losses/softmax.py": "the loss, and with one positive per query how many there are",
    },
}
# What else is done on the device, with the least and the greatest result.
USES = {
    "evaluate a linker": (0.5, 1),
    "evaluate a re-ranker": (0.5, 1),
    "distil a transformer": (0, 1),
    "train the small encoder in chunks": (1, 1),
    "train a transformer in chunks": (1, 1),
    "ask an extractor about entities": (0, 1),
    "move models between devices": (0, 1e-6),
    "losses": (0, 1e-6),
    "hashed bags": (0, 1e-6),
}


@pytest.fixture(scope="session")
def report_of(toy_files, toy_store, toy_shards, toy_names, tiny_bert, make_once):
    """Gives the worker's report on the few configs, or on all of them if it is to have another;
    `STANDIN_REPORT` names a file that is to have that of all too."""

    def make(folder, only):
        paths = {"ontology": toy_store.path, "mentions": toy_shards, "encoder": tiny_bert}
        paths |= write_docs(folder, toy_files / "gold.pubtator", toy_names)
        paths = {key: str(path) for key, path in paths.items()}
        run_worker({"out": str(folder), "paths": paths, "only": only})

    @cache
    def get(name):
        if name in FEW:
            folder = make_once("standin-few", partial(make, only=FEW))
        else:
            folder = make_once("standin-all", partial(make, only=CONFIGS))
        content = (folder / "report.json").read_text()
        if "STANDIN_REPORT" in os.environ and name not in FEW:
            Path(os.environ["STANDIN_REPORT"]).write_text(content)
        return json.loads(content)

    return get


def write_docs(folder, gold_file, toy_names):
    """Write gold documents of several mentions, and texts that have entities as categories."""
    nlp = spacy.blank("en")
    docs = list(read_docs(gold_file, nlp))
    gold, texts = DocBin(store_user_data=True), DocBin()
    for doc in docs:
        doc.user_data.clear()
    for copy in range(4):
        joined = Doc.from_docs([doc for i, doc in enumerate(docs) if (i + copy) % 2])
        joined.user_data["krissel_id"] = f"doc {copy}"
        gold.add(joined)
    for number, (entity, names) in enumerate(toy_names.items()):
        for name in names[:3]:
            doc = nlp.make_doc(f"the patient had {name} in acute fever number {number}")
            doc.cats = {entity: 1.0}
            texts.add(doc)
    gold.to_disk(folder / "gold.spacy")
    texts.to_disk(folder / "texts.spacy")
    return {
        key: folder / f"{name}.spacy"
        for key, name in {"gold": "gold", "dev": "gold", "texts": "texts"}.items()
    }


def run_worker(given):
    paths = [str(STANDIN), *filter(None, [os.environ.get("PYTHONPATH")])]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(paths), "OMP_NUM_THREADS": "1"}
    command = [sys.executable, str(STANDIN / "worker.py")]
    found = subprocess.run(
        command, input=json.dumps(given), env=environment, capture_output=True, text=True
    )
    assert found.returncode == 0, found.stdout + found.stderr


def test_the_stand_in_behaves_like_cupy(report_of):
    assert report_of(FEW[0])["rules"] == RULES


@each_config
def test_each_config_trains_evaluates_saves_and_loads_on_a_device(report_of, name):
    found = report_of(name)["configs"][name]
    assert "error" not in found, found["error"]
    assert any(found["links"])


@each_config
def test_a_pipeline_trained_on_a_device_links_the_same_on_the_cpu(report_of, name):
    found = report_of(name)["configs"][name]
    for links, expected in zip(link(spacy.load(found["pipeline"])), found["links"], strict=True):
        assert dict(links) == pytest.approx(dict(expected), abs=1e-5)


@each_config
def test_copies_and_waits_per_step_and_batch_are_as_expected(report_of, name):
    found = report_of(name)["configs"][name]
    kinds = ("to_device", "to_host", "waits")
    numbers = tuple(tuple(found[part][kind] for kind in kinds) for part in ("step", "batch"))
    functions = {part: found[f"{part} by function"] for part in ("step", "batch")}
    assert numbers == EXPECTED[name], functions
    for each in {function for part in functions.values() for function in part}:
        kind, _, where = each.partition(" ")
        assert where == "transformers" or where.partition(":")[0] in REASONS[kind], each


@pytest.mark.parametrize("name", USES)
def test_device_use_is_within_its_bounds(report_of, name):
    least, greatest = USES[name]
    found = report_of(FEW[0])["uses"][name]
    assert not isinstance(found, str), found
    assert least <= found <= greatest
