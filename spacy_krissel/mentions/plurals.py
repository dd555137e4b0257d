"""Plurals of nouns, and what their singulars may be."""

import re
from collections.abc import Iterator

# Shorter words have no plural.
MIN_WORD = 4
# The noun of a phrase stands before these words: "metastases to the liver".
_HEAD = re.compile(r"(\w+) (?:due|from|in|of|on|to|with|without) ")
# Endings of plurals, and of their singulars. That in s is the last rule.
_ENDINGS = (
    *(("ies", "y"), ("ses", "sis"), ("ices", "ix"), ("ices", "ex"), ("i", "us"), ("a", "um")),
    *(("a", "on"), ("ae", "a"), ("mata", "ma"), ("ina", "en"), ("men", "man")),
)
_SIBILANT = re.compile(r"(?:[sxz]|[cs]h)es$")
_SINGULAR = re.compile(r"(?:ss|us|is)$")


def singulars(form: str) -> Iterator[str]:
    """Yield what a text in canonical form may be the plural of: with its last noun in the singular,
    or that before a preposition."""
    ends = {len(form)}
    if head := _HEAD.search(form):
        ends.add(head.end(1))
    for end in sorted(ends, reverse=True):
        start = form.rfind(" ", 0, end) + 1
        word = form[start:end]
        if len(word) >= MIN_WORD and word.isalpha():
            for singular in dict.fromkeys(_singulars(word)):
                yield form[:start] + singular + form[end:]


def _singulars(word: str) -> Iterator[str]:
    for plural, singular in _ENDINGS:
        if word.endswith(plural):
            yield word.removesuffix(plural) + singular
    if _SIBILANT.search(word):
        yield word[:-2]
    if word.endswith("s") and not _SINGULAR.search(word):
        yield word[:-1]
