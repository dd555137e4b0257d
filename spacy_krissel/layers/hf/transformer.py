"""Transformer encoder of views (KRISSBERT §3.2)."""

from collections.abc import Callable
from functools import partial
from typing import Annotated, Any, NamedTuple

from pydantic import Field
from spacy.util import SimpleFrozenDict
from thinc.api import Model, chain, noop
from thinc.types import Floats2d

from ...errors import wrong_setting
from ...util.settings import PositiveInt, checked
from ...views import View, name_view
from ..identity import Settings
from ..normalize import normalize_rows
from .passes import Passes, make_passes
from .pooling import BY_MARKERS, Markers, Pooling, chosen_markers
from .training_passes import reused_pass
from .wordpieces import MARKERS, unit_pieces, view_pieces
from .wrapper import encode_passes, hf_shim, hf_wrapper

# At least `[CLS] [Ms] [Me] [SEP]` and a few pieces to read.
Window = Annotated[int, Field(ge=8)]
# Views per tokenization in predictions: a GPU encodes one group while the host prepares the next,
# since nothing waits for the GPU in between. The CPU sorts all views by length instead.
GROUPS = {"cuda": 2048}


@checked
def TransformerEncoder(
    name: str,
    *,
    window: Window = 64,
    pooling: Pooling = "cls",
    normalize: bool = False,
    name_weight: float = 0.0,
    mixed_precision: bool = False,
    batch_pieces: PositiveInt | None = None,
    tokenizer_config: dict[str, Any] = SimpleFrozenDict(),  # noqa: B008 (frozen)
    transformer_config: dict[str, Any] = SimpleFrozenDict(),  # noqa: B008 (frozen)
    markers: Markers = True,
    units: bool = False,
    bare_names: bool = False,
    compile: bool = False,
) -> Model[list[View], Floats2d]:
    """Encode views as `[CLS] left [Ms] mention [Me] right [SEP]` with a Hugging Face encoder.

    n views to (n, width). Nothing is read here: `model.initialize` reads the encoder from `name`;
    `from_bytes` and `from_disk` need no name.

    name: a model's name on the Hugging Face hub, or a local directory with its config, tokenizer
        and weights
    window: pieces per view, markers and special tokens included, centred on the mention; contexts,
        of at most 1,024 characters per side, fill 128
    pooling: "cls" (KRISSBERT), "mean" over all real pieces, "marker" (BELHD), the mean of the two
        markers' vectors, or "mention", the mean over the pieces between the markers. Untrained,
        "mention" gives the meaning of the mention, and "marker" that of the sentence, since the
        markers are new to the encoder
    normalize: scale vectors to unit length
    name_weight: `v(view) + name_weight · v(name alone)`: context moves the vector of a mention away
        from that of its name, by which most mentions are linked; the sum keeps both. 0, as in the
        paper, reads the mention in its context only; so are names, references and masked mentions
        always
    mixed_precision: compute in bfloat16 (float16 on a CUDA device without it), which is faster on
        processors with bfloat16 instructions; vectors and gradients are float32
    batch_pieces: pieces per forward pass, padding included; views are divided into passes of
        similar length, in training too (where all of them stay in memory until the backward pass).
        null: 4,096 on the CPU, 32,768 on a GPU, which idles in smaller passes. In training, 32,768
        pieces of a base model take about 12 GB: lower it on a card with less than 24 GB, e.g. to
        8192
    tokenizer_config: passed to the tokenizer, e.g. `add_prefix_space = true` for byte-level BPE
        such as RoBERTa's
    transformer_config: overrides of the encoder's config, e.g. `hidden_dropout_prob`, and
        `attn_implementation`
    markers: the tokens around the mention, such as `["<ENT>", "</ENT>"]` of the released KRISSBERT;
        true for `[Ms]` and `[Me]`; false reads names as `[CLS] name [SEP]`, as in the encoder's
        pretraining and in SapBERT. Tokens that the tokenizer has keep their embeddings, others are
        added
    units: mark all mentions of a sentence and read it once for all of them (BELHD §4.2; `context =
        "sentence"` of the linker); needs pooling "marker" or "mention", which distinguish its
        mentions
    bare_names: read names, and mentions without any context, as `[CLS] name [SEP]`, whose vector by
        markers is that of `[CLS]`, as in BELHD's released code
    compile: run the encoder by `torch.compile`, for long trainings on a GPU; the first passes take
        minutes

    Raises KrisselError K006 for a wrong setting; on initialize K401 to K404.
    """
    tokens = chosen_markers(markers, pooling)
    if units and pooling not in BY_MARKERS:
        expected = f"one of {', '.join(BY_MARKERS)} where `units` is true"
        raise wrong_setting("pooling", pooling, expected)
    settings = Settings(
        window=window,
        pooling=pooling,
        normalize=normalize,
        markers=tokens,
        units=units,
        bare_names=bare_names,
        name_weight=name_weight,
    )
    wrapped = hf_wrapper(
        tokenizer_config,
        transformer_config,
        pooling=pooling,
        mixed_precision=mixed_precision,
        compile=compile,
        batch_pieces=batch_pieces,
    )
    encoder: Model[list[View], Floats2d] = Model(
        "transformer_encoder",
        forward,
        # Bound here instead of an attribute: the fingerprint must not depend on the name.
        init=partial(init, name=name),
        # A layer in either case, so that saved weights fit both settings.
        layers=[chain(wrapped, normalize_rows() if normalize else noop())],
        dims={"nO": None},
        attrs={"settings": settings},
    )
    return chain(encoder, normalize_rows()) if normalize and name_weight else encoder


