"""Speed of our indexes compared with USearch's graphs and ScaNN, at equal recall.

The vectors are those of `index_norms.py`, all of unit length, or the prototypes of a pipeline and
gold mentions. Graphs have equally many links, and the same width when built. Searches grow wider
until one has sufficient recall. Each uses one core.

    pip install usearch scann
    python benchmarks/index_peers.py
    python benchmarks/index_peers.py --size 100000
    python benchmarks/index_peers.py --pipeline linker --gold dev.spacy
"""

import json
import time
from collections.abc import Callable, Iterator, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import numpy as np
import spacy
import typer
from index_norms import add_run, made, recalls, searched
from spacy.tokens import DocBin
from threadpoolctl import threadpool_limits

from spacy_krissel.building.tune import PLANS
from spacy_krissel.index.exact import ExactIndex
from spacy_krissel.index.faiss_index import DEFAULTS, FaissIndex

RESULT = Path(__file__).parent / "results" / "index_peers.json"
# Number of results.
K = 10
WIDTHS = PLANS["hnsw"].widths


class Peer(NamedTuple):
    """Another index, with our interface. find: the rows (q, k) for queries (q, d)."""

    find: Callable[[np.ndarray, int], Any]

    def search(self, queries: np.ndarray, k: int, allowed: None = None) -> tuple[None, np.ndarray]:
        return None, np.asarray(self.find(queries, k)).astype(np.int64)


# Increasingly wide searches: their settings, and the index with these.
Searches = Iterator[tuple[dict[str, int], Any]]


def main(
    size: Annotated[int, typer.Option(help="Number of vectors")] = 1_000_000,
    width: Annotated[int, typer.Option(help="Width of the vectors")] = 128,
    index: Annotated[list[str], typer.Option(help="Indexes to compare")] = [  # noqa: B006
        "hnsw",
        "ivf_pq",
        "usearch",
        "scann",
    ],
    pipeline: Annotated[
        Path | None, typer.Option(help="Pipeline whose prototypes are searched")
    ] = None,
    gold: Annotated[
        list[Path] | None, typer.Option(help="Its queries: documents (DocBin) with mentions")
    ] = None,
    recall: Annotated[list[float], typer.Option(help="Recalls@10 at which speeds are compared")] = [  # noqa: B006
        0.9,
        0.95,
    ],
    n_queries: Annotated[int, typer.Option(help="Number of queries")] = 2000,
    seed: Annotated[int, typer.Option()] = 0,
    output: Annotated[Path, typer.Option(help="Result (JSON), to which the run is added")] = RESULT,
) -> None:
    """Build each index, and search with increasing width."""
    import faiss

    faiss.omp_set_num_threads(1)
    with threadpool_limits(1):
        vectors, queries = (
            made(size, width, 0.0, n_queries, seed)
            if pipeline is None
            else read(pipeline, gold or [])
        )
        exact = ExactIndex()
        exact.build(vectors)
        best = exact.search(queries, K)[0]
        rows = [
            row for each in index for row in measured(each, vectors, queries, best, max(recall))
        ]
    rows = [row for row in rows if row["recall_10"] >= min(recall)]
    peers = {name: version(name) for name in ("usearch", "scann") if name in index}
    size, width = vectors.shape
    add_run(
        output,
        "index_peers.py",
        {"peers": peers, "size": size, "width": width, "seed": seed, "rows": rows},
    )
    print(table(rows, recall))


def read(pipeline: Path, gold: list[Path]) -> tuple[np.ndarray, np.ndarray]:
    """Return the pipeline's prototypes (n, d), and the vectors of the mentions (q, d)."""
    nlp = spacy.load(pipeline)
    linker: Any = nlp.get_pipe("krissel_linker")
    docs = [
        doc
        for path in gold
        for doc in DocBin(store_user_data=True).from_disk(path).get_docs(nlp.vocab)
    ]
    queries = linker.encode([view for doc in docs for view in linker.views(doc, doc.ents)])
    return np.asarray(linker.kb.prototypes.vectors), queries


