"""Linking of a corpus at size: rates and memory by the number of documents, and runs whose
processes are killed.

    python benchmarks/link_corpus.py make STORE CORPUS abstracts.jsonl.gz --documents 50000
    python benchmarks/link_corpus.py measure LINKER CORPUS WORK --n-process 2
    python benchmarks/link_corpus.py measure LINKER CORPUS WORK --ray local
    python benchmarks/link_corpus.py kill LINKER CORPUS WORK --kills 20

`make` writes files of 30,000 articles in the layout of PubMed's baseline: the given texts again and
again, with another name of the store where one is found, and other digits where there are some, so
that no text occurs twice. `measure` and `kill` run `krissel link --format parquet` in a process of
its own and read Linux's /proc: processor seconds of all processes, and the peak of the memory that
is not mapped, of all together (proportional set size: what processes share is counted once). `kill`
ends processes at random (a worker, the driver, all, or with Ray its node), starts a run that ended
again, and compares the parts with those of an undisturbed run by one process.
"""

import gzip
import json
import os
import re
import signal
import subprocess
import sys
import time
import uuid
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from itertools import chain, count, islice
from pathlib import Path
from random import Random
from typing import Annotated, Any
from xml.sax.saxutils import escape

import typer
from pubmed_files import ARTICLE, AUTHOR, FILE_ARTICLES, HEAD, HEADING

from spacy_krissel.commands.corpus_parts import PART_CHARS
from spacy_krissel.corpora.text_stream import Text, read_texts
from spacy_krissel.mining.matcher import NameMatcher
from spacy_krissel.mining.name_table import search_names
from spacy_krissel.mining.reading import UNIT_BYTES
from spacy_krissel.ontology.store import OntologyStore

app = typer.Typer()
MARK = "KRISSEL_LINK_RUN"
TICKS = os.sysconf("SC_CLK_TCK")
# Seconds between two values of the curve of memory, and between two looks at the processes.
CURVE = 30.0
INTERVAL = 2.0
DIGITS = re.compile("[0-9]")
# Arguments of a fork server, by which the workers' parent is known.
FORK_SERVER = b"multiprocessing.forkserver"
RAYLET = b"/raylet"
AGENT = re.compile(rb"ray::\w*Agent")
# What `kill` ends: a lost worker is replaced, and after the others the run starts again.
KINDS = ("worker", "worker", "driver", "all")
RAY_KINDS = (*KINDS, "node", "node")


