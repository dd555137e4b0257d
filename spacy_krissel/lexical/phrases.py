"""Phrases of biomedical text, and which mentions are ordinary words."""

import gzip
from functools import cache
from pathlib import Path

# One per line, made by `experiments/lab phrases`.
PHRASES = Path(__file__).parent / "phrases.txt.gz"


def read_phrases() -> list[str]:
    """Return the phrases of biomedical text that ship, sorted."""
    return gzip.decompress(PHRASES.read_bytes()).decode("utf8").splitlines()


def is_ordinary(text: str) -> bool:
    """Return whether a mention is a phrase of the texts without digits and without capitals, but
    for the first letter: "pain" and "Hypertension", but not "p53" and "PAIN"."""
    lower = text.lower()
    return (
        text[1:] == lower[1:]
        and not any(map(str.isdigit, text))
        and lower in _phrases_in_lower_case()
    )


@cache
def _phrases_in_lower_case() -> frozenset[str]:
    return frozenset(phrase.lower() for phrase in read_phrases())
