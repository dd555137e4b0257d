import multiprocessing
import os
import pickle
import shutil
from functools import partial

import numpy
import pytest
import torch
import transformers
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from safetensors.torch import load_file
from thinc.api import Adam

from spacy_krissel.errors import KrisselError
from spacy_krissel.layers.hf.transformer import TransformerEncoder
from spacy_krissel.layers.hf.wordpieces import view_pieces
from spacy_krissel.layers.identity import fingerprint
from spacy_krissel.views import View, name_view, passage_views

NO_DROPOUT = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
VIEWS = [
    View("The patient had ", "acute lung injury", " and fever. " * 30),
    name_view("ms"),
    View("", "multiple sclerosis", " was a cold"),
    View("fever " * 40, "discharge", ""),
    View("the ", "cold", " with ms", masked=True),
]


@pytest.fixture
def make(tiny_bert):
    def make(name=str(tiny_bert), **settings):
        model = TransformerEncoder(name, **settings)
        model.initialize()
        return model

    return make


def shim_of(model):
    return model.layers[0].layers[0].shims[0]


def gradients(model):
    parameters = shim_of(model).transformer.named_parameters()
    return {name: p.grad.clone() for name, p in parameters if p.grad is not None}


def torch_only(model, views, pooling, normalize):
    """The vectors by torch alone, one view at a time and without padding, with their graph."""
    shim = shim_of(model)
    rows = []
    for row in view_pieces(shim.tokenizer, views, model.attrs["settings"].window):
        hidden = shim.transformer(torch.tensor(row.ids[None].astype("int64"))).last_hidden_state[0]
        markers = (hidden[row.start] + hidden[row.end]) / 2
        picked = {"cls": hidden[0], "mean": hidden.mean(0), "marker": markers}[pooling]
        rows.append(torch.nn.functional.normalize(picked, dim=0) if normalize else picked)
    return torch.stack(rows)


@pytest.mark.parametrize("normalize", [False, True])
@pytest.mark.parametrize("pooling", ["cls", "mean", "marker"])
def test_vectors_and_gradients_equal_torch(make, pooling, normalize):
    model = make(
        pooling=pooling, normalize=normalize, batch_pieces=100, transformer_config=NO_DROPOUT
    )
    Y, backprop = model.begin_update(VIEWS)
    dY = numpy.random.default_rng(0).normal(size=Y.shape).astype("f")
    backprop(dY)
    ours = gradients(model)
    shim_of(model).transformer.zero_grad()
    expected = torch_only(model, VIEWS, pooling, normalize)
    expected.backward(torch.from_numpy(dY))
    theirs = gradients(model)
    assert Y.shape == (5, 32) and model.get_dim("nO") == 32
    assert_allclose(Y, expected.detach().numpy(), atol=1e-5)
    assert ours.keys() == theirs.keys()
    for name in ours:
        assert_allclose(ours[name].numpy(), theirs[name].numpy(), atol=2e-4, err_msg=name)


def test_gradients_accumulate_until_finish_update(make):
    model = make(transformer_config=NO_DROPOUT)
    dY = numpy.ones((5, 32), dtype="f")
    model.begin_update(VIEWS)[1](dY)
    whole = gradients(model)
    model.finish_update(Adam(0.0))
    assert not any(gradient.any() for gradient in gradients(model).values())
    for part in (slice(0, 2), slice(2, 5)):
        model.begin_update(VIEWS[part])[1](dY[part])
    for name, gradient in gradients(model).items():
        assert_allclose(gradient.numpy(), whole[name].numpy(), atol=1e-4, err_msg=name)


def test_finish_update_changes_all_weights_and_the_markers(make):
    model = make()
    before = {
        name: tensor.clone() for name, tensor in shim_of(model).transformer.state_dict().items()
    }
    Y, backprop = model.begin_update(VIEWS)
    backprop(Y)
    model.finish_update(Adam(0.01))
    after = shim_of(model).transformer.state_dict()
    unused = ("embeddings.position_ids",)
    assert all(not torch.equal(before[name], after[name]) for name in before if name not in unused)
    start, end = shim_of(model).tokenizer.convert_tokens_to_ids(["[Ms]", "[Me]"])
    weight = after["embeddings.word_embeddings.weight"]
    assert not torch.equal(weight[start], weight[end])


