"""The plain cross encoder: a transformer over mention and candidate together, one row per pair (KRISSBERT §3.6)."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Annotated, Any, NamedTuple

import numpy
from pydantic import Field
from spacy.util import SimpleFrozenDict
from thinc.api import Linear, Model, chain, zero_init
from thinc.types import Floats1d, Floats2d

from ...util.settings import Positive, PositiveInt, checked
from ..identity import keep_in_bytes
from ..ranked import RankedMention, Reranker, bounded
from .pooling import Pooling, pool
from .transformer import Window
from .wordpieces import PieceRow, encode_texts, pad_pieces, view_pieces
from .wrapper import hf_shim, hf_wrapper


@keep_in_bytes
class CrossSettings(NamedTuple):
    """What the corrections depend on besides the weights."""

    window: int
    candidate_window: int
    bound: float
    pooling: str


@checked
def CrossEncoder(
    name: str,
    *,
    window: Window = 64,
    candidate_window: Annotated[int, Field(ge=2)] = 64,
    bound: Positive = 1.0,
    mixed_precision: bool = False,
    batch_pieces: PositiveInt = 4096,
    tokenizer_config: dict[str, Any] = SimpleFrozenDict(),  # noqa: B006, B008 (frozen)
    transformer_config: dict[str, Any] = SimpleFrozenDict(),  # noqa: B006, B008 (frozen)
    pooling: Pooling = "cls",
) -> Reranker:
    """Score `[CLS] left [Ms] mention [Me] right [SEP] candidate reference [SEP]` by a linear head on the pooled pieces.

    n mentions of k candidates to (n·k,) corrections of the linker's log-odds. The head starts at zero: untrained, the
    linker's order stays. Costs n·k rows of up to window + candidate_window pieces.

    name: a model's name on the Hugging Face hub, or a local directory with its config, tokenizer and weights
    window: pieces of a mention in its context
    candidate_window: pieces of a candidate's reference
    bound: the largest correction, in log-odds (`bounded`)
    mixed_precision, batch_pieces, tokenizer_config, transformer_config: as in `TransformerEncoder`
    pooling: "cls" (KRISSBERT), "mean" over the pieces of both (PEL, appendix B), "marker" or "mention"

    Raises KrisselError K006 for a wrong setting; on initialize K401 to K404.
    """
    encoder = chain(hf_wrapper(tokenizer_config, transformer_config, mixed_precision=mixed_precision), pool(pooling))
    head: Model[Floats2d, Floats2d] = Linear(nO=1, init_W=zero_init)
    pairs: Model = Model(
        "cross_encoder",
        # Bound here and not kept as attributes: the fingerprint must not depend on them.
        partial(forward, batch_pieces=batch_pieces),
        init=partial(init, name=name),
        layers=[encoder, head],
        dims={"nI": None},
        attrs={"settings": CrossSettings(window, candidate_window, bound, pooling)},
    )
    return chain(pairs, bounded(bound))


def init(model: Model, X: list[RankedMention] | None = None, Y: Floats1d | None = None, *, name: str) -> None:
    """Read the transformer, unless the model has one already; the head starts at zero."""
    shim = hf_shim(model)
    shim.read(name)
    shim.check_window(*_window(model))
    width = shim.transformer.config.hidden_size
    model.set_dim("nI", width)
    head = model.layers[1]
    head.set_dim("nI", width)
    head.initialize()


def forward(
    model: Model[list[RankedMention], Floats1d], mentions: list[RankedMention], is_train: bool, *, batch_pieces: int
) -> tuple[Floats1d, Callable[[Floats1d], list[RankedMention]]]:
    shim, settings = hf_shim(model), model.attrs["settings"]
    shim.begin(*_window(model))
    encoder, head = model.layers
    rows = pair_pieces(shim.tokenizer, mentions, settings.window, settings.candidate_window)
    scores = model.ops.alloc1f(len(rows))
    backprops = []
    with shim.autocast():
        for batch in shim.batches(rows, batch_pieces):
            pieces = pad_pieces([rows[i] for i in batch], shim.tokenizer.pad_token_id)
            vectors, backprop_encoder = encoder(pieces, is_train)
            logits, backprop_head = head(vectors, is_train)
            scores[batch] = logits[:, 0]
            if is_train:
                backprops.append((batch, backprop_encoder, backprop_head))

    def backprop(d_scores: Any) -> list[RankedMention]:
        while backprops:  # frees each part's activations
            batch, backprop_encoder, backprop_head = backprops.pop()
            backprop_encoder(backprop_head(d_scores[batch].reshape(-1, 1)))
        return mentions

    return scores, backprop


def pair_pieces(
    tokenizer: Any, mentions: Sequence[RankedMention], window: int, candidate_window: int
) -> list[PieceRow]:
    """`[CLS] left [Ms] mention [Me] right [SEP] part [SEP] part … [SEP]`, one row per candidate (KRISSBERT §3.6).

    A mention takes at most `window` pieces, cut by `view_pieces`; a candidate at most `candidate_window`, its last
    `[SEP]` included, cut at the end. There is no second `[CLS]`.
    """
    rows = view_pieces(tokenizer, [mention.view for mention in mentions], window)
    # Mentions of a batch share candidates, and candidates share types.
    distinct = {candidate.parts for mention in mentions for candidate in mention.candidates}
    texts = list({part for parts in distinct for part in parts})
    pieces = dict(zip(texts, encode_texts(tokenizer, texts), strict=True))
    references: dict[tuple[str, ...], numpy.ndarray] = {}
    for parts in distinct:
        references[parts] = _reference([pieces[part] for part in parts], tokenizer.sep_token_id, candidate_window)
    return [
        PieceRow(numpy.concatenate((row.ids, references[candidate.parts])), row.start, row.end)
        for row, mention in zip(rows, mentions, strict=True)
        for candidate in mention.candidates
    ]


def _reference(parts: Sequence[Sequence[int]], sep_id: int, room: int) -> numpy.ndarray:
    ids: list[int] = []
    for part in parts:
        if len(ids) >= room:
            break
        ids += (*part, sep_id)
    if len(ids) > room:
        ids[room - 1 :] = [sep_id]
    return numpy.asarray(ids, dtype="int32")


def _window(model: Model) -> tuple[int, str]:
    settings: CrossSettings = model.attrs["settings"]
    return settings.window + settings.candidate_window, " (with candidate_window)"
