"""The plain cross encoder: a transformer over mention and candidate together, one pair a row (KRISSBERT §3.6)."""

from functools import partial
from typing import Any, Callable, Dict, List, Literal, NamedTuple, Optional, Sequence, Tuple, Union, cast, get_args

import numpy
from spacy.util import SimpleFrozenDict
from spacy_transformers.data_classes import HFObjects
from thinc.api import Linear, Model, chain, zero_init
from thinc.types import Floats1d, Floats2d

from ...errors import Errors, KrisselError
from ..identity import keep_in_bytes
from ..ranked import RankedMention, Reranker, bounded
from .load import load_pretrained
from .pooling import Pooling, pool
from .shim import WholeHFShim
from .transformer import MIN_FILL, MIN_WINDOW
from .wordpieces import PieceRow, encode_texts, length_batches, pad_pieces, view_pieces
from .wrapper import hf_wrapper


def pair_pieces(
    tokenizer: Any, mentions: Sequence[RankedMention], window: int, candidate_window: int
) -> List[PieceRow]:
    """`[CLS] left [Ms] mention [Me] right [SEP] part [SEP] part … [SEP]`, one row a candidate (KRISSBERT §3.6).

    A mention takes at most `window` pieces, as `view_pieces` cuts it; a candidate at most `candidate_window`, its last
    `[SEP]` included: what is too much is lost from its end. The reference's own `[CLS]` is not there.
    """
    rows = view_pieces(tokenizer, [mention.view for mention in mentions], window)
    # Mentions of a batch share candidates, and candidates share types.
    different = {candidate.parts for mention in mentions for candidate in mention.candidates}
    texts = list({part for parts in different for part in parts})
    pieces = dict(zip(texts, encode_texts(tokenizer, texts), strict=True))
    references: Dict[Tuple[str, ...], numpy.ndarray] = {}
    for parts in different:
        references[parts] = _reference([pieces[part] for part in parts], tokenizer.sep_token_id, candidate_window)
    return [
        PieceRow(numpy.concatenate((row.ids, references[candidate.parts])), row.start, row.end)
        for row, mention in zip(rows, mentions, strict=True)
        for candidate in mention.candidates
    ]


def _reference(parts: Sequence[Sequence[int]], sep_id: int, room: int) -> numpy.ndarray:
    ids: List[int] = []
    for part in parts:
        if len(ids) >= room:
            break
        ids += (*part, sep_id)
    if len(ids) > room:
        ids[room - 1 :] = [sep_id]
    return numpy.asarray(ids, dtype="int32")


@keep_in_bytes
class CrossSettings(NamedTuple):
    """What the corrections depend on beside the weights."""

    window: int
    candidate_window: int
    bound: float


@keep_in_bytes
class PooledCrossSettings(NamedTuple):
    """The same where it is not `[CLS]` that is read. A class of its own, so that the bytes of all others stay as they
    were."""

    window: int
    candidate_window: int
    bound: float
    pooling: str


