"""The small encoder's parts compared with those of torch and scikit-learn, in milliseconds per
batch on one core.

    OMP_NUM_THREADS=1 python benchmarks/small_encoder_parts.py

Measured: one step of the hashed table 29, `EmbeddingBag(sparse=True)` with `SparseAdam` 35;
features of mentions 0.25, `HashingVectorizer` 3.1; features of contexts 0.94,
`HashingVectorizer` 22.
"""

import random
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import torch
from sklearn.feature_extraction.text import HashingVectorizer
from thinc.api import Adam

from spacy_krissel.layers.features import context_features, mention_features
from spacy_krissel.layers.hashed_bags import HashedBags
from spacy_krissel.views import View

CONTEXT_CHARS = 100


def main(
    batches: int = 12, size: int = 256, rows: int = 2**17, width: int = 256
) -> dict[str, float]:
    """Print the median processor time per batch, by part."""
    rng = random.Random(0)
    words = [
        "".join(rng.choices("abcdefghijklmnopqrstuvwxyz", k=rng.randint(3, 11)))
        for _ in range(20_000)
    ]
    views = [
        [View(*(" ".join(rng.choices(words, k=k)) for k in (15, 2, 15))) for _ in range(size)]
        for _ in range(batches)
    ]
    of_mention = partial(mention_features, rows=rows, ngrams=(3, 5))
    of_context = partial(context_features, rows=rows, ngrams=(4, 5), chars=CONTEXT_CHARS)
    vectorizers = [
        HashingVectorizer(analyzer="char_wb", ngram_range=ngrams, n_features=rows, norm=None)
        for ngrams in ((3, 5), (4, 5))
    ]

    def peer_of_mention(batch: list[View]) -> Any:
        return vectorizers[0].transform([view.mention for view in batch])

    def peer_of_context(batch: list[View]) -> Any:
        near = [f"{view.left[-CONTEXT_CHARS:]} {view.right[:CONTEXT_CHARS]}" for view in batch]
        return vectorizers[1].transform(near)

    return {
        "table": _median(_own_step(of_mention, rows, width), views),
        "table, torch": _median(_torch_step(of_mention, rows, width), views),
        "mentions": _median(of_mention, views),
        "mentions, scikit-learn": _median(peer_of_mention, views),
        "contexts": _median(of_context, views),
        "contexts, scikit-learn": _median(peer_of_context, views),
    }


def _own_step(features: Callable, rows: int, width: int) -> Callable[[list[View]], None]:
    model = HashedBags(rows, width, features)
    model.initialize()
    optimizer = Adam(0.001, use_averages=False)

    def step(batch: list[View]) -> None:
        Y, backprop = model.begin_update(batch)
        backprop(Y)
        model.finish_update(optimizer)

    return step


def _torch_step(features: Callable, rows: int, width: int) -> Callable[[list[View]], None]:
    table = torch.nn.EmbeddingBag(rows, width, mode="mean", sparse=True)
    optimizer = torch.optim.SparseAdam(table.parameters(), lr=0.001)

    def step(batch: list[View]) -> None:
        bags = features(batch)
        counts = np.bincount(bags.bags, minlength=len(batch))
        found = bags.rows[np.argsort(bags.bags, kind="stable")]
        Y = table(torch.from_numpy(found), torch.from_numpy(np.cumsum(counts) - counts))
        Y.backward(Y.detach())
        optimizer.step()
        optimizer.zero_grad()

    return step


def _median(part: Callable[[list[View]], Any], batches: list[list[View]]) -> float:
    times = []
    for batch in batches:
        start = time.process_time()
        part(batch)
        times.append(1000 * (time.process_time() - start))
    return float(np.median(times))


if __name__ == "__main__":
    for name, milliseconds in main().items():
        print(f"{name:<24} {milliseconds:8.2f} ms")
