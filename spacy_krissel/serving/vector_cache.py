"""Cache of the vectors of corrections in a file, so that they are not encoded again at the next
start."""

import hashlib
import warnings
from collections.abc import Callable
from pathlib import Path

import numpy as np

from ..errors import KrisselError, KrisselWarning, Warnings
from ..util.atomic import atomic_file
from ..util.disk import coded_damage
from ..views import View

# Number of new views from which the file is written again.
MIN_NEW = 1_000
# Views encoded at a time.
BATCH = 4_096
DIGEST = 16
Encode = Callable[[list[View]], np.ndarray]


class VectorCache:
    """Vectors by view, read from a file and written to it. Without a path nothing is kept.

    encoder: its fingerprint; vectors of another encoder are ignored. width: of the vectors.
    """

    def __init__(self, path: Path | None = None, encoder: str = "", width: int = 0) -> None:
        self._path, self._encoder, self._width = path, encoder, width
        self._known: dict[bytes, np.ndarray] = {}
        self._used: dict[bytes, np.ndarray] = {}
        self._n_new = 0

    @classmethod
    def read(cls, path: Path | None, encoder: str, width: int) -> "VectorCache":
        """Read the file at `path`, if there is one. Warns KW684 if it cannot be read."""
        cache = cls(path, encoder, width)
        if path is not None and path.exists():
            try:
                cache._read(path)
            except (KrisselError, _Damaged) as error:
                cache._warn(error)
        return cache

    def vectors(self, views: list[View], encode: Encode) -> np.ndarray:
        """Return the vectors of the views (n, width); `encode` computes the unknown ones."""
        if self._path is None:
            return _encoded(views, encode, self._width)
        keys = [*map(_key, views)]
        new = [i for i, key in enumerate(keys) if key not in self._known]
        self._n_new += len(new)
        made = _encoded([views[i] for i in new], encode, self._width)
        self._known |= zip([keys[i] for i in new], made, strict=True)
        self._used |= {key: self._known[key] for key in keys}
        return np.stack([self._known[key] for key in keys])

    def write(self) -> None:
        """Write the vectors in use, if many are new. Warns KW684 if writing fails."""
        if self._path is None or self._n_new < MIN_NEW:
            return
        keys = np.frombuffer(b"".join(self._used), dtype=np.uint8).reshape(-1, DIGEST)
        try:
            with atomic_file(self._path) as temporary, temporary.open("wb") as file_:
                np.savez(
                    file_,
                    encoder=np.array(self._encoder),
                    keys=keys,
                    vectors=np.stack([*self._used.values()]),
                )
        except KrisselError as error:
            self._warn(error)

    def _read(self, path: Path) -> None:
        # Of a ZIP file each part has a checksum.
        with coded_damage(path, _Damaged), np.load(path, allow_pickle=False) as file_:
            if str(file_["encoder"]) != self._encoder:
                return
            keys, vectors = file_["keys"], file_["vectors"]
            if (
                keys.dtype != np.uint8
                or keys.shape != (len(vectors), DIGEST)
                or not np.isfinite(vectors).all()
            ):
                raise ValueError("its parts are inconsistent")
            if vectors.dtype != np.float32 or vectors.shape[1:] != (self._width,):
                raise ValueError(
                    f"it has vectors of shape {vectors.shape} and type {vectors.dtype}"
                )
        self._known = dict(zip([row.tobytes() for row in keys], vectors, strict=True))

    def _warn(self, error: Exception) -> None:
        warnings.warn(
            Warnings.KW684.format(path=self._path, problem=error), KrisselWarning, stacklevel=4
        )


class _Damaged(Exception):
    """A file without valid vectors."""


def _encoded(views: list[View], encode: Encode, width: int) -> np.ndarray:
    parts = [encode(views[start : start + BATCH]) for start in range(0, len(views), BATCH)]
    return np.concatenate(parts) if parts else np.zeros((0, width), dtype=np.float32)


def _key(view: View) -> bytes:
    text = f"{len(view.left)} {len(view.mention)} {view.left}{view.mention}{view.right}"
    return hashlib.blake2b(text.encode("utf8", "surrogatepass"), digest_size=DIGEST).digest()
