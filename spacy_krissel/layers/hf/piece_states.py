"""Last hidden state of a transformer, word piece by word piece (OSLAT §3.2)."""

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from spacy.util import SimpleFrozenDict
from thinc.api import Model
from thinc.types import Floats2d

from ...util.settings import PositiveInt, checked
from ..identity import Settings
from ..token_states import PIECE_STATES, StatesModel, TokenStates
from .passes import make_passes
from .transformer import Window
from .wordpieces import PieceRow, encode_with_offsets
from .wrapper import encode_passes, hf_shim, hf_wrapper


@checked
def PieceStates(
    name: str,
    *,
    window: Window = 128,
    mixed_precision: bool = False,
    batch_pieces: PositiveInt | None = None,
    tokenizer_config: dict[str, Any] = SimpleFrozenDict(),  # noqa: B008 (frozen)
    transformer_config: dict[str, Any] = SimpleFrozenDict(),  # noqa: B008 (frozen)
) -> StatesModel:
    """Encode a text's pieces by the last layer of a Hugging Face encoder.

    The states of `[CLS]` and `[SEP]` are dropped: both represent the whole text and would draw all
    attention (§3.2). n texts to their `TokenStates`. A text longer than the window is read in
    consecutive windows, each by itself; nothing is cut off. Nothing is read from `name` before
    `model.initialize`.

    window: pieces per pass, special tokens included
    name, mixed_precision, batch_pieces, tokenizer_config, transformer_config: as in
        `TransformerEncoder`

    Raises KrisselError K006 for a wrong setting; on initialize K401 to K404.
    """
    return Model(
        PIECE_STATES,
        _forward,
        init=partial(_init, name=name),
        layers=[
            hf_wrapper(
                tokenizer_config,
                transformer_config,
                pooling="marker",
                mixed_precision=mixed_precision,
                batch_pieces=batch_pieces,
            )
        ],
        dims={"nO": None},
        attrs={"settings": Settings(window=window)},
    )


def _init(model: StatesModel, X: list[str] | None = None, Y: Any = None, *, name: str) -> None:
    shim = hf_shim(model)
    shim.read(name, model.attrs["settings"].window, tokens=())
    model.set_dim("nO", shim.transformer.config.hidden_size)


def _forward(
    model: StatesModel, X: list[str], is_train: bool
) -> tuple[TokenStates, Callable[[Floats2d], list[Any]]]:
    shim, window = hf_shim(model), model.attrs["settings"].window
    shim.begin(window)
    rows: list[PieceRow] = []
    lengths: list[int] = []
    offsets: list[tuple[int, int]] = []
    for ids, found in encode_with_offsets(shim.tokenizer, X):
        for start, end in windows(found, window - 2):
            row = [shim.tokenizer.cls_token_id, *ids[start:end], shim.tokenizer.sep_token_id]
            own = np.asarray(row, dtype="int32")
            # Each piece stands for both markers of a view, whose mean is its own vector.
            rows.extend(PieceRow(own, i, i) for i in range(1, len(row) - 1))
        lengths.append(len(ids))
        offsets.extend(found)
    passes = make_passes(shim, rows, is_train, window)
    vectors, backprop = encode_passes(model.layers[0], passes, is_train, width=model.get_dim("nO"))
    offset_array = np.asarray(offsets, dtype=np.int64).reshape(-1, 2)
    return TokenStates(vectors, np.asarray(lengths, dtype=np.int64), offset_array), backprop


def windows(offsets: list[tuple[int, int]], size: int) -> list[tuple[int, int]]:
    """Return runs of at most `size` of the pieces at `offsets`, cut between words if possible."""
    cut: list[tuple[int, int]] = []
    start = 0
    while start < len(offsets):
        end = min(len(offsets), start + size)
        while start < end < len(offsets) and offsets[end][0] == offsets[end - 1][1]:
            end -= 1
        end = end if end > start else min(len(offsets), start + size)
        cut.append((start, end))
        start = end
    return cut
