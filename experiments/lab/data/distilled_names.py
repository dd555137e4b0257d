"""Distillation of names and phrases, without contexts or a knowledge base, into the encoder that
ships."""

import gzip
from collections.abc import Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import pyarrow as pa
from pydantic import Field

from spacy_krissel.ontology.build import open_ontology
from spacy_krissel.pipeline.pipeline_io import (
    check_pipeline_output,
    choose_gpu,
    find_linker,
    load_pipeline,
    save_whole,
)
from spacy_krissel.training.data.synonyms import different_names
from spacy_krissel.training.distillation import fit_to_vectors, narrowing_projection, to_unit
from spacy_krissel.util.atomic import atomic_file, check_file
from spacy_krissel.util.inputs import coded_reading
from spacy_krissel.util.progress import progress_bar
from spacy_krissel.util.settings import Count, PositiveInt, checked
from spacy_krissel.views import name_view

# Encoded together, sorted by length, so that little is padding.
BLOCK = 16384
PASSES = 8
# Pieces of a name, as in SapBERT.
WINDOW = 25


@checked
def name_vectors(
    encoder: str,
    output: Path,
    *,
    ontology: Path,
    phrases: Sequence[Path] = (),
    gpu_id: Annotated[int, Field(ge=-1)] = -1,
    progress: bool = True,
) -> int:
    """Encode names and phrases by a transformer, each once whatever its case.

    encoder: Transformer, by name or path, whose vectors are the means of its pieces
    output: Arrow file to write: names and their vectors, in 16 bits
    ontology: Ontology store with the names
    phrases: Files with a phrase on each line (.txt.gz)
    gpu_id: GPU, or -1 for the CPU

    RETURNS: the number of names and phrases. Raises KrisselError K001 to K004 (ontology), K026
    (phrases, output), K401 to K403 (encoder).
    """
    from spacy_krissel.layers.hf.transformer import TransformerEncoder

    check_file(output)
    choose_gpu(gpu_id)
    model = TransformerEncoder(
        encoder, window=WINDOW, pooling="mean", normalize=True, markers=False, mixed_precision=True
    )
    model.initialize()
    names = different_names(chain(_names(ontology), *map(_lines, phrases)))
    width = model.get_dim("nO")
    schema = pa.schema([("name", pa.string()), ("vector", pa.list_(pa.float16(), width))])
    with (
        atomic_file(output) as temporary,
        pa.OSFile(str(temporary), "wb") as sink,
        pa.ipc.new_file(sink, schema) as writer,
    ):
        for start in progress_bar(range(0, len(names), BLOCK), show=progress, desc="Blocks"):
            block = names[start : start + BLOCK]
            found: Any = model.predict([name_view(each) for each in block])
            vectors = model.ops.to_numpy(found).astype(np.float16)
            column = pa.FixedSizeListArray.from_arrays(pa.array(vectors.ravel()), width)
            writer.write(pa.record_batch([pa.array(block), column], schema=schema))
    return len(names)


def show_name_vectors(n: int, output: Path) -> str:
    return f"{n:,} names and phrases in {output}"


@checked
def distill_names(
    vectors: Path,
    start: Path,
    output: Path,
    *,
    passes: PositiveInt = PASSES,
    seed: Count = 0,
    progress: bool = True,
) -> float:
    """Train a small encoder to reproduce a teacher's vectors of names.

    vectors: file of `name-vectors`
    start: pipeline with a small encoder
    output: folder of the pipeline to write
    passes: Number of passes over the names
    seed: Seed of their order

    RETURNS: the mean cosine of its vectors with the teacher's, of up to 20,000 names.
    Raises KrisselError K005 and K026 (`output`, `vectors`), and those of `load_pipeline`.
    """
    check_pipeline_output(output)
    names, given = read_vectors(vectors)
    nlp = load_pipeline(start)
    model = find_linker(nlp).model
    projection = narrowing_projection(given, model.get_dim("nO"), seed)

    def views(rows: np.ndarray) -> list[Any]:
        return [name_view(names[row]) for row in rows]

    def wanted(rows: np.ndarray) -> np.ndarray:
        return to_unit(to_unit(given[rows]) @ projection)

    fit_to_vectors(model, views, wanted, len(names), passes=passes, seed=seed, progress=progress)
    rows = np.unique(np.linspace(0, len(names) - 1, 20_000, dtype=np.int64))
    cosine = float((model.predict(views(rows)) * wanted(rows)).sum(axis=1).mean())
    save_whole(nlp.to_disk, output)
    return cosine


def read_vectors(path: Path) -> tuple[list[str], np.ndarray]:
    """Return the names (n) and vectors (n, d) of a file of `name_vectors`."""
    with coded_reading(path), pa.memory_map(str(path)) as source:
        table = pa.ipc.open_file(source).read_all()
    names: list[str] = table.column("name").to_pylist()
    vectors: Any = table.column("vector").combine_chunks()
    return names, vectors.flatten().to_numpy(zero_copy_only=False).reshape(len(names), -1)


def show_distill_names(cosine: float, output: Path) -> str:
    return f"Mean cosine with the teacher: {cosine:.3f}\nEncoder in {output}"


def _names(ontology: Path) -> Iterator[str]:
    return (name for _, name, _ in open_ontology(ontology).names())


def _lines(path: Path) -> list[str]:
    with coded_reading(path), gzip.open(path, "rt", encoding="utf8") as lines:
        return lines.read().splitlines()
