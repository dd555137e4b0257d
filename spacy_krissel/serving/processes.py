"""Worker processes as seen by their parent, without the modules that they load."""

import multiprocessing
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, Protocol

from ..pipeline.settings import LINKER
from .bounds import Bounds

# Seconds in which a process with a closed connection ends by itself.
EXIT_SECONDS = 2.0


class Worker(Protocol):
    """A process that answers requests on the other side of `connection`."""

    connection: Connection

    def kill(self) -> None:
        """End the process at once."""

    def leave(self) -> str:
        """Close the connection, and wait until the process has ended. RETURNS: its exit."""


class LinkProcess:
    """A `Worker` with its own pipeline. It ends with the process that started it."""

    def __init__(
        self,
        pipeline: str | Path,
        *,
        name: str = LINKER,
        gpu_id: int = -1,
        index_device: str | None = None,
        bounds: Bounds | None = None,
        vectors: Path | None = None,
    ) -> None:
        # Spawned: a fork would inherit the locks of other threads.
        context = multiprocessing.get_context("spawn")
        self.connection, theirs = context.Pipe()
        settings = (theirs, pipeline, name, gpu_id, index_device, bounds or Bounds(), vectors)
        self.process = context.Process(target=_run, args=settings, name="krissel-link", daemon=True)
        self.process.start()
        theirs.close()

    def kill(self) -> None:
        self.process.kill()

    def leave(self) -> str:
        self.connection.close()
        self.process.join(EXIT_SECONDS)
        if self.process.is_alive():
            self.process.kill()
            self.process.join()
        return f"code {self.process.exitcode}"


def _run(*settings: Any) -> None:
    # Imported in the new process only.
    from .worker import run

    run(*settings)
