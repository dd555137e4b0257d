import errno
import json
import os
import shutil

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose, assert_array_equal
from transformers import AutoConfig, AutoModel, AutoTokenizer

from spacy_krissel.errors import KrisselError
from spacy_krissel.layers.hf.transformer import TransformerEncoder
from spacy_krissel.layers.hf.weights import average_with, write_transformer
from spacy_krissel.layers.referenced import ReferencedEncoder
from spacy_krissel.layers.small import SmallEncoder
from spacy_krissel.layers.warm_start import warm_start
from spacy_krissel.views import View, name_view

NAME = name_view("acute lung injury")
VIEWS = [
    NAME,
    View("the patient had ", "fever", " and ms"),
    View("T1", "ms; cold", "", reference=True),
]


def shim_of(model):
    return next(
        shim for node in model.walk() for shim in node.shims if hasattr(shim, "transformer")
    )


@pytest.fixture
def trained(tiny_bert):
    """An encoder of names with weights of its own."""
    model = TransformerEncoder(str(tiny_bert), window=25, normalize=True, markers=False)
    model.initialize()
    with torch.no_grad():
        for parameter in shim_of(model).transformer.parameters():
            parameter *= 1.1
    return model


def make_small(seed=0, hidden=5, context_rows=64, normalize=True, **settings):
    model = SmallEncoder(
        width=6,
        rows=128,
        context_rows=context_rows,
        hidden=hidden,
        normalize=normalize,
        seed=seed,
        **settings,
    )
    model.initialize(X=VIEWS)
    random = np.random.default_rng(seed)
    for node in model.walk():
        for name in node.param_names:
            node.set_param(name, random.normal(size=node.get_param(name).shape).astype("float32"))
    return model


def test_an_encoder_can_start_from_a_written_transformer(trained, tmp_path, no_network):
    assert write_transformer(trained, tmp_path / "deep" / "encoder")
    other = TransformerEncoder(
        str(tmp_path / "deep" / "encoder"), window=25, normalize=True, markers=False
    )
    other.initialize()
    assert_array_equal(other.predict(VIEWS), trained.predict(VIEWS))
    # In another role: with markers, another window, another pooling.
    third = TransformerEncoder(str(tmp_path / "deep" / "encoder"), window=64, pooling="marker")
    third.initialize()
    assert third.predict(VIEWS).shape == (3, 32)
    # Written again, it is the same. (The tokenizer's files are spelled anew by its library.)
    write_transformer(other, tmp_path / "again")
    for name in ("model.safetensors", "config.json"):
        assert (tmp_path / "again" / name).read_bytes() == (
            tmp_path / "deep" / "encoder" / name
        ).read_bytes()


def test_a_written_transformer_can_be_loaded_by_transformers(trained, tmp_path):
    write_transformer(trained, tmp_path / "encoder")
    tokenizer = AutoTokenizer.from_pretrained(tmp_path / "encoder")
    transformer = AutoModel.from_pretrained(tmp_path / "encoder", add_pooling_layer=False).eval()
    with torch.no_grad():
        hidden = transformer(
            **tokenizer(NAME.mention, return_tensors="pt", truncation=False)
        ).last_hidden_state[0, 0]
    assert_allclose(
        trained.predict([NAME])[0], torch.nn.functional.normalize(hidden, dim=0).numpy(), atol=1e-5
    )
    assert str(tmp_path) not in json.dumps(
        json.loads((tmp_path / "encoder" / "config.json").read_text())
    )


def test_the_mention_transformer_of_two_is_written(trained, tiny_bert, tmp_path):
    both = ReferencedEncoder(trained, TransformerEncoder(str(tiny_bert), window=25, normalize=True))
    both.initialize()
    write_transformer(both, tmp_path / "encoder")
    other = TransformerEncoder(str(tmp_path / "encoder"), window=25, normalize=True, markers=False)
    other.initialize()
    assert_array_equal(other.predict([NAME]), trained.predict([NAME]))


def test_unwritable_encoders_and_outputs_are_refused(trained, tmp_path):
    assert (
        not write_transformer(make_small(), tmp_path / "small")
        and not (tmp_path / "small").exists()
    )
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "thesis.doc").write_text("years of work")
    with pytest.raises(KrisselError, match="K005.*other"):
        write_transformer(trained, tmp_path / "other")
    with pytest.raises(KrisselError, match="K405"):
        write_transformer(TransformerEncoder("never read"), tmp_path / "empty")
    # An encoder may be written over an earlier one.
    for _ in range(2):
        assert write_transformer(trained, tmp_path / "encoder")


def test_only_folders_that_hold_a_transformer_are_replaced(trained, tmp_path):
    """It is the folder that is replaced."""
    write_transformer(trained, tmp_path / "encoder")
    (tmp_path / "encoder" / "old.txt").write_text("of an earlier one")
    write_transformer(trained, tmp_path / "encoder")
    assert not (tmp_path / "encoder" / "old.txt").exists()
    (tmp_path / "encoder" / "data").mkdir()
    (tmp_path / "settings").mkdir()
    (tmp_path / "settings" / "config.json").write_text("{}")
    for name in ("encoder", "settings"):
        with pytest.raises(KrisselError, match=f"K005.*{name}"):
            write_transformer(trained, tmp_path / name)


