"""Training of the re-ranker at the size of UMLS: seconds to the first step, memory of each process,
bytes written.

A linker over all entities of an ontology store is made first, with one name of each as prototype,
an IVF index, and an untrained small encoder of width 32. Then `krissel train
configs/reranker-pairs.cfg` runs with these changes: a BERT of two layers and width 32, the number
of steps, 100 development mentions, and `insert_gold`. Names are synthetic, so the linker would
rarely find the correct entity, and mentions without it are left out.

    python benchmarks/reranking_at_size.py STORE SHARDS FOLDER
    python benchmarks/reranking_at_size.py STORE SHARDS FOLDER --processes 2
"""

import json
import os
import platform
import string
import subprocess
import sys
import time
from importlib.metadata import version
from pathlib import Path
from typing import Annotated, Any

import spacy
import typer
from kb_at_size import in_process, processor, show, size, watched
from spacy.util import load_config
from wasabi import msg

from spacy_krissel.building.sources import PrototypeSource
from spacy_krissel.commands.build_prototypes import build_prototypes
from spacy_krissel.index.faiss_index import make_faiss_index
from spacy_krissel.mining.shards import MentionShards
from spacy_krissel.pipeline.pipeline_io import find_linker, save_whole

ROOT = Path(__file__).parent
CONFIG = ROOT.parent / "configs" / "reranker-pairs.cfg"
RESULT = ROOT / "results" / "reranking_at_size.json"
WIDTH = 32
# Per training process.
FIGURES = ("peak_rss_mib", "peak_private_mib", "processor_seconds")


def main(
    ontology: Annotated[Path, typer.Argument(help="Ontology store")],
    mentions: Annotated[Path, typer.Argument(help="Mined mentions")],
    folder: Annotated[
        Path, typer.Argument(help="Folder for linker, encoder and training; the first two are kept")
    ],
    processes: Annotated[int, typer.Option(help="Number of processes that train together")] = 1,
    steps: Annotated[int, typer.Option(help="Training steps")] = 200,
    output: Annotated[
        Path, typer.Option(help="Result (JSON), to which each number of processes adds")
    ] = RESULT,
) -> None:
    """Make the missing inputs, train, and print the costs."""
    result: dict[str, Any] = (
        json.loads(output.read_text(encoding="utf8")) if output.exists() else {}
    )
    linker, encoder = folder / "linker", folder / "encoder"
    if not linker.exists():
        result["linker"] = in_process(make_linker, ontology, linker)
        show("Linker", result["linker"])
    if not encoder.exists():
        make_encoder(encoder)
    name = "one process" if processes == 1 else f"{processes} processes"
    result[name] = trained(ontology, mentions, folder, processes, steps)
    show(name.capitalize(), result[name])
    result["setup"] = {
        "mentions": len(MentionShards(mentions)),
        "steps": steps,
        "linker_mib": size(linker),
        "machine": platform.machine(),
        "processor": processor(),
        "cpus": os.cpu_count(),
        "python": platform.python_version(),
        "versions": {
            name: version(name) for name in ("spacy", "numpy", "torch", "transformers", "faiss-cpu")
        },
    }
    output.parent.mkdir(parents=True, exist_ok=True)
    output.write_text(json.dumps(result, indent=2) + "\n", encoding="utf8")


def make_linker(ontology: Path, linker: Path) -> dict[str, Any]:
    with watched() as figures:
        nlp = spacy.blank("en")
        model = {"@architectures": "spacy-krissel.SmallEncoder.v1", "width": WIDTH, "hidden": WIDTH}
        nlp.add_pipe(
            "krissel_linker", config={"model": {**model, "rows": 8192, "context_rows": 2048}}
        )
        nlp.initialize()
        linker.parent.mkdir(parents=True, exist_ok=True)
        pipe = find_linker(nlp)
        source = PrototypeSource(ontology, aliases=False, class_names=False)
        index = make_faiss_index("ivf", nprobe=8)
        build_prototypes(nlp, source, index=index, scratch=linker.absolute().parent, progress=True)
        save_whole(nlp.to_disk, linker)
        figures.update(entities=pipe.kb.n_entities, prototypes=pipe.kb.n_prototypes)
    return figures


