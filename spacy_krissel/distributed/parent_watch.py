"""What a worker process does about the one that started it."""

import multiprocessing
import os
import signal
import threading
from multiprocessing import connection


def follow_parent() -> None:
    """End with the parent, and leave Ctrl-C to it."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    # A killed parent cannot end its workers, and they would wait for work for ever.
    parent = multiprocessing.parent_process()
    if parent is not None:
        connection.wait([parent.sentinel])
        os._exit(1)
