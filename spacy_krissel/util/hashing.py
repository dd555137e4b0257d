"""Hashes that are the same in every process and on every machine."""

import hashlib
from collections.abc import Iterable


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
