"""Small encoder: hashed n-grams of the mention and hashed words of its context, trained on a CPU.

It starts without pre-trained weights.
"""

from collections.abc import Callable
from functools import partial
from typing import Annotated, Any, cast

from pydantic import Field
from thinc.api import Model, chain, glorot_uniform_init, torch2xp, xp2torch
from thinc.types import Floats2d
from thinc.util import get_torch_default_device

from ..util.settings import Count, PositiveInt, checked
from ..views import View
from .features import context_features, context_words, mention_features
from .hashed_bags import HashedBags
from .identity import Settings
from .normalize import normalize_rows


def product(A: Any, B: Any) -> Floats2d:
    """Return A (n, m) times B (m, k), by torch: (n, k).

    thinc's own product uses one core. NumPy's BLAS keeps its threads spinning after each product,
    which halved the speed of a FAISS search right after it; torch's threads sleep.
    """
    return cast(Floats2d, torch2xp(xp2torch(A) @ xp2torch(B)))


def affine(A: Any, W: Any, b: Any) -> Floats2d:
    """Return A (n, m) times W (m, k), plus b (k,): (n, k). By torch, like `product`."""
    import torch

    return cast(Floats2d, torch2xp(torch.addmm(xp2torch(b), xp2torch(A), xp2torch(W))))


def gelu(X: Floats2d) -> Floats2d:
    """Return the GELU of each value of X (n, m): (n, m), by torch, like `product`."""
    import torch

    return cast(Floats2d, torch2xp(torch.nn.functional.gelu(xp2torch(X))))


# For contexts: long enough to be stems, since there are many.
CONTEXT_NGRAMS = (4, 5)


@checked
def SmallEncoder(
    *,
    width: PositiveInt = 256,
    rows: Annotated[int, Field(ge=2)] = 2**17,
    context_rows: PositiveInt = 2**16,
    shortest_ngram: PositiveInt = 3,
    longest_ngram: PositiveInt = 5,
    context_chars: Count = 100,
    hidden: PositiveInt = 256,
    context_weight: float = 0.5,
    normalize: bool = True,
    seed: Count = 0,
) -> Model[list[View], Floats2d]:
    """Encode views without a transformer: n views to (n, width).

    `v = m + w∘c + W2 gelu(W1 [m; c] + b1) + b2`, then unit length. m is the mean embedding of the
    n-grams and words of the surface form, c that of the context. Both tables start as random
    vectors scaled by inverse document frequency, and the mixer (W1, W2) starts at zero: the
    untrained encoder compares n-grams and words about as TF-IDF does. No download and no GPU.

    width: length of the vectors
    rows: rows of the hashed table of surface forms, which takes rows × width × 4 bytes
    context_rows: rows of the hashed table of contexts
    shortest_ngram: characters in the shortest n-grams of the surface form
    longest_ngram: characters in the longest ones
    context_chars: characters read on each side of the mention
    hidden: width of the mixer
    context_weight: initial w, the same in all dimensions: the weight of the context relative to the
        surface form
    normalize: scale vectors to unit length, so that inner product is the cosine
    seed: random seed of the tables' initial values
    """
    ngrams = (shortest_ngram, longest_ngram)
    settings = Settings(
        shortest_ngram=shortest_ngram,
        longest_ngram=longest_ngram,
        context_chars=context_chars,
        normalize=normalize,
    )
    mention = HashedBags(
        rows, width, partial(mention_features, rows=rows, ngrams=ngrams), seed=seed
    )
    reading: dict[str, Any] = {
        "rows": context_rows,
        "ngrams": CONTEXT_NGRAMS,
        "chars": context_chars,
    }
    read_context, by_words = partial(context_features, **reading), partial(context_words, **reading)
    context = HashedBags(context_rows, width, read_context, by_words, seed=seed + 1)
    model: Model[list[View], Floats2d] = Model(
        "small_encoder",
        _forward,
        init=_init,
        dims={"nO": width, "nH": hidden},
        layers=[mention, context],
        params={"context_weight": None, "W1": None, "b1": None, "W2": None, "b2": None},
        attrs={"start_weight": context_weight, "settings": settings},
    )
    return chain(model, normalize_rows()) if normalize else model


