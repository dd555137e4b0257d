"""Memory of a training step at the paper's batch size: 512 mentions of 256 entities, and their
references.

Cached gradients (`chunk_size`) hold the activations of one chunk at a time, so that memory does not
grow with the batch. The model is made and trained as by `spacy train CONFIG`, for a few steps.
Prints the peak memory of the whole process, including training examples and optimizer, after each
step.

    python benchmarks/training_memory.py --encoder NAME_OR_PATH --ontology STORE --mentions SHARDS
"""

import json
import os
import platform
import resource
import sys
from importlib.metadata import version
from pathlib import Path
from typing import Annotated, Any

import typer
from spacy.schemas import ConfigSchemaTraining
from spacy.training.initialize import init_nlp
from spacy.util import fix_random_seed, load_config, registry, resolve_dot_names
from wasabi import msg

ROOT = Path(__file__).parent
CONFIG = ROOT.parent / "configs" / "krissbert.cfg"
RESULT = ROOT / "results" / "training_memory.json"
# On Linux in KiB, on macOS in bytes.
UNIT = 2**20 if sys.platform == "darwin" else 2**10


def main(
    encoder: Annotated[str, typer.Option(help="Hugging Face encoder, by name or path")],
    ontology: Annotated[Path, typer.Option(help="Ontology store")],
    mentions: Annotated[Path, typer.Option(help="Mined mentions")],
    config: Annotated[Path, typer.Option(help="Training config")] = CONFIG,
    chunk_size: Annotated[int, typer.Option(help="Views encoded together; 0 for all at once")] = 16,
    pairs: Annotated[int, typer.Option(help="Entities per batch, with two mentions each")] = 256,
    limit: Annotated[int, typer.Option(help="Number of training examples")] = 20_000,
    steps: Annotated[int, typer.Option(help="Training steps")] = 12,
    output: Annotated[Path, typer.Option(help="Result (JSON)")] = RESULT,
) -> None:
    """Train for a few steps, and print the process's peak memory after each."""
    linker = "components.krissel_linker"
    overrides: dict[str, Any] = {
        "paths.ontology": str(ontology),
        "paths.mentions": str(mentions),
        "paths.encoder": encoder,
        f"{linker}.objective.chunk_size": chunk_size,
        "training.batcher.pairs": pairs,
        "corpora.train.limit": limit,
        "corpora.dev.limit": 10,
    }
    fix_random_seed(0)
    nlp = init_nlp(load_config(config, overrides=overrides))
    resolved = nlp.config.interpolate()
    training = registry.resolve(resolved["training"], schema=ConfigSchemaTraining)
    (corpus,) = resolve_dot_names(resolved, [training["train_corpus"]])
    batches = training["batcher"](corpus(nlp))
    rows: list[dict[str, Any]] = [{"step": 0, "mentions": 0, "peak_mib": peak()}]
    for step in range(1, steps + 1):
        batch = next(batches, None)
        if batch is None:
            msg.fail(
                (
                    f"The examples make {step - 1} batches of {pairs} pairs: more mentions or "
                    "fewer steps"
                ),
                exits=1,
            )
        nlp.update(batch, sgd=training["optimizer"])
        rows.append({"step": step, "mentions": 2 * len(batch), "peak_mib": peak()})
    result = {
        "rows": rows,
        "setup": {
            "config": config.name,
            "encoder": Path(encoder).name,
            "chunk_size": chunk_size,
            "pairs": pairs,
            "versions": {name: version(name) for name in ("spacy", "torch", "transformers")},
            "python": platform.python_version(),
            "cpus": os.cpu_count(),
        },
    }
    output.parent.mkdir(parents=True, exist_ok=True)
    output.write_text(json.dumps(result, indent=2) + "\n", encoding="utf8")
    print("| after step | mentions | peak memory, MiB |\n| ---: | ---: | ---: |")
    for row in rows:
        print(f"| {row['step']} | {row['mentions']} | {row['peak_mib']:,} |")
    msg.info(f"Peak of the whole process: {rows[-1]['peak_mib'] / 1024:.2f} GiB")


def peak() -> int:
    """Return the peak memory of this process so far, in MiB."""
    return int(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // UNIT)


if __name__ == "__main__":
    typer.run(main)
