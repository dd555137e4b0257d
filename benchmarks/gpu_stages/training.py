"""Stages with an encoder of random weights: training steps, and views encoded."""

import ctypes
import time
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import torch
from spacy.training.initialize import init_nlp
from spacy.util import load_config, registry
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers
from transformers import BertConfig, BertModel, BertTokenizerFast

from gpu_stages.measure import bf16_rate, device_of, measured, set_rate, timed_rounds
from gpu_stages.report import Report, Size
from spacy_krissel.ontology.entity import Entity
from spacy_krissel.ontology.store import write_store
from spacy_krissel.pipeline.pipeline_io import choose_gpu
from spacy_krissel.training.data.examples import view_examples
from spacy_krissel.views import View

CONFIG = Path(__file__).parents[2] / "configs" / "krissbert.cfg"
LINKER = "components.krissel_linker"
PIECES = 64
SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
# CUDA's flags of a context: wait for the card as it chooses (which spins), or without the CPU.
SCHEDULE_AUTO, SCHEDULE_BLOCKING = 0, 4


def training(report: Report) -> None:
    """Train steps of configs/krissbert.cfg, with chunks of several sizes."""
    size = report.size
    device, nlp, words = begin(report)
    rng = np.random.default_rng(1)
    ids = [f"E{i // 2:06}" for i in range(2 * size.pairs)]
    batches = []
    for _ in range(size.steps + 2):
        linked = zip(ids, make_views(words, len(ids), rng), strict=True)
        batches.append(list(view_examples([[each] for each in linked])))
    optimizer = registry.resolve({"it": nlp.config.interpolate()["training"]["optimizer"]})["it"]
    windows = 3 * size.pairs

    def update(some: list[Any]) -> None:
        losses: dict[str, float] = {}
        for batch in some:
            nlp.update(batch, sgd=optimizer, losses=losses)
        assert np.isfinite(losses["krissel_linker"])

    for chunk_size in size.chunks:
        nlp.get_pipe("krissel_linker").objective.chunk_size = chunk_size or windows
        # Cached gradients encode each window twice; a backward pass counts as two forward passes.
        flop = flop_per_window(size) * (3 if chunk_size is None else 4)
        name = f"windows, chunks of {chunk_size}" if chunk_size else "windows, no chunks"
        with report.step(name, chunk_size=chunk_size, windows_per_step=windows, flop=flop) as row:
            # The first steps make the optimizer's state, and compile.
            update(batches[:2])
            with measured(device) as found:
                update(batches[2:])
            row.update(found)
            set_rate(report, row, windows * size.steps / found["seconds"])
            report.write()
            host = host_seconds(device, lambda: update(batches[:2]))
            row["host_seconds_per_step"] = host and host / 2
        if device.type == "cuda":
            torch.cuda.empty_cache()


def encoding(report: Report) -> None:
    """Encode mentions in windows that they fill, as the linker does."""
    size = report.size
    device, nlp, words = begin(report)
    rng = np.random.default_rng(2)
    with report.step("views", flop=flop_per_window(size)) as row:
        rounds = [make_views(words, size.mentions, rng) for _ in range(size.rounds + 1)]
        with measured(device) as found:
            timed_rounds(report, row, nlp.get_pipe("krissel_linker").encode, rounds)
        row["peak_gib"] = found["peak_gib"]


def begin(report: Report) -> tuple[torch.device, Any, np.ndarray]:
    """Return the device, a pipeline on it, and the words of its vocabulary."""
    device = device_of(report)
    report.write()
    if device.type == "cuda":
        choose_gpu(0)
    bf16_rate(report, device)
    with TemporaryDirectory() as folder:
        return device, *make_pipeline(Path(folder), report.size, report.compile)


def flop_per_window(size: Size) -> float:
    """Return the FLOP of one forward pass."""
    d = size.width
    return size.layers * PIECES * (8 * d * d + 4 * d * size.between + 4 * d * PIECES)


def make_pipeline(folder: Path, size: Size, compile: bool) -> tuple[Any, np.ndarray]:
    """Return the linker of configs/krissbert.cfg with random weights, and its words."""
    # Of letters alone, so that each is one piece.
    letters = str.maketrans("0123456789", "qrstuvwxyz")
    words = [np.base_repr(i, 26).translate(letters) for i in range(size.words)]
    words = list(dict.fromkeys(f"x{word.lower()}" for word in words))
    vocab = {piece: i for i, piece in enumerate(SPECIAL + words)}
    tokenizer = Tokenizer(models.WordPiece(vocab, unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=True)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    fast = BertTokenizerFast(tokenizer_object=tokenizer, model_max_length=512)
    fast.save_pretrained(folder / "encoder")
    config = BertConfig(
        vocab_size=len(vocab),
        hidden_size=size.width,
        num_hidden_layers=size.layers,
        num_attention_heads=size.heads,
        intermediate_size=size.between,
    )
    torch.manual_seed(0)
    BertModel(config).save_pretrained(folder / "encoder")
    rng = np.random.default_rng(0)
    # References that fill their windows.
    names = [[" ".join(rng.choice(words, n)) for n in (3, 2 * PIECES)] for _ in range(size.pairs)]
    entities = (Entity(f"E{i:06}", name, (alias,)) for i, (name, alias) in enumerate(names))
    write_store(entities, folder / "store")
    settings = {"window": PIECES, "batch_pieces": size.batch_pieces, "compile": compile}
    parts = [f"{LINKER}.model.{part}" for part in ("mention", "reference")]
    encoders = {f"{part}.{name}": value for part in parts for name, value in settings.items()}
    overrides = {
        "paths.encoder": str(folder / "encoder"),
        "paths.ontology": str(folder / "store"),
        "initialize.components.krissel_linker.dev_kb": None,
        # Nothing is mined, and nothing read: the batches are made here.
        "corpora.train.names_per_entity": 2,
        "corpora.train.read_ahead": 0,
        **encoders,
    }
    # An array: NumPy would make one from a list at each choice, three milliseconds per view.
    return init_nlp(load_config(CONFIG, overrides=overrides)), np.array(words)


def make_views(words: np.ndarray, n: int, rng: np.random.Generator) -> list[View]:
    """Return mentions in contexts that fill their windows."""
    texts = [rng.choice(words, PIECES).tolist() for _ in range(n)]
    half = PIECES // 2
    sides = ((" ".join(each[:half]), each[half], " ".join(each[half + 1 :])) for each in texts)
    return [View(f"{left} ", mention, f" {right}") for left, mention, right in sides]


def host_seconds(device: torch.device, function: Callable[[], Any]) -> float | None:
    """Return the processor time of all threads, without that in which they wait for the card: they
    sleep, where by default they spin. None where CUDA refuses that."""
    if device.type == "cuda" and not set_waits(device, SCHEDULE_BLOCKING):
        return None
    start = time.process_time()
    function()
    seconds = time.process_time() - start
    if device.type == "cuda":
        set_waits(device, SCHEDULE_AUTO)
    return seconds


def set_waits(device: torch.device, flags: int) -> bool:
    """Set how the host waits for the card. RETURNS: CUDA accepted it."""
    return ctypes.CDLL("libcuda.so.1").cuDevicePrimaryCtxSetFlags_v2(device.index, flags) == 0
