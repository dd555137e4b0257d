"""Passes over word pieces: made once per step, with one upload, and without waiting for the
device."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from thinc.api import Adam

from spacy_krissel.layers.heads import HeadedEncoder, ProjectedEncoder
from spacy_krissel.layers.hf import passes, shim, training_passes, transformer, wordpieces
from spacy_krissel.layers.hf.load import load_pretrained
from spacy_krissel.layers.hf.transformer import TransformerEncoder
from spacy_krissel.layers.hf.wordpieces import configure_tokenizer, encode_texts, pad_pieces
from spacy_krissel.layers.hf.wrapper import hf_shim
from spacy_krissel.layers.referenced import ReferencedEncoder
from spacy_krissel.losses.softmax import SoftmaxLoss
from spacy_krissel.training.objectives.krissbert import ContrastiveObjective
from spacy_krissel.training.passes import in_chunks, update_in_chunks, with_adversary
from spacy_krissel.views import View, name_view, passage_views

VIEWS = [
    View("the patient had ", "acute lung injury", " and fever"),
    View("", "multiple sclerosis", " with fever in the patient"),
    View("a ", "cold", "", masked=True),
    name_view("ms"),
    View("of a ", "discharge", " with acute fever and cold in the patient"),
    View("a ", "fever", " was in"),
]
REFERENCES = [View("", "cold; " * n, "of the patient", reference=True) for n in (1, 9, 3)]
NO_DROPOUT = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
LOSS = ContrastiveObjective(SoftmaxLoss(temperature=0.3)).joint_loss


def gradients(model):
    """Return the gradients of all weights, and clear them."""
    found = {}
    for i, node in enumerate(model.walk()):
        for name in node.param_names:
            if node.has_grad(name):
                found[i, name] = np.asarray(node.get_grad(name)).copy()
                node.set_grad(name, 0 * node.get_grad(name))
        for each in node.shims:
            for name, weight in each.transformer.named_parameters():
                if weight.grad is not None:
                    found[i, name] = weight.grad.numpy().copy()
                    weight.grad = None
    return found


def encoder(path, **settings):
    return TransformerEncoder(str(path), window=32, transformer_config=NO_DROPOUT, **settings)


MODELS = {
    "krissbert": lambda path: ReferencedEncoder(encoder(path), encoder(path)),
    "sapbert": lambda path: encoder(path, markers=False, pooling="mean"),
    "pel": lambda path: ReferencedEncoder(
        *(encoder(path, pooling="mean", normalize=True) for _ in range(2)),
    ),
    "belhd": lambda path: ProjectedEncoder(
        encoder(path, units=True, pooling="marker", bare_names=True),
        width=8,
    ),
    "oslat": lambda path: HeadedEncoder(encoder(path, name_weight=0.5), hidden=8, width=8),
}


@pytest.fixture(params=MODELS)
def model(request, tiny_bert):
    np.random.seed(0)
    model = MODELS[request.param](tiny_bert)
    model.initialize(X=VIEWS)
    return model


def texts_tokenised(monkeypatch):
    """The number of texts of each call of the tokenizer."""
    counted = []
    inner = wordpieces.encode_texts
    monkeypatch.setattr(
        wordpieces, "encode_texts", lambda t, texts: counted.append(len(texts)) or inner(t, texts)
    )
    return counted


UNITS = passage_views(["the ", "cold", " and ", "multiple sclerosis", " with fever"])


@pytest.mark.parametrize("chunk_size", [3, None])
def test_a_step_with_cached_pieces_equals_one_without(model, monkeypatch, chunk_size):
    for node in model.walk():
        for each in node.shims:
            each.batch_pieces = 100
    views = [
        *VIEWS,
        *UNITS,
        *(REFERENCES if len(model.layers) > 1 and model.name == "referenced_encoder" else []),
    ]
    views += views[: len(views) % 2]
    counted = texts_tokenised(monkeypatch)
    loss = update_in_chunks(model, views, LOSS, chunk_size)
    kept, once = gradients(model), sum(counted)
    with monkeypatch.context() as patched:
        patched.setattr(transformer, "reused_pass", lambda model_id, items, make, is_train: make())
        counted.clear()
        assert update_in_chunks(model, views, LOSS, chunk_size) == pytest.approx(loss, abs=1e-6)
    assert sum(counted) == 2 * once > 0
    found = gradients(model)
    assert found.keys() == kept.keys() and len(found) > 30
    for name, gradient in found.items():
        assert_allclose(kept[name], gradient, atol=1e-6, err_msg=str(name))


def test_fgsm_tokenizes_once_for_its_three_passes(tiny_bert, monkeypatch):
    model = MODELS["pel"](tiny_bert)
    model.initialize()
    counted = texts_tokenised(monkeypatch)
    steps = []

    def step(loss, scale):
        vectors, backprop = in_chunks(model, 2)(REFERENCES)
        scores = vectors @ vectors.T
        own = np.eye(len(scores), dtype=bool)
        d_scores, value = loss(scores, own, ~own)
        backprop(scale * (d_scores + d_scores.T) @ vectors)
        steps.append(len(counted))
        return value

    with_adversary(model, step, SoftmaxLoss(), 1.0, 0.01)
    # Two chunks, in the first pass alone.
    assert steps == [2, 2, 2]


def test_cached_pieces_are_not_shared_between_steps_or_models(tiny_bert):
    one, other = encoder(tiny_bert), encoder(tiny_bert, markers=False)
    for model in (one, other):
        model.initialize()
    expected = [model.begin_update(VIEWS)[0] for model in (one, other)]
    with training_passes.reuse_passes() as kept:
        assert_array_equal([model.begin_update(VIEWS)[0] for model in (one, other)], expected)
        assert len(kept) == 2
        one.predict(VIEWS)
        assert len(kept) == 2, "predictions keep nothing"
        one.begin_update(VIEWS[::-1])
        assert len(kept) == 3
    with training_passes.reuse_passes() as fresh:
        assert not fresh
    assert training_passes.reused_pass(1, VIEWS, lambda: "made", True) == "made"


@pytest.fixture
def uploads(monkeypatch):
    made = []
    inner = passes.on_device
    monkeypatch.setattr(
        passes, "on_device", lambda array, device: made.append(array.nbytes) or inner(array, device)
    )
    return made


@pytest.mark.parametrize("is_train", [False, True])
def test_pieces_of_all_passes_are_uploaded_together(tiny_bert, uploads, is_train):
    model = encoder(tiny_bert, batch_pieces=40, pooling="mention", name_weight=0.5)
    model.initialize()
    model(VIEWS, is_train)
    assert len(uploads) == 1


def test_the_second_pass_of_cached_gradients_uploads_nothing(tiny_bert, uploads):
    model = encoder(tiny_bert)
    model.initialize()
    gradient, _ = LOSS(in_chunks(model, 3)(VIEWS)[0])
    del uploads[:]
    _, backprop = in_chunks(model, 3)(VIEWS)
    assert len(uploads) == 2
    backprop(gradient)
    assert len(uploads) == 2


def test_the_next_views_are_tokenized_while_the_device_encodes(tiny_bert, uploads, monkeypatch):
    model = encoder(tiny_bert, name_weight=0.5)
    model.initialize()
    expected = model.predict(VIEWS)
    events = []
    held, inner = hf_shim(model), wordpieces.encode_texts
    predict = held.predict
    monkeypatch.setattr(held, "predict", lambda inputs: events.append("pass") or predict(inputs))
    monkeypatch.setattr(
        wordpieces, "encode_texts", lambda t, texts: events.append("pieces") or inner(t, texts)
    )
    monkeypatch.setattr(transformer, "GROUPS", {"cpu": 4})
    held.batch_pieces = 10_000
    monkeypatch.setattr(shim, "MIN_FILL", {})
    del uploads[:]
    assert_allclose(model.predict(VIEWS), expected, atol=1e-5)
    assert events == ["pieces", "pass", "pieces", "pass"] and len(uploads) == 2


@pytest.mark.parametrize("attention", ["eager", "sdpa"])
@pytest.mark.parametrize("kind", ["bert", "roberta"])
def test_masks_hide_padding_only(tiny_bert, kind, attention):
    """They equal masks of two dimensions, which `transformers` reads back from the device."""
    import torch
    from transformers import BertConfig, BertModel, RobertaConfig, RobertaModel

    config, build = {"bert": (BertConfig, BertModel), "roberta": (RobertaConfig, RobertaModel)}[
        kind
    ]
    sizes = {"vocab_size": 60, "hidden_size": 32, "intermediate_size": 16, "pad_token_id": 0}
    torch.manual_seed(0)
    inner = build(
        config(**sizes, num_hidden_layers=2, num_attention_heads=4, attn_implementation=attention)
    ).eval()
    held = shim.TransformerShim({}, {})
    held._model = inner
    row = [wordpieces.PieceRow(np.arange(3, 3 + n, dtype="int32"), 0, 0) for n in (9, 4, 7, 2)]
    for rows in (row, row[:1]):
        padded = pad_pieces(rows, 0)
        tensors = wordpieces.Pieces(*map(torch.tensor, padded.arrays()), padded.full)
        mask = held.mask(tensors)
        real = (torch.arange(9)[None] < tensors.lengths[:, None]).long()
        expected = inner(input_ids=tensors.ids, attention_mask=real)[0]
        found = inner(input_ids=tensors.ids, attention_mask=mask)[0]
        assert_allclose(found[real.bool()].detach(), expected[real.bool()].detach(), atol=1e-6)
        if attention == "sdpa" and held._takes_whole_masks():
            assert (mask is None) == (len(rows) == 1)


def test_masks_are_not_read_back_from_the_device(tiny_bert, monkeypatch):
    """`transformers` calls `all` on a mask of two dimensions, and so waits for the device."""
    import torch

    model = TransformerEncoder(str(tiny_bert), transformer_config={"attn_implementation": "sdpa"})
    model.initialize()
    if not hf_shim(model)._takes_whole_masks():
        pytest.skip("this version of transformers makes its masks otherwise")
    expected = model.predict(VIEWS)

    def read(tensor, *args, **kwargs):
        raise AssertionError("the host waits for the device")

    for name in ("all", "any", "item", "tolist", "__bool__", "__float__"):
        monkeypatch.setattr(torch.Tensor, name, read)
    assert_array_equal(model.predict(VIEWS), expected)
    vectors, backprop = model.begin_update(VIEWS)
    backprop(vectors)


@pytest.fixture
def card():
    from thinc.api import get_current_ops, require_gpu, set_current_ops

    ops = get_current_ops()
    require_gpu()
    yield
    set_current_ops(ops)


@pytest.mark.gpu
@pytest.mark.parametrize("pooling", ["cls", "mean", "mention"])
def test_passes_do_not_wait_for_the_gpu(card, tiny_bert, pooling):
    import torch

    model = TransformerEncoder(str(tiny_bert), pooling=pooling, mixed_precision=True)
    model.initialize()
    # The first call makes what is made once.
    for mode in ("default", "error"):
        torch.cuda.set_sync_debug_mode(mode)
        try:
            vectors, backprop = model.begin_update(VIEWS)
            backprop(vectors)
            model.predict(VIEWS)
            model.finish_update(Adam(1e-3, use_averages=False))
        finally:
            torch.cuda.set_sync_debug_mode("default")


@pytest.mark.gpu
def test_the_fused_optimizer_step_on_a_gpu_equals_thincs(card, tiny_bert, monkeypatch):
    model = TransformerEncoder(str(tiny_bert), transformer_config=NO_DROPOUT)
    model.initialize()
    found = []
    for devices in ({"cuda"}, set()):
        monkeypatch.setattr(shim, "FUSED_STEPS", devices)
        own, optimizer = model.copy(), Adam(1e-3, use_averages=False)
        for _ in range(3):
            vectors, backprop = own.begin_update(VIEWS)
            backprop(vectors)
            own.finish_update(optimizer)
        found.append(own.ops.to_numpy(own.predict(VIEWS)))
    assert_allclose(*found, atol=1e-4)


texts = st.lists(
    st.text(
        st.one_of(
            st.characters(exclude_categories=["Cs"]), st.sampled_from(" the.,-()/[Ms]\u0301\n")
        )
    ),
    max_size=6,
)


@pytest.fixture(scope="module")
def tokenizer(tiny_bert):
    found = load_pretrained(str(tiny_bert), {}, {})[0]
    configure_tokenizer(found)
    return found


@given(texts=texts)
def test_pieces_of_cached_words_equal_those_of_the_text(tokenizer, texts):
    assert tokenizer in wordpieces._WORDS
    assert encode_texts(tokenizer, texts) == wordpieces._encode(tokenizer, texts)


def test_the_word_cache_is_limited(tokenizer, monkeypatch):
    monkeypatch.setattr(wordpieces, "MAX_WORDS", 5)
    for i in range(9):
        encode_texts(tokenizer, [f"cold {i} fever {i + 1}"])
        assert len(wordpieces._WORDS[tokenizer]) <= 5 + 4


def test_tokenizers_that_read_across_words_have_no_word_cache(tiny_bert):
    found = load_pretrained(str(tiny_bert), {}, {})[0]
    found.add_tokens(["acute fever"])
    configure_tokenizer(found)
    assert found not in wordpieces._WORDS
    assert encode_texts(found, ["an acute fever"])[0][-1] == found.convert_tokens_to_ids(
        "acute fever"
    )


def test_default_chunk_sizes_follow_the_device(tiny_bert):
    model = ReferencedEncoder(encoder(tiny_bert), TransformerEncoder(str(tiny_bert), window=64))
    model.initialize()
    views = 300 * [VIEWS[0]] + 200 * REFERENCES[:1]

    def chunks(model):
        sizes = []
        for layer in model.layers:
            inner = layer._func
            layer._func = lambda node, X, is_train, inner=inner: (
                sizes.append(len(X)) or inner(node, X, is_train)
            )
        in_chunks(model, None)(views)
        return sizes

    held = hf_shim(model.layers[0])
    assert held.pass_pieces == shim.PASS_PIECES["cpu"] == 4096
    # 4,096 pieces are 128 mentions of 32, or 64 references of 64.
    assert chunks(model.copy()) == [128, 128, 44, 42, 64, 64, 30]
    held.batch_pieces = hf_shim(model.layers[1]).batch_pieces = shim.PASS_PIECES["cuda"]
    assert chunks(model.copy()) == [300, 200]
    assert TransformerEncoder("x", batch_pieces=100).layers[0].layers[0].shims[0].pass_pieces == 100


@pytest.mark.parametrize("emulated, expected", [(True, "float16"), (False, "bfloat16")])
def test_gpus_that_emulate_bfloat16_use_float16(monkeypatch, emulated, expected):
    import torch

    def is_supported(including_emulation=True):
        return including_emulation or not emulated

    monkeypatch.setattr(torch.cuda, "is_bf16_supported", is_supported)
    assert shim._half_type("cuda") == getattr(torch, expected)
    assert shim._half_type("cpu") == torch.bfloat16
