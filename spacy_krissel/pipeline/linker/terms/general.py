"""General words of harm: "renal injury" is read as a kidney disease, if no entity has the name."""

import re
from typing import NamedTuple

from ....kb.snapshot import KBSnapshot
from ....lexical.groups import distinct
from ....lexical.ngrams import canonical_form
from ...settings import LinkerSettings
from ..query import Query
from .term import Term

# Nouns that say of a part of the body only that something is wrong with it. Vocabularies use the
# first two. The others follow many of the words before these two in unlabelled abstracts, and
# gained more links than they lost on the training splits of NCBI Disease and BC5CDR's diseases;
# "anomaly", "deficit", "insufficiency" and "symptom" lost more.
GENERAL = (
    *("disease", "disorder", "abnormality", "complication", "condition", "damage", "deficiency"),
    *("disturbance", "dyscrasia", "dysfunction", "illness", "impairment", "injury", "insult"),
    *("involvement", "lesion", "malfunction", "problem", "toxicity"),
)


def _with_plural(word: str) -> tuple[str, str]:
    if word.endswith("y"):
        return word, f"{word[:-1]}ies"
    return word, f"{word}es" if word.endswith("s") else f"{word}s"


_WORDS = "|".join(form for word in GENERAL for form in _with_plural(word))
_NAMED = [form for word in GENERAL[:2] for form in _with_plural(word)]
_READINGS = re.compile(
    rf"(?P<before>.+) (?:{_WORDS})|(?:{_WORDS}) (?:of|to|in) (?:the )?(?P<after>.+)|"
    # Word formation: nephrotoxicity and nephropathy.
    r"(?P<root>.*[^ ]{4})toxic(?:ity|ities)?"
)
# A mention without any of them is not read.
_ANY = re.compile(f"{'|'.join(word[:-1] for word in GENERAL)}|toxic", re.IGNORECASE)


class Readings(NamedTuple):
    """Names that a mention may stand for, the first ones first; `other` if none of them exists."""

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
    rest = found["before"] or found["after"]
    return Readings(tuple(f"{rest} {word}" for word in _NAMED), rest)


class GeneralTerm(Term):
    """Reading of mentions with a general word that are no name ("renal injury").

    "disease" or "disorder" replaces the word, if one entity has that name. Otherwise the word is
    dropped, if the rest is a name or a class name.
    """

    name = "general"

    @classmethod
    def of(cls, settings: LinkerSettings, kb: KBSnapshot) -> "GeneralTerm | None":
        """Return the term; None if it is off, or names are not compared."""
        return cls() if settings.use_general_words and settings.lexical_weight else None

    def prepare(self, query: Query) -> None:
        texts, of_row = distinct(query.texts)
        read = {number: found for number, text in enumerate(texts) if any(found := readings(text))}
        if not read:
            return
        asked = [*dict.fromkeys(name for found in read.values() for name in _asked(found))]
        mentions = [texts[number] for number in read]
        index = query.kb.prototypes.lexical_index
        forms = index.read([*asked, *mentions], with_vectors=False).forms
        # Class names have no entities here.
        entities = index.entities_with_forms(forms, 2, query.allowed)
        owners = {
            name: {*row.tolist()} - {-1}
            for name, row in zip([*asked, *mentions], entities, strict=True)
        }
        forms_of = dict(zip(asked, forms.tolist(), strict=False))
        new = {}
        for number, found in read.items():
            named = [name for name in found.names if owners[name]]
            if owners[texts[number]] or len(set().union(*(owners[name] for name in named))) > 1:
                continue
            if named or (found.other and forms_of[found.other] >= 0):
                new[number] = named[0] if named else found.other
        for row, number in enumerate(of_row.tolist()):
            if number in new and row not in query.found:
                query.reword(row, new[number])


def _asked(found: Readings) -> tuple[str, ...]:
    return (*found.names, found.other) if found.other else found.names
