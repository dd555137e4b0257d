"""The transformer encoder of views (KRISSBERT §3.2)."""

from collections.abc import Callable
from functools import partial
from typing import Annotated, Any, NamedTuple

from pydantic import Field
from spacy.util import SimpleFrozenDict
from thinc.api import Model, chain, noop
from thinc.types import Floats2d

from ...errors import Errors, KrisselError
from ...util.settings import Count, PositiveInt, checked
from ...views import View, name_view
from ..identity import keep_in_bytes
from ..normalize import normalize_rows
from .adapters import add_adapters
from .load import MARKERS
from .pooling import BY_MARKERS, Pooling, pool
from .wordpieces import pad_pieces, read_together, unit_pieces, view_pieces
from .wrapper import hf_shim, hf_wrapper

# At least `[CLS] [Ms] [Me] [SEP]` and a few pieces to read.
Window = Annotated[int, Field(ge=8)]
# In training, lengths are rounded up to about a quarter of the window: in bfloat16 on the CPU, torch keeps kernels for
# each shape it has seen, hundreds of megabytes. Names in a window for sentences would be mostly padding.
TRAINING_PARTS = 4
SHORT_LENGTHS = (8, 16)


@keep_in_bytes
class EncoderSettings(NamedTuple):
    """What the vectors depend on besides the weights."""

    window: int
    pooling: str
    normalize: bool
    markers: bool
    separator: str | None
    units: bool


@checked
def TransformerEncoder(
    name: str,
    *,
    window: Window = 64,
    pooling: Pooling = "cls",
    normalize: bool = False,
    name_weight: float = 0.0,
    mixed_precision: bool = False,
    batch_pieces: PositiveInt = 4096,
    tokenizer_config: dict[str, Any] = SimpleFrozenDict(),  # noqa: B006, B008 (frozen)
    transformer_config: dict[str, Any] = SimpleFrozenDict(),  # noqa: B006, B008 (frozen)
    markers: bool = True,
    adapter_rank: Count = 0,
    separator: str | None = None,
    units: bool = False,
) -> Model[list[View], Floats2d]:
    """Encode views as `[CLS] left [Ms] mention [Me] right [SEP]` with a Hugging Face encoder: n views to (n, width).

    Nothing is read here: `model.initialize` reads the encoder from `name`; `from_bytes` and `from_disk` need no name.

    name: a model's name on the Hugging Face hub, or a local directory with its config, tokenizer and weights
    window: pieces per view, markers and special tokens included, centred on the mention
    pooling: "cls" (KRISSBERT), "mean" over all real pieces, "marker" (BELHD), the mean of the two markers' vectors, or
        "mention", the mean over the pieces between the markers: untrained, that is the meaning of the mention, where
        the markers, which are new to the encoder, have that of the sentence
    normalize: scale vectors to unit length
    name_weight: add the vector of the name alone, times this, to that of the mention in context (`add_name_view`); 0,
        as in the paper, reads the mention in its context only
    mixed_precision: compute in bfloat16 (float16 on a CUDA device without it), which pays on processors with bfloat16
        instructions; vectors and gradients are float32
    batch_pieces: pieces per forward pass, padding included; views are divided into passes of similar length, in
        training too (where all of them stay in memory until the backward pass). About 4,000 is fastest on the CPU; a
        GPU needs more, e.g. 32768
    tokenizer_config: passed to the tokenizer, e.g. `add_prefix_space = true` for byte-level BPE such as RoBERTa's
    transformer_config: overrides of the encoder's config, e.g. `hidden_dropout_prob`, and `attn_implementation`
    markers: put `[Ms]` and `[Me]` around the mention; false reads names as `[CLS] name [SEP]`, as the encoder was
        pretrained and as SapBERT does
    adapter_rank: train adapters of this rank and freeze the encoder's own weights (`adapters.add_adapters`, needs the
        extra `adapters`); 0 trains the whole encoder. Adapters are added by `initialize`, and merged when saved
    separator: special token between the parts of a reference, added if new, as `[ENT]` in PEL's
        `[CLS] title [ENT] description [SEP]`; null uses the tokenizer's own
    units: mark all mentions of a sentence and read it once for all of them (BELHD §4.2; `context = "sentence"` of the
        linker); needs pooling "marker" or "mention", which tell its mentions apart

    Raises KrisselError K006 for a wrong setting; on initialize K401 to K404, K412.
    """
    if pooling in BY_MARKERS and not markers:
        expected = f"true with pooling '{pooling}', which finds the mention by its markers"
        raise KrisselError(Errors.K006.format(setting="markers", found=markers, expected=expected))
    if units and pooling not in BY_MARKERS:
        expected = f"one of {', '.join(BY_MARKERS)} where `units` is true"
        raise KrisselError(Errors.K006.format(setting="pooling", found=pooling, expected=expected))
    if separator is not None and not separator.strip():
        expected = "a token, such as [ENT], or null"
        raise KrisselError(Errors.K006.format(setting="separator", found=separator, expected=expected))
    layers = (
        hf_wrapper(tokenizer_config, transformer_config, mixed_precision=mixed_precision),
        pool(pooling),
        # A layer in either case, so that saved weights fit both settings.
        normalize_rows() if normalize else noop(),
    )
    encoder: Model[list[View], Floats2d] = Model(
        "transformer_encoder",
        # Bound here and not kept as attributes: the fingerprint must not depend on them.
        partial(forward, batch_pieces=batch_pieces),
        init=partial(init, name=name, adapter_rank=adapter_rank),
        layers=[chain(*layers)],
        dims={"nO": None},
        attrs={"settings": EncoderSettings(window, pooling, normalize, markers, separator, units)},
    )
    if not name_weight:
        return encoder
    named = add_name_view(encoder, name_weight)
    return chain(named, normalize_rows()) if normalize else named


