"""What an unfinished run was started with, beside its work."""

import json
import os
from pathlib import Path
from typing import Any, Dict

STATE = "state.json"


def write_state(folder: Path, state: Dict[str, Any]) -> None:
    temporary = folder / f"{STATE}.tmp"
    temporary.write_text(json.dumps(state, indent=2, sort_keys=True), encoding="utf8")
    os.replace(temporary, folder / STATE)


def changes_of_state(folder: Path, state: Dict[str, Any]) -> str:
    """How `state`, JSON, differs from the one that was written, for messages; "" where it does not."""
    state = json.loads(json.dumps(state))
    try:
        earlier = json.loads((folder / STATE).read_text(encoding="utf8"))
    except ValueError:
        earlier = {}
    differing = sorted(key for key in {*earlier, *state} if earlier.get(key) != state.get(key))
    return "; ".join(_change(key, earlier.get(key), state.get(key)) for key in differing)


def _change(key: str, earlier: Any, now: Any) -> str:
    # Of hashes nobody reads more than that they are others.
    if len(f"{earlier!r}{now!r}") < 120 and not isinstance(now, list):
        return f"{key} was {earlier!r} and is {now!r}"
    return f"{key} changed"
