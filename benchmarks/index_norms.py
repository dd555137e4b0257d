"""Recall and speed of the FAISS indexes over vectors whose lengths vary, as those of an encoder
without normalisation.

Vectors are sums as in KRISSBERT's eq. 6, of a prototype near its entity and the entity's reference;
entities lie in groups and these in fields. Their lengths are spread, half of it by entity. Queries
are new mentions of entities.

    python benchmarks/index_norms.py
    python benchmarks/index_norms.py --size 100000 --type hnsw
"""

import json
import sys
import time
from importlib.metadata import version
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from threadpoolctl import threadpool_limits

from spacy_krissel.building.tune import PLANS
from spacy_krissel.index.exact import ExactIndex, rescored
from spacy_krissel.index.faiss_index import FaissIndex
from spacy_krissel.kb.ties import tie_bound

RESULT = Path(__file__).parent / "results" / "index_norms.json"
FIELDS, GROUP_ENTITIES, ENTITY_PROTOTYPES = 200, 100, 8
# Number of results, as for a search for 16 entities.
K = 64


def made(
    n: int, width: int, spread: float, n_queries: int, seed: int
) -> tuple[np.ndarray, np.ndarray]:
    """Return vectors (n, width) in float16, whose lengths have the standard deviation `spread`
    relative to their mean, and queries."""
    rng = np.random.default_rng(seed)

    def noise(rows: int, size: float) -> Any:
        return rng.standard_normal((rows, width), dtype=np.float32) * np.float32(size / width**0.5)

    entities = max(1, n // ENTITY_PROTOTYPES)
    groups = max(1, entities // GROUP_ENTITIES)
    # A component that all share, like the vectors of encoders.
    fields = unit(noise(FIELDS, 1.0) + noise(1, 0.5))
    groups_at = unit(fields[rng.integers(0, FIELDS, groups)] + noise(groups, 0.8))
    centres = unit(groups_at[rng.integers(0, groups, entities)] + noise(entities, 0.7))
    references = unit(centres + noise(entities, 0.5))
    owners = rng.integers(0, entities, n)
    sums = unit(unit(centres[owners] + noise(n, 0.5)) + references[owners])
    lengths = (rng.standard_normal(entities)[owners] + rng.standard_normal(n)) / 2**0.5
    sums *= np.maximum(0.1, 1 + spread * lengths)[:, None].astype(np.float32)
    queries = unit(centres[rng.integers(0, entities, n_queries)] + noise(n_queries, 0.5))
    return sums.astype(np.float16), queries


def main(
    size: Annotated[int, typer.Option(help="Number of vectors")] = 1_000_000,
    width: Annotated[int, typer.Option(help="Width of the vectors")] = 128,
    type_: Annotated[list[str], typer.Option("--type", help="Types of index")] = [  # noqa: B006
        "ivf",
        "ivf_sq8",
        "ivf_pq",
    ],
    spread: Annotated[list[float], typer.Option(help="Standard deviation of the lengths")] = [  # noqa: B006
        0.0,
        0.2,
        0.4,
    ],
    recall: Annotated[float, typer.Option(help="Recall@1 at which wider searches end")] = 0.995,
    n_queries: Annotated[int, typer.Option(help="Number of queries")] = 1000,
    seed: Annotated[int, typer.Option()] = 0,
    output: Annotated[
        Path, typer.Option(help="Results (JSON), to which the runs are added")
    ] = RESULT,
) -> None:
    """Build each index, and search with increasing width."""
    import faiss

    faiss.omp_set_num_threads(1)
    rows: list[dict[str, Any]] = []
    with threadpool_limits(1):
        for each in spread:
            rows.extend(
                measured(*made(size, width, each, n_queries, seed), type_, recall, {"spread": each})
            )
    add_run(output, "index_norms.py", {"size": size, "width": width, "seed": seed, "rows": rows})


def measured(
    vectors: np.ndarray, queries: np.ndarray, types: list[str], wanted: float, about: dict[str, Any]
) -> list[dict[str, Any]]:
    exact = ExactIndex()
    exact.build(vectors)
    best, _, exact_seconds = searched(exact, queries)
    lengths = np.linalg.norm(vectors.astype(np.float32), axis=1)
    about = {
        **about,
        "lengths_sd": float(lengths.std() / lengths.mean()),
        "exact_ms": 1000 * exact_seconds,
    }
    rows: list[dict[str, Any]] = []
    centroids = None
    for type_ in types:
        kind: Any = type_
        index = FaissIndex(kind, **PLANS[type_].built)
        start = time.process_time()
        # One search for centroids, which is most of the work, serves all IVF types.
        index.build(vectors, centroids)
        built = time.process_time() - start
        centroids = index.centroids() if centroids is None else centroids
        for settings in next(PLANS[type_].searches()):
            index.set_search(**settings)
            _, found, seconds = searched(index, queries)
            row = {
                **about,
                "type": type_,
                **settings,
                **recalls(vectors, queries, found, best),
                "ms": 1000 * seconds,
            }
            rows.append({**row, "ratio": exact_seconds / seconds, "build_seconds": built})
            print(json.dumps(rows[-1]), flush=True)
            if row["recall_1"] >= wanted:
                break
    return rows


def searched(
    index: Any, queries: np.ndarray, allowed: np.ndarray | None = None, k: int = K, passes: int = 2
) -> tuple[Any, Any, float]:
    """Return scores (q, k), rows (q, k), and the lowest seconds per query of all passes: processor
    time of one core."""
    times = []
    for _ in range(passes):
        start = time.process_time()
        scores, rows = index.search(queries, k, allowed)
        times.append(time.process_time() - start)
    return scores, rows, min(times) / len(queries)


def recalls(vectors: np.ndarray, queries: np.ndarray, found: Any, best: Any) -> dict[str, float]:
    """Return the fraction of the nearest, and of the k nearest, among the rows found (q, k). best:
    the exact scores (q, k)."""
    # By the vectors themselves, since some indexes round scores.
    k = best.shape[1]
    scores, _ = rescored([vectors], queries, found, k)
    first = float(np.mean(scores[:, 0] >= tie_bound(best[:, 0])))
    return {
        "recall_1": first,
        f"recall_{k}": float(np.mean(scores >= tie_bound(best[:, k - 1 : k]))),
    }


def add_run(output: Path, script: str, run: dict[str, Any]) -> None:
    """Add a run of a benchmark to its results, and replace an earlier one of the same command."""
    content = json.loads(output.read_text("utf8")) if output.is_file() else {"runs": []}
    command = " ".join([f"python benchmarks/{script}", *sys.argv[1:]])
    versions = {name: version(name) for name in ("numpy", "faiss-cpu")}
    run = {"command": command, "versions": versions, **run}
    content["runs"] = [other for other in content["runs"] if other["command"] != command] + [run]
    output.write_text(json.dumps(content, indent=1) + "\n", encoding="utf8")


def unit(vectors: Any) -> Any:
    return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


if __name__ == "__main__":
    typer.run(main)
