"""Guard of an HTTP app: requests are authenticated, limited, counted and logged."""

import base64
import hmac
import json
import logging
import re
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from prometheus_client import (
    CONTENT_TYPE_LATEST,
    CollectorRegistry,
    Counter,
    Histogram,
    generate_latest,
)
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from .bounds import MAX_CHARS, MAX_DOCUMENTS, Bounds
from .messages import encoded
from .service import TIMEOUT_SECONDS, Answer

LOG = logging.getLogger("spacy_krissel.serving")
Send = Callable[[Any], Awaitable[None]]
# Maximum total bytes of bodies being read or answered, and the size up to which bodies are not
# counted. Short bodies are limited by the number of connections.
MAX_BODIES, SHORT_BODY = 50_000_000, 100_000


@dataclass(frozen=True)
class Limits:
    """Limits of a request.

    documents: of a request. chars: of all its texts. seconds: until it times out.
    """

    documents: int = MAX_DOCUMENTS
    chars: int = MAX_CHARS
    seconds: float = TIMEOUT_SECONDS

    @property
    def body(self) -> int:
        """Maximum bytes of a request: JSON takes up to twelve per character."""
        return 12 * self.chars + 100_000

    def check(self, **found: int) -> None:
        """Raise KrisselError K692 for too many `documents` or `chars`."""
        Bounds(self.documents, self.chars).check(**found)


class Bodies:
    """Counter of the bytes of all request bodies, updated before they are read."""

    def __init__(self) -> None:
        self._taken = 0

    def take(self, state: Any, n: int) -> None:
        """Count a body of `n` bytes for the request with that state. Raises HTTPException 429."""
        n = n if n > SHORT_BODY else 0
        more = n - getattr(state, "taken", 0)
        if self._taken + more > MAX_BODIES:
            raise HTTPException(
                429, "Too many large requests at once. Try again soon", {"Retry-After": "1"}
            )
        self._taken, state.taken = self._taken + more, n

    def release(self, n: int) -> None:
        self._taken -= n


class Metrics:
    """Metrics of a service, in a registry of its own: there may be several in a process."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self.requests = Counter(
            "krissel_requests", "Requests", ["route", "status"], registry=self.registry
        )
        self.seconds = Histogram(
            "krissel_request_seconds", "Time of requests", ["route"], registry=self.registry
        )
        self.documents = Counter("krissel_documents", "Documents linked", registry=self.registry)
        self.mentions = Counter("krissel_mentions", "Mentions linked", registry=self.registry)
        self.cut = Counter(
            "krissel_cut_words", "Long words cut before tokenization", registry=self.registry
        )

    def linked(self, answer: Answer) -> None:
        self.documents.inc(answer.documents)
        self.mentions.inc(answer.mentions)
        self.cut.inc(answer.cut)

    def shown(self) -> Response:
        return Response(generate_latest(self.registry), media_type=CONTENT_TYPE_LATEST)


class Guard:
    """Middleware that authenticates, counts and logs each request, without its text.

    public: paths that need no key. The rest as in `make_app`.
    """

    def __init__(
        self,
        app: Any,
        metrics: Metrics,
        bodies: Bodies,
        key: str,
        user_header: str,
        hosts: tuple[str, ...],
        public: tuple[str, ...],
    ) -> None:
        self.app, self.metrics, self.bodies, self.hosts = app, metrics, bodies, hosts
        self.public = public
        self.key, self.user_header = key.encode(), user_header.lower().encode("latin-1")

    async def __call__(self, scope: Any, receive: Any, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        start, status = time.perf_counter(), 500

        async def sent(message: Any) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                message["headers"] = [*message["headers"], (b"x-content-type-options", b"nosniff")]
            await send(message)

        headers = dict(scope["headers"])
        user = headers.get(self.user_header, b"").decode("latin-1") if self.user_header else ""
        state = scope.setdefault("state", {})
        state["user"] = user
        try:
            if self.hosts and _host(headers) not in self.hosts:
                await refusal(400, "Host name not allowed")(scope, receive, sent)
            elif scope["path"] not in self.public and self.user_header and not user:
                await refusal(401, "Expected the user's name from the proxy")(scope, receive, sent)
            elif scope["path"] not in self.public and not self._may(headers):
                await refusal(401, "Expected the key", {"WWW-Authenticate": "Bearer"})(
                    scope, receive, sent
                )
            else:
                await self.app(scope, receive, sent)
        finally:
            self.bodies.release(state.get("taken", 0))
            seconds = time.perf_counter() - start
            route = getattr(scope.get("route"), "path", "other")
            self.metrics.requests.labels(route, status).inc()
            self.metrics.seconds.labels(route).observe(seconds)
            record = {
                "method": scope["method"],
                "route": route,
                "status": status,
                "ms": round(1000 * seconds, 1),
            }
            LOG.info(json.dumps({**record, **state.get("counts", {})}))

    def _may(self, headers: dict[bytes, bytes]) -> bool:
        given = headers.get(b"authorization", b"")
        if given.startswith(b"Basic "):
            # For tools that support nothing else, with any user name: Label Studio.
            with suppress(ValueError):
                given = (
                    b"Bearer " + base64.b64decode(given.removeprefix(b"Basic ")).partition(b":")[2]
                )
        return not self.key or hmac.compare_digest(given, b"Bearer " + self.key)


def _host(headers: dict[bytes, bytes]) -> str:
    """Return the name in the header `Host`, without the port; [::1] with its brackets."""
    host = headers.get(b"host", b"").decode("latin-1").lower()
    found = re.fullmatch(r"(\[[0-9a-f:]+\]|[^:/?#@\s]*)(?::[0-9]*)?", host)
    return found[1] if found else ""


async def read_body(request: Request, max_bytes: int, bodies: Bodies) -> bytearray:
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "application/json":
        # Requests that a page of another site may send without a preflight have other types.
        raise HTTPException(415, "Expected content-type: application/json")
    length = request.headers.get("content-length", "")
    expected = int(length) if length.isascii() and length.isdigit() else 0

    def expect(n: int) -> None:
        if n > max_bytes:
            raise HTTPException(413, f"Expected at most {max_bytes:,} bytes")
        bodies.take(request.state, n)

    expect(expected)
    content = bytearray()
    async for chunk in request.stream():
        content += chunk
        if len(content) > expected:
            expect(len(content))
    return content


def refusal(status: int, message: str, headers: Any = None) -> Response:
    return json_response({"error": message}, status, headers)


def json_response(content: Any, status: int, headers: Any = None) -> Response:
    return response(encoded(content), status, headers)


def response(content: bytes, status: int = 200, headers: Any = None) -> Response:
    return Response(content, status, headers, "application/json")
