"""The kinds of index that can be loaded, by the name that a saved index has; other packages can add theirs."""

import inspect
from functools import partial
from importlib.metadata import entry_points
from typing import Any

from ..errors import Errors, KrisselError, wrong_setting
from .exact import ExactIndex
from .faiss_index import DEFAULTS, FaissIndex
from .protocol import MakeIndex, VectorIndex

KINDS = {ExactIndex.kind: ExactIndex, FaissIndex.kind: FaissIndex}
# A package adds a kind by an entry point of this group, from the kind to its class.
PLUGINS = "krissel_indexes"


def make_index(kind: str, settings: dict[str, Any], device: str = "cpu") -> VectorIndex:
    """Return an empty index of the `kind` and `settings` found in a manifest, for the `device`.

    Raises KrisselError K507 for a kind that no installed package has. Raises K006 for a setting
    that is not its own, and for a device that the kind cannot be searched on.
    """
    declared: Any = KINDS.get(kind)
    if declared is None:
        plugins = {point.name: point for point in entry_points(group=PLUGINS)}
        if kind not in plugins:
            raise KrisselError(Errors.K507.format(kind=kind, known=", ".join([*KINDS, *plugins])))
        declared = plugins[kind].load()
    if device != "cpu":
        if "device" not in inspect.signature(declared).parameters:
            wrong = {"setting": "device", "found": device}
            expected = f"'cpu', since the kind {kind!r} has no setting 'device'"
            raise KrisselError(Errors.K006.format(**wrong, expected=expected))
        settings = {**settings, "device": device}
    try:
        return declared(**settings)
    except TypeError as error:
        raise wrong_setting(f"{kind} index", settings, str(error)) from None


def named_index(name: str, device: str = "cpu") -> MakeIndex:
    """Return the maker of an index for the `device`, with the defaults of its type.

    name: "exact", or one of FAISS's types.

    "hnsw" holds its vectors in float16: it reads them at random, so half the bytes are a third more speed, and it
    loses far more to the walk along its graph than to rounding.

    Raises KrisselError K006 for another name, and for a device that the type cannot be searched on.
    """
    if name == "exact":
        make: MakeIndex = ExactIndex if device == "cpu" else partial(ExactIndex, device)
    elif name in DEFAULTS:
        make = partial(FaissIndex, type=name, device=device, float16=name == "hnsw")
    else:
        raise wrong_setting("index", name, f"one of {', '.join(['exact', *DEFAULTS])}")
    # Refused here rather than after hours of encoding.
    make()
    return make
