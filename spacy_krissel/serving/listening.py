"""Listening of a service: its sockets, who may reach it, and its log."""

import errno
import ipaddress
import json
import logging
import os
import socket
import sys
from collections.abc import Sequence
from typing import Any

from ..errors import Errors, KrisselError

KEY = "KRISSEL_API_KEY"
# Default number of connections at a time.
MAX_CONNECTIONS = 512
# Host names that a browser on this machine uses.
LOCAL_NAMES = ("localhost", "127.0.0.1", "[::1]")


def read_key(host: str) -> str:
    """Return the key of the service in the environment, or "". Raises KrisselError K683 if other
    machines could ask without one."""
    key = os.environ.get(KEY, "")
    if not (key or host == "localhost" or _is_loopback(host)):
        raise KrisselError(Errors.K683.format(host=host, variable=KEY))
    return key


def own_hosts(key: str, host: str, server_names: Sequence[str] = ()) -> tuple[str, ...]:
    """Return the host names that requests may have; () for any: a page of another site has no
    key."""
    return () if key else (*LOCAL_NAMES, bracketed(host), *server_names)


def bracketed(host: str) -> str:
    """Return a host as in an address: IPv6 in brackets."""
    return f"[{host}]" if ":" in host else host


def bound_sockets(host: str, port: int) -> list[socket.socket]:
    """Return sockets bound to the addresses of `host`. Raises KrisselError K693."""
    sockets: list[socket.socket] = []
    missing: OSError | None = None
    try:
        for family, kind, protocol, _, address in socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM
        ):
            try:
                sockets.append(_bound_socket(family, kind, protocol, address))
            except OSError as error:
                # A machine may resolve its name to an IPv6 address without supporting it.
                if error.errno not in (errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT):
                    raise
                missing = error
        if not sockets and missing is not None:
            raise missing
    except OSError as error:
        for each in sockets:
            each.close()
        raise KrisselError(
            Errors.K693.format(host=host, port=port, problem=error.strerror or str(error))
        ) from error
    return sockets


def _bound_socket(family: int, kind: int, protocol: int, address: Any) -> socket.socket:
    bound = socket.socket(family, kind, protocol)
    try:
        if os.name == "posix":
            # Otherwise connections of an earlier service block the port for a minute.
            bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            bound.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        bound.bind(address)
    except OSError:
        bound.close()
        raise
    return bound


def log_to_stderr() -> None:
    log = logging.getLogger("spacy_krissel.serving")
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_Lines())
    log.addHandler(handler)
    # Another library may have added a handler to the root.
    log.propagate = False
    log.setLevel(logging.INFO)


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


class _Lines(logging.Formatter):
    """Formatter of one JSON object per line."""

    def format(self, record: logging.LogRecord) -> str:
        data: dict[str, Any] = {"time": self.formatTime(record), "level": record.levelname}
        if record.exc_info:
            data["traceback"] = self.formatException(record.exc_info)
        return json.dumps({**data, **json.loads(record.getMessage())})
