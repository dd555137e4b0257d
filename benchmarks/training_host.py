"""Processor time that a trained view costs the host, apart from the transformer's own arithmetic.

    TOKENIZERS_PARALLELISM=false python benchmarks/training_host.py ENCODER --texts FILE

A step of KRISSBERT: pairs of mentions and a reference per pair, cached gradients, two encoders with
the modules and weights of BERT-base at a width of 8. Their forward pass is replaced by the lookup
of word embeddings; its time, that of `torch.autograd.backward` and that of the loss are subtracted.
The rest is what the host does however fast the device is. One thread.

- pieces: tokenizer, windows, padding and grouping, in microseconds per view.
- python: everything else around the transformers, in microseconds per view.
- step: both.
- optimizer: the optimizer's step, milliseconds; at a width of 8 its arithmetic is small.
- calls: tokenizer calls, padded batches and forward passes per step.

Reading the corpus is left out: a process of its own does it.
"""

import gzip
import json
import os
import random
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated, Any
from unittest.mock import patch

import torch
import typer
from thinc.api import Adam, fix_random_seed
from transformers import AutoTokenizer, BertConfig, BertModel

from spacy_krissel.layers.hf.transformer import TransformerEncoder
from spacy_krissel.layers.referenced import ReferencedEncoder
from spacy_krissel.losses.softmax import SoftmaxLoss
from spacy_krissel.ontology.entity import Entity
from spacy_krissel.ontology.store import OntologyStore, write_store
from spacy_krissel.training.data.examples import view_examples
from spacy_krissel.training.objectives.krissbert import ContrastiveObjective
from spacy_krissel.views import mention_view

WINDOW, REFERENCE_WINDOW, CHARS = 64, 128, 300
# The parts of `pieces`, by name, wherever they are imported.
PIECES = {
    "view_pieces",
    "unit_pieces",
    "encode_texts",
    "pad_pieces",
    "read_together",
    "length_batches",
}


def main(
    encoder: Annotated[Path, typer.Argument(help="Folder of a tokenizer")],
    texts: Annotated[Path, typer.Option(help="Abstracts (JSONL, gzip)")],
    pairs: Annotated[int, typer.Option(help="Entities per batch, with two mentions each")] = 256,
    chunk_size: Annotated[int, typer.Option(help="Views encoded together")] = 64,
    warm_up: Annotated[int, typer.Option(help="Number of warm-up steps")] = 8,
    steps: Annotated[int, typer.Option(help="Number of measured steps")] = 12,
    layers: Annotated[int, typer.Option(help="Layers of each transformer")] = 12,
) -> None:
    """Measure, and print JSON."""
    os.environ["TOKENIZERS_PARALLELISM"] = "false"
    torch.set_num_threads(1)
    fix_random_seed(0)
    with TemporaryDirectory() as folder:
        store, batches = make_batches(Path(folder), texts, pairs, warm_up + steps)
        model = make_model(Path(folder), encoder, layers)
        loss = SoftmaxLoss(temperature=1.0)
        objective = ContrastiveObjective(loss, loss, chunk_size=chunk_size)
        objective.initialize(store)
        print(json.dumps(measured(model, objective, batches, warm_up, 3 * pairs), indent=2))


def measured(
    model: Any, objective: Any, batches: list[Any], warm_up: int, n_views: int
) -> dict[str, Any]:
    optimizer = Adam(1e-5, L2=0.0, grad_clip=1.0, use_averages=False)
    found = {"step": 0.0, "arithmetic": 0.0, "pieces": 0.0, "optimizer": 0.0}
    calls: dict[str, int] = {}
    shims = {shim for node in model.walk() for shim in node.shims if hasattr(shim, "transformer")}
    weights = [weight for shim in shims for weight in shim.transformer.parameters()]
    for number, batch in enumerate(batches):
        # The first steps make the optimizer's state, and meet most words.
        times, counted = (found, calls) if number >= warm_up else ({}, {})
        with timed_parts(objective, shims, times, counted):
            start = time.process_time()
            objective.update(model, batch)
            times["step"] = times.get("step", 0.0) + time.process_time() - start
        for weight in weights:
            weight.grad = torch.full_like(weight, 1e-3)
        start = time.process_time()
        model.finish_update(optimizer)
        times["optimizer"] = times.get("optimizer", 0.0) + time.process_time() - start
    steps = len(batches) - warm_up
    each = {name: 1e6 * seconds / steps / n_views for name, seconds in found.items()}
    step = each["step"] - each["arithmetic"]
    return {
        "microseconds per view": {
            "pieces": round(each["pieces"], 1),
            "python": round(step - each["pieces"], 1),
            "step": round(step, 1),
        },
        "optimizer, ms per step": round(1e3 * found["optimizer"] / steps, 2),
        "calls per step": {name: count / steps for name, count in sorted(calls.items())},
    }


