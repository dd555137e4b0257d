"""Trains, evaluates, saves, loads and uses each config on the stand-ins, in a process of its own.

Reads JSON from standard input: `paths`, those that the configs' [paths] may need, `only`, the
configs, and `out`, a folder. Writes `out`/report.json.
"""

import json
import sys
import time
import traceback
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import cupy
import numpy as np
import spacy
import torch_device
from traffic import counted, totals

sys.path.insert(0, str(Path(__file__).parents[1] / "gpu_standin"))
torch_device.install()

from standin_rules import outcomes  # noqa: E402
from thinc.api import require_gpu, use_ops  # noqa: E402
from toy_links import TEXTS, link  # noqa: E402

from spacy_krissel.building.sources import PrototypeSource  # noqa: E402
from spacy_krissel.commands.build_prototypes import build_prototypes, prototypes  # noqa: E402
from spacy_krissel.commands.distill_encoder import distill  # noqa: E402
from spacy_krissel.commands.train_pipeline import train  # noqa: E402
from spacy_krissel.evaluation.evaluate import evaluate  # noqa: E402
from spacy_krissel.layers.features import Bags  # noqa: E402
from spacy_krissel.layers.hashed_bags import HashedBags  # noqa: E402
from spacy_krissel.losses.focal import FocalLoss  # noqa: E402
from spacy_krissel.losses.multi_similarity import MultiSimilarity  # noqa: E402
from spacy_krissel.losses.proxy import ProxyLoss  # noqa: E402
from spacy_krissel.losses.softmax import SoftmaxLoss  # noqa: E402
from spacy_krissel.ontology.store import OntologyStore  # noqa: E402
from spacy_krissel.pipeline.pipe import KrisselPipe  # noqa: E402
from spacy_krissel.training.scores import label_pairs  # noqa: E402
from spacy_krissel.views import View  # noqa: E402

CONFIGS = Path(__file__).parents[2] / "configs"
LINKER, RERANKER, EXTRACTOR = "krissel_linker", "krissel_reranker", "krissel_span_extractor"
# The step whose traffic is reported: in the first, hard negatives are encoded.
STEP = 1
STEPS = {"training.max_steps": 3, "training.eval_frequency": 2, "training.max_epochs": 0}
SMALL = {"width": 16, "rows": 2048, "context_rows": 1024, "hidden": 8}


def under(prefix: str, **settings: Any) -> dict[str, Any]:
    """Return overrides of a section."""
    return {f"{prefix}.{name}": value for name, value in settings.items()}


def model(component: str, part: str = "", **settings: Any) -> dict[str, Any]:
    """Return overrides of a component's model, or of a layer of it."""
    return under(f"components.{component}.model{part}", **settings)


PAIRS = {"training.batcher.pairs": 4, "corpora.train.held_out": 0.3}
GOLD = {"corpora.train.dev_share": 0.4, "training.batcher.size": 4}
PEL = {**model(LINKER, ".mention", window=32), **model(LINKER, ".reference", window=32)}
SEARCH = under(f"components.{LINKER}.objective", n_negatives=4, refresh_every=2)
NAMES = under(f"components.{LINKER}.objective", n_candidates=4, refresh_every=2)
PIECES = model(EXTRACTOR, ".tokens", window=32)
# In an order in which each comes after those that it starts from.
OVERRIDES: dict[str, dict[str, Any]] = {
    "small": {**PAIRS, **model(LINKER, **SMALL)},
    "small-references": {
        **PAIRS,
        **model(LINKER, ".mention", **SMALL),
        **model(LINKER, ".reference", **SMALL),
    },
    "transformer": PAIRS,
    "krissbert": {**PAIRS, **model(LINKER, ".reference", window=64)},
    "sapbert": PAIRS,
    "sapbert-fine-tune": {"training.batcher.pairs": 4, "corpora.train.dev_share": 0.4},
    "supervised": {
        "training.batcher.pairs": 4,
        "corpora.train.dev_share": 0.4,
        **model(LINKER, **SMALL),
    },
    "pel": {**GOLD, **PEL, **SEARCH},
    "belhd": {
        **GOLD,
        **NAMES,
        **model(LINKER, width=16),
        **model(LINKER, ".encoder", window=32),
        "training.accumulate_gradient": 2,
    },
    "reranker": {
        "corpora.train.held_out": 0.3,
        "training.batcher.size": 16,
        **model(RERANKER, ".encoder", rows=2048, context_rows=1024),
        **under(f"components.{RERANKER}.objective", n_candidates=8),
    },
    "reranker-pairs": {
        "corpora.train.held_out": 0.3,
        **model(RERANKER, window=24, candidate_window=24),
        **under(f"components.{RERANKER}.objective", n_candidates=4),
    },
    "pel-ranker": {
        **GOLD,
        **model(RERANKER, window=32, candidate_window=32),
        **under(f"components.{RERANKER}.objective", p_nil=0.4),
    },
    "oslat-alignment": PAIRS,
    "oslat": PIECES,
    "oslat-classifier": PIECES,
    "oslat-small": {
        **model(EXTRACTOR, ".tokens.encoder", **SMALL),
        f"components.{EXTRACTOR}.threshold": 0.0,
    },
}
# What the [paths] of some configs hold, by the name of an earlier config.
STARTS = {
    ("reranker", "linker"): "small",
    ("reranker-pairs", "linker"): "small",
    ("pel-ranker", "linker"): "pel",
    ("oslat", "aligned"): "oslat-alignment",
    ("oslat-classifier", "attention"): "oslat",
}
# Prototypes that the papers have; of the others names and mined mentions.
PROTOTYPES: dict[str, dict[str, Any]] = {
    "pel": {
        "names": False,
        "use_references": False,
        "reference_prototypes": True,
        "mentions_per_entity": 0,
    },
    "belhd": {"mentions_per_entity": 0, "class_names": False},
}


