"""Vectors to search a knowledge base with, where there are no mentions to encode."""

import numpy as np

from ...index.exact import ExactIndex
from ...index.protocol import Vectors
from ..prototype_kb import PrototypeKB

# Neighbours of a vector among which the nearest other one is sought.
NEIGHBOURS = 8
# Vectors as near as this, relative to their length, are of one name that several entities share.
SAME = 1e-2


def near_vectors(kb: PrototypeKB, n: int, seed: int = 0) -> Vectors:
    """`n` vectors (n, d) float32 near prototypes drawn by seed, each as far from its own as the nearest other one is.

    So a new mention of an entity lies, of which nothing is known but how its prototypes lie to one another. Raises
    KrisselError K520 (empty).
    """
    kb.check_filled()
    rng = np.random.default_rng(seed)
    rows = np.sort(rng.choice(kb.n_prototypes, min(n, kb.n_prototypes), replace=False))
    vectors = kb.vectors[rows].astype(np.float32)
    index = ExactIndex()
    index.build(kb.vectors)
    _, nearest = index.search(vectors, min(NEIGHBOURS, kb.n_prototypes))
    others = kb.vectors[nearest].astype(np.float32)  # (n, neighbours, d)
    distances = np.linalg.norm(others - vectors[:, None], axis=2)
    distances[distances <= SAME * np.linalg.norm(vectors, axis=1, keepdims=True)] = np.inf
    distance = distances.min(axis=1)
    known = distance[np.isfinite(distance)]
    distance[~np.isfinite(distance)] = np.median(known) if len(known) else 0.0
    noise = rng.standard_normal(vectors.shape, dtype=np.float32)
    noise *= (distance / np.linalg.norm(noise, axis=1))[:, None]
    return vectors + noise