@contextmanager
def timed_parts(
    objective: Any, shims: set[Any], times: dict[str, float], calls: dict[str, int]
) -> Iterator[None]:
    """Sum the seconds of the transformers' arithmetic and of making pieces inside this context,
    each by the processor time of its own thread."""
    depth = 0

    def timed(part: str, name: str, function: Any) -> Any:
        def call(*args: Any, **kwargs: Any) -> Any:
            nonlocal depth
            calls[name] = calls.get(name, 0) + 1
            depth += 1
            start = time.thread_time()
            try:
                # Some of them yield what they find.
                value = function(*args, **kwargs)
                return iter(list(value)) if isinstance(value, Iterator) else value
            finally:
                depth -= 1
                if not depth:
                    times[part] = times.get(part, 0.0) + time.thread_time() - start

        return call

    with ExitStack() as stack:
        for module_name, module in list(sys.modules.items()):
            if module_name.startswith("spacy_krissel.layers.hf."):
                for name in PIECES & set(vars(module)):
                    function = timed("pieces", name, getattr(module, name))
                    stack.enter_context(patch.object(module, name, function))
        backward = torch.autograd.backward
        stack.enter_context(
            patch("torch.autograd.backward", timed("arithmetic", "backward", backward))
        )
        loss = objective.joint_loss
        stack.enter_context(
            patch.object(objective, "joint_loss", timed("arithmetic", "loss", loss))
        )
        for shim in shims:
            words = shim.transformer.get_input_embeddings()

            def forward(input_ids: Any, words: Any = words, **_: Any) -> tuple[Any]:
                return (words(input_ids),)

            timed_forward = timed("arithmetic", "forward", forward)
            stack.enter_context(patch.object(shim.transformer, "forward", timed_forward))
        yield


def make_model(folder: Path, encoder: Path, layers: int) -> Any:
    tokenizer = AutoTokenizer.from_pretrained(encoder)
    tokenizer.save_pretrained(folder / "encoder")
    config = BertConfig(
        vocab_size=len(tokenizer),
        hidden_size=8,
        num_hidden_layers=layers,
        num_attention_heads=2,
        intermediate_size=16,
    )
    torch.manual_seed(0)
    BertModel(config).save_pretrained(folder / "encoder")
    encoders = [
        TransformerEncoder(str(folder / "encoder"), window=size)
        for size in (WINDOW, REFERENCE_WINDOW)
    ]
    model = ReferencedEncoder(*encoders)
    model.initialize()
    return model


def make_batches(folder: Path, path: Path, pairs: int, n: int) -> tuple[OntologyStore, list[Any]]:
    """Return words of abstracts as mentions, two per entity, and their entities with
    definitions."""
    rng = random.Random(0)
    texts: list[str] = []
    with gzip.open(path, "rt", encoding="utf8") as file:
        for line in file:
            record = json.loads(line)
            text = max((each for each in record.values() if isinstance(each, str)), key=len)
            if len(text) > 3 * CHARS:
                texts.append(text)
            if len(texts) == n * pairs:
                break
    entities = []
    batches: list[Any] = []
    for number in range(n):
        linked = []
        for text in texts[number * pairs : (number + 1) * pairs]:
            id_ = f"E{len(entities):06}"
            for _ in range(2):
                start = text.index(" ", rng.randrange(CHARS, len(text) - CHARS - 50)) + 1
                end = text.find(" ", start + 8)
                view = mention_view(text, start, end if end > 0 else len(text), CHARS)
                linked.append([(id_, view)])
            words = text.split()
            names = tuple(" ".join(words[i : i + 2]) for i in range(1, 9, 2))
            entities.append(Entity(id_, words[0], names, ("Finding",), definition=text[:500]))
        batches.append(list(view_examples(linked)))
    write_store(entities, folder / "store")
    return OntologyStore(folder / "store"), batches


if __name__ == "__main__":
    typer.run(main)
