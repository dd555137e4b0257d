import os
import pickle
import signal
import time
from concurrent.futures import ThreadPoolExecutor
from unittest.mock import patch

import numpy as np
import pytest
import spacy
import torch

from spacy_krissel.commands.distill_encoder import distill
from spacy_krissel.commands.quantize_encoder import quantize
from spacy_krissel.errors import KrisselError
from spacy_krissel.layers.hf import quantized
from spacy_krissel.layers.hf.weights import average_with
from spacy_krissel.layers.hf.wrapper import hf_shim
from spacy_krissel.layers.warm_start import TRANSFORMER, find_encoder, warm_start
from spacy_krissel.pipeline.pipeline_io import find_linker
from spacy_krissel.views import View

pytestmark = pytest.mark.slow

pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")
# Of several lengths, in passes of their own.
VIEWS = [
    View("the patient had ", "lung cancer", " for years"),
    View("", "MS", ""),
    View("with ", "a cold and fever", ""),
]


def shim_of(linker):
    return hf_shim(find_encoder(linker.model, TRANSFORMER))


@pytest.fixture(scope="session")
def saved(save_linker, make_once):
    """The folders of a pipeline and of what `quantize` made of it."""
    source = save_linker("transformer")

    def make(folder):
        assert quantize(source, folder / "quick") > 0.99

    return source, make_once("quantized", make) / "quick"


def test_quantized_vectors_are_close_to_the_original(saved, make_docs):
    before, after = (spacy.load(path) for path in saved)
    large, quick = find_linker(before), find_linker(after)
    assert quick.is_quantized and not large.is_quantized
    x, y = large.encode(VIEWS), quick.encode(VIEWS)
    cosines = (x * y).sum(1) / np.linalg.norm(x, axis=1) / np.linalg.norm(y, axis=1)
    assert (cosines > 0.97).all() and not np.array_equal(x, y)
    np.testing.assert_array_equal(quick.kb.vectors, large.kb.vectors)
    assert quick.kb.encoder == quick.fingerprint() != large.fingerprint()
    links = [
        [ent.kb_id_ for doc in nlp.pipe(make_docs(nlp)) for ent in doc.ents]
        for nlp in (before, after)
    ]
    # The tiny transformer knows nothing, so that scores of some entities are nearly equal.
    assert (
        all(links[1]) and np.mean([one == other for one, other in zip(*links, strict=True)]) > 0.7
    )
    assert "in 8-bit integers" in after.meta["notes"] and "in 8-bit" not in before.meta["notes"]


def test_kb_of_the_quantized_encoder_is_refused_by_the_original(saved):
    large, quick = (find_linker(spacy.load(path)) for path in saved)
    with pytest.raises(KrisselError, match="K522"):
        large.set_kb(quick.kb)


def test_quantized_encoder_survives_saving_pickling_and_threads(saved, tmp_path):
    nlp = spacy.load(saved[1])
    expected = find_linker(nlp).encode(VIEWS)
    nlp.to_disk(tmp_path / "again")
    others = [spacy.load(tmp_path / "again"), pickle.loads(pickle.dumps(nlp))]
    for other in others:
        np.testing.assert_array_equal(find_linker(other).encode(VIEWS), expected)
    linker = find_linker(others[0])
    shim_of(linker).quantized.close()
    with ThreadPoolExecutor(4) as pool:
        for found in pool.map(linker.encode, [VIEWS] * 16):
            np.testing.assert_array_equal(found, expected)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_forked_process_can_encode(saved):
    linker = find_linker(spacy.load(saved[1]))
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        expected = linker.encode(VIEWS)
        child = os.fork()
        if not child:
            same = np.allclose(linker.encode(VIEWS), expected, atol=1e-5)
            os._exit(0 if same else 1)
        end = time.monotonic() + 60
        while not (ended := os.waitpid(child, os.WNOHANG))[0] and time.monotonic() < end:
            time.sleep(0.05)
        if not ended[0]:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
        assert ended[0] and os.waitstatus_to_exitcode(ended[1]) == 0
        np.testing.assert_array_equal(linker.encode(VIEWS), expected)
    finally:
        torch.set_num_threads(before)


def test_vector_hardly_depends_on_other_views_in_the_batch(saved):
    linker = find_linker(spacy.load(saved[1]))
    alone, among = linker.encode(VIEWS[1:2])[0], linker.encode(VIEWS)[1]
    assert alone @ among > 0.99 * np.linalg.norm(alone) * np.linalg.norm(among)


def test_training_a_quantized_encoder_raises(saved, make_docs):
    linker = find_linker(spacy.load(saved[1]))
    with pytest.raises(KrisselError, match="K419.*Train the pipeline that it was made from"):
        linker.model.begin_update(VIEWS)


def refuse(*args, **settings):
    raise ValueError("no such operator\nand a graph")


@pytest.mark.parametrize(
    "name, other, problem",
    [
        ("_run", lambda session, inputs: (torch.zeros(*inputs["input_ids"].shape, 1),), "off by"),
        ("_session", refuse, "ValueError: no such operator[.]"),
    ],
)
def test_inaccurate_export_raises_and_is_discarded(saved, name, other, problem):
    linker = find_linker(spacy.load(saved[0]))
    before = linker.fingerprint()
    with (
        patch.object(quantized, name, other),
        pytest.raises(KrisselError, match=f"K418.*{problem}"),
    ):
        linker.quantize()
    assert linker.fingerprint() == before and not linker.is_quantized


def test_changing_weights_discards_the_quantization(saved, make_linker, tiny_bert):
    source = find_linker(spacy.load(saved[1]))
    target = find_linker(make_linker("transformer"))
    assert warm_start(source.model, target.model) and not target.is_quantized
    average_with(source.model, str(tiny_bert))
    assert not source.is_quantized


def test_model_card_does_not_call_a_small_encoder_quantized(saved, tmp_path):
    distill(saved[1], tmp_path / "small", passes=1)
    assert "in 8-bit" not in spacy.load(tmp_path / "small").meta["notes"]


@pytest.mark.parametrize("missing", ["onnx", "onnxruntime", "onnxruntime.quantization"])
def test_missing_onnx_runtime_raises(saved, missing):
    with (
        patch.dict("sys.modules", {missing: None}),
        pytest.raises(KrisselError, match=r"K417.*spacy-krissel\[onnx\]"),
    ):
        quantize(spacy.load(saved[0]))
    if missing == "onnxruntime":
        linker = find_linker(spacy.load(saved[1]))
        with patch.dict("sys.modules", {missing: None}), pytest.raises(KrisselError, match="K417"):
            linker.encode(VIEWS)


def test_pipeline_without_a_transformer_raises(save_linker, tmp_path):
    with pytest.raises(KrisselError, match="K688.*no transformer"):
        quantize(save_linker("small"), tmp_path / "quick")
    assert not (tmp_path / "quick").exists()
