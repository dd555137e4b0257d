"""The workflow `umls` on synthetic UMLS and PubMed: time, memory and bytes written of each line,
and their growth.

The lines are those of `project.yml`, each in its own process, with these variables changed:
folders, an encoder of random weights with width 32, few training steps. UMLS, PubMed and the
development set grow with the fraction; the gold documents are a twentieth of MedMentions' test
documents at any fraction. Full size is extrapolated from the smallest and the largest fraction: a
constant and a part that grows with the fraction. Linux only: memory is read from /proc.

    python benchmarks/umls_workflow.py FOLDER --fraction 0.001 --fraction 0.01
"""

import json
import os
import platform
import shlex
import string
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import typer
from pubmed_files import Texts, write_gold, write_pubmed
from umls_files import write_umls
from wasabi import msg
from weasel.util.config import load_project_config

ROOT = Path(__file__).parents[1]
RESULT = Path(__file__).parent / "results" / "umls_workflow.json"
CONCEPTS, ARTICLES, GOLD_DOCUMENTS = 3_400_000, 14_000_000, 44
WINDOW = 32
STEPS = "--training.max_steps 4 --training.eval_frequency 4"
LINKER, RERANKER = "components.krissel_linker.model", "components.krissel_reranker.model"
TRAINING = (
    f"{STEPS} --training.batcher.pairs 16 --{LINKER}.mention.window {WINDOW} "
    f"--{LINKER}.reference.window {WINDOW}"
)
# Random weights find few entities, and a batch without any is skipped.
RERANKING = (
    f"{STEPS} --{RERANKER}.window {WINDOW} --{RERANKER}.candidate_window {WINDOW} "
    "--components.krissel_reranker.objective.insert_gold true"
)
MIB = 2**20
# Seconds between two readings of memory.
SECONDS = 0.1


class Row(NamedTuple):
    """Costs of a line: processor time of its processes, the peak of the sum of their memory and of
    the part not mapped from files, bytes written to disk, and bytes of its new files."""

    line: str
    seconds: float
    cpu_seconds: float
    mib: float
    anonymous_mib: float
    written_mib: float
    left_mib: float


def main(
    folder: Annotated[Path, typer.Argument(help="New folder for inputs and results")],
    fraction: Annotated[list[float], typer.Option(help="Fraction of full size")] = [0.001, 0.01],  # noqa: B006
    processes: Annotated[int, typer.Option(help="Number of mining processes")] = 2,
    seed: Annotated[int, typer.Option(help="Random seed of the inputs")] = 0,
    output: Annotated[Path, typer.Option(help="Result (JSON)")] = RESULT,
) -> None:
    """Run the workflow at each fraction, and print the table. Other fractions in the result
    stay."""
    output.parent.mkdir(parents=True, exist_ok=True)
    runs: dict[str, Any] = json.loads(output.read_text(encoding="utf8")) if output.exists() else {}
    for each in sorted(fraction):
        work = (folder / f"{each:g}").resolve()
        setup = {
            "processes": processes,
            "seed": seed,
            "versions": {
                name: version(name) for name in ("numpy", "pyarrow", "spacy", "torch", "faiss-cpu")
            },
            "python": platform.python_version(),
            "cpus": os.cpu_count(),
        }
        runs[f"{each:g}"] = {"sizes": make_inputs(work, each, seed), "setup": setup, "lines": []}
        for row in run_workflow(work, processes):
            runs[f"{each:g}"]["lines"].append(row._asdict())
            # After each line, since the next one may fail.
            output.write_text(json.dumps(runs, indent=2, sort_keys=True) + "\n", encoding="utf8")
    print(table(runs))


def make_inputs(work: Path, fraction: float, seed: int) -> dict[str, int]:
    """Make a folder with the project and its inputs. RETURNS: their sizes."""
    work.mkdir(parents=True)
    for name in ("configs", "project.yml"):
        (work / name).symlink_to(ROOT / name)
    concepts, articles = int(CONCEPTS * fraction), int(ARTICLES * fraction)
    write_umls(work / "META", concepts, seed)
    texts = Texts(work / "META", seed)
    write_pubmed(work / "PUBMED", texts, articles)
    download = work / "corpus" / "download"
    download.mkdir(parents=True)
    gold = write_gold(
        download / "medmentions.txt.gz", download / "medmentions-test.txt", texts, GOLD_DOCUMENTS
    )
    write_encoder(work / "encoder", texts)
    return {
        "concepts": concepts,
        "articles": articles,
        "gold_mentions": gold,
        "umls_bytes": _size(work / "META"),
        "pubmed_bytes": _size(work / "PUBMED"),
    }


def write_encoder(path: Path, texts: Texts) -> None:
    """Write a BERT of width 32 and random weights, whose word pieces are the most frequent words
    and all letters."""
    import torch
    from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors
    from transformers import BertConfig, BertModel, BertTokenizerFast

    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    letters = list(string.ascii_lowercase + string.digits + string.punctuation)
    pieces = dict.fromkeys(
        [*special, *letters, *(f"##{letter}" for letter in letters), *texts.words[:30_000]]
    )
    vocab = {piece: number for number, piece in enumerate(pieces)}
    tokenizer = Tokenizer(models.WordPiece(vocab, unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=True)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    ends = [(token, vocab[token]) for token in ("[CLS]", "[SEP]")]
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", special_tokens=ends
    )
    BertTokenizerFast(tokenizer_object=tokenizer, model_max_length=512).save_pretrained(path)
    torch.manual_seed(0)
    size = {
        "hidden_size": 32,
        "num_hidden_layers": 1,
        "num_attention_heads": 2,
        "intermediate_size": 64,
    }
    # With the usual 0.02 the vectors of all texts are nearly the same, and all entities tie.
    BertModel(BertConfig(vocab_size=len(vocab), initializer_range=0.5, **size)).save_pretrained(
        path
    )


