"""Start of an encoder with the weights of another. Small encoders need no transformers, whose
import takes as long as spaCy's."""

from typing import Any, cast

from thinc.api import Model

from ..errors import Errors, KrisselError
from .hashed_bags import NAME as BAGS
from .token_states import NAME as WORD_STATES
from .token_states import PIECE_STATES

TRANSFORMER = "transformer_encoder"
SMALL = "small_encoder"
# Encoders that have a transformer, or take the weights of one.
TRANSFORMERS = (TRANSFORMER, PIECE_STATES)
KINDS = (*TRANSFORMERS, SMALL, WORD_STATES)


def find_encoder(model: Model[Any, Any], kind: str) -> Model[Any, Any] | None:
    """Return the first encoder of this kind in a model, or None.

    If references have their own encoder, it is the encoder of mentions.
    """
    return next((node for node in model.walk() if node.name == kind), None)


def warm_start(source: Model[Any, Any], target: Model[Any, Any], *, contexts: bool = False) -> bool:
    """Initialize the encoders of `target` with the weights of the same kind of encoder in `source`.

    RETURNS: whether there was any.

    Token encoders (`PieceStates`, `WordStates`) get all weights, a classifier above them none;
    `PieceStates` may start from a linker's transformer. A small encoder keeps its context table and
    weight unless `contexts` is set: an encoder of names has not trained them, and their size may
    differ.
    Raises KrisselError K408 and K411 for small encoders of other sizes, K406 for a source that is
    not a transformer.
    """
    started = False
    for node in target.walk():
        found = find_encoder(source, node.name) if node.name in KINDS else None
        if node.name in TRANSFORMERS:
            started |= _start_transformer(source, found, node)
        elif found is not None and node.name == SMALL:
            _start_small(found, node, contexts)
            started = True
        elif found is not None:
            node.from_bytes(found.to_bytes())
            started = True
    return started


def _start_transformer(
    source: Model[Any, Any], found: Model[Any, Any] | None, target: Model[Any, Any]
) -> bool:
    """Start `target` with `found`, the encoder of its kind in `source`, or piece states with the
    transformer there. RETURNS: whether there was any."""
    from .hf.wrapper import hf_shim, transformer_shims

    if found is not None:
        target.from_bytes(found.to_bytes())
    elif target.name == PIECE_STATES and (other := find_encoder(source, TRANSFORMER)) is not None:
        hf_shim(target).from_bytes(hf_shim(other).to_bytes())
    else:
        return False
    for shim in transformer_shims(target):
        # It will be trained.
        shim.quantized = None
    return True


def _start_small(source: Model[Any, Any], target: Model[Any, Any], contexts: bool) -> None:
    sizes = [{name: node.get_dim(name) for name in ("nO", "nH")} for node in (source, target)]
    if sizes[0] != sizes[1]:
        found, expected = ((each["nO"], each["nH"]) for each in sizes)
        raise KrisselError(Errors.K411.format(found=found, expected=expected))
    of_both = [[node for node in each.walk() if node.name == BAGS] for each in (source, target)]
    for trained, started in list(zip(*of_both, strict=True))[: None if contexts else 1]:
        started.shims[0].from_bytes(trained.shims[0].to_bytes())
    for name in ("W1", "b1", "W2", "b2", *(["context_weight"] if contexts else [])):
        value: Any = source.get_param(name)
        target.set_param(name, cast(Any, target.ops.asarray(value)).copy())
