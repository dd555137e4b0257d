"""The kinds of index that can be loaded, by the name that a saved index has."""

import inspect
from collections.abc import Iterator
from functools import partial
from typing import Annotated, Any

from ..errors import Errors, KrisselError
from ..util.plugins import Registry
from ..util.settings import OneOf, check
from .exact import ExactIndex
from .protocol import MakeIndex, VectorIndex

# An extra brings FAISS, and a pipeline without such an index needs none of it: it is not imported here.
_BUILT_IN: dict[str, type | str] = {ExactIndex.kind: ExactIndex, "faiss": "spacy_krissel.index.faiss_index:FaissIndex"}
KINDS: Registry[type] = Registry("krissel_indexes", _BUILT_IN, type)


def _index_names() -> Iterator[str]:
    """Yield "exact", the types of FAISS, and the kinds of plugins."""
    from .faiss_index import DEFAULTS

    yield from (ExactIndex.kind, *DEFAULTS)
    yield from (kind for kind in KINDS if kind not in _BUILT_IN)


IndexName = Annotated[str, OneOf(_index_names)]


def make_index(kind: str, settings: dict[str, Any], device: str = "cpu") -> VectorIndex:
    """Return an empty index of the `kind` and `settings` found in a manifest, for the `device`.

    Raises KrisselError K507 for a kind that no installed package has, and K061 for one that cannot
    be used. Raises K006 for a setting that is not its own, and for a device that the kind cannot
    be searched on.
    """
    if kind not in KINDS:
        raise KrisselError(Errors.K507.format(kind=kind, known=", ".join(KINDS)))
    declared: Any = KINDS[kind]
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

    name: "exact", one of FAISS's types, or the kind of a plugin.

    "hnsw" holds its vectors in float16: it reads them at random, so half the bytes are a third more speed, and it
    loses far more to the walk along its graph than to rounding.

    Raises KrisselError K006 for another name, and for a device that the type cannot be searched on;
    K061 for a plugin that cannot be used.
    """
    from .faiss_index import DEFAULTS, FaissIndex

    check("index", name, IndexName)
    make: MakeIndex = partial(make_index, name, {}, device)
    if name in DEFAULTS:
        make = partial(FaissIndex, type=name, device=device, float16=name == "hnsw")
    # Refused here rather than after hours of encoding.
    make()
    return make
