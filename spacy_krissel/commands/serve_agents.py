"""Model Context Protocol: pipelines as tools of language models."""

import os
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field

from ..errors import Errors, KrisselError, wrong_setting
from ..pipeline.settings import LINKER
from ..serving.bounds import MAX_ANSWER, MAX_CHARS, MAX_MENTIONS, Bounds
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

Paths = Annotated[list[str | Path], Field(min_length=1)]


@checked
def mcp(
    pipelines: Paths,
    *,
    http: str = "",
    workers: PositiveInt = 1,
    gpu_id: Annotated[int, Field(ge=-1)] = -1,
    index_device: str | None = None,
    server_names: list[str] | None = None,
    max_chars: PositiveInt = MAX_CHARS,
    max_mentions: PositiveInt = MAX_MENTIONS,
    max_answer: PositiveInt = MAX_ANSWER,
    max_waiting: PositiveInt = MAX_WAITING,
    max_connections: PositiveInt = MAX_CONNECTIONS,
    timeout: PositiveInt = TIMEOUT_SECONDS,
    grace: PositiveInt = GRACE_SECONDS,
    name: str = LINKER,
) -> None:
    """Serve pipelines to agents, as MCP tools.

    pipelines: Pipelines with a linker; the name of each one's folder names its vocabulary
    http: HOST:PORT to listen on, for streamable HTTP at /mcp; default: standard input and output.
        Hosts other than this machine need a key in KRISSEL_API_KEY
    workers: Number of worker processes per pipeline
    gpu_id: GPU, or -1 for the CPU
    index_device: Device of the index: cpu, cuda:0 or cuda:all; default: the pipeline's setting
    server_names: Further host names of the service without a key, such as those that a proxy
        forwards
    max_chars: Maximum number of characters of a request
    max_mentions: Maximum number of mentions of a request
    max_answer: Maximum number of bytes of a worker's answer
    max_waiting: Maximum number of waiting requests per pipeline; further ones are refused
    max_connections: Maximum number of connections
    timeout: Seconds after which work on a request is stopped
    grace: Seconds for pending requests when the service shuts down
    name: Name of the linker in the pipelines

    The tools are annotate, ground, candidates, search, verify, entity, children and parents; the
    resources are vocabulary://NAME, with version and licence.
    Raises KrisselError K684 (the extra is missing), K683 (reachable by others without a key), K693
    (address or port), K006 (an address, or pipelines with the same name), K610, K611 (pipeline),
    K520 (no knowledge base), K675 (no such GPU), K685 (a worker ended and could not be replaced).
    """
    address = _address(http) if http else None
    key = read_key(address[0]) if address else ""
    try:
        from ..serving.agent_http import PATH, http_runner, make_http_app
        from ..serving.agent_server import make_server
        from ..serving.guard import Limits
    except ImportError as error:
        problem = Errors.K684.format(what=f"'{error.name}'", extra="mcp")
        raise KrisselError(problem) from error
    names = _names(pipelines)
    # As in `serve`: otherwise a thread per processor and process.
    os.environ.setdefault("OMP_NUM_THREADS", str(max(1, (os.cpu_count() or 1) // workers)))
    bounds = Bounds(chars=max_chars, mentions=max_mentions, answer=max_answer)
    settings = {"name": name, "gpu_id": gpu_id, "index_device": index_device, "bounds": bounds}
    limits = Limits(chars=max_chars, seconds=timeout)
    problems: list[str] = []
    end: list[Callable[[], None]] = []

    def ended(problem: str) -> None:
        problems.append(problem)
        for each in end:
            each()

    with ExitStack() as stack:
        sockets = bound_sockets(*address) if address else []
        for each in sockets:
            stack.callback(each.close)
        queue = {"waiting": max_waiting, "seconds": timeout, "grace": 1, "ended": ended}
        services = {}
        with _stdout_as_stderr():
            for vocabulary, pipeline in names.items():
                starts = [partial(LinkProcess, pipeline, **settings)] * workers
                services[vocabulary] = _started(starts, **queue)
                stack.callback(services[vocabulary].close)
            warm = [each.ask("warm", {}) for each in services.values() for _ in range(workers)]
            for future in warm:
                future.result()
        server = make_server(services, limits=limits)
        if address is None:
            end.append(lambda: _leave(problems))
            server.run("stdio")
        else:
            hosts = own_hosts(key, address[0], server_names or ())
            app = make_http_app(server, services, limits=limits, key=key, hosts=hosts)
            runner = http_runner(app, connections=max_connections, grace=grace)
            end.append(lambda: setattr(runner, "should_exit", True))
            log_to_stderr()
            # A client that reads the line may connect at once.
            for each in sockets:
                each.listen()
            where = f"http://{bracketed(address[0])}:{address[1]}{PATH}"
            print(f"Serving {', '.join(services)} at {where}", flush=True)
            runner.run(sockets)
    if problems:
        raise KrisselError(Errors.K685.format(problem=problems[0]))


def _address(text: str) -> tuple[str, int]:
    """Return host and port. Raises KrisselError K006."""
    host, _, port = text.rpartition(":")
    host = host.removeprefix("[").removesuffix("]")
    if not host or not re.fullmatch("[0-9]{1,5}", port) or not 1 <= int(port) <= 65535:
        raise wrong_setting("http", text, "HOST:PORT, such as 127.0.0.1:8000")
    return host, int(port)


def _names(pipelines: Sequence[str | Path]) -> dict[str, str | Path]:
    """Return the pipelines by the name of their vocabulary. Raises KrisselError K006."""
    from ..serving.agent_server import vocabulary_name

    names: dict[str, str | Path] = {}
    for each in pipelines:
        name = vocabulary_name(Path(each).resolve().name if Path(each).exists() else str(each))
        if name in names:
            expected = "pipelines in folders with different names, which name their vocabularies"
            raise wrong_setting("pipelines", f"{names[name]} and {each}", expected)
        names[name] = each
    return names


def _started(starts: list[Any], **settings: Any) -> LinkService:
    """Return a service of these workers. Raises KrisselError K685 if one ends."""
    try:
        return LinkService(starts, **settings)
    except WorkerLost as error:
        raise KrisselError(Errors.K685.format(problem=error)) from error


def _leave(problems: Sequence[str]) -> None:
    """End this process: the thread that reads standard input cannot be interrupted."""
    print(f"✘ {Errors.K685.format(problem=problems[0])}", file=sys.stderr, flush=True)
    os._exit(1)


@contextmanager
def _stdout_as_stderr() -> Iterator[None]:
    """Context in which workers start: what they print is no message of the protocol. Later ones
    start while the server has diverted standard output."""
    sys.stdout.flush()
    try:
        wire = os.dup(1)
    except OSError:
        yield
        return
    os.dup2(2, 1)
    try:
        yield
    finally:
        os.dup2(wire, 1)
        os.close(wire)