class Steps:
    """Traffic of each training step: an update of a component, and the step of its optimizer."""

    def __init__(self) -> None:
        self.done: list[Counter] = []
        self._now: Counter = Counter()

    def __enter__(self) -> "Steps":
        self._methods = KrisselPipe.update, KrisselPipe.finish_update
        KrisselPipe.update = self._counting(self._methods[0], False)  # type: ignore[method-assign]
        KrisselPipe.finish_update = self._counting(self._methods[1], True)  # type: ignore[method-assign]
        return self

    def __exit__(self, *_: object) -> None:
        KrisselPipe.update, KrisselPipe.finish_update = self._methods  # type: ignore[method-assign]

    def _counting(self, method: Callable, is_end: bool) -> Callable:
        def call(pipe: Any, *args: Any, **kwargs: Any) -> Any:
            with counted() as found:
                result = method(pipe, *args, **kwargs)
            self._now += found
            if is_end:
                self.done.append(self._now)
                self._now = Counter()
            return result

        return call


def run_config(name: str, paths: dict[str, str], out: Path) -> dict[str, Any]:
    """Train a config for a few steps, give it a knowledge base, load it and use it."""
    config = spacy.util.load_config(CONFIGS / f"{name}.cfg")
    starts = {
        key: str(out / start / "pipeline") for (own, key), start in STARTS.items() if own == name
    }
    found = {f"paths.{key}": {**paths, **starts}[key] for key in config["paths"]}
    if "logger" in config["training"]:
        found["training.logger.path"] = str(out / name / "log.jsonl")
    with Steps() as steps:
        train(
            CONFIGS / f"{name}.cfg",
            out / name,
            gpu_id=0,
            overrides={**STEPS, **OVERRIDES[name], **found},
        )
    trained = out / name / "model-last"
    pipeline = out / name / "pipeline"
    component = next(each for each in (RERANKER, EXTRACTOR, LINKER) if each in config["components"])
    if component == LINKER:
        settings = {"progress": False, **PROTOTYPES.get(name, {})}
        mined = None if settings.get("mentions_per_entity") == 0 else Path(paths["mentions"])
        prototypes(trained, pipeline, Path(paths["ontology"]), mined, gpu_id=0, **settings)
    else:
        nlp = spacy.load(trained)
        if component == EXTRACTOR:
            source = PrototypeSource(
                OntologyStore(paths["ontology"]), None, mentions_per_entity=0, class_names=False
            )
            build_prototypes(nlp, source, name=EXTRACTOR)
        nlp.to_disk(pipeline)
    nlp = spacy.load(pipeline)
    with counted() as batch:
        links = link(nlp)
    return {
        "step": totals(steps.done[STEP]),
        "step by function": by_function(steps.done[STEP]),
        "batch": totals(batch),
        "batch by function": by_function(batch),
        "links": links,
        "pipeline": str(pipeline),
    }


# Whatever else computes on a device ---------------------------------------------------------------


def evaluated(name: str) -> Callable:
    def use(paths: dict[str, str], out: Path) -> float:
        report = evaluate(
            out / name / "pipeline",
            Path(paths["gold"]),
            ontology=Path(paths["ontology"]),
            output=out / name / "metrics",
        )
        return float(report.data["strict"])

    return use


def distilled(paths: dict[str, str], out: Path) -> float:
    return distill(out / "transformer" / "pipeline", out / "distilled", passes=1)


def in_chunks(name: str, **changes: Any) -> Callable:
    """Train with dropout, cached gradients, clipping and averages, none of which the toy sizes
    need."""

    def use(paths: dict[str, str], out: Path) -> float:
        config = spacy.util.load_config(CONFIGS / f"{name}.cfg")
        found = {f"paths.{key}": paths[key] for key in config["paths"]}
        settings = {
            "training.dropout": 0.2,
            "training.max_steps": 2,
            "training.optimizer.grad_clip": 0.01,
            "training.optimizer.use_averages": True,
            f"components.{LINKER}.objective.chunk_size": 3,
        }
        overrides = {**STEPS, **OVERRIDES[name], **found, **settings}
        train(CONFIGS / f"{name}.cfg", out / f"{name}-chunks", gpu_id=0, overrides=overrides)
        nlp = spacy.load(out / f"{name}-chunks" / "model-last")
        return float(np.isfinite(nlp.get_pipe(LINKER).encode([View("", "flu", "")])).all())

    return use


