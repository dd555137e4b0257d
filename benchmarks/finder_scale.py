"""Cost of the mention finder by the number of names: time and memory to build it, time to open it,
and texts per second; and by the length of a text.

    python benchmarks/finder_scale.py texts.jsonl --names 1000000 --names 8000000

Names are drawn from the words of the texts, two to four each, three per entity. Each size is a
process of its own, so that the peak of memory is its own. Seconds are of processor, of one process.
"""

import json
import resource
import subprocess
import sys
import tempfile
import time
from collections import Counter
from itertools import islice
from pathlib import Path
from typing import Annotated

import numpy as np
import typer

from spacy_krissel.corpora.text_stream import read_texts
from spacy_krissel.finding.finder import NameFinder
from spacy_krissel.finding.table import NameBags

LENGTHS = (1_000, 10_000, 100_000)


def main(
    texts: Path,
    names: Annotated[list[int], typer.Option(help="numbers of names")] = [100_000, 1_000_000],  # noqa: B006
    n_texts: int = 1000,
    one: bool = False,
) -> None:
    """Print a table of the sizes, and one of the lengths."""
    if one:
        print(json.dumps(measure(texts, names[0], n_texts)))
        return
    print("| names | build, s | peak, GiB | files, GiB | open, ms | texts/s |")
    print("| ---: | ---: | ---: | ---: | ---: | ---: |")
    for n in names:
        command = [sys.executable, __file__, str(texts), "--names", str(n), "--one"]
        done = subprocess.run(
            [*command, "--n-texts", str(n_texts)], capture_output=True, text=True, check=True
        )
        found = json.loads(done.stdout.splitlines()[-1])
        print(
            f"| {n:,} | {found['build']:.0f} | {found['peak']:.1f} | {found['files']:.1f} | "
            f"{1000 * found['open']:.0f} | {found['rate']:,.0f} |",
            flush=True,
        )
    print("\n| words in one text | ms | µs per word |\n| ---: | ---: | ---: |")
    for words, seconds in found["lengths"]:
        print(f"| {words:,} | {1000 * seconds:.0f} | {1e6 * seconds / words:.1f} |")


def measure(path: Path, n: int, n_texts: int) -> dict[str, object]:
    texts = [each.text for each in islice(read_texts(path), n_texts)]
    counts = Counter(word for text in texts for word in text.split() if word.isalpha())
    words = np.array(sorted(counts), dtype=object)
    weights = np.sqrt([counts[word] for word in words])
    rng = np.random.default_rng(0)

    def drawn():
        for start in range(0, n, 10_000):
            size = min(10_000, n - start)
            chosen = rng.choice(words, (size, 4), p=weights / weights.sum())
            lengths = rng.integers(2, 5, size)
            for row, (own, length) in enumerate(zip(chosen, lengths, strict=True), start):
                yield " ".join(own[:length]), row // 3

    start = time.process_time()
    table = NameBags.of(drawn(), (f"X:{row}" for row in range((n + 2) // 3)))
    build = time.process_time() - start
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    with tempfile.TemporaryDirectory() as folder:
        table.to_disk(Path(folder) / "names")
        files = sum(each.stat().st_size for each in Path(folder).rglob("*") if each.is_file())
        del table
        start = time.perf_counter()
        opened = NameBags.from_disk(Path(folder) / "names")
        open_ = time.perf_counter() - start
        finder = NameFinder(opened)
        finder.find(texts[:50])
        start = time.process_time()
        finder.find(texts)
        rate = len(texts) / (time.process_time() - start)
        joined = " ".join(texts).split()
        lengths = []
        for length in LENGTHS:
            text = " ".join(joined[:length])
            start = time.process_time()
            NameFinder(opened).find([text])
            lengths.append((length, time.process_time() - start))
    return {
        "build": build,
        "peak": peak,
        "files": files / 2**30,
        "open": open_,
        "rate": rate,
        "lengths": lengths,
    }


if __name__ == "__main__":
    typer.run(main)
