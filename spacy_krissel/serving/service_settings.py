"""Settings that the HTTP service and the agents' server share."""

import os
from dataclasses import dataclass
from typing import Annotated

from pydantic import Field

from ..pipeline.settings import LINKER
from ..util.settings import PositiveInt, checked
from .bounds import MAX_ANSWER, MAX_CHARS, MAX_MENTIONS
from .listening import MAX_CONNECTIONS
from .service import GRACE_SECONDS, MAX_WAITING, TIMEOUT_SECONDS


@checked
@dataclass(frozen=True, kw_only=True)
class ServiceSettings:
    """Settings of `serve` and `mcp`.

    workers: Number of worker processes per pipeline; they share a memory-mapped knowledge base
    gpu_id: GPU, or -1 for the CPU; several workers use one each from that number on if there are
        enough, else all use this one
    index_device: Device of the index, one copy per worker: cpu, cuda:0 or cuda:all; default: the
        pipeline's setting
    server_names: Further host names of the service without a key, such as those that a proxy
        forwards
    max_chars: Maximum number of characters of a request
    max_mentions: Maximum number of mentions of a request, given or found
    max_answer: Maximum number of bytes of a worker's answer
    max_waiting: Maximum number of waiting requests per pipeline; further ones are refused (HTTP
        status 429)
    max_connections: Maximum number of connections; a further one replaces the one that has been
        idle for longest
    timeout: Seconds after which work on a request is stopped (HTTP status 503)
    grace: Seconds for pending requests when the service shuts down
    name: Name of the linker in the pipeline
    """

    workers: PositiveInt = 1
    gpu_id: Annotated[int, Field(ge=-1)] = -1
    index_device: str | None = None
    server_names: list[str] | None = None
    max_chars: PositiveInt = MAX_CHARS
    max_mentions: PositiveInt = MAX_MENTIONS
    max_answer: PositiveInt = MAX_ANSWER
    max_waiting: PositiveInt = MAX_WAITING
    max_connections: PositiveInt = MAX_CONNECTIONS
    timeout: PositiveInt = TIMEOUT_SECONDS
    grace: PositiveInt = GRACE_SECONDS
    name: str = LINKER

    def limit_threads(self) -> None:
        """Divide the processors among the workers, unless the environment says otherwise.

        Libraries read this when they are loaded. The default is a thread per processor, and two
        processes on two processors would then answer less than one.
        """
        os.environ.setdefault("OMP_NUM_THREADS", str(max(1, (os.cpu_count() or 1) // self.workers)))

    def gpus(self) -> list[int]:
        """Return the GPU of each worker: one each from `gpu_id` on if there are enough, else
        `gpu_id` for all."""
        if self.gpu_id < 0:
            return [self.gpu_id] * self.workers
        # Imports PyTorch, which this process does not need otherwise.
        from ..distributed.processes import n_gpus

        one_each = self.gpu_id + self.workers <= n_gpus()
        return [self.gpu_id + i if one_each else self.gpu_id for i in range(self.workers)]
