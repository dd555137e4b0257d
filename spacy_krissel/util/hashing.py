"""Hashes that are the same in every process and on every machine."""

import hashlib
import json
from collections.abc import Iterable
from pathlib import Path

# Describes a folder that this package writes (`util.manifest`), with the hashes of its files.
MANIFEST = "manifest.json"


def stable_hash(*parts: object) -> int:
    """Return 64 bits of BLAKE2b of the parts as text, joined by tabs."""
    text = "\t".join(map(str, parts))
    return int.from_bytes(
        hashlib.blake2b(text.encode("utf8", "surrogatepass"), digest_size=8).digest(), "big"
    )


def stable_hashes(texts: Iterable[str]) -> bytes:
    """Return the `stable_hash` of each text, 8 bytes each, big-endian."""
    blake2b = hashlib.blake2b
    return b"".join(
        [blake2b(text.encode("utf8", "surrogatepass"), digest_size=8).digest() for text in texts]
    )


def sha256_file(path: Path) -> str:
    digest = hashlib.sha256()
    with path.open("rb") as file_:
        while block := file_.read(1 << 20):
            digest.update(block)
    return digest.hexdigest()


def content_hash(path: Path) -> str:
    """Hash the content of the file or folder `path`.

    RETURNS: the SHA-256 of a file, of the manifest of a folder that has one, or of the names and
        contents of a folder's files; "" if there is nothing. Files next to a manifest, or below,
        count by it.
    """
    if (path / MANIFEST).is_file():
        path = path / MANIFEST
    if path.is_dir():
        described = {each.parent for each in path.rglob(MANIFEST)}
        files = sorted(
            file_
            for file_ in path.rglob("*")
            if file_.is_file() and (file_.name == MANIFEST or described.isdisjoint(file_.parents))
        )
        hashes = [[file_.relative_to(path).as_posix(), sha256_file(file_)] for file_ in files]
        return hashlib.sha256(json.dumps(hashes).encode("utf8")).hexdigest()
    return sha256_file(path) if path.is_file() else ""
