"""Vectors as memory-mapped files."""

from pathlib import Path

import numpy as np

from ..errors import Errors, KrisselError
from ..index.protocol import Vectors
from ..util.disk import damage

# Rows written at a time.
BLOCK_ROWS = 65_536


def write_array(vectors: Vectors, path: Path) -> None:
    header = {"descr": vectors.dtype.str, "fortran_order": False, "shape": vectors.shape}
    with path.open("wb") as file_:
        np.lib.format.write_array_header_1_0(file_, header)
        for start in range(0, len(vectors), BLOCK_ROWS):
            file_.write(np.ascontiguousarray(vectors[start : start + BLOCK_ROWS]).data)


def read_array(path: Path, rows: int, width: int, dtype: str, *, verify: bool = False) -> Vectors:
    """The vectors (rows, width) at `path`, mapped.

    verify: check that all values are finite, which reads them.
    Raises KrisselError K524 when they are others, K026 when the disk refuses.
    """

    def damaged(problem: object) -> KrisselError:
        return KrisselError(Errors.K524.format(path=path.parent, problem=f"{path.name}: {problem}"))

    with damage(path, damaged):
        # An empty file cannot be mapped.
        vectors = np.load(path, mmap_mode="r" if rows and width else None, allow_pickle=False)
    if vectors.shape != (rows, width) or vectors.dtype != np.dtype(dtype):
        problem = f"{path.name} holds {vectors.shape} of {vectors.dtype}, expected {(rows, width)} of {dtype}"
        raise KrisselError(Errors.K524.format(path=path.parent, problem=problem))
    if verify:
        for start in range(0, rows, BLOCK_ROWS):
            if not all_finite(vectors[start : start + BLOCK_ROWS]):
                raise damaged(f"values of rows {start} to {min(rows, start + BLOCK_ROWS) - 1} are not finite")
    return vectors


def all_finite(vectors: Vectors) -> bool:
    # A sum is ten times as fast, and finite only if all it is made of is; of large values it may be infinite.
    with np.errstate(all="ignore"):
        return bool(np.isfinite(vectors.sum(dtype=np.float32)) or np.isfinite(vectors).all())