@settings(deadline=None, max_examples=15)
@given(order=st.permutations(range(len(VIEWS))), batch_pieces=st.sampled_from([1, 70, 4096]))
def test_vectors_are_in_the_order_of_views(tiny_bert, order, batch_pieces):
    model = _cached(str(tiny_bert))
    expected = model.predict(VIEWS)
    shim_of(model).batch_pieces = batch_pieces
    assert_allclose(model.predict([VIEWS[i] for i in order]), expected[order], atol=1e-5)


_models = {}


def _cached(name):
    if name not in _models:
        _models[name] = TransformerEncoder(name)
        _models[name].initialize()
    return _models[name]


def test_the_size_of_passes_is_limited(make, monkeypatch):
    model = make(batch_pieces=130)
    shapes = []
    shim = shim_of(model)
    inner = shim.predict
    monkeypatch.setattr(
        shim, "predict", lambda x: shapes.append(tuple(x.kwargs["input_ids"].shape)) or inner(x)
    )
    model.predict(VIEWS * 4)
    assert len(shapes) > 1 and all(n * longest <= 130 for n, longest in shapes)
    assert sum(n for n, _ in shapes) == 20


def test_no_views_give_no_vectors(make):
    model = make()
    assert model.predict([]).shape == (0, 32)
    Y, backprop = model.begin_update([])
    assert backprop(Y) == []


def test_mask_hides_the_mention(make):
    model = make()
    views = [
        View("a ", mention, " with fever", masked)
        for masked in (True, False)
        for mention in ("cold", "ms")
    ]
    cold_masked, ms_masked, cold, ms = model.predict(views)
    assert_allclose(cold_masked, ms_masked, atol=1e-6)
    assert abs(cold - ms).max() > 1e-3


def test_dropout_is_applied_in_training_only(make):
    model = make()
    assert numpy.array_equal(model.predict(VIEWS), model.predict(VIEWS))
    first, _ = model.begin_update(VIEWS)
    second, _ = model.begin_update(VIEWS)
    assert abs(first - second).max() > 0.01
    assert_allclose(model.predict(VIEWS), model.predict(VIEWS))


def test_mixed_precision_is_close_to_full_precision(make):
    exact, mixed = (
        make(transformer_config=NO_DROPOUT),
        make(transformer_config=NO_DROPOUT, mixed_precision=True),
    )
    Y = exact.predict(VIEWS)
    Z = mixed.predict(VIEWS)
    assert Z.dtype == numpy.float32
    assert 0 < abs(Y - Z).max() < 0.1
    Z, backprop = mixed.begin_update(VIEWS)
    assert Z.dtype == numpy.float32
    backprop(numpy.ones_like(Z))
    exact.begin_update(VIEWS)[1](numpy.ones_like(Z))
    theirs = gradients(exact)
    for name, gradient in gradients(mixed).items():
        assert gradient.dtype == torch.float32
        cosine = torch.nn.functional.cosine_similarity(
            gradient.flatten(), theirs[name].flatten(), dim=0
        )
        assert cosine > 0.98 or theirs[name].norm() < 1e-3, name


def test_mixed_precision_is_set_per_encoder():
    assert not shim_of(TransformerEncoder("a"))._mixed_precision
    assert shim_of(TransformerEncoder("a", mixed_precision=True))._mixed_precision


def test_a_saved_encoder_needs_no_checkpoint(make, tiny_bert, tmp_path, no_network):
    copy = tmp_path / "bert"
    shutil.copytree(tiny_bert, copy)
    model = make(name=str(copy))
    expected = model.predict(VIEWS)
    model.to_disk(tmp_path / "model")
    shutil.rmtree(copy)
    loaded = TransformerEncoder(str(copy)).from_disk(tmp_path / "model")
    assert numpy.array_equal(loaded.predict(VIEWS), expected)
    assert loaded.get_dim("nO") == 32
    assert loaded.to_bytes() == model.to_bytes() == (tmp_path / "model").read_bytes()
    loaded.initialize()  # keeps the weights that it has
    assert numpy.array_equal(loaded.predict(VIEWS), expected)


def test_bytes_contain_no_path_and_no_pickle(make, tiny_bert):
    data = make().to_bytes()
    assert str(tiny_bert).encode() not in data
    assert b"data.pkl" not in data