@app.command()
def make(
    store: Path,
    corpus: Path,
    texts: list[Path],
    documents: int = 50_000,
    per_file: int = FILE_ARTICLES,
    seed: int = 0,
) -> None:
    """Write a corpus of other texts for each round of the given ones."""
    corpus.mkdir(parents=True)
    headings = "".join(HEADING.format(number, number) for number in range(12))
    made = islice(varied(OntologyStore(store), texts, Random(seed)), documents)
    for number in count(1):
        articles = list(islice(made, per_file))
        if not articles:
            return
        path = corpus / f"pubmed26n{number:04}.xml.gz"
        with gzip.open(path, "wt", compresslevel=1, encoding="utf8") as file_:
            file_.write(HEAD)
            for pmid, text in enumerate(articles, (number - 1) * per_file + 1):
                title, _, rest = text.partition(". ")
                middle = rest.find(". ", len(rest) // 2) + 1
                filled = {"title": title, "background": rest[:middle], "results": rest[middle:]}
                filled = {key: escape(value) for key, value in filled.items()}
                article = ARTICLE.format(pmid=pmid, authors=4 * AUTHOR, headings=headings, **filled)
                file_.write(article)
            file_.write("</PubmedArticleSet>\n")


def varied(store: OntologyStore, paths: list[Path], draw: Random) -> Iterator[str]:
    """Yield the texts without end, each time with other names and digits."""
    counts: dict[str, int] = {}
    names = [name for _, name, _ in store.names(shared=False)]
    matcher = NameMatcher(search_names(store, counts), "smart")
    for _ in count():
        texts: Iterator[Text] = chain.from_iterable(map(read_texts, paths))
        while some := [each.text for each in islice(texts, 2_000)]:
            at: dict[int, list[tuple[int, int]]] = {}
            for found in matcher.find_in(some):
                columns = zip(
                    found.text.tolist(), found.start.tolist(), found.end.tolist(), strict=True
                )
                for text, start, end in columns:
                    at.setdefault(text, []).append((start, end))
            for number, text in enumerate(some):
                for start, end in sorted(at.get(number, ()), reverse=True):
                    text = text[:start] + draw.choice(names) + text[end:]
                yield DIGITS.sub(lambda _: draw.choice("0123456789"), text)


@app.command()
def measure(
    linker: Path,
    corpus: Path,
    work: Path,
    n_process: int = 1,
    ray: Annotated[str | None, typer.Option()] = None,
) -> None:
    """Print the figures of a run as JSON."""
    output = work / f"links-{n_process}-{ray or 'here'}"
    run = Run(linker, corpus, output, n_process, ray)
    while run.is_running():
        run.watch()
        time.sleep(INTERVAL)
    if run.process.returncode:
        raise SystemExit(run.process.returncode)
    manifest = json.loads((output / "manifest.json").read_text())
    counts, seconds = manifest["counts"], time.perf_counter() - run.began
    sizes = [each["bytes"] for each in manifest["files"].values()]
    figures = {
        **counts,
        "n_process": n_process,
        "ray": ray,
        "seconds": round(seconds, 1),
        "docs_per_second": round(counts["docs"] / seconds, 1),
        "processor_seconds": round(sum(run.seconds.values()), 1),
        "docs_per_processor_second": round(counts["docs"] / sum(run.seconds.values()), 1),
        "mentions_per_processor_second": round(counts["mentions"] / sum(run.seconds.values()), 1),
        "peak_private_mib": round(run.peak_private),
        "peak_mapped_mib": round(run.peak_mapped),
        "curve_mib": run.curve,
        "processes": run.n_processes,
        "parts": len(sizes),
        "parts_mib": round(sum(sizes) / 2**20, 1),
    }
    print(json.dumps(figures))


@app.command()
def kill(
    linker: Path,
    corpus: Path,
    work: Path,
    kills: int = 20,
    n_process: int = 2,
    ray: Annotated[str | None, typer.Option()] = None,
    seed: int = 0,
    part_chars: int = PART_CHARS,
    unit_bytes: Annotated[int, typer.Option(help="Small files are read together")] = UNIT_BYTES,
) -> None:
    """Compare the parts of runs that are killed with those of an undisturbed one."""
    draw, killed = Random(seed), Counter[str]()
    sizes = {"part_chars": part_chars, "unit_bytes": unit_bytes}
    whole = Run(linker, corpus, work / "whole", 1, None, **sizes)
    if whole.process.wait():
        raise SystemExit("the undisturbed run failed")
    seconds = time.perf_counter() - whole.began
    expected = contents(work / "whole")
    rounds = 0
    while sum(killed.values()) < kills:
        rounds += 1
        output = work / f"killed-{rounds}"
        while not (output / "manifest.json").exists():
            run = Run(linker, corpus, output, 1 if ray else n_process, ray, **sizes)
            until = time.perf_counter() + draw.uniform(0.2, 1.0) * seconds
            while run.is_running() and time.perf_counter() < until:
                time.sleep(0.05)
            kind = draw.choice(RAY_KINDS if ray else KINDS)
            pids = run.pids(kind) if run.is_running() else []
            killed[kind] += bool(pids)
            for pid in pids if kind == "all" else pids and [draw.choice(pids)]:
                end(pid)
            # A lost worker is replaced; without its node, a run ends by itself. Before Ray has
            # started there is nothing to kill.
            run.process.wait(60 if pids and kind in ("driver", "all") else None)
            left = time.perf_counter() + 60
            while run.pids("all") and time.perf_counter() < left:
                time.sleep(0.05)
            # A run that lost its node ends with an error (K029), unless it was nearly done.
            if run.process.returncode not in (0, -signal.SIGKILL) and kind != "node":
                raise SystemExit(f"a run ended with {run.process.returncode}")
        if contents(output) != expected:
            raise SystemExit(f"the parts in {output} differ")
    print(json.dumps({"rounds": rounds, "killed": killed, "parts": len(expected), "equal": True}))


def contents(folder: Path) -> dict[str, bytes]:
    return {each.name: each.read_bytes() for each in folder.iterdir()}


def end(pid: int) -> None:
    with suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)


