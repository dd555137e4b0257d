import sys

import numpy
import pytest
import torch
from numpy.testing import assert_allclose
from thinc.api import Adam

from spacy_krissel.errors import KrisselError
from spacy_krissel.layers.hf.transformer import TransformerEncoder
from spacy_krissel.views import View, name_view

VIEWS = [name_view("cold"), View("the patient had ", "fever", " and a cold"), name_view("multiple sclerosis")]


@pytest.fixture
def make(tiny_bert):
    pytest.importorskip("peft")

    def make(rank=4, **settings):
        model = TransformerEncoder(str(tiny_bert), adapter_rank=rank, **settings)
        model.initialize()
        return model

    return make


def transformer_of(model):
    return model.layers[0].layers[0].shims[0].transformer


def train(model, steps=3):
    optimizer = Adam(0.01)
    for _ in range(steps):
        vectors, backprop = model.begin_update(VIEWS)
        backprop(vectors - 1)
        model.finish_update(optimizer)


def test_vectors_are_the_encoders_until_trained(make):
    assert_allclose(make().predict(VIEWS), make(rank=0).predict(VIEWS), atol=1e-6)


def test_only_adapters_are_trained(make):
    model = make()
    before = {name: tensor.clone() for name, tensor in transformer_of(model).state_dict().items()}
    first = model.predict(VIEWS)
    train(model)
    after = transformer_of(model).state_dict()
    moved = {name for name in before if not torch.equal(before[name], after[name])}
    assert moved and all(".lora_" in name for name in moved)
    assert not numpy.allclose(first, model.predict(VIEWS), atol=1e-3)


def test_what_is_saved_is_an_encoder_as_any_other(make):
    model = make()
    train(model)
    plain = TransformerEncoder("not read").from_bytes(model.to_bytes())
    assert_allclose(plain.predict(VIEWS), model.predict(VIEWS), atol=1e-5)
    names = set(transformer_of(plain).state_dict())
    assert names == set(transformer_of(make(rank=0)).state_dict())
    # Saved again, it is the same, byte for byte: nothing of the adapters is left.
    assert plain.to_bytes() == TransformerEncoder("not read").from_bytes(plain.to_bytes()).to_bytes()


def test_initialized_twice_they_are_there_once(make):
    model = make()
    train(model)
    names = [name for name, _ in transformer_of(model).named_parameters()]
    vectors = model.predict(VIEWS)
    model.initialize()
    assert [name for name, _ in transformer_of(model).named_parameters()] == names
    assert numpy.array_equal(model.predict(VIEWS), vectors)


@pytest.mark.parametrize("rank, share", [(7, 0.011), (87, 0.132)])
def test_shares_of_the_parameters_of_bert_base(rank, share):
    pytest.importorskip("peft")
    from transformers import BertConfig, BertModel

    from spacy_krissel.layers.hf.adapters import add_adapters

    with torch.device("meta"):
        bert = BertModel(BertConfig(vocab_size=30522))
        n = sum(p.numel() for p in bert.parameters())
        add_adapters(bert, rank)
    assert sum(p.numel() for p in bert.parameters() if p.requires_grad) / n == pytest.approx(share, abs=0.001)


def test_without_the_library(make, monkeypatch):
    monkeypatch.setitem(sys.modules, "peft", None)
    with pytest.raises(KrisselError, match=r"K412.*spacy-krissel\[adapters\]"):
        make()


def test_rank_below_zero():
    with pytest.raises(KrisselError, match="K006.*adapter_rank"):
        TransformerEncoder("x", adapter_rank=-1)