def run_workflow(work: Path, processes: int) -> Iterator[Row]:
    """Run each line of the workflow in `work`."""
    changed: dict[str, Any] = {
        "umls": "META",
        "pubmed": "PUBMED",
        "pubmedbert": "encoder",
        "processes": processes,
    }
    changed.update(training=TRAINING, reranking=RERANKING)
    project = load_project_config(
        work, overrides={f"vars.{name}": value for name, value in changed.items()}
    )
    commands = {command["name"]: command["script"] for command in project["commands"]}
    for name in project["workflows"]["umls"]:
        for number, line in enumerate(commands[name]):
            python, *words = shlex.split(line)
            assert python == "python"
            title = (
                f"{name}: {words[words.index('spacy') + 1 + ('krissel' in words)]}"
                + f" {number + 1}" * (name == "umls-evaluate")
            )
            row = measured(title, [sys.executable, *words], work)
            msg.info(f"{title}: {row.seconds:.0f} s, {row.mib:,.0f} MiB")
            yield row


def measured(title: str, command: list[str], work: Path) -> Row:
    """Run `command` in `work`, which must be the only child of this process."""
    before, size, began = _written(), _size(work), time.perf_counter()
    cpu = _children_seconds()
    with (work / "log.txt").open("a") as log:
        process = subprocess.Popen(command, cwd=work, stdout=log, stderr=subprocess.STDOUT)
        peak = [0, 0]
        ended = threading.Event()

        def watch() -> None:
            while not ended.wait(SECONDS):
                for number, found in enumerate(_memory(process.pid)):
                    peak[number] = max(peak[number], found)

        thread = threading.Thread(target=watch)
        thread.start()
        code = process.wait()
        ended.set()
        thread.join()
    if code:
        raise SystemExit(f"{title} ended with {code}; see {work / 'log.txt'}")
    seconds, cpu = time.perf_counter() - began, _children_seconds() - cpu
    sizes = [*peak, _written() - before, _size(work) - size]
    return Row(title, seconds, cpu, *(each / MIB for each in sizes))


def table(runs: dict[str, Any]) -> str:
    """Return a row per line; each cell has the values at the fractions and, of several, that at
    full size."""
    fractions = sorted(map(float, runs))
    rows = [[Row(**row) for row in runs[f"{each:g}"]["lines"]] for each in fractions]
    at = ", ".join([*(f"{each:g}" for each in fractions), *["full"] * (len(fractions) > 1)])
    columns = ("processor s", "MiB", "of which not mapped", "MiB written", "MiB left")
    lines = [[at, *columns], ["---", *["---:"] * len(columns)]]
    for found in zip(*rows, strict=True):
        cells = []
        for values in zip(*(_numbers(row) for row in found), strict=True):
            cell = [f"{value:,.0f}" for value in values]
            if len(fractions) > 1:
                cell.append(
                    f"**{extrapolated(fractions[0], values[0], fractions[-1], values[-1])}**"
                )
            cells.append(" · ".join(cell))
        lines.append([found[0].line, *cells])
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def extrapolated(low_at: float, low: float, high_at: float, high: float) -> str:
    """Return the value at 1 of the line through two points, constant if it falls; a lower bound if
    it starts below 0."""
    slope = max(0.0, (high - low) / (high_at - low_at))
    constant = high - slope * high_at
    return "> " * (constant < -0.02 * high) + f"{constant + slope:,.0f}"


def _numbers(row: Row) -> list[float]:
    return [row.cpu_seconds, row.mib, row.anonymous_mib, row.written_mib, row.left_mib]


def _memory(pid: int) -> tuple[int, int]:
    """Return bytes of memory of a process and its descendants, and those not mapped from files.
    Shared pages count for each process."""
    total, anonymous, waiting = 0, 0, [pid]
    while waiting:
        process = Path("/proc") / str(waiting.pop())
        try:
            status = dict(
                line.split(":", 1) for line in (process / "status").read_text().splitlines()
            )
            for task in (process / "task").iterdir():
                waiting += map(int, (task / "children").read_text().split())
        except (FileNotFoundError, ProcessLookupError):
            continue
        # A process that has ended has no memory.
        total += 1024 * int(status.get("VmRSS", "0").split()[0])
        anonymous += 1024 * int(status.get("RssAnon", "0").split()[0])
    return total, anonymous


def _written() -> int:
    """Return bytes that this process and its finished children wrote to disks."""
    return int(Path("/proc/self/io").read_text().split("write_bytes: ")[1].split()[0])


def _children_seconds() -> float:
    times = os.times()
    return times.children_user + times.children_system


def _size(folder: Path) -> int:
    return sum(
        path.stat().st_size
        for path in folder.rglob("*")
        if path.is_file() and not path.is_symlink()
    )


if __name__ == "__main__":
    typer.run(main)