def CrossEncoder(
    name: str,
    *,
    window: int = 64,
    candidate_window: int = 64,
    bound: float = 1.0,
    mixed_precision: bool = False,
    batch_pieces: int = 4096,
    tokenizer_config: Dict[str, Any] = SimpleFrozenDict(),  # noqa: B006, B008 (frozen)
    transformer_config: Dict[str, Any] = SimpleFrozenDict(),  # noqa: B006, B008 (frozen)
    pooling: Literal["cls", "mean", "marker", "mention"] = "cls",
) -> Reranker:
    """Score `[CLS] left [Ms] mention [Me] right [SEP] candidate reference [SEP]` by a linear head on `[CLS]`, or on
    another pooling of the pieces.

    n mentions of k candidates to (n·k,) corrections of the linker's log-odds. The head begins at zero, and with it
    every correction: untrained, the linker's order stands. Costs n·k rows of up to window + candidate_window pieces.

    name: a model's name on the Hugging Face hub, or a local directory with its config, tokenizer and weights.
    window: pieces of a mention in its context. candidate_window: pieces of a candidate's reference.
    bound: the largest correction (`bounded`).
    mixed_precision, batch_pieces, tokenizer_config, transformer_config: as for `TransformerEncoder`.
    pooling: "cls" (KRISSBERT's), "mean" over the pieces of both (PEL's, appendix B), "marker" or "mention".
    RAISES: KrisselError K006 for a wrong setting; on initialize K401 to K404.
    """
    smallest = {"window": MIN_WINDOW, "candidate_window": 2}
    for setting, value in {"window": window, "candidate_window": candidate_window}.items():
        if value < smallest[setting]:
            expected = f"at least {smallest[setting]} pieces"
            raise KrisselError(Errors.K006.format(setting=setting, found=value, expected=expected))
    check_bound(bound)
    if pooling not in get_args(Pooling):
        expected = f"one of {', '.join(get_args(Pooling))}"
        raise KrisselError(Errors.K006.format(setting="pooling", found=pooling, expected=expected))
    settings: Union[CrossSettings, PooledCrossSettings] = CrossSettings(window, candidate_window, bound)
    if pooling != "cls":
        settings = PooledCrossSettings(window, candidate_window, bound, pooling)
    objects = HFObjects(None, None, None, dict(tokenizer_config), dict(transformer_config))
    head: Model[Floats2d, Floats2d] = Linear(nO=1, init_W=zero_init)
    pairs: Model = Model(
        "cross_encoder",
        # Bound here and not kept as attributes: corrections do not depend on them.
        partial(forward, batch_pieces=batch_pieces),
        init=partial(init, name=name),
        layers=[chain(hf_wrapper(objects, mixed_precision=mixed_precision), pool(pooling)), head],
        dims={"nI": None},
        attrs={"settings": settings},
    )
    return chain(pairs, bounded(bound))


def check_bound(bound: float) -> None:
    if not bound > 0:
        expected = "a number of log-odds above 0"
        raise KrisselError(Errors.K006.format(setting="bound", found=bound, expected=expected))


def init(model: Model, X: Optional[List[RankedMention]] = None, Y: Optional[Floats1d] = None, *, name: str) -> None:
    """Read the transformer, unless the model has one already; the head begins at zero."""
    shim = _shim(model)
    if shim.transformer is None:
        held = shim._hfmodel
        shim.set_encoder(*load_pretrained(name, held._init_tokenizer_config, held._init_transformer_config))
    _check_window(model, shim)
    width = shim.transformer.config.hidden_size
    model.set_dim("nI", width)
    head = model.layers[1]
    head.set_dim("nI", width)
    head.initialize()


def forward(
    model: Model[List[RankedMention], Floats1d], mentions: List[RankedMention], is_train: bool, *, batch_pieces: int
) -> Tuple[Floats1d, Callable[[Floats1d], List[RankedMention]]]:
    shim = _shim(model)
    if shim.transformer is None:
        raise KrisselError(Errors.K405)
    _check_window(model, shim)
    shim.guard_fork()
    encoder, head = model.layers
    settings: CrossSettings = model.attrs["settings"]
    rows = pair_pieces(shim.tokenizer, mentions, settings.window, settings.candidate_window)
    min_fill = MIN_FILL.get(shim.device.type, 0.0)
    scores = model.ops.alloc1f(len(rows))
    backprops = []
    with shim.autocast():
        for batch in length_batches([len(row.ids) for row in rows], batch_pieces, min_fill):
            pieces = pad_pieces([rows[i] for i in batch], shim.tokenizer.pad_token_id)
            vectors, backprop_encoder = encoder(pieces, is_train)
            logits, backprop_head = head(vectors, is_train)
            scores[batch] = logits[:, 0]
            if is_train:
                backprops.append((batch, backprop_encoder, backprop_head))

    def backprop(d_scores: Any) -> List[RankedMention]:
        while backprops:  # each part's activations are freed with it
            batch, backprop_encoder, backprop_head = backprops.pop()
            backprop_encoder(backprop_head(d_scores[batch].reshape(-1, 1)))
        return mentions

    return scores, backprop


def _check_window(model: Model, shim: WholeHFShim) -> None:
    settings: CrossSettings = model.attrs["settings"]
    whole = settings.window + settings.candidate_window
    if whole > shim.max_window:
        raise KrisselError(Errors.K404.format(window=f"{whole} (with candidate_window)", limit=shim.max_window))


def _shim(model: Model) -> WholeHFShim:
    return cast(WholeHFShim, model.layers[0].layers[0].shims[0])