def test_trained_weights_are_saved(make, no_network):
    model = make()
    Y, backprop = model.begin_update(VIEWS)
    backprop(Y)
    model.finish_update(Adam(0.01))
    loaded = TransformerEncoder("elsewhere").from_bytes(model.to_bytes())
    assert numpy.array_equal(loaded.predict(VIEWS), model.predict(VIEWS))
    assert loaded.to_bytes() == model.to_bytes()


def test_an_uninitialized_encoder_survives_a_bytes_round_trip(no_network):
    model = TransformerEncoder("nothing")
    data = model.to_bytes()
    loaded = TransformerEncoder("nothing").from_bytes(data)
    assert loaded.to_bytes() == data
    with pytest.raises(KrisselError, match="K405"):
        loaded.predict(VIEWS)


def test_the_random_state_is_unchanged(make):
    torch.manual_seed(1)
    before = torch.get_rng_state()
    model = make()
    TransformerEncoder("x").from_bytes(model.to_bytes())
    assert torch.equal(torch.get_rng_state(), before)


def test_the_same_checkpoint_gives_the_same_encoder(make):
    torch.manual_seed(1)
    first = make()
    torch.manual_seed(2)
    assert fingerprint(make()) == fingerprint(first)


def test_the_fingerprint_depends_on_weights_and_encoding_settings(make):
    model = make()
    original = fingerprint(model)
    assert len(original) == 64
    assert fingerprint(TransformerEncoder("x").from_bytes(model.to_bytes())) == original
    assert fingerprint(make(batch_pieces=64, mixed_precision=True)) == original, (
        "the same vectors, but for rounding"
    )
    assert fingerprint(make(window=32)) != original
    assert fingerprint(make(pooling="mean")) != original
    with torch.no_grad():
        shim_of(model).transformer.embeddings.word_embeddings.weight[3, 3] += 1e-3
    assert fingerprint(model) != original


def test_config_settings_override_saved_ones(make):
    saved = make(window=64, pooling="cls").to_bytes()
    loaded = TransformerEncoder("x", window=16, pooling="mean", normalize=True).from_bytes(saved)
    expected = make(window=16, pooling="mean", normalize=True)
    assert_allclose(loaded.predict(VIEWS), expected.predict(VIEWS))
    assert fingerprint(loaded) != fingerprint(make())


def test_pickles_and_copies_are_independent(make):
    model = make()
    expected = model.predict(VIEWS)
    assert numpy.array_equal(pickle.loads(pickle.dumps(model)).predict(VIEWS), expected)
    copied = model.copy()
    Y, backprop = copied.begin_update(VIEWS)
    backprop(Y)
    copied.finish_update(Adam(0.01))
    assert numpy.array_equal(model.predict(VIEWS), expected)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_forked_worker_does_not_hang(make):
    """A thread pool of the parent, once used, is not there in the child."""
    model = make()
    threads = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        # Enough work for all threads, of torch and of the tokenizer.
        views = VIEWS * 40
        expected = model.predict(views)
        context = multiprocessing.get_context("fork")
        receiver, sender = context.Pipe(duplex=False)
        worker = context.Process(target=lambda: sender.send(model.predict(views)), daemon=True)
        worker.start()
        assert receiver.poll(60), "the worker hangs"
        assert_allclose(receiver.recv(), expected, atol=1e-5)
        worker.join()
    finally:
        torch.set_num_threads(threads)


def test_markers_start_as_the_mean_embedding_and_are_added_once(make, tiny_bert, tmp_path):
    model = make()
    shim = shim_of(model)
    old = shim.transformer.embeddings.word_embeddings.weight.detach()
    start, end = shim.tokenizer.convert_tokens_to_ids(["[Ms]", "[Me]"])
    assert {start, end} == {len(old) - 2, len(old) - 1}
    assert_allclose(old[start], old[:-2].mean(0), atol=1e-6)
    assert torch.equal(old[start], old[end])
    with torch.no_grad():
        shim.transformer.embeddings.word_embeddings.weight[start] += 1
    shim.transformer.save_pretrained(tmp_path)
    shim.tokenizer.save_pretrained(tmp_path)
    again = make(name=str(tmp_path))
    assert numpy.array_equal(again.predict(VIEWS), model.predict(VIEWS))


