"""Re-ranker that scores all candidates of a mention in one pass, by the vectors of their names."""

import re
from collections.abc import Callable, Sequence
from functools import lru_cache
from itertools import islice
from typing import Any, NamedTuple, cast

import numpy
from thinc.api import Model, Optimizer, Shim, chain, glorot_uniform_init
from thinc.types import Floats1d, Floats2d

from ..util.settings import Positive, PositiveInt, checked
from ..views import View, name_view
from .identity import Settings
from .ranked import RankedMention, Reranker, bounded, list_lengths

# The linker's score gap to the first candidate; 1 / rank; cosines of the mention's name with the
# nearest and the preferred name, and of the mention in context with the preferred name; lexical
# similarity for the first two.
FEATURES = (
    "gap",
    "rank",
    "nearest",
    "preferred",
    "context",
    "lexical nearest",
    "lexical preferred",
)
# In log-odds; wider gaps are clipped.
MAX_GAP = 10.0
# Number of cached vectors: about 150 MB at a width of 384.
MAX_CACHED_NAMES = 100_000
_BREAKS = re.compile(r"[\W_]+")
PARAMS = ("W", "U", "V", "b", "A", "B", "b2", "o")


class Lists(NamedTuple):
    """Inputs of a batch: m candidates of n mentions.

    features: (m, len(FEATURES)).
    mentions, names: (m, width), the vector of the candidate's mention (its name alone) and of the
        candidate's name nearest to the mention.
    weights: (m, 1), 1 / the number of its mention's candidates.
    owner: (m,) index of the candidate's mention, ascending.
    """

    features: Any
    mentions: Any
    names: Any
    weights: Any
    owner: Any
    n: int


@checked
def ListCrossEncoder(
    encoder: Model[list[View], Floats2d],
    *,
    n_names: PositiveInt = 4,
    hidden: PositiveInt = 32,
    bound: Positive = 1.0,
) -> Reranker:
    """Score all candidates of a mention in one pass.

    The input is n mentions of k candidates, the output (n·k,) corrections of log-odds.

        h_i = gelu(W f_i + U m ∘ V c_i + b)      candidate i: features f, mention m times name c
        g_i = gelu(A h_i + B mean_j h_j + b')    each compared with all others
        z_i = o · g_i                            o = 0 at first: the linker's order stays

    The mention is encoded twice, in its context and as a name; vectors of candidate names are
    cached. The encoder is frozen. Only the layers above it are trained, which takes seconds.

    encoder: views to vectors of unit length: `spacy-krissel.TransformerEncoder.v1` with
        `normalize`, or `spacy-krissel.SmallEncoder.v1`, which needs no transformer (untrained, it
        compares n-grams)
    n_names: names per candidate that are compared with the mention, the preferred one first
    hidden: width of h and g
    bound: the largest correction, in log-odds (`bounded`)

    Raises KrisselError K006 for a wrong setting.
    """
    model: Model[list[RankedMention], Floats1d] = Model(
        "list_cross_encoder",
        forward,
        init=init,
        layers=[encoder],
        shims=[VectorCache()],
        params=dict.fromkeys(PARAMS),
        dims={"nI": None, "nH": hidden},
        attrs={"settings": Settings(n_names=n_names, bound=bound)},
    )
    return chain(model, bounded(bound))


def init(
    model: Model[Any, Any], X: list[RankedMention] | None = None, Y: Floats1d | None = None
) -> None:
    encoder = model.layers[0]
    encoder.initialize(X=[mention.view for mention in X or ()] or [name_view("mention")])
    cast(VectorCache, model.shims[0]).clear()
    width, hidden = encoder.get_dim("nO"), model.get_dim("nH")
    model.set_dim("nI", width)
    ops = model.ops
    for name, shape in {
        "W": (len(FEATURES), hidden),
        "U": (width, hidden),
        "V": (width, hidden),
        "A": (hidden, hidden),
        "B": (hidden, hidden),
    }.items():
        model.set_param(name, glorot_uniform_init(ops, shape))
    for name in ("b", "b2", "o"):
        model.set_param(name, ops.alloc1f(hidden))


def forward(
    model: Model[list[RankedMention], Floats1d], X: list[RankedMention], is_train: bool
) -> tuple[Floats1d, Callable[[Floats1d], list[RankedMention]]]:
    # Products of the array library: on a CPU, thinc's products use only one core.
    ops = model.ops
    xp: Any = ops.xp
    lists = read_lists(model, X)
    params: list[Any] = [model.get_param(name) for name in PARAMS]
    W, U, V, b, A, B, b2, o = params
    features, weights, owner = lists.features, lists.weights, lists.owner
    mentions, names = lists.mentions @ U, lists.names @ V  # (m, hidden)
    inner = features @ W + mentions * names + b
    h = ops.gelu(inner)

    def sums(values: Any) -> Any:  # (m, hidden) to (n, hidden)
        found = xp.zeros((lists.n, values.shape[1]), dtype="float32")
        xp.add.at(found, owner, values)
        return found

    mean = sums(h * weights)
    outer = h @ A + (mean @ B)[owner] + b2
    g = ops.gelu(outer)

    def backprop(dY: Any) -> list[RankedMention]:
        d_outer = ops.backprop_gelu(dY[:, None] * o[None], outer)
        # The gradient of a mean is the sum over the mention's candidates, divided equally among
        # them.
        d_sums = sums(d_outer)  # (n, hidden)
        d_h = d_outer @ A.T + (d_sums @ B.T)[owner] * weights
        d_inner = ops.backprop_gelu(d_h, inner)
        model.inc_grad("o", g.T @ dY)
        model.inc_grad("b2", d_outer.sum(axis=0))
        model.inc_grad("A", h.T @ d_outer)
        model.inc_grad("B", mean.T @ d_sums)
        model.inc_grad("b", d_inner.sum(axis=0))
        model.inc_grad("W", features.T @ d_inner)
        model.inc_grad("U", lists.mentions.T @ (d_inner * names))
        model.inc_grad("V", lists.names.T @ (d_inner * mentions))
        return X

    return g @ o, backprop


