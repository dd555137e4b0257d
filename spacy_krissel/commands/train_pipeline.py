"""Training as by `spacy train`, in one process or in several that train one pipeline together."""

import os
import signal
import sys
import warnings
from collections.abc import Callable, Container, Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field
from spacy.cli._util import import_code, show_validation_error
from spacy.language import Language
from spacy.schemas import ConfigSchemaTraining
from spacy.training.initialize import init_nlp
from spacy.training.loop import (
    DIR_MODEL_BEST,
    DIR_MODEL_LAST,
    create_before_to_disk_callback,
    create_evaluation_callback,
    create_train_batches,
    train_while_improving,
    update_meta,
)
from spacy.util import load_config, registry, resolve_dot_names
from thinc.api import ConfigValidationError, fix_random_seed, set_gpu_allocator
from wasabi import msg

from ..distributed.processes import (
    all_equal,
    broadcast_from_rank_zero,
    local_gpu,
    n_processes,
    process_group,
    process_rank,
)
from ..distributed.random_state import capture_rng, replay_rng
from ..errors import Errors, KrisselError, wrong_setting
from ..layers.identity import fingerprint
from ..pipeline.pipe import KrisselPipe
from ..pipeline.pipeline_io import check_pipeline_output, choose_gpu, save_whole
from ..util.atomic import copy_folder, hard_linking
from ..util.disk import coded_io
from ..util.progress import progress_bar
from ..util.settings import NotNegative, checked

SILENT = {"@loggers": "spacy.ConsoleLogger.v1", "progress_bar": False}
RATE = "training.optimizer.learn_rate"
# Settings of [training] that `train_while_improving` takes.
STEP_SETTINGS = (
    "dropout",
    "accumulate_gradient",
    "patience",
    "max_steps",
    "eval_frequency",
    "before_update",
)


@checked
def train(
    config: str | Path,
    output: str | Path | None = None,
    *,
    code: Path | None = None,
    gpu_id: Annotated[int, Field(ge=-1)] = -1,
    overrides: dict[str, Any] | None = None,
    timeout: NotNegative = 60.0,
    progress: bool = False,
) -> None:
    """Train an encoder on a CPU, a GPU or several machines.

    `spacy train`, for several GPUs too:

    torchrun --nproc-per-node 4 -m spacy krissel train CONFIG --output OUTPUT --gpu-id 0

    Each batch is divided among the processes, with the same gradient as in one process. Without a
    launcher this is `spacy train`, with these differences: `model-best` and `model-last` are
    complete at any moment; `initialize` sees all of a stream; a learning rate with `total_steps`
    ends with the training, unless that option is set: after `max_steps` or the batches of its
    epochs, whichever are fewer, with `warmup_steps` in proportion. An `eval_frequency` of 0
    evaluates once per epoch.

    Further options override the config: --training.max_steps 100

    config: A training config, such as configs/transformer.cfg
    output: Folder of model-best and model-last
    code: Python file with registered functions
    gpu_id: GPU, or -1 for the CPU; with several processes the first one's, the next process uses
        the next GPU
    overrides: overrides of the config, by dotted key
    timeout: Minutes after which a process stops waiting for the others: longer than an evaluation
        takes
    progress: show a progress bar, unless the config's logger has one

    Only the first process writes to `output`, logs and measures development accuracy, while the
    others wait.
    Raises KrisselError K005 (folders other than pipelines in the output), K022 (processes cannot be
    joined), K026 (disk), K675 (no such GPU), K651 (a component of another package is to be
    trained), K652 (no seed), K653 (different weights at the start), K020 (another process ended),
    K021 (different batches).
    """
    config, folder = Path(config), None if output is None else Path(output)
    import_code(code)
    gpu_id = local_gpu(gpu_id)
    with process_group(gpu_id, timeout), _output_of_first_process():
        is_first, alone = process_rank() == 0, n_processes() == 1
        own = folder if is_first else None
        if own is not None:
            for name in (DIR_MODEL_BEST, DIR_MODEL_LAST):
                check_pipeline_output(own / name)
        choose_gpu(gpu_id, allocator=None)
        with show_validation_error(config), _coded(config):
            changed = load_config(config, overrides=overrides or {}, interpolate=False)
        if missing := [section for section in ("nlp", "training") if section not in changed]:
            problem = " and ".join(f"[{section}]" for section in missing) + " is missing"
            raise KrisselError(Errors.K677.format(path=config, problem=problem))
        if not is_first:
            changed["training"]["logger"] = SILENT
        streams = changed.interpolate()["training"].get("max_epochs") == -1
        if streams:
            # spaCy would pass 100 examples of a stream to components: too few for document
            # frequencies.
            changed["training"]["max_epochs"] = 0
        msg.divider("Initializing pipeline" + ("" if alone else f" in {n_processes()} processes"))
        with show_validation_error(config, hint_fill=False), _coded(config, "[E"):
            nlp = init_nlp(changed, use_gpu=gpu_id)
        if streams:
            nlp.config["training"]["max_epochs"] = -1
        if not alone:
            _check(nlp)
        fit_schedule(nlp, overrides or {})
        msg.divider("Training pipeline")
        with coded_io(own or config):
            if own is not None:
                own.mkdir(parents=True, exist_ok=True)
            _train(nlp, own, gpu_id, progress)


