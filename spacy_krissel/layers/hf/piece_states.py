"""The last hidden state of a transformer, word piece by word piece (OSLAT §3.2)."""

from functools import partial
from typing import Any, Callable, Dict, List, NamedTuple, Optional, Tuple, cast

import numpy as np
from spacy.util import SimpleFrozenDict
from spacy_transformers.data_classes import HFObjects
from thinc.api import Model
from thinc.types import Floats2d

from ...errors import Errors, KrisselError
from ..identity import keep_in_bytes
from ..token_states import StatesModel, TokenStates
from .load import load_pretrained
from .shim import WholeHFShim
from .transformer import MIN_FILL, MIN_WINDOW, training_lengths
from .wordpieces import PieceRow, encode_with_places, length_batches, pad_pieces
from .wrapper import hf_wrapper

NAME = "piece_states"


@keep_in_bytes
class StateSettings(NamedTuple):
    """What the states depend on beside the weights."""

    window: int


def PieceStates(
    name: str,
    *,
    window: int = 128,
    mixed_precision: bool = False,
    batch_pieces: int = 4096,
    tokenizer_config: Dict[str, Any] = SimpleFrozenDict(),  # noqa: B006, B008 (frozen)
    transformer_config: Dict[str, Any] = SimpleFrozenDict(),  # noqa: B006, B008 (frozen)
) -> StatesModel:
    """The states of a text's pieces in the last layer of a Hugging Face encoder, those of `[CLS]` and `[SEP]` left out:
    both speak of all of the text, and attention would go to them alone (§3.2).

    Input: n texts. Output: their `TokenStates`. Of a text longer than the window, consecutive windows are read, each
    by itself; nothing is cut off. Nothing is read from `name` before `model.initialize`.

    window: pieces read at once, special tokens included.
    name, mixed_precision, batch_pieces, tokenizer_config, transformer_config: as in `TransformerEncoder`.
    Raises KrisselError K006 for a wrong setting; on initialize K401 to K404.
    """
    if window < MIN_WINDOW:
        raise KrisselError(Errors.K006.format(setting="window", found=window, expected=f"at least {MIN_WINDOW} pieces"))
    if batch_pieces < 1:
        raise KrisselError(Errors.K006.format(setting="batch_pieces", found=batch_pieces, expected="at least 1"))
    objects = HFObjects(None, None, None, dict(tokenizer_config), dict(transformer_config))
    return Model(
        NAME,
        partial(_forward, batch_pieces=batch_pieces),
        init=partial(_init, name=name),
        layers=[hf_wrapper(objects, mixed_precision=mixed_precision)],
        dims={"nO": None},
        attrs={"settings": StateSettings(window)},
    )


def _init(model: StatesModel, X: Optional[List[str]] = None, Y: Any = None, *, name: str) -> None:
    shim = _shim(model)
    if shim.transformer is None:
        held = shim._hfmodel
        shim.set_encoder(*load_pretrained(name, held._init_tokenizer_config, held._init_transformer_config, ()))
    _check_window(model, shim)
    model.set_dim("nO", shim.transformer.config.hidden_size)


def _forward(
    model: StatesModel, X: List[str], is_train: bool, *, batch_pieces: int
) -> Tuple[TokenStates, Callable[[Floats2d], List[str]]]:
    shim = _shim(model)
    if shim.transformer is None:
        raise KrisselError(Errors.K405)
    _check_window(model, shim)
    shim.guard_fork()
    window = model.attrs["settings"].window
    rows: List[PieceRow] = []
    lengths: List[int] = []
    places: List[Tuple[int, int]] = []
    # Where the pieces of each row stand among all.
    firsts: List[int] = []
    for ids, found in encode_with_places(shim.tokenizer, X):
        for start, end in windows(found, window - 2):
            firsts.append(len(places) + start)
            row = [shim.tokenizer.cls_token_id, *ids[start:end], shim.tokenizer.sep_token_id]
            rows.append(PieceRow(np.asarray(row, dtype="int32"), 0, 0))
        lengths.append(len(ids))
        places.extend(found)
    states = TokenStates(
        model.ops.alloc2f(len(places), model.get_dim("nO")),
        np.asarray(lengths, dtype=np.int64),
        np.asarray(places, dtype=np.int64).reshape(-1, 2),
    )
    allowed = training_lengths(window, shim.max_window) if is_train else ()
    fill = MIN_FILL.get(shim.device.type, 0.0)
    backprops = []
    with shim.autocast():
        for batch in length_batches([len(row.ids) for row in rows], batch_pieces, fill):
            pieces = pad_pieces([rows[i] for i in batch], shim.tokenizer.pad_token_id, allowed)
            hidden, backprop_batch = model.layers[0](pieces, is_train)
            for place, i in enumerate(batch):
                n = len(rows[i].ids) - 2
                states.vectors[firsts[i] : firsts[i] + n] = hidden.vectors[place, 1 : 1 + n]
            if is_train:
                backprops.append((batch, hidden.vectors.shape, backprop_batch))

    def backprop(d_vectors: Floats2d) -> List[str]:
        while backprops:  # each part's activations are freed with it
            batch, shape, backprop_batch = backprops.pop()
            d_hidden = model.ops.alloc3f(*shape)
            for place, i in enumerate(batch):
                n = len(rows[i].ids) - 2
                d_hidden[place, 1 : 1 + n] = d_vectors[firsts[i] : firsts[i] + n]
            backprop_batch(d_hidden)
        return X

    return states, backprop


def windows(places: List[Tuple[int, int]], room: int) -> List[Tuple[int, int]]:
    """Runs of at most `room` of the pieces at `places`, together all of them, cut between words where that can be."""
    cut: List[Tuple[int, int]] = []
    start = 0
    while start < len(places):
        end = min(len(places), start + room)
        while start < end < len(places) and places[end][0] == places[end - 1][1]:
            end -= 1
        end = end if end > start else min(len(places), start + room)
        cut.append((start, end))
        start = end
    return cut


def _check_window(model: StatesModel, shim: WholeHFShim) -> None:
    window = model.attrs["settings"].window
    if window > shim.max_window:
        raise KrisselError(Errors.K404.format(window=window, limit=shim.max_window))


def _shim(model: StatesModel) -> WholeHFShim:
    return cast(WholeHFShim, model.layers[0].shims[0])
