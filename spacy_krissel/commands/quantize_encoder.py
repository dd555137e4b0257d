"""Quantization of a linker's transformer to 8-bit integers."""

from pathlib import Path

import numpy as np
from spacy.language import Language

from ..errors import Errors, KrisselError
from ..pipeline.linker.component import KrisselLinker
from ..pipeline.pipeline_io import find_linker, open_to_change, save_pipeline
from ..pipeline.settings import LINKER
from ..util.outputs import writes
from ..util.settings import checked

# Number of prototypes whose vectors are compared.
COMPARED = 512


@writes(folders=["output"], keeps="pipeline")
@checked
def quantize(
    pipeline: Language | str | Path, output: Path | None = None, *, name: str = LINKER
) -> float:
    """Quantize a linker's transformer to 8-bit integers.

    ONNX Runtime then runs it on CPUs (the extra `onnx`); a GPU runs the original. The knowledge
    base keeps its vectors. Mentions get nearly the same vectors, which depend slightly on the other
    mentions in a batch. The pipeline contains both forms of the transformer, and cannot be trained
    further.

    pipeline: A pipeline with a linker and its knowledge base: a path, or the pipeline, which is
        changed
    output: Folder to save the pipeline in
    name: Name of the linker in the pipeline

    RETURNS: the mean cosine of a sample of the knowledge base's vectors with the new ones of these
    prototypes.
    Raises KrisselError K005, K006 and K026 (the output), K417 (no ONNX Runtime), K418 (a
    transformer that ONNX does not support), K520 (no knowledge base), K604 (no weights), K610 and
    K611 (no such pipeline or linker), K660 (`kb_path`), K688 (no transformer).
    """
    nlp = open_to_change(pipeline, output)
    linker = find_linker(nlp, name)
    before = _some_vectors(linker)
    if not linker.quantize():
        raise KrisselError(Errors.K688.format(name=name))
    after = _some_vectors(linker)
    lengths = np.linalg.norm(before, axis=1) * np.linalg.norm(after, axis=1)
    if output is not None:
        save_pipeline(nlp, output, name=name)
    return float(((before * after).sum(axis=1) / np.maximum(lengths, np.float32(1e-9))).mean())


def show_quantize(cosine: float, output: Path) -> str:
    return f"Mean cosine with the vectors before: {cosine:.3f}\nPipeline written to {output}"


def _some_vectors(linker: KrisselLinker) -> np.ndarray:
    kb = linker.kb
    kb.check_filled()
    rows = np.unique(np.linspace(0, kb.n_prototypes - 1, COMPARED, dtype=np.int64))
    return linker.encode([each.view for each in kb.prototypes_at(rows)])