class TestErrors:
    @pytest.mark.parametrize(
        "settings",
        [{"window": 3}, {"pooling": "max"}, {"batch_pieces": 0}],
        ids=lambda s: next(iter(s)),
    )
    def test_invalid_settings_raise(self, settings):
        with pytest.raises(KrisselError, match="K006.*" + next(iter(settings))):
            TransformerEncoder("x", **settings)

    def test_a_missing_directory_raises(self, tmp_path, no_network):
        with pytest.raises(KrisselError, match="K401.*nowhere"):
            TransformerEncoder(str(tmp_path / "nowhere")).initialize()

    def test_a_file_instead_of_a_directory_raises(self, tmp_path, no_network):
        (tmp_path / "model.safetensors").write_bytes(b"")
        with pytest.raises(KrisselError, match="K401.*file"):
            TransformerEncoder(str(tmp_path / "model.safetensors")).initialize()

    def test_a_directory_without_a_model_raises(self, tmp_path, no_network):
        with pytest.raises(KrisselError, match="K402.*config.json"):
            TransformerEncoder(str(tmp_path)).initialize()

    def test_a_hub_name_without_the_hub_raises(self, monkeypatch, no_network):
        monkeypatch.setenv("HF_HUB_OFFLINE", "1")
        with pytest.raises(KrisselError, match="K401.*no-such-model-of-anyone"):
            TransformerEncoder("no-such-model-of-anyone").initialize()

    @pytest.mark.parametrize("damage", ["truncated", "removed", "not json", "other architecture"])
    def test_a_damaged_directory_raises(self, tiny_bert, tmp_path, damage, no_network):
        path = tmp_path / "bert"
        shutil.copytree(tiny_bert, path)
        weights = path / "model.safetensors"
        if damage == "truncated":
            weights.write_bytes(weights.read_bytes()[:-100])
        elif damage == "removed":
            weights.unlink()
        elif damage == "not json":
            (path / "config.json").write_text("{")
        else:
            config = (path / "config.json").read_text()
            (path / "config.json").write_text(config.replace('"bert"', '"distilbert"'))
        with pytest.raises(KrisselError, match="K402.*bert"):
            TransformerEncoder(str(path)).initialize()

    def test_a_transformer_without_a_tokenizer_raises(self, tiny_bert, tmp_path, no_network):
        path = tmp_path / "bert"
        path.mkdir()
        for name in ("config.json", "model.safetensors"):
            shutil.copy(tiny_bert / name, path)
        with pytest.raises(KrisselError, match="K40[23].*bert"):
            TransformerEncoder(str(path)).initialize()

    @pytest.mark.skipif(
        transformers.__version__ >= "5", reason="transformers 5 has no slow tokenizers"
    )
    def test_a_slow_tokenizer_raises(self, tiny_bert):
        with pytest.raises(KrisselError, match="K403.*fast"):
            TransformerEncoder(str(tiny_bert), tokenizer_config={"use_fast": False}).initialize()

    def test_a_tokenizer_without_cls_token_raises(self, tiny_bert):
        with pytest.raises(KrisselError, match="K403.*cls_token"):
            TransformerEncoder(str(tiny_bert), tokenizer_config={"cls_token": None}).initialize()

    def test_a_window_longer_than_the_encoders_raises(self, tiny_bert):
        with pytest.raises(KrisselError, match="K404.*65.*64"):
            TransformerEncoder(str(tiny_bert), window=65).initialize()

    def test_damaged_bytes_raise(self, make, no_network):
        data = shim_of(make()).to_bytes()
        import srsly

        msg = srsly.msgpack_loads(data)
        for damaged in (
            data[:-100],
            srsly.msgpack_dumps({**msg, "weights": msg["weights"][:-4]}),
            srsly.msgpack_dumps({**msg, "weights": b""}),
            srsly.msgpack_dumps({"files": msg["files"]}),
            srsly.msgpack_dumps({**msg, "files": {"config.json": msg["files"]["config.json"]}}),
            srsly.msgpack_dumps({"config": {}, "state": {}, "tokenizer": {}}),
        ):
            model = TransformerEncoder("x")
            with pytest.raises(KrisselError, match="K406"):
                shim_of(model).from_bytes(damaged)


