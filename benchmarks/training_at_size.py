"""KRISSBERT's training on a large ontology and any number of mined mentions: time to the first
step, memory, and how fast mentions are read.

`krissel train configs/krissbert.cfg` with a small random encoder, so that what is measured is the
data and not the encoder; in one process and in two that train together. Then corpus and batcher
alone, as a process that only reads. Stores and shards: `umls_files.py`, `krissel ontology`,
`mined_shards.py`.

    python benchmarks/training_at_size.py STORE SHARDS
"""

import json
import multiprocessing
import os
import platform
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Annotated, Any

import spacy
import typer
from spacy.util import load_config, registry
from wasabi import msg

from spacy_krissel.training.data.batchers import PairBatcher
from spacy_krissel.training.data.self_supervised import SelfSupervisedCorpus

ROOT = Path(__file__).parent
CONFIG = ROOT.parent / "configs" / "krissbert.cfg"
RESULT = ROOT / "results" / "training_at_size.json"
# As in the config.
READ_AHEAD = load_config(CONFIG, interpolate=False)["corpora"]["train"]["read_ahead"]
# Folder of the measurements of the training processes: this file is their `--code`.
REPORTS = "KRISSEL_TRAINING_REPORTS"
CONSONANTS, VOWELS, LETTERS = "bcdfghlmnprstvz", "aeiou", "abcdefghijklmnopqrstuvwxyz0123456789.,-"
# What an H200 needs: 85 million parameters without embeddings, 64 pieces a view, six operations for
# each forward and backward, eight with cached gradients; 40 % of 989 TFLOP/s.
VIEW_FLOP, H200_FLOPS = 85e6 * 64, 0.4 * 989e12
MIB = 2**20


def main(
    store: Annotated[Path, typer.Argument(help="Ontology store")],
    shards: Annotated[list[Path], typer.Argument(help="Mined shards, one or several")],
    steps: Annotated[int, typer.Option(help="Training steps")] = 200,
    read: Annotated[
        int, typer.Option(help="Mentions read by the process that only reads")
    ] = 500_000,
    output: Annotated[Path, typer.Option(help="Result (JSON)")] = RESULT,
) -> None:
    """Measure each, and write the results."""
    setup = {
        "steps": steps,
        "h200_views_per_second": [round(H200_FLOPS / (n * VIEW_FLOP)) for n in (6, 8)],
        "versions": {name: version(name) for name in ("spacy", "torch", "pyarrow")},
        "python": platform.python_version(),
        "cpus": os.cpu_count(),
    }
    rows: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as folder:
        encoder = make_encoder(Path(folder) / "encoder")
        for path in shards:
            rows.append({"mentions": json.loads((path / "manifest.json").read_text())["mentions"]})
            for name, measure in (
                ("reader", partial(read_in_process, store, path, read, 0)),
                ("read ahead", partial(read_in_process, store, path, read, READ_AHEAD)),
                ("one process", partial(train, store, path, encoder, steps, 1)),
                ("two processes", partial(train, store, path, encoder, steps, 2)),
            ):
                rows[-1][name] = measure()
                print(name, json.dumps(rows[-1][name], indent=2))
                output.parent.mkdir(parents=True, exist_ok=True)
                output.write_text(
                    json.dumps({"rows": rows, "setup": setup}, indent=2) + "\n", encoding="utf8"
                )
    msg.good("Results", output)


def train(
    store: Path, shards: Path, encoder: Path, steps: int, processes: int
) -> list[dict[str, Any]]:
    """Return the measurements of each training process (`_measure`)."""
    config = load_config(CONFIG, interpolate=False)
    config["training"]["logger"] = {"@loggers": "training_at_size.v1"}
    config["training"]["before_update"] = {"@callbacks": "training_at_size.v1"}
    config["training"]["max_steps"] = steps
    config["paths"] = {"ontology": str(store), "mentions": str(shards), "encoder": str(encoder)}
    path = encoder.parent / "config.cfg"
    config.to_disk(path)
    command = ["-m", "spacy", "krissel", "train", str(path), "--code", __file__]
    if processes > 1:
        command = [
            "-m",
            "torch.distributed.run",
            "--standalone",
            f"--nproc-per-node={processes}",
            *command,
        ]
    with tempfile.TemporaryDirectory() as folder:
        _run([sys.executable, *command], {REPORTS: folder})
        return [json.loads(path.read_text()) for path in sorted(Path(folder).iterdir())]


def _run(command: list[str], environment: dict[str, str] | None = None) -> str:
    changed = {
        **os.environ,
        "OMP_NUM_THREADS": "1",
        "KRISSEL_STARTED": str(time.time()),
        **(environment or {}),
    }
    return subprocess.run(
        command, env=changed, check=True, stdout=subprocess.PIPE, text=True
    ).stdout


def read_in_process(store: Path, shards: Path, n: int, ahead: int) -> Any:
    return json.loads(
        _run([sys.executable, __file__, "--read", str(store), str(shards), str(n), str(ahead)])
    )


