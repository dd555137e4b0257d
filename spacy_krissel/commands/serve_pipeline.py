"""Answer requests over HTTP."""

import errno
import gc
import ipaddress
import json
import logging
import os
import socket
import sys
from functools import partial
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field

from ..errors import Errors, KrisselError
from ..pipeline.settings import LINKER
from ..serving.bounds import MAX_ANSWER, MAX_CHARS, MAX_DOCUMENTS, MAX_MENTIONS, Bounds
from ..serving.corrections import CorrectionLog
from ..serving.processes import LinkProcess
from ..serving.service import GRACE_SECONDS, MAX_WAITING, TIMEOUT_SECONDS, LinkService, WorkerLost
from ..util.settings import PositiveInt, checked

KEY = "KRISSEL_API_KEY"
# Connections at a time, by default.
MAX_CONNECTIONS = 512
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
    server_names: Further names by which the service may be called without a key, such as those that
        a proxy passes on
    max_chars: Characters of a request
    max_documents: Documents of a request
    max_mentions: Mentions of a request, given or found
    max_answer: Bytes of an answer
    max_waiting: Requests that may wait for their answer; further ones are answered 429
    max_connections: Connections at a time; a further one takes the place of the one that has been
        waited for longest
    timeout: Seconds after which work on a request is ended, and it is answered 503
    grace: Seconds for requests that are being answered when the service is told to end
    name: Name of the linker in the pipeline

    Raises KrisselError K684 (the extra is missing), K683 (open to others without a key), K693 (address or port), K026,
    K681 (corrections), K610, K611 (pipeline), K520 (no knowledge base), K675 (no such GPU), K685 (a process that links
    ended, and no other took its place).
    """
    key = os.environ.get(KEY, "")
    is_local = host == "localhost" or _is_loopback(host)
    if not (is_local or key):
        raise KrisselError(Errors.K683.format(host=host, variable=KEY))
    try:
        import uvicorn

        from ..serving.app import Limits, make_app
        from ..serving.protocol import bounded_protocol
    except ImportError as error:
        raise KrisselError(Errors.K684.format(what=f"'{error.name}'")) from error
    # Read by their libraries when they are loaded. Else each takes a thread per processor, and two processes on two of
    # these answer less than one does.
    os.environ.setdefault("OMP_NUM_THREADS", str(max(1, (os.cpu_count() or 1) // workers)))
    # Both before what takes longer.
    # What is read stays: each collection would go through all of it.
    gc.disable()
    try:
        log = CorrectionLog(corrections)
        gc.freeze()
    finally:
        gc.enable()
    sockets = _bound(host, port)
    bounds = Bounds(max_documents, max_chars, max_mentions, max_answer)
    # Else a start encodes the mentions of all corrections.
    vectors = corrections and corrections.with_name(f"{corrections.name}.vectors.npz")
    process = partial(LinkProcess, pipeline, name=name, index_device=index_device, bounds=bounds, vectors=vectors)
    server: uvicorn.Server | None = None
    problem = ""

    def ended(why: str) -> None:
        nonlocal problem
        problem = why
        if server is not None:
            server.should_exit = True

    try:
        starts = [partial(process, gpu_id=gpu) for gpu in worker_gpus(gpu_id, workers)]
        # Where it ends, nobody waits for answers any more: uvicorn has done so for `grace` seconds.
        service = LinkService(starts, log, waiting=max_waiting, seconds=timeout, grace=1, ended=ended)
        # A page of another site has no key.
        own_names = (*LOCAL_NAMES, f"[{host}]" if ":" in host else host, *(server_names or ()))
        limits = Limits(max_documents, max_chars, timeout)
        app = make_app(service, limits=limits, key=key, user_header=user_header, hosts=() if key else own_names)
        _log_to_stderr()
        settings: dict[str, Any] = {"log_level": "warning", "access_log": False, "timeout_graceful_shutdown": grace}
        server = uvicorn.Server(uvicorn.Config(app, http=bounded_protocol(max_connections), **settings))
        print(f"Serving {pipeline} at http://{f'[{host}]' if ':' in host else host}:{port}", flush=True)
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


def _bound(host: str, port: int) -> list[socket.socket]:
    """Sockets for the addresses of `host`, on which nobody listens yet. Raises KrisselError K693."""
    sockets: list[socket.socket] = []
    missing: OSError | None = None
    try:
        for family, kind, protocol, _, address in socket.getaddrinfo(host, port, type=socket.SOCK_STREAM):
            try:
                sockets.append(_bound_socket(family, kind, protocol, address))
            except OSError as error:
                # A machine may know an address of IPv6 for its name, and not have it.
                if error.errno not in (errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT):
                    raise
                missing = error
        if not sockets and missing is not None:
            raise missing
    except OSError as error:
        for each in sockets:
            each.close()
        raise KrisselError(Errors.K693.format(host=host, port=port, problem=error.strerror or str(error))) from error
    return sockets


def _bound_socket(family: int, kind: int, protocol: int, address: Any) -> socket.socket:
    bound = socket.socket(family, kind, protocol)
    try:
        if os.name == "posix":
            # Else what an earlier service left keeps the port for a minute.
            bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            bound.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        bound.bind(address)
    except OSError:
        bound.close()
        raise
    return bound


def worker_gpus(gpu_id: int, workers: int) -> list[int]:
    """GPU of each worker: one each from `gpu_id` on if there are enough, else `gpu_id` for all."""
    if gpu_id < 0:
        return [gpu_id] * workers
    # With PyTorch, which this process has no other use for.
    from ..distributed.processes import n_gpus

    one_each = gpu_id + workers <= n_gpus()
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
