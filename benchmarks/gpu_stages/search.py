"""Stages that search vectors made on the card: exactly, and by FAISS with its recall."""

import time
from functools import partial
from importlib.util import find_spec
from typing import Any

import numpy as np
import torch

from gpu_stages.measure import bf16_rate, device_of, measured, timed_rounds
from gpu_stages.report import Report, Skipped
from spacy_krissel.index.faiss_index import FaissIndex
from spacy_krissel.index.shard import Shard

# Vectors made at a time, a multiple of the prototypes per entity.
BLOCK_ROWS = 2**18
# Prototypes lie around their entity, entities around groups, and groups around fields.
ENTITY_PROTOTYPES, GROUP_ENTITIES, FIELDS = 8, 100, 200
GROUP_SPREAD, ENTITY_SPREAD, PROTOTYPE_SPREAD = 0.8, 0.7, 0.5


def exact(report: Report) -> None:
    """Search exactly, by torch. FLOP of a query: 2 d for each prototype."""
    size = report.size
    device = device_of(report)
    report.write()
    bf16_rate(report, device)
    n = size.prototypes[-1]
    flop = 2 * size.width * n
    with report.step(f"queries, {n:,} prototypes", prototypes=n, flop=flop) as row:
        vectors = make_vectors(n, size.width, device)
        index = Shard.of(0, vectors)
        with measured(device) as found:
            timed_rounds(report, row, partial(index.search, k=size.top_k), rounds(report, vectors))
        row["peak_gib"] = found["peak_gib"]


def flat(report: Report) -> None:
    """Search exactly, by FAISS in float16."""
    search_by_faiss(report, (None,), "flat", float16=True)


def ivf_sq8(report: Report) -> None:
    """Search some lists of byte codes by FAISS."""
    search_by_faiss(report, report.size.nprobe, "ivf_sq8")


def search_by_faiss(
    report: Report,
    nprobe: tuple[int | None, ...],
    type: Any,
    **settings: Any,
) -> None:
    """Build an index for each number of prototypes, and search it with each `nprobe`."""
    if find_spec("faiss") is None:
        raise Skipped("FAISS is not installed")
    size = report.size
    device = device_of(report)
    report.write()
    vectors = make_vectors(size.prototypes[-1], size.width, device)
    for n in size.prototypes:
        name = f"{n:,} prototypes"
        with report.step(f"build, {name}", prototypes=n) as row:
            index = FaissIndex(type, device="cpu" if report.toy else "cuda:0", **settings)
            host = vectors[:n].cpu().numpy()
            start = time.perf_counter()
            index.build(host)
            row["seconds"] = time.perf_counter() - start
            row["per_second"] = n / row["seconds"]
        if f"build, {name}" in report.found["errors"]:
            continue
        queries = rounds(report, vectors[:n])
        best = Shard.of(0, vectors[:n]).search(queries[0], 10)[1]
        for lists in nprobe:
            lists_name = f", {lists} lists" if lists else ""
            with report.step(f"queries, {name}{lists_name}", prototypes=n, nprobe=lists) as row:
                if lists:
                    index.set_search(nprobe=lists)
                # Copies the index to the card, too.
                found = index.search(queries[0], size.top_k)[1]
                row.update(recall(found, best))
                timed_rounds(report, row, partial(index.search, k=size.top_k), queries)
                if device.type == "cuda":
                    free, total = torch.cuda.mem_get_info(device)
                    row["card_used_gib"] = (total - free) / 2**30


def make_vectors(n: int, width: int, device: torch.device) -> torch.Tensor:
    """Return unit vectors (n, width) in float16 on the device, in clusters as prototypes are."""
    generator = torch.Generator(device).manual_seed(0)

    def noise(rows: int, spread: float) -> torch.Tensor:
        return torch.randn(rows, width, generator=generator, device=device) * (spread / width**0.5)

    def around(centres: torch.Tensor, rows: int, spread: float) -> torch.Tensor:
        chosen = torch.randint(len(centres), (rows,), generator=generator, device=device)
        return unit(centres[chosen] + noise(rows, spread))

    fields = unit(noise(FIELDS, 1.0))
    groups = around(fields, n // ENTITY_PROTOTYPES // GROUP_ENTITIES + 1, GROUP_SPREAD)
    vectors = torch.empty(n, width, dtype=torch.float16, device=device)
    for block in vectors.split(BLOCK_ROWS):
        entities = around(groups, -(-len(block) // ENTITY_PROTOTYPES), ENTITY_SPREAD)
        centres = entities.repeat_interleave(ENTITY_PROTOTYPES, dim=0)[: len(block)]
        block.copy_(unit(centres + noise(len(block), PROTOTYPE_SPREAD)))
    return vectors


def rounds(report: Report, vectors: torch.Tensor) -> list[np.ndarray]:
    """Return the queries of each round, and before them those of a first one that warms up."""
    size = report.size
    return [make_queries(vectors, size.mentions, seed) for seed in range(size.rounds + 1)]


def make_queries(vectors: torch.Tensor, n: int, seed: int) -> np.ndarray:
    """Return unit queries (n, d) in float32 on the host, made on the device near its vectors."""
    generator = torch.Generator(vectors.device).manual_seed(1 + seed)
    rows = torch.randint(len(vectors), (n,), generator=generator, device=vectors.device)
    near = vectors[rows].float()
    noise = torch.randn(near.shape, generator=generator, device=near.device)
    return unit(near + noise * (PROTOTYPE_SPREAD / near.shape[1] ** 0.5)).cpu().numpy()


def unit(vectors: torch.Tensor) -> torch.Tensor:
    """Return vectors (n, d) scaled to length 1."""
    return torch.nn.functional.normalize(vectors, dim=1)


def recall(found: np.ndarray, best: np.ndarray) -> dict[str, float]:
    """Return the fraction of the k best rows (q, any) that are among the first k `found` (q, any),
    for k of 1 and of 10."""

    def hits(k: int) -> float:
        return float((found[:, :k, None] == best[:, None, :k]).any(axis=1).mean())

    return {"recall_1": hits(1), "recall_10": hits(10)}
