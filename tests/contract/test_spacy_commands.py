"""spaCy's own commands, on every config that ships and on a pipeline of each component."""

import json
from pathlib import Path

import pytest
import spacy
import spacy.cli
from components import EXTRACTORS, LINKERS, each_model, each_pipe
from spacy.cli._util import app
from spacy.tokens import DocBin
from spacy.util import load_config
from tiers import first_of
from typer.testing import CliRunner

from spacy_krissel.errors import KrisselError, KrisselWarning

CONFIGS = sorted(path.stem for path in (Path(__file__).parents[2] / "configs").glob("*.cfg"))
# One config for each component, in the order of `each_model`.
TRAINED = {
    "krissel_linker": "small",
    "krissel_reranker": "reranker",
    "krissel_span_extractor": "oslat-small",
}
FIRST_LINKER = pytest.mark.parametrize("component", LINKERS[:1], indirect=True)
pytestmark = pytest.mark.slow


@pytest.fixture
def run():
    """Runs a command of spaCy's. RETURNS: what it printed. code: None for a command that may end as
    it likes."""

    def run(*args, code=0):
        result = CliRunner().invoke(app, list(map(str, args)))
        if code is None:
            return result.output
        if result.exception and not isinstance(result.exception, SystemExit):
            raise result.exception
        assert result.exit_code == code, result.output
        return result.output

    return run


@pytest.fixture
def paths(
    toy_store,
    toy_shards,
    tiny_bert,
    save_linker,
    save_extractor,
    make_examples,
    make_text_examples,
    tmp_path,
):
    """Return a value for each setting of [paths] on the toy data."""
    nlp = spacy.blank("en")
    for name, make in {"gold": make_examples, "texts": make_text_examples}.items():
        DocBin(docs=[example.reference for example in make(nlp)]).to_disk(
            tmp_path / f"{name}.spacy"
        )
    return {
        "ontology": toy_store.path,
        "mentions": toy_shards,
        "encoder": tiny_bert,
        "gold": tmp_path / "gold.spacy",
        "dev": tmp_path / "gold.spacy",
        "texts": tmp_path / "texts.spacy",
        "linker": save_linker("small"),
        "aligned": save_linker("transformer"),
        "attention": save_extractor("pieces"),
    }


@pytest.fixture
def filled(run, configs, paths, tmp_path):
    """A config that ships, on the toy data and filled. RETURNS: its path, and what it was made
    of."""

    def fill(name):
        base = load_config(configs / f"{name}.cfg", interpolate=False)
        base["paths"].update({key: str(paths[key]) for key in base["paths"]})
        # The toy corpora are as small as can be: a part of them may be nothing.
        train = base["corpora"]["train"]
        train.update({key: 0.3 for key in ("held_out", "dev_share") if key in train})
        base.to_disk(tmp_path / "base.cfg")
        run("init", "fill-config", tmp_path / "base.cfg", tmp_path / "filled.cfg")
        return tmp_path / "filled.cfg", base

    return fill


def missing(given, found, at=""):
    """The settings of `given` that `found` lacks or has otherwise."""
    for key, value in given.items():
        if isinstance(value, dict) and isinstance(found.get(key), dict):
            yield from missing(value, found[key], f"{at}{key}.")
        elif found.get(key) != value:
            yield f"{at}{key}"


@pytest.mark.parametrize("name", first_of(CONFIGS, *TRAINED.values(), "krissbert"))
def test_every_shipped_config_is_valid(run, filled, name, tmp_path):
    """Filled it keeps what it says, filling it again changes nothing, and `debug config` finds all
    functions."""
    path, base = filled(name)
    assert list(missing(base, load_config(path, interpolate=False))) == []
    run("init", "fill-config", path, tmp_path / "again.cfg")
    assert (tmp_path / "again.cfg").read_text() == path.read_text()
    assert "Config is valid" in run("debug", "config", path, "--show-variables")


@each_model
def test_debug_data_works(run, filled, component):
    path, _ = filled(TRAINED[component.name])
    if component.name == "krissel_reranker":
        # It initializes frozen components too, by which a linker loses its knowledge base.
        with pytest.raises(KrisselError, match="K617"), pytest.warns(KrisselWarning, match="KW601"):
            run("debug", "data", path)
        return
    # It finds fault with the number of the toy texts.
    assert "Corpus is loadable" in run("debug", "data", path, code=None)


