"""Vectors of all tokens of a text, the input of label attention (OSLAT §3.2)."""

import re
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, cast

import numpy as np
from thinc.api import Model
from thinc.types import Floats2d

from ..views import View, mention_view

NAME = "word_states"
# Those of a transformer (`hf.piece_states`), named here so that nothing imports it for the name.
PIECE_STATES = "piece_states"
WORD = re.compile(r"\w+")
# Context per word, each of which is a view. More distant context adds little, and long texts stay
# cheap.
WORD_CONTEXT_CHARS = 64
# Words encoded at once, except in training: the features of a word take far more memory than its
# vector.
MAX_WORDS_AT_ONCE = 4096


class TokenStates(NamedTuple):
    """Tokens of n texts, one after another.

    vectors: (total, d).
    lengths: (n,) tokens of each text; 0 for a text without any.
    offsets: (total, 2) int64, start and end of each token in its text, in characters.
    """

    vectors: Floats2d
    lengths: np.ndarray
    offsets: np.ndarray

    def texts(self) -> list[slice]:
        """Return the slice of each text's tokens."""
        ends = np.cumsum(self.lengths)
        return [
            slice(int(end - length), int(end))
            for end, length in zip(ends, self.lengths, strict=True)
        ]


StatesModel = Model[list[str], TokenStates]


def WordStates(encoder: Model[list[View], Floats2d]) -> StatesModel:
    """Encode each word of a text as a mention in its context: n texts to their `TokenStates`.

    Words are runs of letters and digits. The backprop takes the gradient of the vectors.

    encoder: a cheap encoder of views, such as `spacy-krissel.SmallEncoder.v1`
    """
    return Model(NAME, _forward, init=_init, layers=[encoder], dims={"nO": None})


def words_of(text: str) -> list[tuple[int, int]]:
    """Return the start and end of each word of a text."""
    return [match.span() for match in WORD.finditer(text)]


def _init(model: StatesModel, X: list[str] | None = None, Y: Any = None) -> None:
    encoder = model.layers[0]
    encoder.initialize(X=None if X is None else _views(X, [words_of(text) for text in X]))
    model.set_dim("nO", encoder.get_dim("nO"))


def _forward(
    model: StatesModel, X: list[str], is_train: bool
) -> tuple[TokenStates, Callable[[Floats2d], list[str]]]:
    words = [words_of(text) for text in X]
    views = _views(X, words)
    lengths = np.asarray([len(each) for each in words], dtype=np.int64)
    offsets = np.asarray([span for each in words for span in each], dtype=np.int64).reshape(-1, 2)
    encoder, xp = model.layers[0], cast(Any, model.ops.xp)
    vectors, backprop_encoder = model.ops.alloc2f(0, model.get_dim("nO")), None
    if is_train and views:
        vectors, backprop_encoder = encoder(views, is_train)
    elif views:
        parts = [views[i : i + MAX_WORDS_AT_ONCE] for i in range(0, len(views), MAX_WORDS_AT_ONCE)]
        vectors = xp.concatenate([encoder.predict(part) for part in parts])

    def backprop(d_vectors: Floats2d) -> list[str]:
        if backprop_encoder is not None:
            backprop_encoder(d_vectors)
        return X

    return TokenStates(vectors, lengths, offsets), backprop


def _views(texts: Sequence[str], words: Sequence[list[tuple[int, int]]]) -> list[View]:
    return [
        mention_view(text, start, end, WORD_CONTEXT_CHARS)
        for text, offsets in zip(texts, words, strict=True)
        for start, end in offsets
    ]
