"""Vectors as memory-mapped files."""

from pathlib import Path

import numpy as np

from ..errors import Errors, KrisselError
from ..index.protocol import Vectors

# Rows written at a time.
BLOCK_ROWS = 65_536


def write_array(vectors: Vectors, path: Path) -> None:
    header = {"descr": vectors.dtype.str, "fortran_order": False, "shape": vectors.shape}
    with path.open("wb") as file_:
        np.lib.format.write_array_header_1_0(file_, header)
        for start in range(0, len(vectors), BLOCK_ROWS):
            file_.write(np.ascontiguousarray(vectors[start : start + BLOCK_ROWS]).data)


def read_array(path: Path, rows: int, width: int, dtype: str) -> Vectors:
    """The vectors (rows, width) at `path`, mapped. Raises KrisselError K524 when they are others."""
    try:
        # An empty file cannot be mapped.
        vectors = np.load(path, mmap_mode="r" if rows and width else None, allow_pickle=False)
    except (OSError, ValueError) as error:
        raise KrisselError(Errors.K524.format(path=path.parent, problem=f"{path.name}: {error}")) from None
    if vectors.shape != (rows, width) or vectors.dtype != np.dtype(dtype):
        problem = f"{path.name} holds {vectors.shape} of {vectors.dtype}, expected {(rows, width)} of {dtype}"
        raise KrisselError(Errors.K524.format(path=path.parent, problem=problem))
    return vectors
