"""Model Context Protocol: pipelines as tools of language models."""

import os
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import KW_ONLY, dataclass
from functools import partial
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field

from ..errors import Errors, KrisselError, wrong_setting
from ..serving.bounds import Bounds
from ..serving.listening import bound_sockets, bracketed, log_to_stderr, own_hosts, read_key
from ..serving.processes import LinkProcess
from ..serving.service import LinkService, WorkerLost
from ..serving.service_settings import ServiceSettings
from ..util.settings import checked, takes

Paths = Annotated[list[str | Path], Field(min_length=1)]


@checked
@dataclass(frozen=True)
class AgentSettings(ServiceSettings):
    """Settings of `mcp`.

    pipelines: Pipelines with a linker; the name of each one's folder names its vocabulary
    http: HOST:PORT to listen on, for streamable HTTP at /mcp; default: standard input and output.
        Hosts other than this machine need a key in KRISSEL_API_KEY
    """

    pipelines: Paths
    _: KW_ONLY
    http: str = ""


@takes(AgentSettings)
def mcp(asked: AgentSettings) -> None:
    """Serve pipelines to agents, as MCP tools.

    The tools are annotate, ground, candidates, search, verify, entity, children and parents; the
    resources are vocabulary://NAME, with version and licence.
    Raises KrisselError K684 (the extra is missing), K683 (reachable by others without a key), K693
    (address or port), K006 (an address, or pipelines with the same name), K610, K611 (pipeline),
    K520 (no knowledge base), K675 (no such GPU), K685 (a worker ended and could not be replaced).
    """
    address = _address(asked.http) if asked.http else None
    key = read_key(address[0]) if address else ""
    try:
        from ..serving.agent_http import PATH, http_runner, make_http_app
        from ..serving.agent_server import make_server
        from ..serving.guard import Limits
    except ImportError as error:
        problem = Errors.K684.format(what=f"'{error.name}'", extra="mcp")
        raise KrisselError(problem) from error
    names = _names(asked.pipelines)
    asked.limit_threads()
    bounds = Bounds(chars=asked.max_chars, mentions=asked.max_mentions, answer=asked.max_answer)
    settings = {"name": asked.name, "index_device": asked.index_device, "bounds": bounds}
    limits = Limits(chars=asked.max_chars, seconds=asked.timeout)
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
        queue = {"waiting": asked.max_waiting, "seconds": asked.timeout, "grace": 1}
        services = {}
        with _stdout_as_stderr():
            for vocabulary, pipeline in names.items():
                process = partial(LinkProcess, pipeline, **settings)
                starts = [partial(process, gpu_id=gpu) for gpu in asked.gpus()]
                services[vocabulary] = _started(starts, **queue, ended=ended)
                stack.callback(services[vocabulary].close)
            warm = [
                each.ask("warm", {}) for each in services.values() for _ in range(asked.workers)
            ]
            for future in warm:
                future.result()
        server = make_server(services, limits=limits)
        if address is None:
            end.append(lambda: _leave(problems))
            server.run("stdio")
        else:
            hosts = own_hosts(key, address[0], asked.server_names or ())
            app = make_http_app(server, services, limits=limits, key=key, hosts=hosts)
            runner = http_runner(app, connections=asked.max_connections, grace=asked.grace)
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