@pytest.mark.gpu
def test_vectors_on_a_gpu_equal_those_on_the_cpu(make):
    from thinc.api import get_current_ops, require_gpu, set_current_ops

    expected = make().predict(VIEWS)
    ops = get_current_ops()
    try:
        require_gpu()
        model = make(batch_pieces=100)
        Y, backprop = model.begin_update(VIEWS)
        backprop(Y)
        model.finish_update(Adam(0.0))
        assert_allclose(model.ops.to_numpy(model.predict(VIEWS)), expected, atol=1e-3)
        loaded = TransformerEncoder("x").from_bytes(model.to_bytes())
        assert_allclose(loaded.ops.to_numpy(loaded.predict(VIEWS)), expected, atol=1e-3)
    finally:
        set_current_ops(ops)


def test_an_encoder_without_markers_reads_plain_text(make):
    """Texts are read like by sentence encoders; the fingerprint differs from that with markers."""
    plain = make(markers=False, pooling="mean")
    shim = shim_of(plain)
    views = [name_view("acute lung injury"), View("the patient had ", "fever", "")]
    for view, vector in zip(views, plain.predict(views), strict=True):
        encoded = shim.tokenizer(view.left + view.mention, return_tensors="pt", truncation=False)
        hidden = shim.transformer(input_ids=encoded["input_ids"]).last_hidden_state[0]
        assert_allclose(vector, hidden.mean(0).detach().numpy(), atol=1e-5)
    assert fingerprint(plain) != fingerprint(make(pooling="mean"))
    assert not numpy.allclose(plain.predict(views), make(pooling="mean").predict(views), atol=1e-3)


def test_markers_follow_the_config(make):
    """The weights of one can be loaded into the other, and what is read stays as the config
    says."""
    marked, plain = make(), make(markers=False)
    data = marked.to_bytes()
    loaded = TransformerEncoder("nowhere", markers=False).from_bytes(data)
    assert_allclose(loaded.predict(VIEWS[:1]), plain.predict(VIEWS[:1]), atol=1e-6)
    assert fingerprint(loaded) == fingerprint(plain)


@pytest.mark.nightly
@pytest.mark.filterwarnings("ignore:.*torch.jit:DeprecationWarning")
def test_a_compiled_encoder_gives_the_same_vectors(make, monkeypatch):
    # Traced, and not compiled to machine code, which takes minutes.
    monkeypatch.setattr(torch, "compile", partial(torch.compile, backend="eager"))
    settings = {"transformer_config": NO_DROPOUT}
    plain, compiled = make(**settings), make(**settings, compile=True)
    assert fingerprint(compiled) == fingerprint(plain)
    assert_allclose(compiled.predict(VIEWS), plain.predict(VIEWS), atol=1e-5)
    found = []
    for model in (plain, compiled):
        Y, backprop = model.begin_update(VIEWS)
        backprop(Y)
        found.append(gradients(model))
    assert found[0].keys() == found[1].keys()
    for name, gradient in found[0].items():
        assert_allclose(found[1][name].numpy(), gradient.numpy(), atol=2e-4, err_msg=name)
    copied = pickle.loads(pickle.dumps(compiled))
    assert fingerprint(copied) == fingerprint(plain)


ENT = ("<ENT>", "</ENT>")


def test_markers_of_the_checkpoint_are_not_added_again(make, bert_with_markers):
    """The released KRISSBERT has its markers in the vocabulary, with embeddings that were
    trained."""
    model = make(name=str(bert_with_markers), markers=ENT)
    shim = shim_of(model)
    ids = shim.tokenizer.convert_tokens_to_ids(list(ENT))
    assert len(shim.tokenizer) == shim.transformer.config.vocab_size
    trained = load_file(bert_with_markers / "model.safetensors")[
        "embeddings.word_embeddings.weight"
    ]
    weight = shim.transformer.embeddings.word_embeddings.weight
    assert torch.equal(weight[ids], trained[ids]) and not torch.equal(
        trained[ids[0]], trained[ids[1]]
    )
    (row,) = view_pieces(shim.tokenizer, [View("with ", "<ENT> cold", " and")], 64, ENT)
    assert [row.ids[row.start], row.ids[row.end]] == ids
    assert sum(piece in ids for piece in row.ids) == 2, "a marker in the text is read as one"


