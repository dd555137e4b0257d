"""The transformer encoder of views (KRISSBERT §3.2)."""

from functools import partial
from typing import Any, Callable, Dict, List, Literal, NamedTuple, Optional, Tuple, cast, get_args

from spacy.util import SimpleFrozenDict
from spacy_transformers.data_classes import HFObjects
from thinc.api import Model, chain, noop
from thinc.types import Floats2d

from ...errors import Errors, KrisselError
from ...views import View, name_view
from ..identity import keep_in_bytes
from ..normalize import normalize_rows
from .load import MARKERS, load_pretrained
from .pooling import BY_MARKERS, Pooling, pool
from .shim import WholeHFShim
from .wordpieces import length_batches, pad_pieces, read_together, unit_pieces, view_pieces
from .wrapper import hf_wrapper

# `[CLS] [Ms] [Me] [SEP]` and a few pieces to read.
MIN_WINDOW = 8
# On the CPU time goes with the pieces, padding included; on a GPU one larger batch beats several tight ones.
MIN_FILL = {"cpu": 0.75, "cuda": 0.0}
# In training, lengths are rounded up to the window's fourth part or so: in bfloat16 on the CPU, torch keeps kernels for
# each shape that it has met, hundreds of megabytes of them. Names in a window for sentences would be padding mostly.
TRAINING_PARTS = 4
SHORT_LENGTHS = (8, 16)


@keep_in_bytes
class EncoderSettings(NamedTuple):
    """What the vectors depend on beside the weights."""

    window: int
    pooling: str
    normalize: bool


@keep_in_bytes
class UnmarkedSettings(NamedTuple):
    """The same of an encoder without markers. A class of its own, so that the bytes of all others stay as they were."""

    window: int
    pooling: str
    normalize: bool
    markers: bool = False


@keep_in_bytes
class SeparatedSettings(NamedTuple):
    """The same of an encoder with a separator of its own."""

    window: int
    pooling: str
    normalize: bool
    markers: bool
    separator: str


@keep_in_bytes
class UnitSettings(NamedTuple):
    """The same of an encoder that reads text units."""

    window: int
    pooling: str
    normalize: bool
    markers: bool
    separator: Optional[str]
    units: bool = True


