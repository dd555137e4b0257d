"""Plain cross encoder: a transformer over mention and candidate, one row per pair (KRISSBERT
§3.6).
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Annotated, Any

import numpy
from pydantic import Field
from spacy.util import SimpleFrozenDict
from thinc.api import Linear, Model, chain, zero_init
from thinc.types import Floats1d

from ...util.settings import Positive, PositiveInt, checked
from ...views import reference_window
from ..identity import Settings
from ..ranked import RankedMention, Reranker, bounded
from .passes import Passes, make_passes
from .pooling import Markers, Pooling, chosen_markers
from .training_passes import reused_pass
from .transformer import Window
from .wordpieces import MARKERS, PieceRow, encode_texts, view_pieces
from .wrapper import encode_passes, hf_shim, hf_wrapper


@checked
def CrossEncoder(
    name: str,
    *,
    window: Window = 64,
    candidate_window: Annotated[int, Field(ge=2)] = 64,
    bound: Positive | None = 1.0,
    mixed_precision: bool = False,
    batch_pieces: PositiveInt | None = None,
    tokenizer_config: dict[str, Any] = SimpleFrozenDict(),  # noqa: B008 (frozen)
    transformer_config: dict[str, Any] = SimpleFrozenDict(),  # noqa: B008 (frozen)
    pooling: Pooling = "cls",
    markers: Markers = True,
) -> Reranker:
    """Score `[CLS] left [Ms] mention [Me] right [SEP] candidate reference [SEP]` by a linear head.

    The head is on the pooled pieces: n mentions of k candidates to (n·k,) corrections of the
    linker's log-odds. The head starts at zero: untrained, the linker's order stays, with a bound.
    Costs n·k rows of up to window + candidate_window pieces.

    name: a model's name on the Hugging Face hub, or a local directory with its config, tokenizer
        and weights
    window: pieces of a mention in its context
    candidate_window: pieces of a candidate's reference
    bound: the largest correction, in log-odds (`bounded`); null: scores of the head alone, as in
        the paper. Corrections are then score − log-odds: softmax(log-odds + corrections) =
        softmax(scores).
    mixed_precision, batch_pieces, tokenizer_config, transformer_config: as in `TransformerEncoder`
    pooling: "cls" (KRISSBERT), "mean" over the pieces of both (PEL, appendix B), "marker" or
        "mention"
    markers: as in `TransformerEncoder`

    Raises KrisselError K006 for a wrong setting; on initialize K401 to K404.
    """
    words = chosen_markers(markers, pooling)
    settings = Settings(
        window=window,
        candidate_window=candidate_window,
        bound=bound,
        pooling=pooling,
        markers=words,
    )
    pairs: Model[Any, Any] = Model(
        "cross_encoder",
        forward,
        # Bound here instead of an attribute: the fingerprint must not depend on the name.
        init=partial(init, name=name),
        layers=[
            chain(
                hf_wrapper(
                    tokenizer_config,
                    transformer_config,
                    pooling=pooling,
                    mixed_precision=mixed_precision,
                    batch_pieces=batch_pieces,
                ),
                Linear(nO=1, init_W=zero_init),
            )
        ],
        dims={"nI": None},
        attrs={"settings": settings},
    )
    return pairs if bound is None else chain(pairs, bounded(bound))


def init(
    model: Model[Any, Any],
    X: list[RankedMention] | None = None,
    Y: Floats1d | None = None,
    *,
    name: str,
) -> None:
    """Read the transformer, unless the model already has one; the head starts at zero."""
    shim = hf_shim(model)
    shim.read(name, *_window(model), tokens=model.attrs["settings"].markers)
    width = shim.transformer.config.hidden_size
    model.set_dim("nI", width)
    head = model.layers[0].layers[1]
    head.set_dim("nI", width)
    head.initialize()


def forward(
    model: Model[list[RankedMention], Floats1d],
    mentions: list[RankedMention],
    is_train: bool,
) -> tuple[Floats1d, Callable[[Floats1d], list[Any]]]:
    shim, settings = hf_shim(model), model.attrs["settings"]
    shim.begin(*_window(model))

    def prepare() -> Passes:
        rows = pair_pieces(
            shim.tokenizer, mentions, settings.window, settings.candidate_window, settings.markers
        )
        return make_passes(shim, rows, is_train)

    passes = reused_pass(model.id, mentions, prepare, is_train)
    scores, backprop = encode_passes(model.layers[0], passes, is_train, width=1)
    if settings.bound is None:
        scores = scores - model.ops.asarray2f(
            [[logit] for mention in mentions for logit in mention.logits.tolist()]
        )
    return model.ops.reshape1f(scores, len(scores)), lambda d_scores: backprop(
        d_scores.reshape(-1, 1)
    )


def pair_pieces(
    tokenizer: Any,
    mentions: Sequence[RankedMention],
    window: int,
    candidate_window: int,
    markers: Sequence[str] = MARKERS,
) -> list[PieceRow]:
    """Return `[CLS] left [Ms] mention [Me] right [SEP] part [SEP] part … [SEP]`, a row per
    candidate.

    See KRISSBERT §3.6. A mention takes at most `window` pieces, cut by `view_pieces`; a candidate
    at most `candidate_window`, its last `[SEP]` included, cut at the end. There is no second
    `[CLS]`.
    """
    rows = view_pieces(tokenizer, [mention.view for mention in mentions], window, markers)
    # Mentions of a batch share candidates, and candidates share types.
    distinct = {candidate.parts for mention in mentions for candidate in mention.candidates}
    texts = list({part for parts in distinct for part in parts})
    pieces = dict(zip(texts, encode_texts(tokenizer, texts), strict=True))
    frame = {
        "window": candidate_window + 1,
        "cls_id": tokenizer.cls_token_id,
        "sep_id": tokenizer.sep_token_id,
    }
    references = {
        parts: reference_window([pieces[part] for part in parts], **frame)[1:] if parts else []
        for parts in distinct
    }
    return [
        row._replace(
            ids=numpy.append(row.ids, numpy.asarray(references[candidate.parts], dtype="int32"))
        )
        for row, mention in zip(rows, mentions, strict=True)
        for candidate in mention.candidates
    ]


def _window(model: Model[Any, Any]) -> tuple[int, str]:
    settings = model.attrs["settings"]
    return settings.window + settings.candidate_window, " (with candidate_window)"