def test_a_failed_write_leaves_the_earlier_transformer(trained, tmp_path, monkeypatch):
    def full(*args, **settings):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    write_transformer(trained, tmp_path / "encoder")
    before = {path.name: path.read_bytes() for path in (tmp_path / "encoder").iterdir()}
    monkeypatch.setattr("spacy_krissel.layers.hf.shim.save_safetensors", full)
    for name in ("encoder", "new"):
        with pytest.raises(KrisselError, match=f"K026.*{name}.*No space left"):
            write_transformer(trained, tmp_path / name)
    assert {path.name: path.read_bytes() for path in (tmp_path / "encoder").iterdir()} == before
    assert os.listdir(tmp_path) == ["encoder"], "nothing beside it"


def test_transformers_can_start_from_a_model(trained, tiny_bert):
    target = ReferencedEncoder(
        *(TransformerEncoder(str(tiny_bert), window=window) for window in (64, 32))
    )
    target.initialize()
    before = target.predict(VIEWS)
    assert warm_start(trained, target)
    after = target.predict(VIEWS)
    for view, old, new in zip(VIEWS, before, after, strict=True):
        expected = TransformerEncoder(str(tiny_bert), window=32 if view.reference else 64)
        expected.initialize()
        shim_of(expected).transformer.load_state_dict(shim_of(trained).transformer.state_dict())
        # Window, pooling and markers stay the target's.
        assert_allclose(new, expected.predict([view])[0], atol=1e-5)
        assert not np.allclose(old, new, atol=1e-2)
    # A copy: training the one does not train the other.
    with torch.no_grad():
        shim_of(target).transformer.embeddings.word_embeddings.weight.zero_()
    assert shim_of(trained).transformer.embeddings.word_embeddings.weight.any()


def test_small_encoders_start_from_the_name_weights_of_a_model():
    """Names read as the trained one reads them; contexts as the target does, whatever the size of
    its table."""
    source, target = (
        make_small(seed=1, context_rows=16),
        make_small(seed=2, context_rows=256, normalize=False),
    )
    view = View("fever and ", "cold", " were seen")
    context, before = target.layers[1].shims[0].table.copy(), target.predict([view])
    weight = target.get_param("context_weight").copy()
    assert warm_start(source, target)
    assert_array_equal(target.layers[1].shims[0].table, context)
    assert_array_equal(target.get_param("context_weight"), weight)
    named = target.predict([NAME])
    assert_allclose(named / np.linalg.norm(named), source.predict([NAME]), atol=1e-6)
    assert not np.allclose(target.predict([view]), before, atol=1e-2)
    # A copy.
    target.get_param("W1")[:] = 0
    assert source.layers[0].get_param("W1").any()


def test_a_small_encoder_can_start_with_context_weights():
    source, target = make_small(seed=1), make_small(seed=2)
    inner = source.layers[0]
    inner.set_param("context_weight", inner.get_param("context_weight") + 1)
    assert warm_start(source, target, contexts=True)
    views = [View("fever and ", "cold", " were seen"), NAME]
    assert_allclose(target.predict(views), source.predict(views), atol=1e-6)
    with pytest.raises(KrisselError, match="K408"):
        warm_start(source, make_small(context_rows=256), contexts=True)


def test_starting_from_a_small_encoder_of_another_size_raises():
    with pytest.raises(KrisselError, match=r"K411.*\(6, 7\).*\(6, 5\)"):
        warm_start(make_small(hidden=7), make_small())
    other = SmallEncoder(width=6, rows=256, context_rows=64, hidden=5)
    other.initialize(X=VIEWS)
    with pytest.raises(KrisselError, match="K408"):
        warm_start(make_small(), other)


def test_an_encoder_of_another_kind_is_no_start(trained):
    assert not warm_start(make_small(), trained)
    assert not warm_start(trained, make_small())


def test_weights_are_averaged_with_the_starting_weights(trained, tiny_bert, no_network):
    before = {
        name: weight.detach().clone()
        for name, weight in shim_of(trained).transformer.named_parameters()
    }
    average_with(trained, str(tiny_bert))
    # It was trained to 1.1 times its start.
    for name, weight in shim_of(trained).transformer.named_parameters():
        assert_allclose(weight.detach(), before[name] * (0.5 + 0.5 / 1.1), rtol=1e-5, atol=1e-7)


def test_only_the_same_architecture_is_averaged(trained, tiny_bert, tmp_path):
    wider = json.loads((tiny_bert / "config.json").read_text())
    wider["intermediate_size"] *= 2
    transformer = AutoModel.from_config(AutoConfig.for_model(**wider))
    transformer.save_pretrained(tmp_path / "wider")
    AutoTokenizer.from_pretrained(tiny_bert).save_pretrained(tmp_path / "wider")
    with pytest.raises(KrisselError, match="K413.*intermediate"):
        average_with(trained, str(tmp_path / "wider"))
    # The same weights for other pieces.
    shutil.copytree(tiny_bert, tmp_path / "pieces")
    pieces = (tmp_path / "pieces" / "tokenizer.json").read_text()
    swapped = pieces.replace('"a":', '"?":').replace('"b":', '"a":').replace('"?":', '"b":')
    (tmp_path / "pieces" / "tokenizer.json").write_text(swapped)
    with pytest.raises(KrisselError, match="K413.*vocabulary"):
        average_with(trained, str(tmp_path / "pieces"))
