"""Mention encoder with an encoder of entity-centric references (KRISSBERT §3.5)."""

from collections.abc import Callable
from typing import Any, cast

import numpy as np
from thinc.api import Model
from thinc.types import Floats2d

from ..errors import Errors, KrisselError
from ..util.settings import checked
from ..views import ReferenceParts, View
from .identity import Settings

NAME = "referenced_encoder"


@checked
def ReferencedEncoder(
    mention: Model[list[View], Floats2d],
    reference: Model[list[View], Floats2d] | None = None,
    *,
    aliases: bool = True,
    tree_numbers: bool = True,
    types: bool = True,
    definition: bool = True,
    title_first: bool = False,
) -> Model[list[View], Floats2d]:
    """Encode references with `reference` and all other views with `mention`.

    n views to (n, width), in their order. It is one encoder: trained, saved and fingerprinted as a
    whole.

    mention: encoder of mentions
    reference: encoder of references, of the same width; null: `mention` encodes both
    aliases: write aliases into references (`ReferenceParts`); these settings are saved with the
        encoder, so that references are the same in training and in linking, and a knowledge base
        made with others is refused
    tree_numbers: write tree numbers into references
    types: write semantic types into references
    definition: write the definition into references
    title_first: references start with the names, as in PEL; otherwise with tree numbers and types,
        as in KRISSBERT

    Raises KrisselError K410, on initialize, if the encoders have different widths.
    """
    return Model(
        NAME,
        _forward,
        init=_init,
        layers=[mention] if reference is None else [mention, reference],
        dims={"nO": None},
        attrs={
            "parts": Settings(
                **ReferenceParts(aliases, tree_numbers, types, definition, title_first)._asdict()
            )
        },
    )


def reference_parts(model: Model[Any, Any]) -> ReferenceParts | None:
    """Return the parts of this encoder's references; None for an encoder of mentions alone."""
    found = next((node for node in model.walk() if node.name == NAME), None)
    return None if found is None else ReferenceParts(**vars(found.attrs["parts"]))


def _init(model: Model[Any, Any], X: list[View] | None = None, Y: Floats2d | None = None) -> None:
    for i, layer in enumerate(model.layers):
        # Each with its own kind of views, for document frequencies; with all views if there are
        # none.
        own = [view for view in X or () if view.reference == bool(i)]
        layer.initialize(X=own if own and len(model.layers) > 1 else X)
    widths = {layer.get_dim("nO") for layer in model.layers if layer.has_dim("nO")}
    if len(widths) > 1:
        raise KrisselError(Errors.K410.format(found=" and ".join(map(str, sorted(widths)))))
    if widths:
        model.set_dim("nO", widths.pop())


def _forward(
    model: Model[Any, Any], X: list[View], is_train: bool
) -> tuple[Floats2d, Callable[..., Any]]:
    kinds = [view.reference for view in X] if len(model.layers) > 1 else []
    if True not in kinds:
        return model.layers[0](X, is_train)
    if False not in kinds:
        return model.layers[1](X, is_train)
    # Mentions first. In one copy to a GPU, for both directions.
    xp: Any = model.ops.xp
    order, n = np.argsort(kinds, kind="stable"), kinds.count(False)
    rows = cast(Any, model.ops).asarray(order)
    views = [X[i] for i in order]
    mentions, backprop_mentions = model.layers[0](views[:n], is_train)
    references, backprop_references = model.layers[1](views[n:], is_train)
    vectors = model.ops.alloc2f(len(X), mentions.shape[1])
    vectors[rows] = xp.concatenate((mentions, references))

    def backprop(d_vectors: Floats2d) -> list[Any]:
        d_sorted = d_vectors[rows]
        backprop_mentions(d_sorted[:n])
        backprop_references(d_sorted[n:])
        return []

    return vectors, backprop