@pytest.mark.parametrize("units", [False, True])
def test_markers_change_vectors_and_fingerprint(make, bert_with_markers, units, tmp_path):
    settings = {"name": str(bert_with_markers), "pooling": "marker", "units": units}
    ours, theirs = make(**settings), make(**settings, markers=ENT)
    views = passage_views(["the ", "cold", " with ", "fever", ""])
    assert fingerprint(ours) != fingerprint(theirs)
    assert not numpy.allclose(ours.predict(views), theirs.predict(views), atol=1e-3)
    loaded = TransformerEncoder(
        "nowhere", pooling="marker", units=units, markers=list(ENT)
    ).from_bytes(theirs.to_bytes())
    assert fingerprint(loaded) == fingerprint(theirs)
    assert_allclose(loaded.predict(views), theirs.predict(views), atol=1e-6)


def test_unknown_markers_raise(make):
    """`from_bytes` adds no tokens: the encoder has those that it was initialized with."""
    loaded = TransformerEncoder("nowhere", markers=ENT).from_bytes(make().to_bytes())
    with pytest.raises(KrisselError, match="K416.*<ENT>"):
        loaded.predict(VIEWS)


@pytest.mark.parametrize("markers", [["<ENT>"], ["a", "a"], ["a", ""], ["a", "b", "c"], "ab", 1])
def test_invalid_markers_raise(markers):
    with pytest.raises(KrisselError, match="K006.*'markers'"):
        TransformerEncoder("any", markers=markers)


def test_marker_pooling_requires_markers():
    with pytest.raises(KrisselError, match="K006.*'markers'"):
        TransformerEncoder("any", pooling="marker", markers=False)


def test_units_are_encoded_in_one_pass(make):
    """Vectors and gradients of all mentions of a unit are those of one pass over its text, whatever
    else is there."""
    model = make(pooling="marker", units=True, batch_pieces=60, transformer_config=NO_DROPOUT)
    unit = passage_views(["the ", "cold", " with ", "fever", " and ", "ms", ""])
    views = [unit[2], *VIEWS, unit[0], unit[1]]
    together = [0, len(views) - 2, len(views) - 1]
    Y, backprop = model.begin_update(views)
    dY = numpy.random.default_rng(0).normal(size=Y.shape).astype("f")
    backprop(dY)
    ours = gradients(model)
    shim = shim_of(model)
    shim.transformer.zero_grad()
    ids = shim.tokenizer.convert_tokens_to_ids(
        "[CLS] the [Ms] cold [Me] with [Ms] fever [Me] and [Ms] ms [Me] [SEP]".split()
    )
    hidden = shim.transformer(torch.tensor([ids])).last_hidden_state[0]
    places = {0: (10, 12), len(views) - 2: (2, 4), len(views) - 1: (6, 8)}
    rest = torch_only(model, VIEWS, "marker", False)
    expected = torch.stack(
        [
            (hidden[places[i][0]] + hidden[places[i][1]]) / 2 if i in places else rest[i - 1]
            for i in range(len(views))
        ]
    )
    assert_allclose(Y, expected.detach().numpy(), atol=2e-6)
    (expected * torch.tensor(dY)).sum().backward()
    for name, gradient in gradients(model).items():
        assert_allclose(ours[name], gradient, atol=2e-5, err_msg=name)
    assert_allclose(model.predict([views[i] for i in together[:1]]), Y[:1], atol=2e-6)
    # An encoder without units does not see the others.
    plain = make(pooling="marker", transformer_config=NO_DROPOUT)
    assert_allclose(
        plain.predict(unit),
        plain.predict([view._replace(co_mentions=()) for view in unit]),
        atol=2e-6,
    )
    assert fingerprint(plain) != fingerprint(model)


def test_units_require_marker_pooling(tiny_bert):
    with pytest.raises(KrisselError, match="K006.*'pooling'.*units"):
        TransformerEncoder(str(tiny_bert), units=True)


@pytest.mark.parametrize(
    "window, limit, lengths",
    [
        (128, 512, (8, 16, 32, 64, 96, 128)),
        (64, 512, (8, 16, 32, 48, 64)),
        (25, 512, (6, 12, 18, 24, 30)),
        (25, 26, (6, 12, 18, 24, 26)),
        (8, 64, (2, 4, 6, 8)),
    ],
)
def test_training_lengths_are_few_and_cover_the_window(window, limit, lengths):
    from spacy_krissel.layers.hf.wordpieces import training_lengths

    assert training_lengths(window, limit) == lengths
    assert window <= lengths[-1] <= limit