def TransformerEncoder(
    name: str,
    *,
    window: int = 64,
    pooling: Literal["cls", "mean", "marker", "mention"] = "cls",
    normalize: bool = False,
    name_weight: float = 0.0,
    mixed_precision: bool = False,
    batch_pieces: int = 4096,
    tokenizer_config: Dict[str, Any] = SimpleFrozenDict(),  # noqa: B006, B008 (frozen)
    transformer_config: Dict[str, Any] = SimpleFrozenDict(),  # noqa: B006, B008 (frozen)
    markers: bool = True,
    adapter_rank: int = 0,
    separator: Optional[str] = None,
    units: bool = False,
) -> Model[List[View], Floats2d]:
    """Encode views as `[CLS] left [Ms] mention [Me] right [SEP]` with a Hugging Face encoder: n views to (n, width).

    Nothing is read here: `model.initialize` reads the encoder from `name`, `from_bytes` and `from_disk` need no name.

    name: a model's name on the Hugging Face hub, or a local directory with its config, tokenizer and weights.
    window: pieces of a view, markers and special tokens included, centred on the mention.
    pooling: "cls" (KRISSBERT's), "mean" over all real pieces, "marker" (BELHD's), the mean of the two markers' vectors,
        or "mention", the mean over the pieces between them: of a mention in its sentence, that of an encoder of texts
        has the mention's meaning before any training, where the markers', new to it, have that of the sentence.
    normalize: scale vectors to unit length.
    name_weight: add so many times the vector of the name alone to that of the mention in context (`add_name_view`); 0,
        the paper's, reads the mention in its context only.
    mixed_precision: compute in bfloat16 (float16 on a CUDA device without it). Pays on processors with bfloat16
        instructions; vectors and gradients are float32.
    batch_pieces: pieces, padding included, in one forward pass; any number of views is cut into passes of at most so
        many and of like length, in training too (where all of them are kept in memory until the backward pass). About
        4,000 is fastest on the CPU; a GPU wants more, e.g. 32768.
    tokenizer_config: passed to the tokenizer, e.g. `add_prefix_space = true` for byte-level BPE such as RoBERTa's.
    transformer_config: overrides of the encoder's config, e.g. `hidden_dropout_prob`, and `attn_implementation`.
    markers: put `[Ms]` and `[Me]` about the mention. Names without context need none: with False they are read as
        `[CLS] name [SEP]`, as the transformer was pretrained and as SapBERT reads them.
    adapter_rank: train adapters of this rank and leave the encoder's own weights alone (`adapters.add_adapters`, needs
        the extra `adapters`); 0 trains the encoder whole. They are there from `initialize` on, and what is saved is an
        encoder as any other.
    separator: a special token, added where it is new, between the parts of a reference, as `[ENT]` in PEL's
        `[CLS] title [ENT] description [SEP]`; None: the tokenizer's own.
    units: mark all mentions of a text unit and read it once for all of them (BELHD §4.2; `context = "sentence"` of the
        linker makes units). Needs pooling "marker" or "mention": nothing else tells its mentions apart.
    RAISES: KrisselError K006 for a wrong setting; on initialize K401 to K404, K412.
    """
    if adapter_rank < 0:
        raise KrisselError(Errors.K006.format(setting="adapter_rank", found=adapter_rank, expected="0 or more"))
    if window < MIN_WINDOW:
        raise KrisselError(Errors.K006.format(setting="window", found=window, expected=f"at least {MIN_WINDOW} pieces"))
    if pooling not in get_args(Pooling):
        expected = f"one of {', '.join(get_args(Pooling))}"
        raise KrisselError(Errors.K006.format(setting="pooling", found=pooling, expected=expected))
    if pooling in BY_MARKERS and not markers:
        expected = f"true with pooling '{pooling}', which finds the mention by them"
        raise KrisselError(Errors.K006.format(setting="markers", found=markers, expected=expected))
    if batch_pieces < 1:
        raise KrisselError(Errors.K006.format(setting="batch_pieces", found=batch_pieces, expected="at least 1"))
    settings = (EncoderSettings if markers else UnmarkedSettings)(window, pooling, normalize)
    if separator is not None:
        if not separator.strip():
            expected = "a token, such as [ENT], or null"
            raise KrisselError(Errors.K006.format(setting="separator", found=repr(separator), expected=expected))
        settings = SeparatedSettings(window, pooling, normalize, markers, separator)
    if units:
        if pooling not in BY_MARKERS:
            expected = f"one of {', '.join(BY_MARKERS)} where `units` is true"
            raise KrisselError(Errors.K006.format(setting="pooling", found=pooling, expected=expected))
        settings = UnitSettings(window, pooling, normalize, markers, separator)
    objects = HFObjects(None, None, None, dict(tokenizer_config), dict(transformer_config))
    layers = (
        hf_wrapper(objects, mixed_precision=mixed_precision),
        pool(pooling),
        # A layer in either case, so that a saved encoder fits both settings.
        normalize_rows() if normalize else noop(),
    )
    encoder: Model[List[View], Floats2d] = Model(
        "transformer_encoder",
        # Bound here and not kept as attributes, because vectors do not depend on them and neither shall the bytes.
        partial(forward, batch_pieces=batch_pieces),
        init=partial(init, name=name, adapter_rank=adapter_rank),
        layers=[chain(*layers)],
        dims={"nO": None},
        attrs={"settings": settings},
    )
    if not name_weight:
        return encoder
    named = add_name_view(encoder, name_weight)
    return chain(named, normalize_rows()) if normalize else named


def init(
    model: Model[List[View], Floats2d],
    X: Optional[List[View]] = None,
    Y: Optional[Floats2d] = None,
    *,
    name: str,
    adapter_rank: int = 0,
) -> None:
    """Read the encoder, unless the model has one already, and give it adapters."""
    shim = _shim(model)
    if shim.transformer is None:
        held = shim._hfmodel
        separator = getattr(model.attrs["settings"], "separator", None)
        tokens = MARKERS if separator is None else (*MARKERS, separator)
        shim.set_encoder(*load_pretrained(name, held._init_tokenizer_config, held._init_transformer_config, tokens))
    _check_window(model, shim)
    if adapter_rank:
        shim.add_adapters(adapter_rank)
    model.set_dim("nO", shim.transformer.config.hidden_size)


