"""Recall and speed of the FAISS indexes if only a part of the vectors may be found, such as a type
or a species.

The vectors are those of `index_norms.py`, all of unit length. A part is drawn from all of them, or
is a neighbourhood, like the entities of a semantic type; queries are then near its vectors.

    python benchmarks/index_filters.py
    python benchmarks/index_filters.py --size 100000
"""

import json
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from index_norms import K, add_run, made, recalls, searched, unit
from threadpoolctl import threadpool_limits

from spacy_krissel.building.tune import PLANS
from spacy_krissel.index.exact import ExactIndex
from spacy_krissel.index.faiss_index import FaissIndex

RESULT = Path(__file__).parent / "results" / "index_filters.json"


def main(
    size: Annotated[int, typer.Option(help="Number of vectors")] = 1_000_000,
    width: Annotated[int, typer.Option(help="Width of the vectors")] = 128,
    type_: Annotated[list[str], typer.Option("--type", help="Types of index")] = [  # noqa: B006
        "hnsw",
        "ivf_sq8",
        "ivf_pq",
    ],
    part: Annotated[list[float], typer.Option(help="Parts that may be found")] = [  # noqa: B006
        0.5,
        0.2,
        0.1,
        0.06,
        0.01,
    ],
    recall: Annotated[
        float, typer.Option(help="Recall@1 without a filter at which the width is taken")
    ] = 0.99,
    n_queries: Annotated[int, typer.Option(help="Number of queries")] = 1000,
    seed: Annotated[int, typer.Option()] = 0,
    output: Annotated[Path, typer.Option(help="Result (JSON), to which the run is added")] = RESULT,
) -> None:
    """Build each index, find the narrowest search with sufficient recall without a filter, and
    search with filters."""
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
        best = {
            key: searched(exact, of_part(vectors, queries, key[0], mask), mask)
            for key, mask in masks.items()
        }
        rows = [
            row for each in type_ for row in measured(each, vectors, queries, masks, best, recall)
        ]
    add_run(output, "index_filters.py", {"size": size, "width": width, "seed": seed, "rows": rows})
    print(table(rows))


def nearest_part(vectors: np.ndarray, share: float, seed: int) -> np.ndarray:
    """Return the vectors nearest to one of them: a neighbourhood (n,)."""
    scores = vectors.astype(np.float32) @ vectors[seed].astype(np.float32)
    return scores >= np.quantile(scores, 1 - share)


def of_part(vectors: np.ndarray, queries: np.ndarray, kind: str, mask: Any) -> np.ndarray:
    """Return the queries; for a neighbourhood, as many that are near its vectors."""
    if kind != "near":
        return queries
    random = np.random.default_rng(0)
    rows = random.choice(np.flatnonzero(mask), len(queries))
    moved = vectors[rows].astype(np.float32) + 0.5 * unit(
        random.standard_normal(queries.shape, dtype=np.float32)
    )
    return unit(moved)


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
        row = row_of(index, vectors, of_part(vectors, queries, key[0], mask), key, mask, best)
        rows.append({"type": type_, **settings, **row})
        rows[-1]["times_no_filter"] = rows[-1]["ms"] / rows[0]["ms"]
        print(json.dumps(rows[-1]), flush=True)
    return rows


def row_of(
    index: Any, vectors: np.ndarray, queries: np.ndarray, key: Any, mask: Any, best: Any
) -> dict[str, Any]:
    expected, _, exact_seconds = best[key]
    _, found, seconds = searched(index, queries, mask)
    return {
        "filter": key[0],
        "part": key[1],
        **recalls(vectors, queries, found, expected),
        "ms": 1000 * seconds,
        "times_exact": exact_seconds / seconds,
    }


def table(rows: list[dict[str, Any]]) -> str:
    lines = [
        (
            f"| type | filter | part | recall@1 | recall@{K} | × no filter, time | × exact index, "
            "speed |"
        ),
        "| --- | --- | ---: | ---: | ---: | ---: | ---: |",
    ]
    for row in rows:
        figures = [f"{row['recall_1']:.3f}", f"{row[f'recall_{K}']:.3f}"]
        figures += [f"{row['times_no_filter']:.2g}", f"{row['times_exact']:.2g}"]
        lines.append(
            f"| {row['type']} | {row['filter']} | {row['part']:g} | {' | '.join(figures)} |"
        )
    return "\n".join(lines)


if __name__ == "__main__":
    typer.run(main)
