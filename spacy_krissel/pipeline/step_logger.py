"""Logger of every training step: spaCy's own loggers report evaluations only."""

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import IO, Any

from spacy.language import Language
from spacy.training.loggers import console_logger_v3

LogStep = Callable[[dict[str, Any] | None], None]


def make_step_logger(
    path: Path | None = None, progress_bar: str | None = None
) -> Callable[..., Any]:
    """Registered in loggers as `spacy-krissel.StepLogger.v1`: spaCy's table on the terminal, and a
    JSON line per step.

    Each line has the step, from 0, and for each trained linker the loss and the l2 norm of the
    gradient before clipping (PEL, Figure 3).

    path: the file, which is overwritten; None: no file.
    progress_bar: of spaCy's console logger: "train", "eval" or none.
    """
    make_table = console_logger_v3(progress_bar=progress_bar)
    if path is None:
        return make_table
    file_path = Path(path)

    def setup(
        nlp: Language, stdout: IO[str] = sys.stdout, stderr: IO[str] = sys.stderr
    ) -> tuple[LogStep, Callable[[], None]]:
        # Imported here, since each `spacy.blank()` imports every registered logger.
        from .kb_pipe import KBPipe

        log_row, finish = make_table(nlp, stdout, stderr)
        linkers: list[tuple[str, KBPipe]] = []
        for name, pipe in nlp.pipeline:
            if isinstance(pipe, KBPipe):
                pipe.log_gradients = True
                linkers.append((name, pipe))
        file_path.parent.mkdir(parents=True, exist_ok=True)
        file_ = file_path.open("w", encoding="utf8")
        step = 0

        def log_step(info: dict[str, Any] | None) -> None:
            nonlocal step
            log_row(info)
            file_.write(
                json.dumps({"step": step, **{name: pipe.last_step for name, pipe in linkers}})
                + "\n"
            )
            file_.flush()
            step += 1

        def finalize() -> None:
            finish()
            file_.close()

        return log_step, finalize

    return setup
