"""Worker processes: their end with the parent, and Ray clusters."""

import multiprocessing
import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing import connection
from typing import Any

from ..errors import Errors, KrisselError


def follow_parent() -> None:
    """In a worker: end with the parent, and leave Ctrl-C to it."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    parent = multiprocessing.parent_process()

    def end_with_parent() -> None:
        # A killed parent cannot end its workers, which would wait for work forever.
        if parent is not None:
            connection.wait([parent.sentinel])
            os._exit(1)

    threading.Thread(target=end_with_parent, daemon=True).start()


@contextmanager
def ray_cluster(address: str, retries: int) -> Iterator[Any]:
    """The module `ray`, connected.

    address: of a cluster (`host:port`, "auto"), or "local" for a temporary one on this machine. A cluster that the
        program is connected to already is used instead.
    retries: how often lost work is repeated, for the message.

    Raises KrisselError K023 (Ray is not installed), K024 (no cluster), K025 (work lost repeatedly), and what the work
    itself raised.
    """
    try:
        import ray
    except ImportError as error:
        raise KrisselError(Errors.K023) from error

    connected = ray.is_initialized()
    if not connected:
        # No usage reports.
        os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
        local: dict[str, Any] = {"include_dashboard": False} if address == "local" else {}
        try:
            ray.init(address=address, log_to_driver=False, **local)
        except (ConnectionError, RuntimeError, ValueError) as error:
            raise KrisselError(Errors.K024.format(address=address, problem=error)) from error
    try:
        yield ray
    except ray.exceptions.RayError as error:
        cause = getattr(error, "cause", None)
        if isinstance(cause, KrisselError):
            raise cause from error
        raise KrisselError(Errors.K025.format(problem=error, retries=retries)) from error
    finally:
        if not connected:
            ray.shutdown()
