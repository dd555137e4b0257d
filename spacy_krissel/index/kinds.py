"""Kinds of index by their names in saved files; other packages can add kinds."""

import inspect
from functools import partial
from importlib.metadata import entry_points
from typing import Any

from ..errors import Errors, KrisselError
from .exact import ExactIndex
from .protocol import MakeIndex, VectorIndex

BUILT_IN = (ExactIndex.kind, "faiss")
# Entry point group of packages that add a kind; it maps the kind to its class.
PLUGINS = "krissel_indexes"


def make_index(kind: str, settings: dict[str, Any], device: str = "cpu") -> VectorIndex:
    """Return an empty index of the `kind` and `settings` in a manifest, for the `device`.

    Raises KrisselError K507 for a kind that no installed package has. Raises K006 for a setting
    that the kind does not have, and for a device that it cannot search on.
    """
    declared = _class_of(kind)
    if device != "cpu":
        if "device" not in inspect.signature(declared).parameters:
            wrong = {"setting": "device", "found": device}
            expected = f"'cpu', since the kind {kind!r} has no setting 'device'"
            raise KrisselError(Errors.K006.format(**wrong, expected=expected))
        settings = {**settings, "device": device}
    try:
        return declared(**settings)
    except TypeError as error:
        raise KrisselError(Errors.K006.format(setting=f"{kind} index", found=settings, expected=str(error))) from None


def named_index(name: str, device: str = "cpu") -> MakeIndex:
    """Return the maker of an index for the `device`, with the defaults of its type.

    name: "exact", or one of FAISS's types.

    "hnsw" stores its vectors in float16. It reads them at random, so half the bytes make it a third
    faster, and its walk along the graph loses far more than the rounding.

    Raises KrisselError K006 for another name, and for a device that the type cannot search on.
    """
    from .faiss_index import DEFAULTS, FaissIndex

    if name == "exact":
        make: MakeIndex = ExactIndex if device == "cpu" else partial(ExactIndex, device)
    elif name in DEFAULTS:
        make = partial(FaissIndex, type=name, device=device, float16=name == "hnsw")
    else:
        expected = f"one of {', '.join(['exact', *DEFAULTS])}"
        raise KrisselError(Errors.K006.format(setting="index", found=name, expected=expected))
    # Fail here rather than after hours of encoding.
    make()
    return make


def _class_of(kind: str) -> Any:
    if kind == ExactIndex.kind:
        return ExactIndex
    if kind in BUILT_IN:
        # The library is an extra, and a pipeline without a FAISS index does not import it.
        from .faiss_index import FaissIndex

        return FaissIndex
    plugins = {point.name: point for point in entry_points(group=PLUGINS)}
    if kind not in plugins:
        raise KrisselError(Errors.K507.format(kind=kind, known=", ".join([*BUILT_IN, *plugins])))
    return plugins[kind].load()