def fit_schedule(nlp: Language, overrides: Container[str]) -> None:
    """Make the learning rate of the config end with the training, and an `eval_frequency` of 0 mean
    once per epoch.

    Raises KrisselError K006 for an `eval_frequency` of 0 with a stream.
    """
    training = nlp.config.interpolate()["training"]
    rate = nlp.config["training"]["optimizer"].get("learn_rate")
    has_end = (
        isinstance(rate, dict) and "total_steps" in rate and f"{RATE}.total_steps" not in overrides
    )
    each_epoch = training["eval_frequency"] == 0
    if each_epoch and training["max_epochs"] == -1:
        expected = "a whole number, 1 or more, with max_epochs -1"
        raise wrong_setting("training.eval_frequency", 0, expected)
    steps = [training["max_steps"]] if training["max_steps"] else []
    if each_epoch or (has_end and training["max_epochs"] > 0):
        T = registry.resolve({"batcher": training["batcher"]})
        (corpus,) = resolve_dot_names(nlp.config.interpolate(), [training["train_corpus"]])
        epoch = sum(1 for _ in T["batcher"](list(corpus(nlp))))
        if training["max_epochs"] > 0:
            steps.append(training["max_epochs"] * epoch)
        if each_epoch:
            nlp.config["training"]["eval_frequency"] = max(1, epoch)
    if has_end and steps and (total := min(steps)) != (planned := rate["total_steps"]):
        rate["total_steps"] = total
        if "warmup_steps" in rate and f"{RATE}.warmup_steps" not in overrides:
            rate["warmup_steps"] = round(rate["warmup_steps"] * total / planned) if planned else 0
        msg.info(
            f"Learning rate over {total} steps, the length of this training ({planned} in the "
            "config)"
        )


def _log_settings(nlp: Language, T: dict[str, Any]) -> None:
    msg.info(f"Pipeline: {nlp.pipe_names}")
    if T["frozen_components"]:
        msg.info(f"Frozen components: {T['frozen_components']}")
    if T["annotating_components"]:
        msg.info(f"Set annotations on update for: {T['annotating_components']}")
    msg.info(f"Initial learn rate: {T['optimizer'].learn_rate}")