def read_alone(store: Path, shards: Path, n: int, ahead: int) -> dict[str, Any]:
    """Read KRISSBERT's corpus and batcher. RETURNS: seconds to the first batch, also of the
    processor; then mentions per second, and per processor second of this process and of the one
    that reads ahead."""
    others, began, nlp = set(multiprocessing.active_children()), time.time(), spacy.blank("en")
    corpus = SelfSupervisedCorpus(
        store, shards, mentions_per_entity=3, names_per_entity=0, read_ahead=ahead
    )
    batches = _endless(corpus, PairBatcher(pairs=256, ontology=store), nlp)
    next(batches)
    first, used, found = time.time() - began, time.process_time(), 0
    report = {"first_batch": round(first, 1), "first_batch_cpu": round(used, 1)}
    processes = {"": "self"}
    for child in set(multiprocessing.active_children()) - others:
        processes["reader_"] = str(child.pid)
    started, before = (
        time.time(),
        {name: _processor_seconds(pid) for name, pid in processes.items()},
    )
    while found < n:
        found += 2 * len(next(batches))
    report["per_second_of_clock"] = round(found / (time.time() - started))
    for name, pid in processes.items():
        # The system counts in ticks.
        spent = max(_processor_seconds(pid) - before[name], 1 / os.sysconf("SC_CLK_TCK"))
        report[f"{name}per_second"] = round(found / spent)
        report |= {f"{name}{key}": value for key, value in memory(pid).items()}
    return report


def _processor_seconds(pid: str) -> float:
    user, system = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[11:13]
    return (int(user) + int(system)) / os.sysconf("SC_CLK_TCK")


def _endless(corpus: SelfSupervisedCorpus, batcher: PairBatcher, nlp: Any) -> Iterator[list[Any]]:
    while True:
        yield from batcher(corpus(nlp))


def memory(pid: str = "self") -> dict[str, int]:
    """Return the peak memory of a process, and its current memory that is not mapped from files, in
    MiB (Linux)."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    values = {
        key: int(value.split()[0]) // 1024
        for key, _, value in (line.partition(":") for line in lines)
        if "kB" in value
    }
    return {"peak_mib": values["VmHWM"], "not_mapped_mib": values["RssAnon"]}


def _measure(folder: Path) -> None:
    """Write a report of this process: memory, twice per second, and the times of the first
    steps."""
    report: dict[str, Any] = {"process": int(os.environ.get("RANK", "0")), "not_mapped_mib": 0}
    started = float(os.environ["KRISSEL_STARTED"])
    lock = threading.Lock()

    def save(**found: Any) -> None:
        with lock:
            now = memory()
            report.update(found, peak_mib=now["peak_mib"])
            report["not_mapped_mib"] = max(report["not_mapped_mib"], now["not_mapped_mib"])
            (folder / f"{report['process']}.json").write_text(json.dumps(report))

    def moment() -> list[float]:
        """Return seconds since the start of the command, and of this process's processor time."""
        return [round(time.time() - started, 1), round(time.process_time(), 1)]

    def watch() -> None:
        while True:
            save()
            time.sleep(0.5)

    def before_update(nlp: Any, step: dict[str, int]) -> None:
        if step["step"] == 0:
            save(first_batch=moment())
        save(steps=step["step"], last_batch=moment())

    def logger(nlp: Any, stdout: Any = None, stderr: Any = None) -> tuple[Callable, Callable]:
        def log_step(info: Any) -> None:
            if "first_step" not in report:
                save(first_step=moment())

        return log_step, lambda: None

    registry.callbacks("training_at_size.v1", func=lambda: before_update)
    registry.loggers("training_at_size.v1", func=lambda: logger)
    threading.Thread(target=watch, daemon=True).start()


def make_encoder(path: Path) -> Path:
    """Save a random BERT of width 32 and one layer, with pieces for the synthetic words."""
    from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors
    from transformers import BertConfig, BertModel, BertTokenizerFast

    units = [*LETTERS, *(consonant + vowel for consonant in CONSONANTS for vowel in VOWELS)]
    pieces = [
        "[PAD]",
        "[UNK]",
        "[CLS]",
        "[SEP]",
        "[MASK]",
        *units,
        *(f"##{unit}" for unit in units),
    ]
    vocabulary = {piece: i for i, piece in enumerate(pieces)}
    tokenizer = Tokenizer(models.WordPiece(vocabulary, unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=True)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    special = [(name, vocabulary[name]) for name in ("[CLS]", "[SEP]")]
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", special_tokens=special
    )
    BertTokenizerFast(tokenizer_object=tokenizer, model_max_length=512).save_pretrained(path)
    sizes = {
        "hidden_size": 32,
        "num_hidden_layers": 1,
        "num_attention_heads": 2,
        "intermediate_size": 64,
    }
    BertModel(BertConfig(vocab_size=len(vocabulary), **sizes)).save_pretrained(path)
    return path


if __name__ == "__main__":
    if sys.argv[1:2] == ["--read"]:
        print(json.dumps(read_alone(Path(sys.argv[2]), Path(sys.argv[3]), *map(int, sys.argv[4:]))))
    else:
        typer.run(main)
elif REPORTS in os.environ:
    _measure(Path(os.environ[REPORTS]))
