"""HTTP service of a pipeline."""

import gc
import os
from functools import partial
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field

from ..errors import Errors, KrisselError
from ..pipeline.settings import LINKER
from ..serving.bounds import MAX_ANSWER, MAX_CHARS, MAX_DOCUMENTS, MAX_MENTIONS, Bounds
from ..serving.corrections import CorrectionLog
from ..serving.listening import (
    MAX_CONNECTIONS,
    bound_sockets,
    bracketed,
    log_to_stderr,
    own_hosts,
    read_key,
)
from ..serving.processes import LinkProcess
from ..serving.service import GRACE_SECONDS, MAX_WAITING, TIMEOUT_SECONDS, LinkService, WorkerLost
from ..util.settings import PositiveInt, checked


@checked
def serve(
    pipeline: str | Path,
    *,
    host: str = "127.0.0.1",
    port: Annotated[int, Field(ge=1, le=65535)] = 8000,
    corrections: Path | None = None,
    workers: PositiveInt = 1,
    gpu_id: Annotated[int, Field(ge=-1)] = -1,
    index_device: str | None = None,
    user_header: str = "",
    server_names: list[str] | None = None,
    max_chars: PositiveInt = MAX_CHARS,
    max_documents: PositiveInt = MAX_DOCUMENTS,
    max_mentions: PositiveInt = MAX_MENTIONS,
    max_answer: PositiveInt = MAX_ANSWER,
    max_waiting: PositiveInt = MAX_WAITING,
    max_connections: PositiveInt = MAX_CONNECTIONS,
    timeout: PositiveInt = TIMEOUT_SECONDS,
    grace: PositiveInt = GRACE_SECONDS,
    name: str = LINKER,
) -> None:
    """Serve a pipeline over HTTP, with a page.

    pipeline: A pipeline with a linker
    host: Address to listen on; others than this machine's need a key in KRISSEL_API_KEY
    port: Port to listen on
    corrections: File that stores corrections, .jsonl; without it they are lost when the service
        ends
    workers: Number of worker processes, each with the pipeline; they share a memory-mapped
        knowledge base
    gpu_id: GPU, or -1 for the CPU; several workers use one each from that number on if there are
        enough, else all use this one
    index_device: Device of the index, one copy per worker: cpu, cuda:0 or cuda:all; default: the
        pipeline's setting
    user_header: Header in which a proxy names the user; only the proxy may reach the service then
    server_names: Further host names of the service without a key, such as those that a proxy
        forwards
    max_chars: Maximum number of characters of a request
    max_documents: Maximum number of documents of a request
    max_mentions: Maximum number of mentions of a request, given or found
    max_answer: Maximum number of bytes of an answer
    max_waiting: Maximum number of waiting requests; further ones get status 429
    max_connections: Maximum number of connections; a further one replaces the one that has been
        idle for longest
    timeout: Seconds after which work on a request is stopped, with status 503
    grace: Seconds for pending requests when the service shuts down
    name: Name of the linker in the pipeline

    Raises KrisselError K684 (the extra is missing), K683 (reachable by others without a key), K693
    (address or port), K026, K681 (corrections), K610, K611 (pipeline), K520 (no knowledge base),
    K675 (no such GPU), K685 (a worker ended and could not be replaced).
    """
    key = read_key(host)
    try:
        import uvicorn

        from ..serving.app import Limits, make_app
        from ..serving.protocol import bounded_protocol
    except ImportError as error:
        raise KrisselError(Errors.K684.format(what=f"'{error.name}'", extra="serve")) from error
    # Libraries read this when they are loaded. The default is a thread per processor, and two
    # processes on two processors would then answer less than one.
    os.environ.setdefault("OMP_NUM_THREADS", str(max(1, (os.cpu_count() or 1) // workers)))
    # Collection is off while the log is read, since its objects stay.
    gc.disable()
    try:
        log = CorrectionLog(corrections)
        gc.freeze()
    finally:
        gc.enable()
    sockets = bound_sockets(host, port)
    bounds = Bounds(max_documents, max_chars, max_mentions, max_answer)
    # Otherwise each start encodes the mentions of all corrections.
    vectors = corrections and corrections.with_name(f"{corrections.name}.vectors.npz")
    process = partial(
        LinkProcess, pipeline, name=name, index_device=index_device, bounds=bounds, vectors=vectors
    )
    server: uvicorn.Server | None = None
    problem = ""

    def ended(why: str) -> None:
        nonlocal problem
        problem = why
        if server is not None:
            server.should_exit = True

    try:
        starts = [partial(process, gpu_id=gpu) for gpu in worker_gpus(gpu_id, workers)]
        # At its end nobody waits for answers: uvicorn has waited for `grace` seconds.
        service = LinkService(
            starts, log, waiting=max_waiting, seconds=timeout, grace=1, ended=ended
        )
        limits = Limits(max_documents, max_chars, timeout)
        hosts = own_hosts(key, host, server_names or ())
        app = make_app(service, limits=limits, key=key, user_header=user_header, hosts=hosts)
        log_to_stderr()
        settings: dict[str, Any] = {
            "log_level": "warning",
            "access_log": False,
            "timeout_graceful_shutdown": grace,
        }
        server = uvicorn.Server(
            uvicorn.Config(app, http=bounded_protocol(max_connections), **settings)
        )
        print(f"Serving {pipeline} at http://{bracketed(host)}:{port}", flush=True)
        try:
            if not problem:
                server.run(sockets)
        finally:
            service.close()
    except WorkerLost as error:
        problem = str(error)
    finally:
        for each in sockets:
            each.close()
        log.close()
    if problem:
        raise KrisselError(Errors.K685.format(problem=problem))


def worker_gpus(gpu_id: int, workers: int) -> list[int]:
    """Return the GPU of each worker: one each from `gpu_id` on if there are enough, else `gpu_id`
    for all."""
    if gpu_id < 0:
        return [gpu_id] * workers
    # Imports PyTorch, which this process does not need otherwise.
    from ..distributed.processes import n_gpus

    one_each = gpu_id + workers <= n_gpus()
    return [gpu_id + i if one_each else gpu_id for i in range(workers)]
