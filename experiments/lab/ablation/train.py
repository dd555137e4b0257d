"""Training of a row's pipeline: its linker and, over that, its re-ranker."""

from copy import deepcopy
from itertools import chain
from pathlib import Path
from typing import Any

from spacy.util import load_config

from spacy_krissel.building.sources import PrototypeSource
from spacy_krissel.commands.build_prototypes import build_prototypes
from spacy_krissel.commands.train_pipeline import train
from spacy_krissel.pipeline.pipeline_io import load_pipeline, save_pipeline, save_whole
from spacy_krissel.util.atomic import commit_folder, temporary_folder

# Registers what SapBERT is compared with.
from .. import biosyn as biosyn
from .. import losses as losses
from .settings import Ablation

LINKER, RERANKER = "krissel_linker", "krissel_reranker"
# Beside the pipeline, where the config logs steps.
STEPS = "steps.jsonl"
STEP_LOGGER = "spacy-krissel.StepLogger.v1"


def train_linker(
    ablation: Ablation, name: str, seed: int, output: Path, *, gpu_id: int = -1
) -> None:
    """Run `krissel train` with the overrides of row `name`, and save the last pipeline, without
    knowledge base, to `output`.

    If the config has `StepLogger` without a path, its lines are written to `steps.jsonl` next to
    the output.
    """
    row, training = ablation.rows[name], ablation.train
    # spaCy writes into sections that are given whole.
    overrides = deepcopy(_followed(_data(ablation, name, seed), training.overrides, row.train))
    with temporary_folder(output) as folder:
        steps = folder / STEPS
        logged = _logged_to(steps, training.config)
        train(training.config, folder, gpu_id=gpu_id, overrides={**logged, **overrides})
        commit_folder(folder / "model-last", output)
        if steps.exists():
            steps.rename(output.parent / STEPS)


def train_reranker(
    ablation: Ablation, name: str, seed: int, linker: Path, output: Path, *, gpu_id: int = -1
) -> None:
    """Train row `name`'s re-ranker over the pipeline at `linker`; save both, without knowledge
    base, to `output`.

    It learns from candidates of a knowledge base that lacks the held-out names.
    """
    row, training = ablation.rows[name], ablation.reranker
    assert training is not None, "called where there is a re-ranker to train"
    knowledge = ablation.train
    ontology = row.ontology or knowledge.ontology
    with temporary_folder(output) as folder:
        nlp = load_pipeline(linker)
        settings = {**row.prototypes.model_dump(), "held_out": training.held_out, "seed": seed}
        mined = knowledge.mined(row.mined_aliases)
        build_prototypes(
            nlp, PrototypeSource(ontology, mined, **settings), name=LINKER, progress=True
        )
        save_pipeline(nlp, folder / "linker", name=LINKER)
        data = {"paths.linker": str(folder / "linker"), **_data(ablation, name, seed)}
        overrides = deepcopy(_followed(data, training.overrides, row.reranker))
        train(training.config, folder / "out", gpu_id=gpu_id, overrides=overrides)
        # The linker came back with the smaller knowledge base; what is kept is the one that went
        # in.
        nlp = load_pipeline(linker)
        nlp.add_pipe(RERANKER, source=load_pipeline(folder / "out" / "model-last"))
        save_whole(nlp.to_disk, output)


def _followed(*overrides: dict[str, Any]) -> dict[str, Any]:
    """All of them, those of the last at the end: a section that it gives whole does not undo its
    own values there."""
    found: dict[str, Any] = {}
    for key, value in chain.from_iterable(each.items() for each in overrides):
        found.pop(key, None)
        found[key] = value
    return found


def _logged_to(path: Path, config: Path) -> dict[str, Any]:
    logger = load_config(config)["training"].get("logger", {})
    has_none = logger.get("@loggers") == STEP_LOGGER and logger.get("path") is None
    return {"training.logger.path": str(path)} if has_none else {}


def _data(ablation: Ablation, name: str, seed: int) -> dict[str, Any]:
    """Return the overrides of both training configs, by their common names.

    Without mined aliases the development corpus is unchanged: held-out names are aliases.
    """
    knowledge = ablation.train
    overrides: dict[str, Any] = {
        "paths.ontology": str(ablation.rows[name].ontology or knowledge.ontology),
        "system.seed": seed,
    }
    if knowledge.mentions is not None:
        overrides["paths.mentions"] = str(knowledge.mentions)
    without: Path | None = knowledge.mentions_without_aliases
    if not ablation.rows[name].mined_aliases:
        overrides["corpora.train.mentions"] = str(without)
    return overrides
