"""General words of harm, and what mentions with one may be called in a vocabulary."""

import re
from typing import NamedTuple

from ..lexical.ngrams import canonical_form

# Nouns that say of a part of the body only that something is wrong with it. Vocabularies use the
# first two (`DISEASES`). The others follow many of the words before these in unlabelled abstracts,
# and lost no more links than they gained on the training splits of NCBI Disease and BC5CDR's
# diseases; "anomaly", "deficit", "insufficiency" and "symptom" lost more.
GENERAL = (
    *("disease", "disorder", "abnormality", "complication", "condition", "damage", "deficiency"),
    *("disturbance", "dyscrasia", "dysfunction", "illness", "impairment", "injury", "insult"),
    *("involvement", "lesion", "malfunction", "problem", "toxicity"),
)
DISEASES = GENERAL[:2]


def _with_plural(word: str) -> tuple[str, str]:
    if word.endswith("y"):
        return word, f"{word[:-1]}ies"
    return word, f"{word}es" if word.endswith("s") else f"{word}s"


_WORDS = "|".join(form for word in GENERAL for form in _with_plural(word))
_NAMED = [form for word in DISEASES for form in _with_plural(word)]
_READINGS = re.compile(
    rf"(?P<before>.+?)(?: function)? (?:{_WORDS})|(?:{_WORDS}) (?:of|to|in) (?:the )?(?P<after>.+)|"
    r"(?:abnormal|disturbed|impaired) (?P<between>.+) functions?|"
    # Word formation: nephrotoxicity and nephropathy.
    r"(?P<root>.*[^ ]{4})toxic(?:ity|ities)?"
)
# A mention without any of them is not read.
_ANY = re.compile(f"{'|'.join(word[:-1] for word in GENERAL)}|function|toxic", re.IGNORECASE)


def is_reading(text: str) -> bool:
    """Return whether a mention that stands for a name with "disease" or "disorder" has another
    general word instead."""
    form = canonical_form(text)
    return any(readings(text)) and not any(word in form for word in DISEASES)


class Readings(NamedTuple):
    """Names that a mention may stand for, the first ones first; `other`, a class name, if none of
    them exists."""

    names: tuple[str, ...] = ()
    other: str = ""


def readings(text: str) -> Readings:
    """Return what a mention may stand for; nothing if it has no general word."""
    if not _ANY.search(text):
        return Readings()
    found = _READINGS.fullmatch(canonical_form(text))
    if found is None:
        return Readings()
    if found["root"]:
        return Readings(other=f"{found['root']}pathy")
    rest = found["before"] or found["after"] or found["between"]
    return Readings(tuple(f"{rest} {word}" for word in _NAMED), rest)
