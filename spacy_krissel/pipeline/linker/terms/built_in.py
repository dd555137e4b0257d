"""The terms that every linker has."""

from collections.abc import Mapping
from copy import copy

from ....errors import Errors, KrisselError
from ....kb.snapshot import KBSnapshot
from ...settings import LinkerSettings
from .document import DocumentTerm
from .gold import GoldTerm
from .lexical import LexicalTerm
from .species import SpeciesTerm
from .spelling import SpellingTerm
from .term import Term
from .vectors import VectorTerm

# In the order in which they are added up; that of vectors comes first.
BUILT_IN = (VectorTerm, LexicalTerm, GoldTerm, SpeciesTerm, SpellingTerm, DocumentTerm)
# Keys of candidates that are no terms.
RESERVED = ("id", "name", "score", "kind", "evidence", "doc", "source", "confidence")


def built_in_terms(settings: LinkerSettings, kb: KBSnapshot) -> list[Term]:
    """Return the terms that these settings turn on for a knowledge base.

    They are made of the linker's own settings for each batch, not from the config: training, `krissel confidence` and
    `pipe.cfg` change these settings on a loaded pipe, which saves them. Each is declared there, once. `terms` in the
    config adds further ones, with settings of their own (`Term`).
    """
    terms = [term.of(settings, kb) for term in BUILT_IN]
    return [term for term in terms if term is not None and term.weight]


def named_terms(component: str, terms: Mapping[str, Term]) -> dict[str, Term]:
    """Return further terms of a component, each with its name. Raises KrisselError K662."""
    found = {}
    taken = {*RESERVED, *(each.name for each in BUILT_IN)}
    for name, term in terms.items():
        problem = ""
        if not isinstance(term, Term):
            problem = f"it is of the type {type(term).__name__}"
        elif name in taken:
            problem = "candidates have something else of this name"
        if problem:
            raise KrisselError(Errors.K662.format(name=component, term=name, problem=problem))
        found[name] = copy(term)
        found[name].name = name
    return found
