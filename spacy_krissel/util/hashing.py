"""Hashes that are the same in every process, for choices that must not depend on order."""

import hashlib


def stable_hash(*parts: object) -> int:
    """A 64-bit hash of the parts' text. Python's own `hash` of a string differs from process to process."""
    text = "\t".join(map(str, parts))
    return int.from_bytes(hashlib.blake2b(text.encode("utf8", "surrogatepass"), digest_size=8).digest(), "big")
