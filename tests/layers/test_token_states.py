"""Vectors of all tokens of texts: words by an encoder of views, word pieces by a transformer."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from spacy_krissel.errors import KrisselError
from spacy_krissel.layers.hf.piece_states import PieceStates, windows
from spacy_krissel.layers.small import SmallEncoder
from spacy_krissel.layers.token_states import WordStates
from spacy_krissel.views import View

TEXTS = [
    "the patient had acute lung injury",
    "",
    "fever.",
    "multiple sclerosis and cold in a patient with fever",
]


@pytest.fixture(scope="module")
def words():
    model = WordStates(SmallEncoder(width=8, rows=128, context_rows=64, hidden=4))
    model.initialize(X=TEXTS)
    return model


@pytest.fixture(scope="module")
def make_pieces(tiny_bert):
    still = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}

    def make(**settings):
        model = PieceStates(
            str(tiny_bert), **{"window": 32, "transformer_config": still, **settings}
        )
        model.initialize()
        return model

    return make


def test_words_are_encoded_as_views_in_their_text(words):
    states = words.predict(["pain, in knee"])
    assert_array_equal(states.offsets, [[0, 4], [6, 8], [9, 13]])
    views = [
        View("", "pain", ", in knee"),
        View("pain, ", "in", " knee"),
        View("pain, in ", "knee", ""),
    ]
    assert_allclose(states.vectors, words.layers[0].predict(views))


def test_texts_without_words_have_no_tokens(words):
    states, backprop = words.begin_update(["", " .", "\n"])
    assert states.vectors.shape == (0, 8) and states.offsets.shape == (0, 2)
    assert_array_equal(states.lengths, [0, 0, 0])
    backprop(states.vectors)


def test_piece_states_exclude_special_tokens_and_padding(make_pieces):
    """Neither `[CLS]` nor `[SEP]`, and none of the padding."""
    model = make_pieces()
    states = model.predict(TEXTS)
    for text, place in zip(TEXTS, states.texts(), strict=True):
        assert "".join(text[start:end] for start, end in states.offsets[place]) == text.replace(
            " ", ""
        )
        alone = model.predict([text])
        assert_allclose(states.vectors[place], alone.vectors, atol=1e-5)
    assert np.abs(states.vectors).sum(axis=1).min() > 0


def test_a_state_is_the_last_hidden_layer(make_pieces):
    import torch

    model = make_pieces()
    shim = model.layers[0].shims[0]
    ids = shim.tokenizer(TEXTS[0], return_tensors="pt")["input_ids"]
    with torch.no_grad():
        expected = shim.transformer.eval()(input_ids=ids).last_hidden_state[0, 1:-1]
    assert_allclose(model.predict(TEXTS[:1]).vectors, expected.numpy(), atol=1e-5)


def test_a_long_text_is_read_in_windows(make_pieces):
    model = make_pieces(window=8)
    text = "the patient had acute lung injury and fever with a cold"
    states = model.predict([text])
    assert len(states.vectors) == 11
    # Six pieces fit beside the special ones.
    first = model.predict(["the patient had acute lung injury"])
    second = model.predict(["and fever with a cold"])
    assert_allclose(states.vectors, np.vstack([first.vectors, second.vectors]), atol=1e-5)


def test_windows_are_split_between_words():
    # Words of two, three and one piece.
    places = [(0, 2), (2, 4), (5, 6), (6, 7), (7, 9), (10, 12)]
    assert windows(places, 4) == [(0, 2), (2, 6)]
    # A word longer than the window is cut anyway, and nothing is lost.
    assert windows(places, 2) == [(0, 2), (2, 4), (4, 6)]
    assert windows([], 4) == []


def test_the_gradient_reaches_the_transformer(make_pieces):
    """Compare the gradient of one value of one token with autograd."""
    import torch

    model = make_pieces()
    states, backprop = model.begin_update(TEXTS)
    d_vectors = np.zeros_like(states.vectors)
    d_vectors[states.texts()[3].start + 1, 4] = 1.0
    backprop(d_vectors)
    shim = model.layers[0].shims[0]
    found = shim.transformer.get_input_embeddings().weight.grad.clone()
    shim.transformer.zero_grad()
    ids = shim.tokenizer(TEXTS[3], return_tensors="pt")["input_ids"]
    shim.transformer(input_ids=ids).last_hidden_state[0, 2, 4].backward()
    expected = shim.transformer.get_input_embeddings().weight.grad
    assert torch.allclose(found, expected, atol=1e-6) and expected.abs().sum() > 0


def test_states_survive_saving_and_loading(make_pieces, tiny_bert):
    model = make_pieces()
    again = PieceStates(str(tiny_bert), window=32)
    again.from_bytes(model.to_bytes())
    assert_allclose(again.predict(TEXTS).vectors, model.predict(TEXTS).vectors)


def test_invalid_settings_raise(tiny_bert):
    with pytest.raises(KrisselError, match="K006.*window"):
        PieceStates(str(tiny_bert), window=7)


def test_a_window_longer_than_the_transformers_raises(tiny_bert):
    with pytest.raises(KrisselError, match="K404"):
        PieceStates(str(tiny_bert), window=65).initialize()


def test_predicting_without_weights_raises(tiny_bert):
    with pytest.raises(KrisselError, match="K405"):
        PieceStates(str(tiny_bert), window=32).predict(TEXTS)
