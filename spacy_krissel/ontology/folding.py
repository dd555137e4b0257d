"""Names in the form in which two of them count as the same."""

import hashlib
import re
import unicodedata

# `\w` is what `str.isalnum` accepts, and the underscore.
_BREAKS = re.compile(r"[\W_]+")


def fold_name(text: str) -> str:
    """Compatibility-normalise (NFKC) and lower-case; every run of other than letters and digits becomes one space.

    A name of symbols only keeps them: `fold_name("±") == "±"`. Folding a folded name changes nothing.
    """
    if text.isascii():
        lower = text.lower()
    else:
        # Lower-casing can leave pairs that compose (J + caron has no capital of its own), hence the second round.
        lower = unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", text).lower())
    return _BREAKS.sub(" ", lower).strip() or lower.strip()


def hash_text(text: str) -> int:
    """64 bits that are the same on every machine and in every process; collisions are for the caller to settle."""
    # Half a surrogate pair can be asked for, though it cannot be stored.
    data = text.encode("utf8", "surrogatepass")
    return int.from_bytes(hashlib.blake2b(data, digest_size=8).digest(), "little")
