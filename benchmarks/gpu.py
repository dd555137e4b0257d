"""What one command on a GPU shows: tests, training and linking, without a network and with random weights.

    python benchmarks/gpu.py          # on a GPU, under ten minutes
    python benchmarks/gpu.py --toy    # on a CPU, to see that it runs

- tests: those that are marked `gpu`.
- rate: of one large product in bfloat16, to which the others are compared.
- features: what makes pieces of views, on the CPU while the GPU computes.
- training: steps of configs/krissbert.cfg with an encoder of PubMedBERT's size: 512 mentions and 256 references of 64
  pieces, cached gradients.
- linking: mentions encoded, and searched exactly among 10 million prototypes of width 768, float16, on the card.
- all_reduce: of a gradient of that size, between two cards.

FLOP of a window in one forward pass: `layers * pieces * (8 d² + 4 d f + 4 d pieces)`, f the width between. A training
step with cached gradients runs two forward passes and a backward pass, which counts as two. FLOP of a search: 2 d for
each prototype.
"""

import json
import os
import platform
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.metadata import version
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated, Any, NamedTuple

import numpy as np
import torch
import typer
from spacy.training.initialize import init_nlp
from spacy.util import load_config, registry
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers
from transformers import BertConfig, BertModel, BertTokenizerFast
from wasabi import msg

from spacy_krissel.index.exact import ExactIndex
from spacy_krissel.layers.hf.wordpieces import pad_pieces, view_pieces
from spacy_krissel.layers.hf.wrapper import hf_shim
from spacy_krissel.ontology.entity import Entity
from spacy_krissel.ontology.store import write_store
from spacy_krissel.pipeline.pipeline_io import choose_gpu
from spacy_krissel.training.data.examples import view_examples
from spacy_krissel.views import View

ROOT = Path(__file__).parent
CONFIG = ROOT.parent / "configs" / "krissbert.cfg"
RESULT = ROOT / "results" / "gpu.json"
LINKER = "components.krissel_linker"
PIECES = 64
SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]


class Size(NamedTuple):
    """words: of the vocabulary. square: side of the product that is timed. tests: what pytest runs."""

    layers: int = 12
    width: int = 768
    between: int = 3072
    heads: int = 12
    words: int = 30_000
    square: int = 8192
    pairs: int = 256
    chunk_size: int = 256
    steps: int = 20
    prototypes: int = 10_000_000
    mentions: int = 4096
    rounds: int = 10
    top_k: int = 100
    gradient: int = 110_000_000
    tests: tuple[str, ...] = ("tests",)


TOY = Size(2, 32, 64, 4, 500, 64, 4, 4, 2, 5000, 16, 2, 10, 1000, ("tests/index/test_exact.py",))


def main(
    toy: Annotated[bool, typer.Option(help="Tiny sizes, on a CPU")] = False,
    compile: Annotated[bool, typer.Option(help="Run the encoder by torch.compile")] = False,
    output: Annotated[Path, typer.Option(help="Result (JSON)")] = RESULT,
) -> None:
    """Measure, and write one JSON file."""
    size = TOY if toy else Size()
    started = time.monotonic()
    found: dict[str, Any] = {"tests": gpu_tests(size.tests)}
    if toy:
        device = torch.device("cpu")
    else:
        choose_gpu(0)
        device = torch.device("cuda", 0)
    found["rate"] = flop_rate(device, size.square)
    with TemporaryDirectory() as folder:
        nlp, words = make_pipeline(Path(folder), size, compile)
        found["features"] = features(nlp, words, size)
        found["training"] = training(nlp, words, size, device)
        found["linking"] = linking(nlp, words, size, device)
    del nlp
    if toy or torch.cuda.device_count() > 1:
        found["all_reduce"] = all_reduce("gloo" if toy else "nccl", size.gradient)
    for part in ("training", "linking"):
        found[part]["share_of_bf16"] = found[part]["flop_per_second"] / found["rate"]["flop_per_second"]
    found["setup"] = {
        "device": platform.processor() if toy else torch.cuda.get_device_name(0),
        "cards": torch.cuda.device_count(),
        "cpus": os.cpu_count(),
        "compile": compile,
        "size": size._asdict(),
        "python": platform.python_version(),
        "versions": {name: version(name) for name in ("spacy", "torch", "transformers", "thinc")},
        "seconds": time.monotonic() - started,
    }
    output.parent.mkdir(parents=True, exist_ok=True)
    output.write_text(json.dumps(found, indent=2) + "\n", encoding="utf8")
    msg.table(
        [
            ("bfloat16, TFLOP/s", f"{found['rate']['flop_per_second'] / 1e12:.3f}"),
            ("pieces, views/s of one core", f"{found['features']['views_per_second']:.0f}"),
            ("training, windows/s", f"{found['training']['windows_per_second']:.1f}"),
            ("of the card's bfloat16", f"{found['training']['share_of_bf16']:.1%}"),
            ("linking, mentions/s", f"{found['linking']['mentions_per_second']:.1f}"),
            ("of the card's bfloat16", f"{found['linking']['share_of_bf16']:.1%}"),
            ("tests", found["tests"]["summary"]),
        ]
    )


