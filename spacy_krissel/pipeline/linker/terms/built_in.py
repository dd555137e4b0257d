"""Built-in terms of every linker."""

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

# In the order of addition; the vector term comes first.
BUILT_IN = (VectorTerm, LexicalTerm, GoldTerm, SpeciesTerm, SpellingTerm, DocumentTerm)
# Keys of candidates that are not terms.
RESERVED = ("id", "name", "score", "kind", "evidence", "doc", "source", "confidence")


def built_in_terms(settings: LinkerSettings, kb: KBSnapshot) -> list[Term]:
    """Return the terms that these settings enable for a knowledge base.

    They are made from the linker's own settings for each batch, not from the config: training,
    `krissel confidence` and `pipe.cfg` change these settings on a loaded pipe, which saves them.
    Each setting is declared there, once. `terms` in the config adds others, with settings of their
    own (`Term`).
    """
    terms = [term.of(settings, kb) for term in BUILT_IN]
    return [term for term in terms if term is not None and term.weight]


def named_terms(component: str, terms: Mapping[str, Term]) -> dict[str, Term]:
    """Return a component's additional terms, each with its name. Raises KrisselError K662."""
    found = {}
    taken = {*RESERVED, *(each.name for each in BUILT_IN)}
    for name, term in terms.items():
        problem = ""
        if not isinstance(term, Term):
            problem = f"it is of the type {type(term).__name__}"
        elif name in taken:
            problem = "the name is taken by another key of candidates"
        if problem:
            raise KrisselError(Errors.K662.format(name=component, term=name, problem=problem))
        found[name] = copy(term)
        found[name].name = name
    return found