def make_encoder(path: Path) -> None:
    import torch
    from tokenizers import Tokenizer, models, normalizers, pre_tokenizers
    from transformers import BertConfig, BertModel, BertTokenizerFast

    letters = list(string.ascii_lowercase + string.digits + string.punctuation)
    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    pairs = [
        f"##{one}{other}" for one in string.ascii_lowercase for other in string.ascii_lowercase
    ]
    vocab = {
        piece: i
        for i, piece in enumerate(
            [*special, *letters, *(f"##{letter}" for letter in letters), *pairs]
        )
    }
    tokenizer = Tokenizer(models.WordPiece(vocab, unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=True)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    BertTokenizerFast(tokenizer_object=tokenizer, model_max_length=128).save_pretrained(path)
    torch.manual_seed(0)
    sizes = {
        "hidden_size": WIDTH,
        "num_hidden_layers": 2,
        "num_attention_heads": 2,
        "intermediate_size": 4 * WIDTH,
    }
    BertModel(
        BertConfig(vocab_size=len(vocab), max_position_embeddings=130, **sizes)
    ).save_pretrained(path)


def trained(
    ontology: Path, mentions: Path, folder: Path, processes: int, steps: int
) -> dict[str, Any]:
    """Train, and read the peak memory of each process from the system meanwhile."""
    log = folder / "steps.jsonl"
    log.unlink(missing_ok=True)
    overrides = {
        "paths.encoder": folder / "encoder",
        "paths.linker": folder / "linker",
        "paths.ontology": ontology,
        "paths.mentions": mentions,
        "components.krissel_reranker.objective.insert_gold": "true",
        "corpora.dev.limit": 100,
        "training.max_steps": steps,
        "training.eval_frequency": steps,
    }
    config = load_config(CONFIG, interpolate=False)
    config["training"]["logger"] = {"@loggers": "spacy-krissel.StepLogger.v1", "path": str(log)}
    config.to_disk(folder / CONFIG.name)
    run = ["-m", "spacy", "krissel", "train", folder / CONFIG.name, "--output", folder / "trained"]
    run += [word for key, value in overrides.items() for word in (f"--{key}", value)]
    launcher = (
        ["-m", "torch.distributed.run", "--nproc-per-node", processes] if processes > 1 else []
    )
    start = time.perf_counter()
    process = subprocess.Popen(
        [sys.executable, *map(str, [*launcher, *run])], env={**os.environ, "OMP_NUM_THREADS": "1"}
    )
    figures: dict[str, Any] = {}
    peaks: dict[int, dict[str, float]] = {}
    while process.poll() is None:
        for pid in [process.pid, *children(process.pid)]:
            observe(peaks.setdefault(pid, dict.fromkeys(FIGURES, 0.0)), pid)
        done = len(log.read_text().splitlines()) if log.exists() else 0
        # A line per step; the first one comes after the evaluation that follows the first step.
        for number, figure in ((1, "to_first_step_and_evaluation"), (steps, "to_last_step")):
            if done >= number and f"seconds_{figure}" not in figures:
                figures[f"seconds_{figure}"] = time.perf_counter() - start
                # Other work on the machine affects this less.
                figures[f"processor_seconds_{figure}"] = max(
                    each["processor_seconds"] for each in peaks.values()
                )
        time.sleep(0.2)
    if process.returncode:
        msg.fail(f"Training ended with {process.returncode}", exits=1)
    figures["seconds"] = time.perf_counter() - start
    # The launcher is small; the others are ordered by memory.
    figures["processes"] = sorted(peaks.values(), key=lambda each: -each["peak_rss_mib"])[
        :processes
    ]
    saved, linker, store = map(on_disk, (folder / "trained", folder / "linker", ontology))
    figures["saved_mib"] = sum(saved.values()) / 2**20
    figures["saved_and_not_shared_mib"] = (
        sum(saved[each] for each in saved.keys() - linker.keys() - store.keys()) / 2**20
    )
    return figures


def observe(peaks: dict[str, float], pid: int) -> None:
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
        times = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[11:13]
    except OSError:
        return
    found = {
        name: int(value.split()[0]) / 1024
        for name, _, value in (line.partition(":") for line in lines)
        if "kB" in value
    }
    peaks["processor_seconds"] = sum(map(int, times)) / os.sysconf("SC_CLK_TCK")
    peaks["peak_rss_mib"] = max(peaks["peak_rss_mib"], found.get("VmHWM", 0))
    peaks["peak_private_mib"] = max(peaks["peak_private_mib"], found.get("RssAnon", 0))


def children(pid: int) -> list[int]:
    try:
        direct = [
            int(each) for each in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
        ]
    except OSError:
        return []
    return [*direct, *(each for child in direct for each in children(child))]


def on_disk(folder: Path) -> dict[tuple[int, int], int]:
    """Return bytes of the files below a folder; hard links count once."""
    found = [file_.stat() for file_ in folder.rglob("*") if file_.is_file()]
    return {(each.st_dev, each.st_ino): each.st_blocks * 512 for each in found}


if __name__ == "__main__":
    typer.run(main)