def forward(
    model: Model[List[View], Floats2d], views: List[View], is_train: bool, *, batch_pieces: int
) -> Tuple[Floats2d, Callable[[Floats2d], List[View]]]:
    shim = _shim(model)
    if shim.transformer is None:
        raise KrisselError(Errors.K405)
    _check_window(model, shim)
    shim.guard_fork()
    settings = model.attrs["settings"]
    markers, separator = getattr(settings, "markers", True), getattr(settings, "separator", None)
    if getattr(settings, "units", False):
        rows = unit_pieces(shim.tokenizer, views, settings.window, separator)
    else:
        rows = view_pieces(shim.tokenizer, views, settings.window, markers, separator)
    together = read_together(rows)
    min_fill = MIN_FILL.get(shim.device.type, 0.0)
    allowed = training_lengths(settings.window, shim.max_window) if is_train else ()
    vectors = model.ops.alloc2f(len(views), model.get_dim("nO"))
    backprops = []
    with shim.autocast():
        for chosen in length_batches([len(rows[group[0]].ids) for group in together], batch_pieces, min_fill):
            batch = [i for each in chosen for i in together[each]]
            pieces = pad_pieces([rows[i] for i in batch], shim.tokenizer.pad_token_id, allowed)
            vectors[batch], backprop_batch = model.layers[0](pieces, is_train)
            if is_train:
                backprops.append((batch, backprop_batch))

    def backprop(d_vectors: Floats2d) -> List[View]:
        while backprops:  # each part's activations are freed with it
            batch, backprop_batch = backprops.pop()
            backprop_batch(d_vectors[batch])
        return views

    return vectors, backprop


def training_lengths(window: int, limit: int) -> Tuple[int, ...]:
    """What the lengths of batches are rounded up to in training, none beyond the encoder's `limit`."""
    step = max(1, window // TRAINING_PARTS)
    lengths = {length for length in SHORT_LENGTHS if length < step} | set(range(step, window + step, step))
    return tuple(sorted({min(length, limit) for length in lengths}))


def _check_window(model: Model[List[View], Floats2d], shim: WholeHFShim) -> None:
    window = model.attrs["settings"].window
    if window > shim.max_window:
        raise KrisselError(Errors.K404.format(window=window, limit=shim.max_window))


def _shim(model: Model[List[View], Floats2d]) -> WholeHFShim:
    return cast(WholeHFShim, model.layers[0].layers[0].shims[0])


@keep_in_bytes
class NameSettings(NamedTuple):
    weight: float


def add_name_view(encoder: Model[List[View], Floats2d], weight: float) -> Model[List[View], Floats2d]:
    """`v(view) + weight · v(name alone)`: n views to (n, width).

    A context moves the vector of a mention away from that of its name, which is what most mentions are linked by;
    adding the name's own vector keeps both. A view without context is its name already, and the name of a masked one
    must not be seen: theirs is `v(view)`, and so is that of a reference.
    """
    settings = NameSettings(weight)
    return Model(
        "add_name_view",
        _forward_named,
        init=_init_named,
        layers=[encoder],
        dims={"nO": None},
        attrs={"settings": settings},
    )


def _init_named(model: Model, X: Optional[List[View]] = None, Y: Optional[Floats2d] = None) -> None:
    encoder = model.layers[0]
    encoder.initialize(X=X, Y=Y)
    model.set_dim("nO", encoder.get_dim("nO"))


def _forward_named(model: Model, X: List[View], is_train: bool) -> Tuple[Floats2d, Callable]:
    weight = model.attrs["settings"].weight
    named = [i for i, view in enumerate(X) if not (view.masked or view.reference) and (view.left or view.right)]
    Y, backprop_all = model.layers[0]([*X, *(name_view(X[i].mention) for i in named)], is_train)
    n = len(X)
    vectors = Y[:n].copy()
    vectors[named] += weight * Y[n:]

    def backprop(dY: Floats2d) -> List[View]:
        xp: Any = model.ops.xp
        backprop_all(xp.vstack((dY, weight * dY[named])))
        return []

    return vectors, backprop