def init(
    model: Model[list[View], Floats2d],
    X: list[View] | None = None,
    Y: Floats2d | None = None,
    *,
    name: str,
    adapter_rank: int = 0,
) -> None:
    """Read the encoder, unless the model has one already, and give it adapters."""
    shim, settings = hf_shim(model), model.attrs["settings"]
    shim.read(name, MARKERS if settings.separator is None else (*MARKERS, settings.separator))
    shim.check_window(settings.window)
    if adapter_rank:
        add_adapters(shim.transformer, adapter_rank)
    model.set_dim("nO", shim.transformer.config.hidden_size)


def forward(
    model: Model[list[View], Floats2d], views: list[View], is_train: bool, *, batch_pieces: int
) -> tuple[Floats2d, Callable[[Floats2d], list[View]]]:
    shim, settings = hf_shim(model), model.attrs["settings"]
    shim.begin(settings.window)
    if settings.units:
        rows = unit_pieces(shim.tokenizer, views, settings.window, settings.separator)
    else:
        rows = view_pieces(shim.tokenizer, views, settings.window, settings.markers, settings.separator)
    together = read_together(rows)
    allowed = training_lengths(settings.window, shim.max_window) if is_train else ()
    vectors = model.ops.alloc2f(len(views), model.get_dim("nO"))
    backprops = []
    with shim.autocast():
        for chosen in shim.batches([rows[group[0]] for group in together], batch_pieces):
            batch = [i for each in chosen for i in together[each]]
            pieces = pad_pieces([rows[i] for i in batch], shim.tokenizer.pad_token_id, allowed)
            vectors[batch], backprop_batch = model.layers[0](pieces, is_train)
            if is_train:
                backprops.append((batch, backprop_batch))

    def backprop(d_vectors: Floats2d) -> list[View]:
        while backprops:  # frees each part's activations
            batch, backprop_batch = backprops.pop()
            backprop_batch(d_vectors[batch])
        return views

    return vectors, backprop


def training_lengths(window: int, limit: int) -> tuple[int, ...]:
    """The lengths that batches are padded to in training, none beyond the encoder's `limit`."""
    step = max(1, window // TRAINING_PARTS)
    lengths = {length for length in SHORT_LENGTHS if length < step} | set(range(step, window + step, step))
    return tuple(sorted({min(length, limit) for length in lengths}))


@keep_in_bytes
class NameSettings(NamedTuple):
    weight: float


def add_name_view(encoder: Model[list[View], Floats2d], weight: float) -> Model[list[View], Floats2d]:
    """`v(view) + weight · v(name alone)`: n views to (n, width).

    Context moves the vector of a mention away from that of its name, by which most mentions are linked; the sum keeps
    both. A view without context is its name already, and a masked mention must not be seen: their vector is `v(view)`,
    and so is that of a reference.
    """
    return Model(
        "add_name_view",
        _forward_named,
        init=_init_named,
        layers=[encoder],
        dims={"nO": None},
        attrs={"settings": NameSettings(weight)},
    )


def _init_named(model: Model, X: list[View] | None = None, Y: Floats2d | None = None) -> None:
    encoder = model.layers[0]
    encoder.initialize(X=X, Y=Y)
    model.set_dim("nO", encoder.get_dim("nO"))


def _forward_named(model: Model, X: list[View], is_train: bool) -> tuple[Floats2d, Callable]:
    weight = model.attrs["settings"].weight
    named = [i for i, view in enumerate(X) if not (view.masked or view.reference) and (view.left or view.right)]
    Y, backprop_all = model.layers[0]([*X, *(name_view(X[i].mention) for i in named)], is_train)
    n = len(X)
    vectors = Y[:n].copy()
    vectors[named] += weight * Y[n:]

    def backprop(dY: Floats2d) -> list[View]:
        xp: Any = model.ops.xp
        backprop_all(xp.vstack((dY, weight * dY[named])))
        return []

    return vectors, backprop