def read_lists(model: Model[Any, Any], mentions: list[RankedMention]) -> Lists:
    """Return the features and vectors of a batch, on the model's device."""
    n_names, width = model.attrs["settings"].n_names, model.get_dim("nI")
    encoder, cache = model.layers[0], cast(VectorCache, model.shims[0])
    lengths = list_lengths(mentions)
    owner = numpy.repeat(numpy.arange(len(mentions)), lengths)
    # A candidate without a name gets an empty one.
    names = [
        candidate.names[:n_names] or ("",)
        for mention in mentions
        for candidate in mention.candidates
    ]
    features = numpy.zeros((0, len(FEATURES)))
    own = nearest = numpy.zeros((0, width), dtype="float32")
    if names:
        views = encoder.ops.to_numpy(encoder.predict([mention.view for mention in mentions]))
        own = cache.encode(encoder, [mention.view.mention for mention in mentions])[owner]
        vectors = cache.encode(encoder, [name for each in names for name in each])
        starts = numpy.cumsum([0, *map(len, names[:-1])])
        likeness = numpy.einsum(
            "ij,ij->i", vectors, numpy.repeat(own, [len(each) for each in names], axis=0)
        )
        best = numpy.array(
            [
                s + int(likeness[s : s + len(each)].argmax())
                for s, each in zip(starts, names, strict=True)
            ]
        )
        nearest = vectors[best]
        gaps = numpy.concatenate([mention.logits - mention.logits[:1] for mention in mentions])
        letters = [
            dice(mentions[i].view.mention, each) for i, each in zip(owner, names, strict=True)
        ]
        columns = (
            numpy.clip(gaps, -MAX_GAP, MAX_GAP) / MAX_GAP,
            1 / numpy.concatenate([numpy.arange(1, length + 1) for length in lengths]),
            likeness[best],
            likeness[starts],
            numpy.einsum("ij,ij->i", vectors[starts], views[owner]),
            [max(each) for each in letters],
            [each[0] for each in letters],
        )
        features = numpy.stack(columns, axis=1)
    weights = numpy.repeat(1 / numpy.maximum(1, lengths), lengths)[:, None]
    as_array: Any = model.ops.asarray
    # In two copies to a GPU: of numbers, and of indices.
    whole = as_array(numpy.concatenate((features, weights, own, nearest), axis=1).astype("float32"))
    n, first = len(FEATURES), len(FEATURES) + 1
    parts = (
        whole[:, :n],
        whole[:, first : first + width],
        whole[:, first + width :],
        whole[:, n:first],
    )
    return Lists(*parts, as_array(owner), len(mentions))


def dice(mention: str, names: Sequence[str]) -> list[float]:
    """Return the Dice coefficient of the character trigrams of `mention` and of each name, 0 to 1.

    Case, punctuation and the order of words are ignored.
    """
    own = _ngrams(mention)
    others = [_ngrams(name) for name in names]
    return [2 * len(own & other) / max(1, len(own) + len(other)) for other in others]


@lru_cache(maxsize=100_000)
def _ngrams(text: str) -> frozenset[str]:
    # Put a space on either side of each word, so that word order is ignored: "Neoplasms, Breast".
    words = [f" {word} " for word in _BREAKS.sub(" ", text.lower()).split()]
    return frozenset(word[i : i + 3] for word in words for i in range(len(word) - 3 + 1))


class VectorCache(Shim):
    """Cache of name vectors by one frozen encoder.

    It is a shim, because thinc notifies shims when weights are loaded, which empties the cache. It
    is never saved.

    Threads share it without a lock, which a fork might leave locked. A dict only grows, and
    emptying the cache starts a new one, so that a thread keeps the dict that it started with.
    """

    def __init__(self) -> None:
        super().__init__(None)
        self._vectors: dict[str, numpy.ndarray] = {}

    def encode(self, encoder: Model[list[View], Floats2d], names: Sequence[str]) -> numpy.ndarray:
        """Return the vectors of the names, (len(names), width) float32 on the CPU."""
        kept = target = self._vectors
        new = [name for name in dict.fromkeys(names) if name not in kept]
        if len(kept) + len(new) > MAX_CACHED_NAMES:
            self.clear()
            target = self._vectors
        vectors = (
            encoder.ops.to_numpy(encoder.predict([name_view(name) for name in new])) if new else ()
        )
        # Copies, since a view of one row would keep the whole batch in memory.
        found = {name: vector.copy() for name, vector in zip(new, vectors, strict=True)}
        target.update(islice(found.items(), MAX_CACHED_NAMES))
        rows = [found[name] if name in found else kept[name] for name in names]
        return numpy.stack(rows) if rows else numpy.zeros((0, 0), dtype="float32")

    def clear(self) -> None:
        self._vectors = {}

    def finish_update(self, optimizer: Optimizer) -> None:
        pass

    def to_device(self, device_type: str, device_id: int) -> None:
        pass

    def to_bytes(self) -> bytes:
        return b""

    def from_bytes(self, bytes_data: bytes) -> "VectorCache":
        self.clear()
        return self

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_vectors": {}}
