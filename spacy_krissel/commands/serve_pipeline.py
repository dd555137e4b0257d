"""Answer requests over HTTP."""

import ipaddress
import json
import logging
import os
import sys
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field

from ..distributed.processes import n_gpus
from ..errors import Errors, KrisselError
from ..pipeline.settings import LINKER
from ..serving.service import MOST_CHARS, MOST_DOCUMENTS, SECONDS, WAITING, LinkProcess, LinkService, Lost
from ..util.settings import PositiveInt, checked

KEY = "KRISSEL_API_KEY"
# By which a browser on this machine calls it.
LOCAL_NAMES = ("localhost", "127.0.0.1", "[::1]")


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
    max_chars: PositiveInt = MOST_CHARS,
    max_documents: PositiveInt = MOST_DOCUMENTS,
    max_waiting: PositiveInt = WAITING,
    timeout: PositiveInt = SECONDS,
    name: str = LINKER,
) -> None:
    """Serve a pipeline: a page, and the same over HTTP.

    pipeline: A pipeline with a linker
    host: Address to listen on; others than this machine's need a key in KRISSEL_API_KEY
    port: Port to listen on
    corrections: File in which corrections are kept, .jsonl; without it they end with the service
    workers: Processes that link, each with the pipeline; a mapped knowledge base is one for all
    gpu_id: GPU, or -1 for the CPU; several workers have one each from that number on if there are
        enough, else all have this one
    index_device: Where the index lives, a copy per worker: cpu, cuda:0 or cuda:all; default: as the
        pipeline says
    user_header: Header in which a proxy names the user; nobody else may reach the service then
    max_chars: Characters of a request
    max_documents: Documents of a request
    max_waiting: Requests that may wait for their answer; further ones are answered 429
    timeout: Seconds after which a request is answered 503
    name: Name of the linker in the pipeline

    Raises KrisselError K684 (the extra is missing), K683 (open to others without a key), K026, K681 (corrections),
    K610, K611 (pipeline), K520 (no knowledge base), K675 (no such GPU), K685 (a process that links ended).
    """
    key = os.environ.get(KEY, "")
    is_local = host == "localhost" or _is_loopback(host)
    if not (is_local or key):
        raise KrisselError(Errors.K683.format(host=host, variable=KEY))
    try:
        import uvicorn

        from ..serving.app import Limits, make_app
    except ImportError as error:
        raise KrisselError(Errors.K684.format(what=f"'{error.name}'")) from error
    # Read by their libraries when they are loaded. Else each takes a thread per processor, and two processes on two of
    # these answer less than one does.
    os.environ.setdefault("OMP_NUM_THREADS", str(max(1, (os.cpu_count() or 1) // workers)))
    linkers = [
        LinkProcess(pipeline, None if i else corrections, name=name, gpu_id=gpu, index_device=index_device)
        for i, gpu in enumerate(worker_gpus(gpu_id, workers))
    ]
    service: LinkService | None = None
    server: uvicorn.Server | None = None
    was_lost = False

    def ended() -> None:
        nonlocal was_lost
        was_lost = True
        if server is not None:
            server.should_exit = True

    try:
        connections = [linker.connection for linker in linkers]
        service = LinkService(connections, waiting=max_waiting, seconds=timeout, ended=ended)
        # A proxy may pass on other names, and a page of another site has no key.
        hosts = () if key or user_header else (*LOCAL_NAMES, f"[{host}]" if ":" in host else host)
        limits = Limits(max_documents, max_chars, timeout)
        app = make_app(service, limits=limits, key=key, user_header=user_header, hosts=hosts)
        _log_to_stderr()
        settings: dict[str, Any] = {"log_level": "warning", "access_log": False, "timeout_graceful_shutdown": timeout}
        server = uvicorn.Server(uvicorn.Config(app, host=host, port=port, **settings))
        print(f"Serving {pipeline} at http://{f'[{host}]' if ':' in host else host}:{port}", flush=True)
        if not was_lost:
            server.run()
    except Lost:
        was_lost = True
    finally:
        if service is not None:
            service.close()
        # A linker ends when nobody can ask it any more.
        for linker in linkers:
            linker.connection.close()
        for linker in linkers:
            linker.process.join()
    if was_lost:
        codes = ", ".join(str(linker.process.exitcode) for linker in linkers)
        raise KrisselError(Errors.K685.format(codes=codes))


def worker_gpus(gpu_id: int, workers: int) -> list[int]:
    """GPU of each worker: one each from `gpu_id` on if there are enough, else `gpu_id` for all."""
    one_each = gpu_id >= 0 and gpu_id + workers <= n_gpus()
    return [gpu_id + i if one_each else gpu_id for i in range(workers)]


def _log_to_stderr() -> None:
    log = logging.getLogger("spacy_krissel.serving")
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_Lines())
    log.addHandler(handler)
    log.setLevel(logging.INFO)


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


class _Lines(logging.Formatter):
    """A JSON object a line."""

    def format(self, record: logging.LogRecord) -> str:
        data: dict[str, Any] = {"time": self.formatTime(record), "level": record.levelname}
        if record.exc_info:
            data["traceback"] = self.formatException(record.exc_info)
        return json.dumps({**data, **json.loads(record.getMessage())})
