"""The kinds of index that can be loaded, by the name that a saved index has."""

import inspect
from collections.abc import Iterator
from functools import partial
from itertools import chain
from typing import Annotated, Any

from ..errors import Errors, KrisselError, wrong_setting
from ..util.plugins import Registry
from ..util.settings import OneOf, check
from .exact import ExactIndex
from .protocol import MakeIndex, VectorIndex

# An extra brings FAISS: what has no such index imports none of it.
KINDS = Registry(
    "krissel_indexes",
    {ExactIndex.kind: ExactIndex, "faiss": "spacy_krissel.index.faiss_index:FaissIndex"},
    type,
)


def _names() -> Iterator[str]:
    """Exact, the types of FAISS, and the kinds of plugins."""
    from .faiss_index import DEFAULTS

    return chain(["exact"], DEFAULTS, (each for each in KINDS if each not in KINDS.built_in))


IndexName = Annotated[str, OneOf(_names)]


def make_index(kind: str, settings: dict[str, Any], device: str = "cpu") -> VectorIndex:
    """Return an empty index of the `kind` and `settings` in a manifest, for the `device`.

    Raises KrisselError K507 for a kind that no installed package has, and K061 for one that cannot
    be used. Raises K006 for a setting that is not its own, and for a device that the kind cannot
    be searched on.
    """
    if kind not in KINDS:
        raise KrisselError(Errors.K507.format(kind=kind, known=", ".join(KINDS)))
    declared: Any = KINDS[kind]
    if device != "cpu":
        if "device" not in inspect.signature(declared).parameters:
            expected = f"'cpu', since the kind {kind!r} has no setting 'device'"
            raise wrong_setting("device", device, expected)
        settings = {**settings, "device": device}
    try:
        return declared(**settings)
    except TypeError as error:
        raise wrong_setting(f"{kind} index", settings, str(error)) from None


def named_index(name: str, device: str = "cpu") -> MakeIndex:
    """Return a factory of an index for the `device`, with the defaults of its type.

    name: "exact", one of FAISS's types, or the kind of a plugin.

    "hnsw" stores its vectors in float16. It reads them at random, so half the bytes make it a third
    faster, and its walk along the graph loses far more than the rounding.

    Raises KrisselError K006 for another name, and for a device that the type cannot be searched on;
    K061 for a plugin that cannot be used.
    """
    from .faiss_index import DEFAULTS, FaissIndex

    check("index", name, IndexName)
    make: MakeIndex
    if name in DEFAULTS:
        make = partial(FaissIndex, type=name, device=device, float16=name == "hnsw")
    else:
        make = partial(make_index, name, {}, device)
    # Refused here rather than after hours of encoding.
    make()
    return make
