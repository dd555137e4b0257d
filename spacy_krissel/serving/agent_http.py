"""Streamable HTTP of the tools of agents, behind the guard of the service."""

import asyncio
from collections.abc import Mapping
from typing import Any

import uvicorn
from mcp.server.mcpserver import MCPServer
from mcp.server.transport_security import TransportSecuritySettings
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from .guard import Bodies, Guard, Limits, Metrics, json_response, read_body, refusal
from .protocol import bounded_protocol
from .service import LinkService

PATH = "/mcp"


def make_http_app(
    server: MCPServer,
    services: Mapping[str, LinkService],
    *,
    limits: Limits | None = None,
    key: str = "",
    hosts: tuple[str, ...] = (),
) -> Any:
    """Return the ASGI app of a server; shutting it down closes the services.

    Requests are answered one by one, without sessions or streams. key, hosts: as in
    `app.make_app`.
    """
    limits, metrics, bodies = limits or Limits(), Metrics(), Bodies()

    @server.custom_route("/health", methods=["GET"])
    async def health(_: Request) -> Response:
        answering = {name: each.answering() for name, each in services.items()}
        is_ok = all(answering.values())
        content = {"status": "ok" if is_ok else "no answer", "answering": answering}
        return json_response(content, 200 if is_ok else 503)

    @server.custom_route("/metrics", methods=["GET"])
    async def show_metrics(_: Request) -> Response:
        return metrics.shown()

    app = server.streamable_http_app(
        streamable_http_path=PATH,
        json_response=True,
        stateless_http=True,
        max_request_body_size=limits.body,
        # The guard checks the host.
        transport_security=TransportSecuritySettings(enable_dns_rebinding_protection=False),
    )
    whole = Closing(WholeBodies(app, limits, bodies), services)
    return Guard(whole, metrics, bodies, key, "", hosts, ("/health",))


class Closing:
    """Middleware that closes services when the app is shut down. Uvicorn may end the process right
    after that."""

    def __init__(self, app: Any, services: Mapping[str, LinkService]) -> None:
        self.app, self.services = app, services

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        async def sent(message: Any) -> None:
            if message["type"] == "lifespan.shutdown.complete":
                for service in self.services.values():
                    await asyncio.to_thread(service.close)
            await send(message)

        await self.app(scope, receive, sent if scope["type"] == "lifespan" else send)


class WholeBodies:
    """Middleware that reads the body of a message before it is passed on, within the limits."""

    def __init__(self, app: Any, limits: Limits, bodies: Bodies) -> None:
        self.app, self.limits, self.bodies = app, limits, bodies

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "http" or scope["path"] != PATH:
            await self.app(scope, receive, send)
            return
        # `Metrics` and the log name it.
        scope["route"] = _Route
        try:
            if scope["method"] != "POST":
                # There is no stream to listen to.
                raise HTTPException(405, "Expected POST", {"Allow": "POST"})
            request = Request(scope, receive)
            read = read_body(request, self.limits.body, self.bodies)
            content = await asyncio.wait_for(read, self.limits.seconds)
        except asyncio.TimeoutError:
            await refusal(408, "The request body is incomplete")(scope, receive, send)
            return
        except HTTPException as error:
            answer = refusal(error.status_code, str(error.detail), error.headers)
            await answer(scope, receive, send)
            return
        messages = [{"type": "http.request", "body": bytes(content), "more_body": False}]

        async def replay() -> Any:
            return messages.pop() if messages else await receive()

        await self.app(scope, replay, send)


class _Route:
    path = PATH


def http_runner(app: Any, *, connections: int, grace: int) -> uvicorn.Server:
    """Return what serves the app. connections: their maximum number. grace: seconds for pending
    requests."""
    return uvicorn.Server(
        uvicorn.Config(
            app,
            http=bounded_protocol(connections),
            log_level="warning",
            access_log=False,
            timeout_graceful_shutdown=grace,
        )
    )
