"""Synthetic mined mentions of an ontology's entities, in the format of `krissel mine`, from a seed.

As many mentions as are asked for, of entities drawn from a store, by names that no other entity
has; an entity has from one to twice the mean. Contexts are about 256 characters a side of made-up
words, drawn from a pool.

    python benchmarks/mined_shards.py STORE SHARDS --mentions 18000000 --entities 1000000
"""

from pathlib import Path
from random import Random
from typing import Annotated

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import typer
from umls_files import words
from wasabi import msg

from spacy_krissel.mining.shards import (
    FORMAT_VERSION,
    KIND,
    SHARD_MENTIONS,
    shard_schema,
    write_shard,
)
from spacy_krissel.ontology.store import OntologyStore
from spacy_krissel.util.manifest import new_directory
from spacy_krissel.util.progress import progress_bar
from spacy_krissel.views import MINED_CHARS

N_WORDS, POOL, NAMES_AT_A_TIME = 50_000, 2**16, 2**20


def main(
    store: Annotated[Path, typer.Argument(help="Ontology store")],
    output: Annotated[Path, typer.Argument(help="Folder of the shards")],
    mentions: Annotated[int, typer.Option(help="Number of mentions")] = 18_000_000,
    entities: Annotated[int, typer.Option(help="Number of entities")] = 1_000_000,
    seed: Annotated[int, typer.Option()] = 0,
) -> None:
    """Write the shards."""
    write_mined(OntologyStore(store), output, mentions, entities, seed)
    msg.good(f"{mentions:,} mentions of {entities:,} entities", output)


def write_mined(
    store: OntologyStore, output: Path, mentions: int, entities: int, seed: int = 0
) -> None:
    """Write `mentions` mentions of `entities` entities; fewer entities if fewer have an unshared
    name."""
    rng = np.random.default_rng(seed)
    rows, names = _own_names(store)
    bearing, firsts, counts = np.unique(rows, return_index=True, return_counts=True)
    chosen = np.sort(rng.choice(len(bearing), min(entities, len(bearing)), replace=False))
    ids = pa.array([store.id_at(row) for row in bearing[chosen].tolist()])
    shares = np.cumsum(rng.random(len(chosen)))
    ends = np.arange(1, len(chosen) + 1) + (
        shares / shares[-1] * (mentions - len(chosen))
    ).round().astype(np.int64)
    left, right = _contexts(seed)
    shards = []
    with new_directory(output, KIND, FORMAT_VERSION) as directory:
        for start in progress_bar(range(0, mentions, SHARD_MENTIONS), show=True, desc="shards"):
            n = min(SHARD_MENTIONS, mentions - start)
            owners = np.searchsorted(ends, np.arange(start, start + n), "right")
            of_owners = chosen[owners]
            name = names.take(
                pa.array(firsts[of_owners] + (rng.random(n) * counts[of_owners]).astype(np.int64))
            )
            begin = pa.array(rng.integers(0, 2000, n, dtype=np.int32))
            number = pa.array(rng.integers(0, 36_000_000, n)).cast(pa.string())
            columns = {
                "entity": ids.take(pa.array(owners)),
                "name": name.cast(pa.string()),
                "doc": pc.binary_join_element_wise("PMID", number, ":"),
                "start": begin,
                "end": pc.add(begin, pc.utf8_length(name).cast(pa.int32())),
                "left": left.take(pa.array(rng.integers(0, POOL, n))),
                "mention": name.cast(pa.string()),
                "right": right.take(pa.array(rng.integers(0, POOL, n))),
            }
            file_ = f"shard-{len(shards):05}.arrow"
            write_shard(directory.path / file_, pa.table(columns, schema=shard_schema()))
            shards.append({"file": file_, "mentions": n})
        directory.info.update(
            shards=shards, mentions=mentions, entities=len(chosen), synthetic=True
        )


def _own_names(store: OntologyStore) -> tuple[np.ndarray, pa.Array]:
    """Return row and text of each name that only one entity has."""
    rows, parts, part = [], [], []
    for row, name, _ in store.names(shared=False):
        rows.append(row)
        part.append(name)
        if len(part) == NAMES_AT_A_TIME:
            parts.append(pa.array(part))
            part = []
    # Names of a large ontology are more than 2 GB together.
    return np.array(rows), pa.concat_arrays(
        [part.cast(pa.large_string()) for part in [*parts, pa.array(part)]]
    )


def _contexts(seed: int) -> tuple[pa.Array, pa.Array]:
    """Return the pools of left and of right contexts."""
    draw = Random(seed)
    vocabulary = words(draw, N_WORDS)
    left, right = [], []
    for side, form in ((left, "{} "), (right, " {}")):
        for _ in range(POOL):
            text = " ".join(draw.choices(vocabulary, k=MINED_CHARS // 5))[: MINED_CHARS - 1]
            side.append(form.format(text[: text.rindex(" ")]))
    return pa.array(left), pa.array(right)


if __name__ == "__main__":
    typer.run(main)