class Run:
    """A run of `krissel link` with all processes that it starts, known by a variable of their
    environment."""

    def __init__(
        self,
        linker: Path,
        corpus: Path,
        output: Path,
        n_process: int,
        ray: str | None,
        part_chars: int = PART_CHARS,
        unit_bytes: int = UNIT_BYTES,
    ) -> None:
        self._mark = uuid.uuid4().hex
        settings: dict[str, Any] = {"format": "parquet", "n_process": n_process, "ray": ray}
        settings["part_chars"] = part_chars
        code = (
            "from spacy_krissel.commands.link_texts import link\n"
            "from spacy_krissel.mining import reading\n"
            f"reading.UNIT_BYTES = {unit_bytes}\n"
            f"link({str(linker)!r}, {str(corpus)!r}, {str(output)!r}, **{settings!r})\n"
        )
        self.began = time.perf_counter()
        self.process = subprocess.Popen(
            [sys.executable, "-c", code],
            env={**os.environ, MARK: self._mark, "OMP_NUM_THREADS": "1"},
            start_new_session=True,
        )
        self.seconds: dict[int, float] = {}
        self.peak_mapped = self.peak_private = 0.0
        # Memory that is not mapped, in MiB, every `CURVE` seconds.
        self.curve: list[int] = []
        self.n_processes = 0

    def is_running(self) -> bool:
        return self.process.poll() is None

    def pids(self, kind: str = "all") -> list[int]:
        """Return the processes: "driver", "worker" (of a fork server, or Ray's actors), "node"
        (Ray's manager of a machine and its agents: the node ends without any one), or "all"."""
        if kind == "driver":
            return [self.process.pid]
        mark = f"{MARK}={self._mark}".encode()
        found = {}
        for path in Path("/proc").glob("[0-9]*"):
            try:
                if mark in (path / "environ").read_bytes().split(b"\0"):
                    parent = int((path / "stat").read_text().rpartition(")")[2].split()[1])
                    found[int(path.name)] = (parent, (path / "cmdline").read_bytes())
            except (OSError, ValueError, IndexError):
                continue
        if kind == "all":
            return [*found]
        if kind == "node":
            return [
                pid
                for pid, (_, command) in found.items()
                if RAYLET in command.split(b"\0")[0] or AGENT.match(command)
            ]
        return [
            pid
            for pid, (parent, command) in found.items()
            if (command.startswith(b"ray::") and not AGENT.match(command))
            or (FORK_SERVER in command and FORK_SERVER in found.get(parent, (0, b""))[1])
        ]

    def watch(self) -> None:
        """Note the time and memory of all processes."""
        private = mapped = 0.0
        pids = self.pids()
        for pid in pids:
            try:
                fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
                self.seconds[pid] = (int(fields[11]) + int(fields[12])) / TICKS
                lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
            except (OSError, IndexError):
                continue
            sizes = {
                name: int(rest.split()[0]) / 1024
                for name, _, rest in (line.partition(":") for line in lines)
                if name.startswith("Pss_")
            }
            private += sizes.get("Pss_Anon", 0) + sizes.get("Pss_Shmem", 0)
            mapped += sizes.get("Pss_File", 0)
        self.n_processes = max(self.n_processes, len(pids))
        self.peak_private = max(self.peak_private, private)
        self.peak_mapped = max(self.peak_mapped, mapped)
        if time.perf_counter() - self.began > (len(self.curve) + 1) * CURVE:
            self.curve.append(round(private))


if __name__ == "__main__":
    app()