def gpu_tests(paths: tuple[str, ...]) -> dict[str, Any]:
    command = [sys.executable, "-m", "pytest", "-q", "-m", "gpu", "-p", "no:cacheprovider", *paths]
    try:
        done = subprocess.run(command, cwd=ROOT.parent, capture_output=True, text=True, timeout=240)
    except subprocess.TimeoutExpired:
        return {"status": None, "summary": "not finished within four minutes"}
    lines = done.stdout.strip().splitlines()
    return {"status": done.returncode, "summary": re.sub(" in .*", "", lines[-1]) if lines else done.stderr[-200:]}


@contextmanager
def measured(device: torch.device) -> Iterator[dict[str, Any]]:
    """Fills a dictionary with the seconds and the peak memory of the block."""
    found: dict[str, Any] = {}
    if device.type == "cuda":
        torch.cuda.synchronize()
        torch.cuda.reset_peak_memory_stats()
    start = time.perf_counter()
    yield found
    if device.type == "cuda":
        torch.cuda.synchronize()
    found["seconds"] = time.perf_counter() - start
    found["peak_gib"] = torch.cuda.max_memory_allocated() / 2**30 if device.type == "cuda" else None


def flop_rate(device: torch.device, side: int, times: int = 50) -> dict[str, Any]:
    """Of the product of two square matrices in bfloat16."""
    left, right = (torch.randn(side, side, device=device, dtype=torch.bfloat16) for _ in range(2))
    for _ in range(5):
        left @ right
    with measured(device) as found:
        for _ in range(times):
            left @ right
    return {**found, "flop_per_second": times * 2 * side**3 / found["seconds"]}


def flop_per_window(size: Size) -> float:
    """Of one forward pass."""
    d = size.width
    return size.layers * PIECES * (8 * d * d + 4 * d * size.between + 4 * d * PIECES)


