"""`spacy train`, in one process or in several that train one pipeline together."""

import os
import signal
import sys
import warnings
from contextlib import contextmanager, nullcontext, redirect_stderr, redirect_stdout
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Callable, Dict, Iterable, Iterator, Optional

from spacy.cli._util import show_validation_error
from spacy.language import Language
from spacy.training import Example, loop
from spacy.training.initialize import init_nlp
from spacy.training.loop import DIR_MODEL_BEST, DIR_MODEL_LAST
from spacy.training.loop import train as train_nlp
from spacy.util import load_config
from thinc.api import Config, ConfigValidationError
from wasabi import msg

from ..distributed.processes import alike, from_first, joined, launched_number, n_launched, own_gpu
from ..distributed.random_state import capture_rng, replay_rng
from ..errors import Errors, KrisselError
from ..layers.identity import fingerprint
from ..pipeline.pipe import KrisselPipe
from ..pipeline.pipeline_io import check_place, choose_gpu, copy_whole, save_whole
from ..util.disk import coded_io, disk_error

SILENT = {"@loggers": "spacy.ConsoleLogger.v1", "progress_bar": False}


def train(
    config: Path,
    output: Optional[Path] = None,
    *,
    use_gpu: int = -1,
    overrides: Optional[Dict[str, Any]] = None,
    timeout: float = 60.0,
) -> None:
    """`spacy train`, whose `model-best` and `model-last` are whole at any moment; under a launcher, together with the
    processes that it started.

    All of them make the same steps, as one process would: each batch is divided among them (`layers.processes`). The
    first alone writes to `output`, logs and measures development accuracy, while the others wait.

    use_gpu: the GPU, or the first process's, the second of a machine having the next; -1: the CPU.
    overrides: of the config, by dotted key.
    timeout: minutes after which a process that waits for the others gives up: longer than an evaluation takes.

    Raises KrisselError K005 (other folders than pipelines in their place), K022 (cannot be joined), K026 (the disk),
    K675 (no such GPU), K651 (another component than this package's is to be trained), K652 (no seed), K653 (different
    weights at the start), K020 (another process ended), K021 (different batches).
    """
    use_gpu = own_gpu(use_gpu)
    alone = n_launched() == 1
    with joined(use_gpu, timeout), nullcontext() if alone else _first_alone_heard():
        is_first = launched_number() == 0
        if is_first and output is not None:
            for name in (DIR_MODEL_BEST, DIR_MODEL_LAST):
                check_place(output / name)
        choose_gpu(use_gpu)
        with show_validation_error(config):
            changed = _read_config(config, overrides or {})
        if not is_first:
            changed["training"]["logger"] = SILENT
        msg.divider("Initializing pipeline" + ("" if alone else f" in {n_launched()} processes"))
        with show_validation_error(config, hint_fill=False), _spacy_errors(config), coded_io(config):
            nlp = init_nlp(changed, use_gpu=use_gpu)
        if not alone:
            _check(nlp)
            nlp.evaluate = _evaluated_by_first(nlp.evaluate)  # type: ignore[method-assign]
        msg.divider("Training pipeline")
        if is_first and output is not None:
            with coded_io(output):
                output.mkdir(parents=True, exist_ok=True)
        with _saved_whole(nlp), coded_io(output or config):
            train_nlp(nlp, output if is_first else None, use_gpu=use_gpu, stdout=sys.stdout, stderr=sys.stderr)


def _read_config(path: Path, overrides: Dict[str, Any]) -> Config:
    try:
        config = load_config(path, overrides=overrides, interpolate=False)
    except ConfigValidationError:
        # Shown as spaCy shows it.
        raise
    except OSError as error:
        raise disk_error(error, path) from error
    except ValueError as error:
        raise KrisselError(Errors.K677.format(path=path, problem=error)) from error
    if missing := [section for section in ("nlp", "training") if section not in config]:
        problem = " and ".join(f"[{section}]" for section in missing) + " is not there"
        raise KrisselError(Errors.K677.format(path=path, problem=problem))
    return config


@contextmanager
def _spacy_errors(config: Path) -> Iterator[None]:
    """What spaCy refuses with a code of its own is a fault of the config, or of the data that it names."""
    try:
        yield
    except (KrisselError, ConfigValidationError):
        raise
    except ValueError as error:
        if not str(error).startswith("[E"):
            raise
        raise KrisselError(Errors.K677.format(path=config, problem=error)) from error


def _check(nlp: Language) -> None:
    """Can these processes train this pipeline together?"""
    training = nlp.config.interpolate()["training"]
    if training["seed"] is None:
        raise KrisselError(Errors.K652.format(count=n_launched()))
    for name, pipe in nlp.pipeline:
        if name in training["frozen_components"] or not getattr(pipe, "is_trainable", False):
            continue
        if not isinstance(pipe, KrisselPipe):
            raise KrisselError(Errors.K651.format(count=n_launched(), name=name))
        if not alike(int(fingerprint(pipe.model)[:15], 16)):
            raise KrisselError(Errors.K653.format(count=n_launched(), name=name))


def _evaluated_by_first(evaluate: Callable[..., Dict[str, Any]]) -> Callable[..., Dict[str, Any]]:
    """Scores decide which pipeline is the best and when to stop: all processes have those of the first."""

    def evaluated(examples: Iterable[Example], **settings: Any) -> Dict[str, Any]:
        def scores() -> Dict[str, Any]:
            # Whatever it draws, the next batch is to be the same in all processes.
            with replay_rng(capture_rng()):
                return evaluate(examples, **settings)

        return from_first(scores)

    return evaluated


@contextmanager
def _saved_whole(nlp: Language) -> Iterator[None]:
    """spaCy writes `model-last` into its folder file by file and copies it to `model-best` likewise; it removes both
    before the first step, and `model-best` before each copy. Here an earlier one stands until the next takes its place.
    """
    shutil = loop.shutil
    nlp.to_disk = partial(save_whole, nlp.to_disk)  # type: ignore[method-assign]
    loop.shutil = SimpleNamespace(rmtree=lambda path: None, copytree=copy_whole)  # type: ignore[assignment]
    try:
        yield
    finally:
        loop.shutil = shutil
        del nlp.to_disk


@contextmanager
def _first_alone_heard() -> Iterator[None]:
    """What all processes have to say is said once; errors are raised in each. When a process has ended, the launcher
    tells all others to end: the first does so after its next step, which fails, and writes its pipeline whole before.
    """
    if launched_number() == 0:
        before = signal.signal(signal.SIGTERM, signal.SIG_IGN)
        try:
            yield
        finally:
            signal.signal(signal.SIGTERM, before)
        return
    with open(os.devnull, "w") as nowhere, redirect_stdout(nowhere), redirect_stderr(nowhere):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
