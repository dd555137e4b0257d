"""`krissel train`: two processes make the steps of `spacy train`, and write what it writes."""

import io
import json
import random
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path

import numpy as np
import pytest
import spacy
from spacy.util import load_config
from tiers import nightly

from spacy_krissel.commands.train_pipeline import _check, _evaluated_by_first, train
from spacy_krissel.distributed.processes import process_rank
from spacy_krissel.errors import KrisselError
from spacy_krissel.pipeline.pipeline_io import find_linker
from spacy_krissel.views import View

pytestmark = pytest.mark.slow

VIEWS = [View("relapses point to ", "MS", " in this woman"), View("", "lung cancer", "")]


@pytest.fixture
def logged_config(configs, toy_overrides, tmp_path):
    """Writes a config of the project for the toy data, with a line a step in `steps.jsonl` of its
    folder."""

    def write(name, folder, **changes):
        path = tmp_path / folder
        path.mkdir()
        overrides = {**toy_overrides.get(name, toy_overrides["small"]), **changes}
        config = load_config(configs / f"{name}.cfg", overrides=overrides, interpolate=False)
        logger = {"@loggers": "spacy-krissel.StepLogger.v1", "path": str(path / "steps.jsonl")}
        config["training"]["logger"] = logger
        config.to_disk(path / "train.cfg")
        return path / "train.cfg"

    return write


def run(config, overrides=None):
    """Train in one of the processes, and return its output."""
    said = io.StringIO()
    with redirect_stdout(said), redirect_stderr(said):
        train(Path(config), Path(config).parent / "out", overrides=overrides, timeout=1)
    return said.getvalue()


def steps(config):
    lines = (config.parent / "steps.jsonl").read_text().splitlines()
    return [json.loads(line)["krissel_linker"] for line in lines]


@pytest.mark.parametrize(
    "name, changes",
    [
        # Of a stream, `spacy train` shows `initialize` the beginning alone.
        (
            "small",
            {
                "components.krissel_linker.objective.chunk_size": 3,
                "training.max_steps": 12,
                "training.max_epochs": 0,
            },
        ),
        nightly("transformer", {"training.max_steps": 3, "training.eval_frequency": 2}),
    ],
)
def test_two_processes_train_as_one(two_processes, logged_config, tiny_bert, capsys, name, changes):
    if name == "transformer":
        no_dropout = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
        model = {"mixed_precision": False, "transformer_config": no_dropout}
        changes = {**changes, "paths.encoder": str(tiny_bert)}
        changes |= {
            f"components.krissel_linker.model.{part}.{key}": value
            for part in ("mention", "reference")
            for key, value in model.items()
        }
    alone, together = (logged_config(name, folder, **changes) for folder in ("alone", "together"))
    train(alone, alone.parent / "out")
    printed = capsys.readouterr().out
    first, second = two_processes(run, str(together), joined=False)
    assert second == ""
    # The same table: epochs, steps, losses, development accuracy.
    table, expected = (
        [line.split()[:4] for line in text.splitlines() if line[:3].strip().isdigit()]
        for text in (first, printed)
    )
    assert len(table) >= 2
    np.testing.assert_allclose(np.array(table, float), np.array(expected, float), atol=0.02)
    assert "in 2 processes" in first and "Saved pipeline" in first
    found, wanted = steps(together), steps(alone)
    assert len(found) == len(wanted) > 3
    np.testing.assert_allclose(
        [each["loss"] for each in found], [each["loss"] for each in wanted], rtol=1e-4
    )
    np.testing.assert_allclose(
        [each["gradient_norm"] for each in found],
        [each["gradient_norm"] for each in wanted],
        rtol=1e-3,
    )
    assert sorted(path.name for path in (together.parent / "out").iterdir()) == [
        "model-best",
        "model-last",
    ]
    vectors, expected = (
        find_linker(spacy.load(config.parent / "out" / "model-last")).encode(VIEWS)
        for config in (together, alone)
    )
    np.testing.assert_allclose(vectors, expected, atol=1e-3)


def test_training_with_dropout_is_reproducible(two_processes, logged_config):
    """Twice the same, and not what there is without."""
    found = []
    for folder, dropout in {"plain": 0.0, "once": 0.5, "again": 0.5}.items():
        config = logged_config(
            "small", folder, **{"training.max_steps": 4, "training.dropout": dropout}
        )
        two_processes(run, str(config), joined=False)
        found.append([step["loss"] for step in steps(config)])
    plain, once, again = found
    assert once == again and len(once) == 5 and once != pytest.approx(plain, rel=1e-3)


def test_missing_seed_raises_in_both_processes(two_processes, logged_config):
    config = logged_config("small", "mistaken", **{"training.seed": None, "system.seed": 0})
    assert all("[K652]" in said for said in two_processes(run, str(config), joined=False))
    assert not list((config.parent / "out").glob("*"))


def check(seed_of_each):
    import spacy
    from thinc.api import fix_random_seed

    from spacy_krissel.views import name_view

    fix_random_seed(0)
    nlp = spacy.blank("en")
    seed = seed_of_each[process_rank()]
    linker = nlp.add_pipe("krissel_linker", config={"model": {**TINY, "seed": seed}})
    linker.model.initialize(X=[name_view("a")])
    _check(nlp)


TINY = {
    "@architectures": "spacy-krissel.SmallEncoder.v1",
    "width": 4,
    "rows": 64,
    "context_rows": 64,
    "hidden": 4,
}


def test_different_initial_weights_raise(two_processes):
    assert two_processes(check, [1, 1]) == [None, None]
    assert all(
        "[K653]" in said and "'krissel_linker'" in said for said in two_processes(check, [1, 2])
    )


def test_unsupported_components_raise():
    nlp = spacy.blank("en")
    nlp.add_pipe("sentencizer")
    nlp.add_pipe("tagger")
    with pytest.raises(KrisselError, match="K651.*'tagger'"):
        _check(nlp)
    nlp.config["training"]["frozen_components"] = ["tagger"]
    _check(nlp)


def evaluated():
    random.seed(0)
    np.random.seed(0)

    def evaluate():
        return {"accuracy": random.random(), "by": process_rank()}

    return _evaluated_by_first(evaluate), random.random()


def test_first_process_evaluates_for_all(two_processes):
    first, second = two_processes(evaluated)
    assert first == second and first[0]["by"] == 0
    # As if the evaluation had drawn nothing.
    random.seed(0)
    assert first[1] == random.random()