def _init(model: Model[Any, Any], X: list[View] | None = None, Y: Any = None) -> Model[Any, Any]:
    for bags in model.layers:
        bags.initialize(X)
    width, hidden = model.get_dim("nO"), model.get_dim("nH")
    ops = model.ops
    model.set_param("context_weight", ops.alloc1f(width) + model.attrs["start_weight"])
    model.set_param("W1", glorot_uniform_init(ops, (2 * width, hidden)))
    model.set_param("b1", ops.alloc1f(hidden))
    model.set_param("W2", ops.alloc2f(hidden, width))
    model.set_param("b2", ops.alloc1f(width))
    return model


def _forward(
    model: Model[Any, Any], X: list[View], is_train: bool
) -> tuple[Floats2d, Callable[..., Any]]:
    if not is_train:
        # This gradient is not used; with dropout it is that of another pass.
        return _predicted(model, X), lambda dY: _forward(model, X, True)[1](dY)
    mention, context = model.layers
    width = model.get_dim("nO")
    xp: Any = model.ops.xp
    m, backprop_mention = mention(X, is_train)
    c, backprop_context = context(X, is_train)
    w, W1, W2 = (model.get_param(name) for name in ("context_weight", "W1", "W2"))
    both = xp.hstack((m, c))
    inner = affine(both, W1, model.get_param("b1"))
    active = gelu(inner)
    Y = affine(active, W2, model.get_param("b2"))
    Y += m
    Y += w * c

    def backprop(dY: Floats2d) -> list[View]:
        d_inner = model.ops.backprop_gelu(product(dY, W2.T), inner)
        d_both = product(d_inner, W1.T)
        model.inc_grad("W2", product(active.T, dY))
        model.inc_grad("b2", dY.sum(axis=0))
        model.inc_grad("W1", product(both.T, d_inner))
        model.inc_grad("b1", d_inner.sum(axis=0))
        model.inc_grad("context_weight", (dY * c).sum(axis=0))
        backprop_mention(dY + d_both[:, :width])
        backprop_context(dY * w + d_both[:, width:])
        return []

    return Y, backprop


def _predicted(model: Model[Any, Any], X: list[View]) -> Floats2d:
    """Return the vectors of the views (n, width).

    The parts that depend only on the surface form are computed once per form. Views before the
    first one with a context need no context vectors.
    """
    import torch

    mention, context = model.layers
    width = model.get_dim("nO")
    # Looked up once: for each array it takes as long as the conversion.
    as_tensor = partial(xp2torch, device=get_torch_default_device())
    w, W1, b1, W2, b2 = (
        as_tensor(model.get_param(name)) for name in ("context_weight", "W1", "b1", "W2", "b2")
    )
    # None marks a form that the encoder must not see.
    forms = [None if view.masked else view.mention for view in X]
    rows = {form: row for row, form in enumerate(dict.fromkeys(forms))}
    m = as_tensor(mention([View("", form or "", "", form is None) for form in rows], False)[0])
    of_view = torch.tensor([rows[form] for form in forms], dtype=torch.int64, device=m.device)
    inner = torch.addmm(b1, m, W1[:width])[of_view]
    Y = (m + b2)[of_view]
    first = next((row for row, view in enumerate(X) if view.left or view.right), len(X))
    if first < len(X):
        c = as_tensor(context(X[first:], False)[0])
        inner[first:].addmm_(c, W1[width:])
        Y[first:].addcmul_(w, c)
    Y.addmm_(torch.nn.functional.gelu(inner), W2)
    return cast(Floats2d, torch2xp(Y))
