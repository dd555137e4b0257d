"""Label attention: the parts of a text that are about an entity (OSLAT §3.2, eq. 2 and 3)."""

from collections.abc import Callable
from typing import Any, Literal, NamedTuple

import numpy as np
from thinc.api import Model, get_array_module, glorot_uniform_init
from thinc.types import Floats1d, Floats2d

from ..util.settings import Count, Positive, checked
from .identity import Settings
from .token_states import StatesModel, TokenStates


class Attention(NamedTuple):
    """Attention of queries to the tokens of a text.

    weights: (m, n), of each of m queries over n tokens; rows sum to 1 (eq. 2).
    contexts: (m, d), the weighted sums of the tokens (eq. 3).
    """

    weights: Floats2d
    contexts: Floats2d


def attend(
    queries: Floats2d, states: Floats2d, scale: float = 1.0
) -> tuple[Attention, Callable[[Floats2d], tuple[Floats2d, Floats2d]]]:
    """Return the attention `α = softmax(scale · q · hᵀ)`, `c = α · h`, and its backprop.

    queries: (m, d). states: of one text (n, d), n ≥ 1. The backprop maps the gradient of the
        contexts to those of queries and states.
    """
    xp: Any = get_array_module(states)
    scores = scale * (queries @ states.T)  # (m, n)
    scores -= scores.max(axis=1, keepdims=True)
    weights = xp.exp(scores)
    weights /= weights.sum(axis=1, keepdims=True)

    def backprop(d_contexts: Floats2d) -> tuple[Floats2d, Floats2d]:
        d_weights = d_contexts @ states.T
        d_scores = scale * weights * (d_weights - (weights * d_weights).sum(axis=1, keepdims=True))
        return d_scores @ states, weights.T @ d_contexts + d_scores.T @ queries

    return Attention(weights, weights @ states), backprop


def mean_states(states: TokenStates) -> tuple[Floats2d, Callable[[Floats2d], Floats2d]]:
    """Return the mean of each text's tokens (n, d), which is a name's query, and the backprop.

    A text without tokens gives zeros. The backprop returns the gradient of the tokens' vectors.
    """
    xp: Any = get_array_module(states.vectors)
    means = xp.zeros((len(states.lengths), states.vectors.shape[1]), dtype="float32")
    where = states.texts()
    for row, tokens in enumerate(where):
        if tokens.stop > tokens.start:
            means[row] = states.vectors[tokens].mean(axis=0)

    def backprop(d_means: Floats2d) -> Floats2d:
        d_vectors = xp.zeros_like(states.vectors)
        for row, tokens in enumerate(where):
            d_vectors[tokens] = d_means[row] / max(1, tokens.stop - tokens.start)
        return d_vectors

    return means, backprop


@checked
def LabelAttention(
    tokens: StatesModel,
    *,
    scale: Positive = 1.0,
    classifier: Literal["context", "pair"] = "context",
    hidden: Count = 0,
) -> StatesModel:
    """Encode texts and names by their tokens, with a classifier of texts that are about an entity.

    The classifier sees what the entity's name attends to in the text: `s(x, e) = Classifier(c^(x,
    e))` (OSLAT §3.3, eq. 5). Input: n texts. Output: their `TokenStates`. The classifier is the
    second layer, `presence_layer`.

    tokens: `spacy-krissel.PieceStates.v1` or `spacy-krissel.WordStates.v1`.
    scale: of the inner products in the softmax; 1 in the paper. Unit vectors need more, about 20.
    classifier: "context", the paper's, takes c alone; "pair" the query q as well: `[c; q; c∘q;
        cos(c, q)]`.
    hidden: width of a layer with ReLU in the classifier; 0: a linear one.

    Raises KrisselError K006 for a wrong setting.
    """
    presence: PresenceModel = Model(
        "presence",
        _forward_presence,
        dims={"nI": None, "nH": hidden},
        params=dict.fromkeys("WbVc" if hidden else "Wb"),
        attrs={"sees": classifier},
    )
    return Model(
        "label_attention",
        _forward,
        init=_init,
        layers=[tokens, presence],
        dims={"nO": None},
        attrs={"settings": Settings(scale=scale, classifier=classifier)},
    )


class PresenceInput(NamedTuple):
    """Input of the classifier for m names in a text: their contexts (m, d) and queries (m, d)."""

    contexts: Floats2d
    queries: Floats2d


PresenceModel = Model[PresenceInput, Floats1d]


