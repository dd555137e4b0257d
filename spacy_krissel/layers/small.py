"""The small encoder: hashed n-grams of the mention, hashed words of its context, trained from nothing on a CPU."""

from functools import partial
from typing import Any, Callable, List, Optional, Tuple

from thinc.api import Gelu, Linear, Model, chain, zero_init
from thinc.types import Floats2d

from ..views import View
from .features import context_features, mention_features
from .hashed_bags import HashedBags
from .normalize import normalize_rows


def SmallEncoder(
    *,
    width: int = 256,
    rows: int = 2**17,
    context_rows: int = 2**16,
    shortest_ngram: int = 3,
    longest_ngram: int = 5,
    context_words: int = 12,
    hidden: int = 256,
    normalize: bool = True,
    learn_rate_scale: float = 1.0,
    seed: int = 0,
) -> Model[List[View], Floats2d]:
    """Encode views without a transformer: `v = m + W2 gelu(W1 [m; c])`, then unit length.

    m is the mean embedding of the surface form's n-grams and words, c that of the context's words; the context enters as
    a correction of m, which starts at zero. No download and no GPU.

    width: length of the vectors (nO).
    rows, context_rows: rows of the two hashed tables; a table takes rows × width × 4 bytes.
    shortest_ngram, longest_ngram: characters in an n-gram.
    context_words: words read on each side of the mention.
    hidden: width of the mixer.
    normalize: unit vectors, so that inner product is the cosine.
    learn_rate_scale: the tables learn this many times faster than the mixer.
    seed: of the tables' starting values.

    Input: n views. Output: (n, width).
    """
    mention = HashedBags(
        rows,
        width,
        partial(mention_features, rows=rows, ngrams=(shortest_ngram, longest_ngram)),
        seed=seed,
        learn_rate_scale=learn_rate_scale,
    )
    context = HashedBags(
        context_rows,
        width,
        partial(context_features, rows=context_rows, words=context_words),
        seed=seed + 1,
        learn_rate_scale=learn_rate_scale,
    )
    mixer = chain(Gelu(hidden, 2 * width), Linear(width, hidden, init_W=zero_init))
    model: Model[List[View], Floats2d] = Model(
        "small_encoder",
        _forward,
        init=_init,
        dims={"nO": width},
        layers=[mention, context, mixer],
        attrs={"batch_size": 4096},
    )
    return chain(model, normalize_rows()) if normalize else model


def _init(model: Model, X: Optional[List[View]] = None, Y: Any = None) -> Model:
    mention, context, mixer = model.layers
    mention.initialize(X)
    context.initialize(X)
    mixer.initialize()
    return model


def _forward(model: Model, X: List[View], is_train: bool) -> Tuple[Floats2d, Callable]:
    mention, context, mixer = model.layers
    width = model.get_dim("nO")
    m, backprop_mention = mention(X, is_train)
    c, backprop_context = context(X, is_train)
    correction, backprop_mixer = mixer(model.ops.xp.hstack((m, c)), is_train)

    def backprop(dY: Floats2d) -> List[View]:
        d_mixed = backprop_mixer(dY)
        backprop_mention(dY + d_mixed[:, :width])
        backprop_context(d_mixed[:, width:])
        return []

    return m + correction, backprop