def asked_of_extractor(paths: dict[str, str], out: Path) -> float:
    nlp = spacy.load(out / "oslat-small" / "pipeline")
    pipe, doc = nlp.get_pipe(EXTRACTOR), nlp.make_doc(TEXTS[0][0])
    found = pipe.extract(doc, ["T01", "T04"])
    answers = [each.score for each in found.values()]
    answers += pipe.scores([doc], ["T01", "T04"])[0].tolist()
    answers += pipe.scores_at(doc, {"T01": [6, 7], "T04": [0]}).values()
    return float(min(answers))


def moved(paths: dict[str, str], out: Path) -> float:
    """Move the models of a loaded pipeline to the host and back. Return the largest difference."""
    largest = 0.0
    for name in ("small", "transformer"):
        linker = spacy.load(out / name / "pipeline").get_pipe(LINKER)
        before = linker.encode([View("a ", "flu", "")])
        linker.model.to_cpu()
        linker.model.to_gpu(0)
        largest = max(largest, float(np.abs(linker.encode([View("a ", "flu", "")]) - before).max()))
    return largest


def losses_differ(paths: dict[str, str], out: Path) -> float:
    """Return the largest difference of a loss, or of its gradient, from NumPy's."""
    sys.path.insert(0, str(CONFIGS.parent / "experiments"))
    from lab import losses as lab

    random = np.random.default_rng(0)
    scores = random.uniform(-1, 1, (6, 6)).astype("float32")
    labels = np.array([0, 0, 1, 1, 2, 3])
    positives, negatives = label_pairs(labels)
    on_device = [cupy.asarray(each) for each in (scores, positives, negatives)]
    found = [
        FocalLoss(),
        ProxyLoss(),
        MultiSimilarity(),
        *(SoftmaxLoss(0.1, each) for each in ("pairs", "mean", "sum")),
        *(
            getattr(lab, name)()
            for name in ("Circle", "CosinePairs", "LiftedStructure", "NCA", "MaxMarginTriplet")
        ),
    ]
    largest = 0.0
    for loss in found:
        gradient, value = loss(*on_device)
        expected, expected_value = loss(scores, positives, negatives)
        largest = max(
            largest, abs(value - expected_value), float(np.abs(gradient.get() - expected).max())
        )
    return largest


def bags_differ(paths: dict[str, str], out: Path) -> float:
    """Return the largest difference of hashed bags, or of their table's gradient, from NumPy's."""
    bags = Bags(np.array([5, 3, 5, 9, 3]), np.array([0, 0, 2, 2, 2]))
    dY = np.random.default_rng(0).normal(size=(3, 4)).astype("float32")
    found = []
    for name in ("numpy", "cupy"):
        with use_ops(name):
            model = HashedBags(16, 4, lambda views: bags)
            model.initialize()
            Y, backprop = model(["a", "", "b"], True)
            backprop(model.ops.asarray(dY))
            (each,) = model.shims[0]._gradients
            found.append([model.ops.to_numpy(array) for array in (Y, *each)])
    return max(float(np.abs(a - b).max()) for a, b in zip(*found, strict=True))


USES: dict[str, Callable[[dict[str, str], Path], float]] = {
    "evaluate a linker": evaluated("small"),
    "evaluate a re-ranker": evaluated("reranker"),
    "distil a transformer": distilled,
    "train the small encoder in chunks": in_chunks("small"),
    "train a transformer in chunks": in_chunks("krissbert"),
    "ask an extractor about entities": asked_of_extractor,
    "move models between devices": moved,
    "losses": losses_differ,
    "hashed bags": bags_differ,
}


def by_function(events: Counter) -> dict[str, int]:
    return {f"{kind} {where}": n for (kind, where), n in sorted(events.items())}


def main() -> None:
    given = json.loads(sys.stdin.read())
    out = Path(given["out"])
    require_gpu(0)
    report: dict[str, Any] = {}
    for name in OVERRIDES:
        if name not in given["only"]:
            continue
        began = time.process_time()
        try:
            report[name] = run_config(name, given["paths"], out)
        except Exception:
            report[name] = {"error": traceback.format_exc()}
        report[name]["seconds"] = time.process_time() - began
    uses: dict[str, Any] = {}
    for name, use in USES.items():
        try:
            uses[name] = use(given["paths"], out)
        except Exception:
            uses[name] = traceback.format_exc()
    whole = {"rules": outcomes(), "configs": report, "uses": uses}
    (out / "report.json").write_text(json.dumps(whole, indent=1))


if __name__ == "__main__":
    main()
