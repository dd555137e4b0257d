"""Stems of folded words: singular and plural are one."""

import re

# Shorter words have no plural.
MIN_PLURAL = 4
_SINGULAR = re.compile(r"(?:ss|us|is)$")
# "headaches" and "boxes": the singular may end in "e" or not.
_SIBILANT = re.compile(r"(?<=[sxz])e$|(?<=[cs]h)e$")
_LATIN = {"us": "i", "um": "a"}


def stem(word: str) -> str:
    """Return what the singular and the plural of a folded word share."""
    if len(word) < MIN_PLURAL or not word.isalpha():
        return word
    singular = _without_s(word)
    # "humerus" and "humeri", "diverticulum" and "diverticula"; not "mous", of "mouse".
    latin = _LATIN.get(singular[-2:]) if len(singular) > MIN_PLURAL else None
    return singular if latin is None else singular[:-2] + latin


def _without_s(word: str) -> str:
    if word.endswith("ies") and len(word) > MIN_PLURAL:
        return word[:-3] + "y"
    if word.endswith(("ses", "sis")):
        # "metastases" and "metastasis"; "diseases" and, by its last letter, "disease".
        return word[:-2]
    if word.endswith("ae") and len(word) > MIN_PLURAL:
        return word[:-1]
    if word.endswith("s") and not _SINGULAR.search(word):
        word = word[:-1]
    return _SIBILANT.sub("", word)