def measured(
    name: str, vectors: np.ndarray, queries: np.ndarray, best: np.ndarray, wanted: float
) -> list[dict[str, Any]]:
    """Measure each search of an index, up to the first with the wanted recall. best: the exact
    scores (q, K)."""
    start = time.process_time()
    searches = {"usearch": usearch_searches, "scann": scann_searches}.get(name, our_searches)(
        name, vectors
    )
    rows: list[dict[str, Any]] = []
    for settings, index in searches:
        built = rows[0]["build_seconds"] if rows else time.process_time() - start
        _, found, seconds = searched(index, queries, k=K, passes=3)
        shares = recalls(vectors, queries, found, best)
        rows.append(
            {"index": name, **settings, **shares, "ms": 1000 * seconds, "build_seconds": built}
        )
        print(json.dumps(rows[-1]), flush=True)
        if rows[-1]["recall_10"] >= wanted:
            break
    return rows


def our_searches(type_: Any, vectors: np.ndarray) -> Searches:
    index = FaissIndex(type_, **PLANS[type_].built)
    index.build(vectors)
    for settings in (each for searches in PLANS[type_].searches() for each in searches):
        index.set_search(**settings)
        yield settings, index


def usearch_searches(_: str, vectors: np.ndarray) -> Searches:
    """Yield searches of a graph over vectors in bfloat16, the fastest of USearch's types that lose
    little here."""
    from usearch.index import Index

    ours = DEFAULTS["hnsw"]
    index = Index(
        ndim=vectors.shape[1],
        metric="ip",
        dtype="bf16",
        connectivity=ours["m"],
        expansion_add=ours["ef_construction"],
    )
    index.add(np.arange(len(vectors)), vectors.astype(np.float32), threads=1)
    for width in WIDTHS:
        index.expansion_search = width
        yield (
            {"expansion": width},
            Peer(lambda queries, k: index.search(queries, k, threads=1).keys),
        )


def scann_searches(_: str, vectors: np.ndarray) -> Searches:
    """Yield searches configured as ScaNN's documentation recommends for this size: a tree,
    asymmetric hashing, and re-scoring of the best."""
    from scann import scann_ops_pybind

    leaves = max(1, int(len(vectors) ** 0.5))
    builder = scann_ops_pybind.builder(
        vectors.astype(np.float32), K, "dot_product"
    ).set_n_training_threads(1)
    builder = builder.tree(leaves, 1, training_sample_size=min(len(vectors), 250_000))
    index = builder.score_ah(2, anisotropic_quantization_threshold=0.2).reorder(100).build()
    for width in (each for each in (1, 2, 4, 8, *WIDTHS) if each <= leaves):
        settings = {"leaves_to_search": width}
        yield (
            settings,
            Peer(lambda queries, k, given=settings: index.search_batched(queries, k, **given)[0]),
        )


def table(rows: Sequence[dict[str, Any]], recalls: Sequence[float]) -> str:
    """Return, for each recall, the fastest search of each index that reaches it, and its time
    relative to the best of all."""
    lines = ["| recall@10 at least | index | recall@10 | ms a query | × the fastest | built, s |"]
    lines.append("| ---: | --- | ---: | ---: | ---: | ---: |")
    for wanted in recalls:
        best: dict[str, dict[str, Any]] = {}
        for row in rows:
            if (
                row["recall_10"] >= wanted
                and row["ms"] < best.get(row["index"], {"ms": np.inf})["ms"]
            ):
                best[row["index"]] = row
        fastest = min(row["ms"] for row in best.values()) if best else 0.0
        for row in best.values():
            figures = (
                f"{row['recall_10']:.3f} | {row['ms']:.3f} | {fastest / row['ms']:.2f} | "
                f"{row['build_seconds']:.0f}"
            )
            lines.append(f"| {wanted:g} | {row['index']} | {figures} |")
    return "\n".join(lines)


if __name__ == "__main__":
    typer.run(main)
