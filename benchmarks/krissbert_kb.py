"""The paper's knowledge base with synthetic vectors at several sizes: built, saved, indexed; with
extrapolation.

Mentions in float16 with their entities' references added (KRISSBERT, eq. 6), of varying lengths,
written by `fill_kb` and `PrototypeKB.to_disk`. No encoder. Each step runs in its own process, on
one core.

    python benchmarks/krissbert_kb.py FOLDER
"""

import json
import shutil
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from kb_at_size import MadeSource, Vectors, in_process, size, watched
from spacy.vocab import Vocab

from spacy_krissel.building.fill import fill_kb
from spacy_krissel.index.faiss_index import FaissIndex
from spacy_krissel.kb.prototype_kb import PrototypeKB
from spacy_krissel.kb.prototype_table import Prototype
from spacy_krissel.views import ReferenceParts, View

RESULT = Path(__file__).parent / "results" / "krissbert_kb.json"
# Prototypes per entity, and the standard deviation of lengths.
PER_ENTITY, SPREAD = 5, 0.4
CONTEXT = "of the patients who were seen in the first year of this study had signs of "


class Mentions(MadeSource):
    use_references = mentions_only = True

    def prototypes(self) -> Iterator[Prototype]:
        for row in range(self.n_entities):
            for number in range(self.first(row), self.first(row + 1)):
                view = View(
                    f"{number} {CONTEXT * 2}", f"disorder {row}", f", and {number} {CONTEXT * 2}"
                )
                yield Prototype(f"C{row:07}", "mention", view)

    def references(self, parts: ReferenceParts) -> Iterator[tuple[str, View]]:
        for row in range(self.n_entities):
            yield f"C{row:07}", View("", f"disorder {row}", "", reference=True)


class Encoder(Vectors):
    _row = 0

    def encode(self, views: Sequence[View]) -> np.ndarray:
        if not views[0].reference:
            return self._lengthened(super().encode(views))
        rows = np.arange(self._row, self._row + len(views))
        self._row += len(views)
        return self._lengthened(self._centres(rows).astype(np.float32))

    def _lengthened(self, vectors: np.ndarray) -> np.ndarray:
        lengths = 1 + SPREAD * np.random.default_rng([self.seed, 4, self._next]).standard_normal(
            (len(vectors), 1)
        )
        return vectors * np.maximum(0.1, lengths).astype(np.float32)


def main(
    folder: Annotated[
        Path, typer.Argument(help="An empty folder for the knowledge bases, which are removed")
    ],
    prototypes: Annotated[list[int], typer.Option(help="Number of prototypes")] = [  # noqa: B006
        300_000,
        3_000_000,
    ],
    indexed: Annotated[list[int], typer.Option(help="Sizes that get an index")] = [300_000],  # noqa: B006
    width: Annotated[int, typer.Option(help="Width of the vectors")] = 768,
    index: Annotated[str, typer.Option(help="Type of index")] = "ivf_sq8",
    seed: Annotated[int, typer.Option()] = 0,
    output: Annotated[Path, typer.Option(help="Result (JSON)")] = RESULT,
) -> None:
    """Build each size, and print its costs."""
    result: dict[str, Any] = {
        "width": width,
        "dtype": "float16",
        "index": index,
        "seed": seed,
        "sizes": [],
    }
    folder.mkdir(parents=True, exist_ok=True)
    for number in prototypes:
        path = folder / str(number)
        row = {
            "prototypes": number,
            "entities": number // PER_ENTITY,
            **in_process(built, path, number, width, seed),
        }
        if number in indexed:
            row["indexed"] = in_process(with_index, path, index)
        shutil.rmtree(path)
        print(json.dumps(row), flush=True)
        result["sizes"].append(row)
    output.write_text(json.dumps(result, indent=1) + "\n", encoding="utf8")


def built(path: Path, prototypes: int, width: int, seed: int) -> dict[str, Any]:
    with watched() as figures:
        source: Any = Mentions(prototypes // PER_ENTITY, prototypes)
        kb = PrototypeKB(Vocab(), width, dtype="float16")
        kb.scratch = path.parent
        encoder = Encoder(source, width, seed)
        start = time.process_time()
        fill_kb(kb, source, encoder.encode, references=ReferenceParts())
        figures["fill_cpu_seconds"] = time.process_time() - start
        start = time.process_time()
        kb.to_disk(path)
        figures["save_cpu_seconds"] = time.process_time() - start
    figures["disk_mib"] = size(path)
    figures["files_mib"] = {
        file_.name: file_.stat().st_size / 2**20 for file_ in sorted(path.iterdir())
    }
    return figures


def with_index(path: Path, type_: Any) -> dict[str, Any]:
    import faiss

    faiss.omp_set_num_threads(1)
    with watched() as figures:
        kb = PrototypeKB(Vocab(), 0).from_disk(path)
        kb.use_index(lambda: FaissIndex(type_))
        start = time.process_time()
        kb.build_index()
        figures["index_cpu_seconds"] = time.process_time() - start
    kb.to_disk(path)
    figures["index_mib"] = size(path / "index")
    return figures


if __name__ == "__main__":
    typer.run(main)
