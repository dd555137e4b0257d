"""The kinds of index this package can load, by the name a saved index carries."""

from collections.abc import Callable
from functools import partial
from typing import Any

from ..errors import Errors, KrisselError
from .exact import ExactIndex
from .faiss_index import DEFAULTS, FaissIndex
from .milvus_index import MilvusIndex
from .protocol import VectorIndex

KINDS = {ExactIndex.kind: ExactIndex, FaissIndex.kind: FaissIndex, MilvusIndex.kind: MilvusIndex}


def make_index(kind: str, settings: dict[str, Any]) -> VectorIndex:
    """An empty index of the `kind` and `settings` found in a manifest.

    Raises KrisselError K507 for a kind that is not ours, K006 for a setting that is not its own.
    """
    if kind not in KINDS:
        raise KrisselError(Errors.K507.format(kind=kind, known=", ".join(KINDS)))
    try:
        return KINDS[kind](**settings)
    except TypeError as error:
        raise KrisselError(Errors.K006.format(setting=f"{kind} index", found=settings, expected=str(error))) from None


def named_index(name: str) -> Callable[[], VectorIndex]:
    """The maker of an index by its short name, with its own defaults: "exact", one of FAISS's types, or "milvus",
    Milvus Lite's exact one.

    "hnsw" holds its vectors in float16: it reads them at random, so half the bytes are a third more speed, and it
    loses far more to the walk along its graph than to rounding.

    Raises KrisselError K006 for another name.
    """
    if name == "exact":
        return partial(ExactIndex)
    if name == "milvus":
        return partial(MilvusIndex)
    if name not in DEFAULTS:
        expected = f"one of {', '.join(['exact', *DEFAULTS, 'milvus'])}"
        raise KrisselError(Errors.K006.format(setting="index", found=name, expected=expected))
    return partial(FaissIndex, type=name, float16=name == "hnsw")
