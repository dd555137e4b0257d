"""Counts what passes between host and device, and what the host waits for.

| kind | counted once for |
|---|---|
| `to_device` | a copy of host data to the device, small or large: an index list is one too |
| `to_host` | a copy of an array to the host, for which the host waits |
| `waits` | a value that the host needs: a number, a truth, how many elements a mask leaves |
"""

import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path

KINDS = ("to_device", "to_host", "waits")
# Counted apart: how often it waits depends on its version.
LIBRARY = "transformers"
_PACKAGE, _LIBRARY = (
    f"{Path(find_spec(name).origin).parent}/" for name in ("spacy_krissel", LIBRARY)
)

# (kind, function of the package) -> how often.
_events: Counter[tuple[str, str]] = Counter()


def note(kind: str, times: int = 1) -> None:
    """Count an event for the innermost function of the package that is running."""
    frame = sys._getframe(1)
    while frame is not None and not frame.f_code.co_filename.startswith((_PACKAGE, _LIBRARY)):
        frame = frame.f_back
    where = "outside"
    if frame is not None and frame.f_code.co_filename.startswith(_LIBRARY):
        where = LIBRARY
    elif frame is not None:
        file = frame.f_code.co_filename.removeprefix(_PACKAGE)
        name = getattr(frame.f_code, "co_qualname", frame.f_code.co_name)
        where = f"{file}:{name.replace('.<locals>', '')}"
    _events[kind, where] += times


@contextmanager
def counted() -> Iterator[Counter[tuple[str, str]]]:
    """Give a counter that has, afterwards, the events of the block by kind and function."""
    before, found = _events.copy(), Counter()
    try:
        yield found
    finally:
        found.update(_events - before)


def totals(events: Counter[tuple[str, str]]) -> dict[str, int]:
    """Sum events by kind, and those of transformers under its name."""
    found = dict.fromkeys((*KINDS, LIBRARY), 0)
    for (kind, where), n in events.items():
        found[LIBRARY if where == LIBRARY else kind] += n
    return found
