"""The kinds of index that can be loaded, by the name that a saved index has; other packages can add theirs."""

from collections.abc import Callable
from functools import partial
from importlib.metadata import entry_points
from typing import Any

from ..errors import Errors, KrisselError
from .exact import ExactIndex
from .faiss_index import DEFAULTS, FaissIndex
from .protocol import VectorIndex

KINDS = {ExactIndex.kind: ExactIndex, FaissIndex.kind: FaissIndex}
# A package adds a kind by an entry point of this group, from the kind to its class.
PLUGINS = "krissel_indexes"


def make_index(kind: str, settings: dict[str, Any]) -> VectorIndex:
    """An empty index of the `kind` and `settings` found in a manifest.

    Raises KrisselError K507 for a kind that no installed package has, K006 for a setting that is not its own.
    """
    declared: Any = KINDS.get(kind)
    if declared is None:
        plugins = {point.name: point for point in entry_points(group=PLUGINS)}
        if kind not in plugins:
            raise KrisselError(Errors.K507.format(kind=kind, known=", ".join([*KINDS, *plugins])))
        declared = plugins[kind].load()
    try:
        return declared(**settings)
    except TypeError as error:
        raise KrisselError(Errors.K006.format(setting=f"{kind} index", found=settings, expected=str(error))) from None


def named_index(name: str) -> Callable[[], VectorIndex]:
    """The maker of an index by its short name, with its own defaults: "exact", or one of FAISS's types.

    "hnsw" holds its vectors in float16: it reads them at random, so half the bytes are a third more speed, and it
    loses far more to the walk along its graph than to rounding.

    Raises KrisselError K006 for another name.
    """
    if name == "exact":
        return ExactIndex
    if name not in DEFAULTS:
        expected = f"one of {', '.join(['exact', *DEFAULTS])}"
        raise KrisselError(Errors.K006.format(setting="index", found=name, expected=expected))
    return partial(FaissIndex, type=name, float16=name == "hnsw")