def attention(
    model: Model[Any, Any], queries: Floats2d, states: Floats2d
) -> tuple[Attention, Callable[[Floats2d], tuple[Floats2d, Floats2d]]]:
    """Return `attend` with the scale of a `LabelAttention` model."""
    return attend(queries, states, model.attrs["settings"].scale)


def presence_layer(model: Model[Any, Any]) -> PresenceModel:
    """Return the classifier: the contexts and queries of m names to m logits.

    Its backprop gives no gradient, since the encoder below it is frozen (§3.3).
    """
    return model.layers[1]


def predict(model: Model[Any, Any], queries: Floats2d, states: Floats2d) -> tuple[Attention, Any]:
    """Return the attention of names (m, d) to a text (n, d), n ≥ 1, and probabilities (m,).

    They are the probabilities that the text is about each name's entity (eq. 5), float32 on the
    CPU.
    """
    found, _ = attention(model, queries, states)
    return found, predict_presence(model, PresenceInput(found.contexts, queries))


def predict_presence(model: Model[Any, Any], seen: PresenceInput) -> Any:
    """Return the probability (m,) that a text is about each name's entity, float32 on the CPU."""
    logits: Any = model.ops.to_numpy(presence_layer(model).predict(seen))
    return (1 / (1 + np.exp(-logits.astype("float64")))).astype("float32")


def _init(model: StatesModel, X: list[str] | None = None, Y: Any = None) -> None:
    tokens, presence = model.layers
    tokens.initialize(X=X)
    width = tokens.get_dim("nO")
    model.set_dim("nO", width)
    n_in = width if presence.attrs["sees"] == "context" else 3 * width + 1
    hidden = presence.get_dim("nH")
    presence.set_dim("nI", n_in)
    ops = model.ops
    if hidden and presence.has_param("V") is None:
        presence.set_param("V", glorot_uniform_init(ops, (n_in, hidden)))
        presence.set_param("c", ops.alloc1f(hidden))
    if presence.has_param("W") is None:
        W: Any = glorot_uniform_init(ops, (hidden, 1)) if hidden else ops.alloc2f(n_in, 1)
        presence.set_param("W", W[:, 0])
        presence.set_param("b", ops.alloc1f(1))


def _forward(
    model: StatesModel, X: list[str], is_train: bool
) -> tuple[TokenStates, Callable[..., Any]]:
    return model.layers[0](X, is_train)


def _forward_presence(
    model: PresenceModel, X: PresenceInput, is_train: bool
) -> tuple[Floats1d, Callable[[Floats1d], None]]:
    xp: Any = get_array_module(X.contexts)
    parts = [X.contexts] if model.attrs["sees"] == "context" else _pairs(X)
    params: dict[str, Any] = {name: model.get_param(name) for name in model.param_names}
    deep = "V" in params
    inner = _product(parts, params["V"]) + params["c"] if deep else None
    active = None if inner is None else inner * (inner > 0)
    Y = (_product(parts, params["W"]) if active is None else active @ params["W"]) + params["b"][0]

    def backprop(dY: Any) -> None:
        model.inc_grad("b", dY.sum(keepdims=True))
        if inner is None or active is None:
            model.inc_grad("W", xp.hstack(parts).T @ dY)
            return
        model.inc_grad("W", active.T @ dY)
        d_inner = dY[:, None] * params["W"][None] * (inner > 0)
        model.inc_grad("V", xp.hstack(parts).T @ d_inner)
        model.inc_grad("c", d_inner.sum(axis=0))

    return Y, backprop


def _pairs(X: PresenceInput) -> list[Floats2d]:
    """Return the parts of `[c; q; c∘q; cos(c, q)]`.

    Copying them into one matrix takes longer than all products with them.
    """
    xp: Any = get_array_module(X.contexts)
    products = X.contexts * X.queries
    squares = [xp.einsum("ij,ij->i", each, each) for each in X]
    cosines = products.sum(axis=1) / xp.maximum(xp.sqrt(squares[0] * squares[1]), 1e-12)
    return [X.contexts, X.queries, products, cosines[:, None]]


def _product(parts: list[Floats2d], weights: Any) -> Any:
    """Return the product of the concatenated columns of `parts` and weights (nI, nH) or (nI,)."""
    found, start = 0.0, 0
    for part in parts:
        found = found + part @ weights[start : start + part.shape[1]]
        start += part.shape[1]
    return found
