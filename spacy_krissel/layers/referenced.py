"""A mention encoder and, beside it, an encoder of entity-centric references (KRISSBERT §3.5)."""

from typing import Any, Callable, List, Optional, Tuple

from thinc.api import Model
from thinc.types import Floats2d

from ..errors import Errors, KrisselError
from ..views import ReferenceParts, View
from .identity import keep_in_bytes

NAME = "referenced_encoder"

keep_in_bytes(ReferenceParts)


def ReferencedEncoder(
    mention: Model[List[View], Floats2d],
    reference: Optional[Model[List[View], Floats2d]] = None,
    *,
    aliases: bool = True,
    tree_numbers: bool = True,
    types: bool = True,
    definition: bool = True,
    title_first: bool = False,
) -> Model[List[View], Floats2d]:
    """Encode references with `reference` and all other views with `mention`: n views to (n, width), in their order.

    To everything around it this is one encoder: it is trained, saved and told apart from others as one.

    mention, reference: encoders of one width. Without `reference`, one encoder reads both.
    aliases, tree_numbers, types, definition: what stands in a reference (`ReferenceParts`). Kept with the encoder, so
        that references are written alike in training and in linking, and a knowledge base made with others is refused.
    title_first: references begin with the names, as PEL's do; otherwise tree numbers and types go before, as
        KRISSBERT's.

    Raises KrisselError K410, on initialize, when the encoders have different widths.
    """
    return Model(
        NAME,
        _forward,
        init=_init,
        layers=[mention] if reference is None else [mention, reference],
        dims={"nO": None},
        attrs={"parts": ReferenceParts(aliases, tree_numbers, types, definition, title_first)},
    )


def reference_parts(model: Model) -> Optional[ReferenceParts]:
    """What stands in the references that an encoder was made for; None for an encoder of mentions alone."""
    for node in model.walk():
        if node.name == NAME:
            return node.attrs["parts"]
    return None


def _init(model: Model, X: Optional[List[View]] = None, Y: Optional[Floats2d] = None) -> None:
    for i, layer in enumerate(model.layers):
        # Each by its own kind of views, where it learns what is frequent among them; by all if there are none.
        own = [view for view in X or () if view.reference == bool(i)]
        layer.initialize(X=own if own and len(model.layers) > 1 else X)
    widths = {layer.get_dim("nO") for layer in model.layers if layer.has_dim("nO")}
    if len(widths) > 1:
        raise KrisselError(Errors.K410.format(found=" and ".join(map(str, sorted(widths)))))
    if widths:
        model.set_dim("nO", widths.pop())


def _forward(model: Model, X: List[View], is_train: bool) -> Tuple[Floats2d, Callable]:
    kinds = [view.reference for view in X] if len(model.layers) > 1 else []
    if True not in kinds:
        return model.layers[0](X, is_train)
    if False not in kinds:
        return model.layers[1](X, is_train)
    parts = []
    for layer, kind in zip(model.layers, (False, True), strict=True):
        rows = [i for i, is_reference in enumerate(kinds) if is_reference == kind]
        parts.append((rows, *layer([X[i] for i in rows], is_train)))
    vectors = model.ops.alloc2f(len(X), parts[0][1].shape[1])
    for rows, Y, _ in parts:
        vectors[rows] = Y

    def backprop(d_vectors: Floats2d) -> List[Any]:
        for rows, _, backprop_rows in parts:
            backprop_rows(d_vectors[rows])
        return []

    return vectors, backprop