def init(
    model: Model[list[View], Floats2d],
    X: list[View] | None = None,
    Y: Floats2d | None = None,
    *,
    name: str,
) -> None:
    """Read the encoder, unless the model already has one."""
    shim = hf_shim(model)
    settings = model.attrs["settings"]
    # Without markers too: the weights then fit an encoder with them.
    shim.read(name, settings.window, tokens=settings.markers or MARKERS)
    model.set_dim("nO", shim.transformer.config.hidden_size)


class _Prepared(NamedTuple):
    """Pieces of n views and of some of their names.

    passes: of the views, followed by the names. named: the views whose names are read too.
    """

    passes: Passes
    named: list[int]


def forward(
    model: Model[list[View], Floats2d], views: list[View], is_train: bool
) -> tuple[Floats2d, Callable[[Floats2d], list[Any]]]:
    shim = hf_shim(model)
    shim.begin(model.attrs["settings"].window)
    group = GROUPS.get(shim.device.type, 0)
    if not is_train and 0 < group < len(views):
        xp: Any = model.ops.xp
        parts = [views[i : i + group] for i in range(0, len(views), group)]
        return xp.concatenate(
            [_encode(model, _prepare(model, part, False), False)[0] for part in parts]
        ), lambda d_vectors: []
    return _encode(
        model,
        reused_pass(model.id, views, lambda: _prepare(model, views, is_train), is_train),
        is_train,
    )


def _encode(
    model: Model[Any, Any], prepared: _Prepared, is_train: bool
) -> tuple[Floats2d, Callable[[Floats2d], list[Any]]]:
    weight = model.attrs["settings"].name_weight
    Y, backprop_rows = encode_passes(
        model.layers[0], prepared.passes, is_train, width=model.get_dim("nO")
    )
    if not prepared.named:
        return Y, backprop_rows
    xp: Any = model.ops.xp
    named = xp.asarray(prepared.named)
    n = len(Y) - len(named)
    vectors = Y[:n]
    vectors[named] += weight * Y[n:]

    def backprop(d_vectors: Floats2d) -> list[Any]:
        return backprop_rows(xp.vstack((d_vectors, weight * d_vectors[named])))

    return vectors, backprop


def _prepare(model: Model[Any, Any], views: list[View], is_train: bool) -> _Prepared:
    shim, settings = hf_shim(model), model.attrs["settings"]
    named: list[int] = []
    if settings.name_weight:
        hidden = [view.masked or view.reference or not (view.left or view.right) for view in views]
        named = [i for i, is_hidden in enumerate(hidden) if not is_hidden]
    read = unit_pieces if settings.units else view_pieces
    whole = [*views, *(name_view(views[i].mention) for i in named)]
    rows = read(shim.tokenizer, whole, settings.window, settings.markers, settings.bare_names)
    return _Prepared(make_passes(shim, rows, is_train, settings.window), named)