@pytest.mark.parametrize("component", [LINKERS[0], EXTRACTORS[0]], indirect=True)
@pytest.mark.filterwarnings("ignore:.KW625")
def test_debug_model_trains(run, filled, component):
    """On the first five examples, in which nothing may be twice. Its last step gives docs to the
    model itself, as if all models read docs: these read mentions or texts, and what is printed of
    the training is all."""
    path, _ = filled(TRAINED[component.name])
    found = run("debug", "model", path, component.name, "-P0", "-P1", "-P2", code=None)
    assert "STEP 1 - after initialization" in found and "STEP 2 - after training" in found


@each_model
def test_assemble_works(run, filled, component, tmp_path):
    path, _ = filled(TRAINED[component.name])
    run("assemble", path, tmp_path / "assembled")
    assert component.name in spacy.load(tmp_path / "assembled").pipe_names


@pytest.fixture
def gold(component, tmp_path):
    nlp = spacy.blank("en")
    DocBin(docs=[example.reference for example in component.examples(nlp)]).to_disk(
        tmp_path / "gold.spacy"
    )
    return tmp_path / "gold.spacy"


@each_pipe
def test_benchmark_speed_works(run, component, gold):
    assert "Mean" in run(
        "benchmark",
        "speed",
        component.save(),
        gold,
        "--batch-size",
        1,
        "--batches",
        30,
        "--warmup",
        0,
    )


@each_model
def test_evaluate_works(run, component, gold, tmp_path):
    run("evaluate", component.save(), gold, "--output", tmp_path / "scores.json")
    scores = json.loads((tmp_path / "scores.json").read_text())
    assert scores["speed"] > 0 and any(key.startswith("krissel_") for key in scores)
    run("benchmark", "accuracy", component.save(), gold, "--gold-preproc")


@FIRST_LINKER
def test_find_threshold_works(run, component, gold, tmp_path):
    nlp = component.load()
    mentions = {ent.text for example in component.examples(nlp) for ent in example.reference.ents}
    ruler = nlp.add_pipe("entity_ruler", before="krissel_linker")
    ruler.add_patterns([{"label": "MENTION", "pattern": mention} for mention in mentions])
    nlp.to_disk(tmp_path / "pipeline")
    out = run(
        "find-threshold",
        tmp_path / "pipeline",
        gold,
        "krissel_linker",
        "threshold",
        "krissel_acc",
        "--n_trials",
        3,
    )
    assert "Best threshold" in out


@each_pipe
def test_apply_links_like_the_pipeline(run, component, tmp_path):
    """On texts and on docs: with their entities these are linked as by the pipeline itself."""
    nlp = component.load()
    (tmp_path / "texts").mkdir()
    (tmp_path / "texts" / "a.txt").write_text("relapses point to MS\n\nflu")
    run("apply", component.save(), tmp_path / "texts", tmp_path / "texts.spacy")
    assert len(list(DocBin().from_disk(tmp_path / "texts.spacy").get_docs(nlp.vocab))) == 1
    DocBin(docs=component.docs(nlp)).to_disk(tmp_path / "docs.spacy")
    run(
        "apply",
        component.save(),
        tmp_path / "docs.spacy",
        tmp_path / "linked.spacy",
        "--batch-size",
        2,
    )
    linked = DocBin().from_disk(tmp_path / "linked.spacy").get_docs(nlp.vocab)
    assert [component.links(doc) for doc in linked] == component.run(nlp)


@each_pipe
def test_a_packaged_pipeline_links_like_the_original(run, component, tmp_path):
    (tmp_path / "packages").mkdir()
    run(
        "package",
        component.save(),
        tmp_path / "packages",
        "--name",
        "toy",
        "--version",
        "1.0.0",
        "--build",
        "none",
    )
    (package,) = (tmp_path / "packages").iterdir()
    (model,) = (path.parent for path in package.rglob("config.cfg"))
    assert "spacy-krissel" in (package / "meta.json").read_text()
    assert component.run(spacy.load(model)) == component.run(component.load())