def _train(nlp: Language, output: Path | None, gpu_id: int, progress: bool) -> None:
    """Train as `spacy.training.loop.train` does, except that `model-last` and `model-best` are
    replaced by rename, and processes that train together use the scores of the first."""
    config = nlp.config.interpolate()
    seed, allocator = config["training"]["seed"], config["training"]["gpu_allocator"]
    if seed is not None:
        fix_random_seed(seed)
    if gpu_id >= 0 and allocator:
        set_gpu_allocator(allocator)
    T = registry.resolve(config["training"], schema=ConfigSchemaTraining)
    train_corpus, dev_corpus = resolve_dot_names(config, [T["train_corpus"], T["dev_corpus"]])
    optimizer, frozen, annotating = (
        T["optimizer"],
        T["frozen_components"],
        T["annotating_components"],
    )
    evaluate = create_evaluation_callback(nlp, dev_corpus, T["score_weights"])
    before_to_disk = create_before_to_disk_callback(T["before_to_disk"])

    def evaluated() -> Any:
        bar.set_description("Evaluating")
        scores = _evaluated_by_first(evaluate)
        bar.set_description("Training", refresh=False)
        return scores

    def save(is_best: bool) -> None:
        if output is None:
            return
        # A knowledge base that is not trained may be of hundreds of gigabytes.
        with hard_linking(), nlp.use_params(optimizer.averages):
            save_whole(before_to_disk(nlp).to_disk, output / DIR_MODEL_LAST)
            if is_best:
                copy_folder(output / DIR_MODEL_LAST, (output / DIR_MODEL_BEST).resolve())

    steps = train_while_improving(
        nlp,
        optimizer,
        create_train_batches(nlp, train_corpus, T["batcher"], T["max_epochs"]),
        evaluated,
        exclude=frozen,
        annotating_components=annotating,
        **{name: T[name] for name in STEP_SETTINGS},
    )
    _log_settings(nlp, T)
    with nlp.select_pipes(disable=frozen):
        log_step, finish_log = T["logger"](nlp, sys.stdout, sys.stderr)
    shown = progress and not config["training"]["logger"].get("progress_bar")
    bar = progress_bar(show=shown, total=T["max_steps"] or None, desc="Training", unit=" steps")
    is_trained = False
    try:
        for _, info, is_best in steps:
            is_trained = True
            bar.update(info["step"] - bar.n)
            if is_best is not None:
                bar.clear()
                with nlp.select_pipes(disable=frozen):
                    update_meta(T, nlp, info)
                save(is_best)
                if output is not None:
                    info["output_path"] = str(output / DIR_MODEL_LAST)
            log_step(info if is_best is not None else None)
        # Training may have stopped early (`patience`).
        bar.total = bar.n
    except Exception as error:
        if output is not None and is_trained:
            msg.warn(f"Aborting and saving the final best model. Encountered exception: {error!r}")
        raise
    finally:
        bar.close()
        finish_log()
        if is_trained:
            save(False)
    if output is not None:
        msg.good("Saved pipeline to output directory", output / DIR_MODEL_LAST)


@contextmanager
def _coded(config: Path, beginning: str = "") -> Iterator[None]:
    """Raise K677 for errors that begin with `beginning`, which are faults of the config or of its
    data, and K026 for an OSError. spaCy's own errors begin with a code."""
    try:
        with coded_io(config):
            yield
    except (KrisselError, ConfigValidationError):
        raise
    except ValueError as error:
        if not str(error).startswith(beginning):
            raise
        raise KrisselError(Errors.K677.format(path=config, problem=error)) from error


def _check(nlp: Language) -> None:
    """Check that these processes can train this pipeline together."""
    training = nlp.config.interpolate()["training"]
    if training["seed"] is None:
        raise KrisselError(Errors.K652.format(count=n_processes()))
    for name, pipe in nlp.pipeline:
        if name in training["frozen_components"] or not getattr(pipe, "is_trainable", False):
            continue
        if not isinstance(pipe, KrisselPipe):
            raise KrisselError(Errors.K651.format(count=n_processes(), name=name))
        if not all_equal(int(fingerprint(pipe.model)[:15], 16)):
            raise KrisselError(Errors.K653.format(count=n_processes(), name=name))


def _evaluated_by_first(evaluate: Callable[[], Any]) -> Any:
    """Return the scores of the first process in all processes, since scores decide which pipeline
    is best and when to stop."""

    if n_processes() == 1:
        return evaluate()
    # Evaluation may draw random numbers; the next batch must be the same in all processes.
    with replay_rng(capture_rng()):
        return broadcast_from_rank_zero(evaluate)


@contextmanager
def _output_of_first_process() -> Iterator[None]:
    """Print once what all processes print; errors are raised in each. When a process has
    ended, the launcher tells all others to end: the first does so after its next step, which fails,
    and writes its pipeline whole before.
    """
    if n_processes() == 1:
        yield
    elif process_rank() == 0:
        before = signal.signal(signal.SIGTERM, signal.SIG_IGN)
        try:
            yield
        finally:
            signal.signal(signal.SIGTERM, before)
    else:
        with open(os.devnull, "w") as nowhere, redirect_stdout(nowhere), redirect_stderr(nowhere):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                yield