def make_pipeline(folder: Path, size: Size, compile: bool) -> tuple[Any, np.ndarray]:
    """The linker of configs/krissbert.cfg with random weights, and the words of its vocabulary."""
    # Of letters alone, so that each is one piece.
    words = [np.base_repr(i, 26).translate(str.maketrans("0123456789", "qrstuvwxyz")) for i in range(size.words)]
    words = list(dict.fromkeys(f"x{word.lower()}" for word in words))
    vocab = {piece: i for i, piece in enumerate(SPECIAL + words)}
    tokenizer = Tokenizer(models.WordPiece(vocab, unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=True)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    BertTokenizerFast(tokenizer_object=tokenizer, model_max_length=512).save_pretrained(folder / "encoder")
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
    entities = [
        # A reference that fills its window.
        Entity(f"E{i:06}", " ".join(rng.choice(words, 3)), (" ".join(rng.choice(words, 2 * PIECES)),))
        for i in range(size.pairs)
    ]
    write_store(entities, folder / "store")
    encoders = {
        f"{LINKER}.model.{part}.{name}": value
        for part in ("mention", "reference")
        for name, value in {"window": PIECES, "batch_pieces": size.chunk_size * PIECES, "compile": compile}.items()
    }
    overrides = {
        "paths.encoder": str(folder / "encoder"),
        "paths.ontology": str(folder / "store"),
        f"{LINKER}.objective.chunk_size": size.chunk_size,
        "initialize.components.krissel_linker.dev_kb": None,
        # Nothing is mined: the batches are made here.
        "corpora.train.names_per_entity": 2,
        **encoders,
    }
    # An array: numpy would make one of a list at each choice, three milliseconds for each view.
    return init_nlp(load_config(CONFIG, overrides=overrides)), np.array(words)


def make_views(words: np.ndarray, n: int, rng: np.random.Generator) -> list[View]:
    """Mentions in contexts that fill their windows."""
    texts = [rng.choice(words, PIECES).tolist() for _ in range(n)]
    half = PIECES // 2
    return [View(" ".join(each[:half]) + " ", each[half], " " + " ".join(each[half + 1 :])) for each in texts]


def features(nlp: Any, words: np.ndarray, size: Size) -> dict[str, Any]:
    """Views per second of processor time, in one thread."""
    shim = hf_shim(nlp.get_pipe("krissel_linker").model.layers[0])
    views = make_views(words, 2 * size.mentions, np.random.default_rng(3))
    before = os.environ.get("TOKENIZERS_PARALLELISM")
    os.environ["TOKENIZERS_PARALLELISM"] = "false"
    try:
        start = time.process_time()
        rows = view_pieces(shim.tokenizer, views, PIECES)
        pad_pieces(rows, shim.tokenizer.pad_token_id)
        seconds = time.process_time() - start
    finally:
        os.environ.pop("TOKENIZERS_PARALLELISM")
        if before is not None:
            os.environ["TOKENIZERS_PARALLELISM"] = before
    assert {len(row.ids) for row in rows} == {PIECES}
    return {"seconds": seconds, "views_per_second": len(views) / seconds}


def training(nlp: Any, words: np.ndarray, size: Size, device: torch.device) -> dict[str, Any]:
    rng = np.random.default_rng(1)
    ids = [f"E{i // 2:06}" for i in range(2 * size.pairs)]
    batches = [
        list(view_examples([[linked] for linked in zip(ids, make_views(words, len(ids), rng), strict=True)]))
        for _ in range(size.steps + 2)
    ]
    optimizer = registry.resolve({"it": nlp.config.interpolate()["training"]["optimizer"]})["it"]
    losses: dict[str, float] = {}
    # The first steps make the optimizer's state, and compile.
    for batch in batches[:2]:
        nlp.update(batch, sgd=optimizer, losses=losses)
    with measured(device) as found:
        for batch in batches[2:]:
            nlp.update(batch, sgd=optimizer, losses=losses)
    assert np.isfinite(losses["krissel_linker"])
    windows = 3 * size.pairs * size.steps
    flop = 4 * flop_per_window(size)
    rate = windows / found["seconds"]
    return {
        **found,
        "windows_per_step": 3 * size.pairs,
        "windows_per_second": rate,
        "flop_per_window": flop,
        "flop_per_second": rate * flop,
    }


def linking(nlp: Any, words: np.ndarray, size: Size, device: torch.device) -> dict[str, Any]:
    vectors = np.empty((size.prototypes, size.width), dtype=np.float16)
    step = 100_000
    for start in range(0, len(vectors), step):
        part = torch.randn(min(step, len(vectors) - start), size.width, device=device).half()
        vectors[start : start + step] = part.cpu().numpy()
    index = ExactIndex("cpu" if device.type == "cpu" else "cuda")
    index.from_disk(Path(), vectors)
    encode = nlp.get_pipe("krissel_linker").encode
    rng = np.random.default_rng(2)
    rounds = [make_views(words, size.mentions, rng) for _ in range(size.rounds + 1)]
    # The first search copies the vectors to the card.
    index.search(encode(rounds[0]), size.top_k)
    seconds: dict[str, float] = {"encode": 0.0, "search": 0.0}

    def timed(part: str, function: Callable[[], Any]) -> Any:
        start = time.perf_counter()
        made = function()
        seconds[part] += time.perf_counter() - start
        return made

    with measured(device) as found:
        for views in rounds[1:]:
            queries = timed("encode", lambda views=views: encode(views))
            timed("search", lambda queries=queries: index.search(queries, size.top_k))
    rate = size.mentions * size.rounds / found["seconds"]
    flop = flop_per_window(size) + 2.0 * size.width * size.prototypes
    return {
        **found,
        "seconds_of": seconds,
        "prototypes": size.prototypes,
        "mentions_per_second": rate,
        "flop_per_mention": flop,
        "flop_per_second": rate * flop,
    }


def all_reduce(backend: str, values: int) -> dict[str, Any]:
    """The sum of a float32 gradient over two processes."""
    with TemporaryDirectory() as folder:
        torch.multiprocessing.spawn(reduce_in_process, (backend, values, folder), nprocs=2)
        seconds = float((Path(folder) / "seconds").read_text())
    return {"backend": backend, "values": values, "seconds": seconds, "gb_per_second": 4 * values / seconds / 1e9}


def reduce_in_process(rank: int, backend: str, values: int, folder: str, times: int = 10) -> None:
    if backend == "nccl":
        torch.cuda.set_device(rank)
    torch.distributed.init_process_group(backend, f"file://{folder}/store", rank=rank, world_size=2)
    device = torch.device("cuda" if backend == "nccl" else "cpu")
    gradient = torch.ones(values, device=device)
    torch.distributed.all_reduce(gradient)
    assert float(gradient[0]) == 2
    with measured(device) as found:
        for _ in range(times):
            torch.distributed.all_reduce(gradient)
    if rank == 0:
        (Path(folder) / "seconds").write_text(str(found["seconds"] / times))
    torch.distributed.destroy_process_group()


if __name__ == "__main__":
    typer.run(main)
