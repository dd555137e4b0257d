"""Recall and speed of the FAISS indexes where only a part of the vectors may be found, as of a type or a species.

The vectors of `index_norms.py`, all of unit length. A part is drawn from all of them, or is a neighbourhood, as the
entities of a semantic type are; queries then are near vectors in it.

    python benchmarks/index_filters.py
    python benchmarks/index_filters.py --size 100000
"""

import json
import sys
from importlib.metadata import version
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from index_norms import K, made, searched
from threadpoolctl import threadpool_limits

from spacy_krissel.index.exact import ExactIndex, refined
from spacy_krissel.index.faiss_index import FaissIndex
from spacy_krissel.kb.build.tune import PLANS
from spacy_krissel.kb.ranking import tie_bound

RESULT = Path(__file__).parent / "results" / "index_filters.json"


def main(
    size: Annotated[int, typer.Option(help="How many vectors")] = 1_000_000,
    width: Annotated[int, typer.Option(help="Width of the vectors")] = 128,
    type_: Annotated[list[str], typer.Option("--type", help="Types of index")] = ["hnsw", "ivf_sq8", "ivf_pq"],  # noqa: B006
    part: Annotated[list[float], typer.Option(help="Parts that may be found")] = [0.5, 0.2, 0.1, 0.06, 0.01],  # noqa: B006
    recall: Annotated[float, typer.Option(help="Recall@1 without a filter at which the width is taken")] = 0.99,
    n_queries: Annotated[int, typer.Option(help="Number of queries")] = 1000,
    seed: Annotated[int, typer.Option()] = 0,
    output: Annotated[Path, typer.Option(help="Result (JSON), to which this is added")] = RESULT,
) -> None:
    """Build each index, take the narrowest search that finds enough without a filter, and search with filters."""
    import faiss

    faiss.omp_set_num_threads(1)
    with threadpool_limits(1):
        vectors, queries = made(size, width, 0.0, n_queries, seed)
        exact = ExactIndex()
        exact.build(vectors)
        masks: dict[tuple[str, float], Any] = {("none", 1.0): None}
        for share in part:
            masks["drawn", share] = np.random.default_rng(seed).random(size) < share
            masks["near", share] = nearest_part(vectors, share, seed)
        best = {key: searched(exact, of_part(vectors, queries, *key, mask), mask) for key, mask in masks.items()}
        rows = [row for each in type_ for row in measured(each, vectors, queries, masks, best, recall)]
    content = json.loads(output.read_text("utf8")) if output.is_file() else {"runs": []}
    command = " ".join(["python benchmarks/index_filters.py", *sys.argv[1:]])
    versions = {name: version(name) for name in ("numpy", "faiss-cpu")}
    run = {"command": command, "size": size, "width": width, "seed": seed, "versions": versions, "rows": rows}
    content["runs"] = [other for other in content["runs"] if other["command"] != command] + [run]
    output.write_text(json.dumps(content, indent=1) + "\n", encoding="utf8")
    print(table(rows))


def nearest_part(vectors: np.ndarray, share: float, seed: int) -> np.ndarray:
    """The vectors nearest to a random one: a neighbourhood (n,)."""
    scores = vectors.astype(np.float32) @ vectors[seed].astype(np.float32)
    return scores >= np.quantile(scores, 1 - share)


def of_part(vectors: np.ndarray, queries: np.ndarray, kind: str, share: float, mask: Any) -> np.ndarray:
    """The queries; of a neighbourhood, as many that are near vectors in it."""
    if kind != "near":
        return queries
    random = np.random.default_rng(0)
    rows = random.choice(np.flatnonzero(mask), len(queries))
    moved = vectors[rows].astype(np.float32) + 0.5 * unit(random.standard_normal(queries.shape, dtype=np.float32))
    return unit(moved)


def unit(vectors: np.ndarray) -> np.ndarray:
    return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


def measured(
    type_: Any, vectors: np.ndarray, queries: np.ndarray, masks: Any, best: Any, wanted: float
) -> list[dict[str, Any]]:
    index = FaissIndex(type_, **PLANS[type_].built)
    index.build(vectors)
    rows: list[dict[str, Any]] = []
    for settings in next(PLANS[type_].searches()):
        index.set_search(**settings)
        if row_of(index, vectors, queries, ("none", 1.0), None, best)["recall_1"] >= wanted:
            break
    for key, mask in masks.items():
        row = row_of(index, vectors, of_part(vectors, queries, *key, mask), key, mask, best)
        rows.append({"type": type_, **settings, **row})
        rows[-1]["times_no_filter"] = rows[-1]["ms"] / rows[0]["ms"]
        print(json.dumps(rows[-1]), flush=True)
    return rows


def row_of(index: Any, vectors: np.ndarray, queries: np.ndarray, key: Any, mask: Any, best: Any) -> dict[str, Any]:
    expected, _, exact_seconds = best[key]
    _, found, seconds = searched(index, queries, mask)
    # By the vectors themselves, since some indexes round scores.
    scores, _ = refined([vectors], queries, found, K)
    return {
        "filter": key[0],
        "part": key[1],
        "recall_1": float(np.mean(scores[:, 0] >= tie_bound(expected[:, 0]))),
        f"recall_{K}": float(np.mean(scores >= tie_bound(expected[:, K - 1 : K]))),
        "ms": 1000 * seconds,
        "times_exact": exact_seconds / seconds,
    }


def table(rows: list[dict[str, Any]]) -> str:
    lines = [
        f"| type | filter | part | recall@1 | recall@{K} | × no filter, time | × exact index, speed |",
        "| --- | --- | ---: | ---: | ---: | ---: | ---: |",
    ]
    for row in rows:
        figures = [f"{row['recall_1']:.3f}", f"{row[f'recall_{K}']:.3f}"]
        figures += [f"{row['times_no_filter']:.2g}", f"{row['times_exact']:.2g}"]
        lines.append(f"| {row['type']} | {row['filter']} | {row['part']:g} | {' | '.join(figures)} |")
    return "\n".join(lines)


if __name__ == "__main__":
    typer.run(main)
