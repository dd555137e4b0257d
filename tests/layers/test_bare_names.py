"""Names without markers, as BELHD's released code reads them."""

import numpy as np
import pytest
import torch

from spacy_krissel.layers.hf.load import load_pretrained
from spacy_krissel.layers.hf.transformer import TransformerEncoder
from spacy_krissel.layers.hf.wordpieces import configure_tokenizer, unit_pieces, view_pieces
from spacy_krissel.layers.identity import fingerprint
from spacy_krissel.views import View, name_view, passage_views

NO_DROPOUT = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
SENTENCE = passage_views(["the ", "cold", " and ", "fever", ""])
VIEWS = [name_view("multiple sclerosis"), *SENTENCE, View("a ", "cold", ""), name_view("ms")]


@pytest.fixture
def make(tiny_bert):
    def make(**settings):
        settings = {"pooling": "marker", "units": True, "bare_names": True, **settings}
        model = TransformerEncoder(str(tiny_bert), transformer_config=NO_DROPOUT, **settings)
        model.initialize()
        return model

    return make


def shim_of(model):
    return next(shim for node in model.walk() for shim in node.shims)


def restated(model):
    """The vectors of VIEWS, each text written out and read by itself."""
    shim = shim_of(model)
    texts = {
        "[CLS] multiple sclerosis [SEP]": [(0,)],
        "[CLS] the [Ms] cold [Me] and [Ms] fever [Me] [SEP]": [(2, 4), (6, 8)],
        "[CLS] a [Ms] cold [Me] [SEP]": [(2, 4)],
        "[CLS] ms [SEP]": [(0,)],
    }
    vectors = []
    for text, places in texts.items():
        ids = torch.tensor([shim.tokenizer.convert_tokens_to_ids(text.split())])
        states = shim.transformer(input_ids=ids).last_hidden_state[0]
        vectors += [states[list(place)].mean(dim=0) for place in places]
    return torch.stack(vectors)


@pytest.mark.parametrize("read", [view_pieces, unit_pieces])
def test_bare_names_have_no_markers(tiny_bert, read):
    tokenizer = load_pretrained(str(tiny_bert), {}, {})[0]
    configure_tokenizer(tokenizer)
    rows = read(tokenizer, [VIEWS[0], VIEWS[3]], 64, bare_names=True)
    texts = [" ".join(tokenizer.convert_ids_to_tokens(row.ids.tolist())) for row in rows]
    assert texts[0] == "[CLS] multiple sclerosis [SEP]" and texts[1].startswith(
        "[CLS] a [Ms] cold [Me]"
    )
    assert (rows[0].start, rows[0].end) == (0, 0) != (rows[1].start, rows[1].end)


def test_names_are_pooled_by_cls_and_mentions_by_markers(make):
    model = make()
    with torch.no_grad():
        expected = restated(model).numpy()
    np.testing.assert_allclose(model.predict(VIEWS), expected, atol=1e-6)
    others = make(bare_names=False).predict(VIEWS)
    assert [np.allclose(*pair, atol=1e-4) for pair in zip(others, expected, strict=True)] == [
        False,
        *[True] * 3,
        False,
    ]


def test_gradients_equal_autograd(make):
    model, plain = make(), make()
    dY = np.random.default_rng(0).normal(size=(5, 32)).astype("float32")
    model.begin_update(VIEWS)[1](dY)
    (restated(plain) * torch.from_numpy(dY)).sum().backward()
    weights = [dict(shim_of(each).transformer.named_parameters()) for each in (model, plain)]
    for name, weight in weights[1].items():
        if weight.grad is not None:
            np.testing.assert_allclose(weights[0][name].grad, weight.grad, atol=2e-5, err_msg=name)


def test_bare_names_change_the_fingerprint(make):
    assert fingerprint(make()) != fingerprint(make(bare_names=False))
