"""Limits of connections that uvicorn lacks: their number, and a timeout for headers."""

import asyncio
from typing import Any

from uvicorn.protocols.http.auto import AutoHTTPProtocol

# Timeout for the headers of a request, in seconds.
HEADER_SECONDS = 10.0
_BASE: Any = AutoHTTPProtocol


def bounded_protocol(
    connections: int, header_seconds: float = HEADER_SECONDS
) -> type[asyncio.Protocol]:
    """Return a protocol for `uvicorn.Config(http=…)`.

    connections: maximum number. A further connection replaces the one whose request has been
        unfinished for longest; it is closed itself if all requests are being answered.
        header_seconds: timeout for complete headers.
    """
    # In order of their start.
    unfinished: dict[Any, None] = {}

    class BoundedProtocol(_BASE):  # type: ignore[misc]
        _timer: asyncio.TimerHandle | None = None

        def connection_made(self, transport: asyncio.Transport) -> None:
            super().connection_made(transport)
            self._follow()
            if len(self.connections) > connections:
                oldest = next(iter(unfinished))
                del unfinished[oldest]
                oldest.transport.abort()

        def data_received(self, data: bytes) -> None:
            super().data_received(data)
            self._follow()

        def on_response_complete(self) -> None:
            super().on_response_complete()
            self._follow()

        def connection_lost(self, exc: Exception | None) -> None:
            unfinished.pop(self, None)
            self._stop_timer()
            super().connection_lost(exc)

        def _follow(self) -> None:
            """Update the state of the connection: waiting for headers, for the rest of a request,
            or for an answer."""
            if self.transport.is_closing():
                return
            has_headers = self.cycle is not None and not self.cycle.response_complete
            if has_headers:
                self._stop_timer()
            elif self._timer is None:
                self._timer = self.loop.call_later(header_seconds, self.transport.abort)
            if has_headers and not self.cycle.more_body:
                unfinished.pop(self, None)
            else:
                unfinished.setdefault(self)

        def _stop_timer(self) -> None:
            if self._timer is not None:
                self._timer.cancel()
                self._timer = None

    return BoundedProtocol
