"""HTTP service of a pipeline."""

import gc
from dataclasses import KW_ONLY, dataclass
from functools import partial
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field

from ..errors import Errors, KrisselError
from ..serving.bounds import MAX_DOCUMENTS, Bounds
from ..serving.corrections import CorrectionLog
from ..serving.listening import bound_sockets, bracketed, log_to_stderr, own_hosts, read_key
from ..serving.processes import LinkProcess
from ..serving.service import LinkService, WorkerLost
from ..serving.service_settings import ServiceSettings
from ..util.settings import PositiveInt, checked, takes


@checked
@dataclass(frozen=True)
class ServeSettings(ServiceSettings):
    """Settings of `serve`.

    pipeline: A pipeline with a linker
    host: Address to listen on; others than this machine's need a key in KRISSEL_API_KEY
    port: Port to listen on
    corrections: File that stores corrections, .jsonl; without it they are lost when the service
        ends
    user_header: Header in which a proxy names the user; only the proxy may reach the service then
    max_documents: Maximum number of documents of a request
    """

    pipeline: str | Path
    _: KW_ONLY
    host: str = "127.0.0.1"
    port: Annotated[int, Field(ge=1, le=65535)] = 8000
    corrections: Path | None = None
    user_header: str = ""
    max_documents: PositiveInt = MAX_DOCUMENTS


@takes(ServeSettings)
def serve(asked: ServeSettings) -> None:
    """Serve a pipeline over HTTP, with a page.

    Raises KrisselError K684 (the extra is missing), K683 (reachable by others without a key), K693
    (address or port), K026, K681 (corrections), K610, K611 (pipeline), K520 (no knowledge base),
    K675 (no such GPU), K685 (a worker ended and could not be replaced).
    """
    host, corrections = asked.host, asked.corrections
    key = read_key(host)
    try:
        import uvicorn

        from ..serving.app import Limits, make_app
        from ..serving.protocol import bounded_protocol
    except ImportError as error:
        raise KrisselError(Errors.K684.format(what=f"'{error.name}'", extra="serve")) from error
    asked.limit_threads()
    # Collection is off while the log is read, since its objects stay.
    gc.disable()
    try:
        log = CorrectionLog(corrections)
        gc.freeze()
    finally:
        gc.enable()
    sockets = bound_sockets(host, asked.port)
    bounds = Bounds(asked.max_documents, asked.max_chars, asked.max_mentions, asked.max_answer)
    # Otherwise each start encodes the mentions of all corrections.
    vectors = corrections and corrections.with_name(f"{corrections.name}.vectors.npz")
    process = partial(
        LinkProcess,
        asked.pipeline,
        name=asked.name,
        index_device=asked.index_device,
        bounds=bounds,
        vectors=vectors,
    )
    server: uvicorn.Server | None = None
    problem = ""

    def ended(why: str) -> None:
        nonlocal problem
        problem = why
        if server is not None:
            server.should_exit = True

    try:
        starts = [partial(process, gpu_id=gpu) for gpu in asked.gpus()]
        # At its end nobody waits for answers: uvicorn has waited for `grace` seconds.
        queue = {"waiting": asked.max_waiting, "seconds": asked.timeout, "grace": 1}
        service = LinkService(starts, log, **queue, ended=ended)
        limits = Limits(asked.max_documents, asked.max_chars, asked.timeout)
        hosts = own_hosts(key, host, asked.server_names or ())
        app = make_app(service, limits=limits, key=key, user_header=asked.user_header, hosts=hosts)
        log_to_stderr()
        settings: dict[str, Any] = {
            "log_level": "warning",
            "access_log": False,
            "timeout_graceful_shutdown": asked.grace,
        }
        server = uvicorn.Server(
            uvicorn.Config(app, http=bounded_protocol(asked.max_connections), **settings)
        )
        print(f"Serving {asked.pipeline} at http://{bracketed(host)}:{asked.port}", flush=True)
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
