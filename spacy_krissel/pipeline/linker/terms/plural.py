"""Plurals: "coughs" is read as the name "cough", if no entity has the plural as a name."""

from collections.abc import Mapping, Sequence

import numpy as np

from ....kb.snapshot import KBSnapshot
from ....lexical.index import LexicalIndex
from ....lexical.ngrams import Forms, canonical_form
from ....mentions.plurals import singulars
from ....mentions.species import taxon_numbers
from ....views import with_mention
from ...settings import LinkerSettings
from ..query import Found, Query
from .term import Term


class PluralTerm(Term):
    """Reading of mentions that are the plural of a name.

    A mention that is no name is linked as if `krissel_finder` had found it by its singular
    (`FoundTerm`), unless it may be the plural of names of different entities. A singular is not
    read as a plural: "alcohol" is one of the Alcohols. Names of genes of several species are
    symbols, and have no plural.
    """

    name = "plural"

    def __init__(self, types: Sequence[str], by_label: Mapping[str, Sequence[str]]) -> None:
        """types, by_label: types of entities, as `Query.by_types`."""
        self._types = types, by_label

    @classmethod
    def of(cls, settings: LinkerSettings, kb: KBSnapshot) -> "PluralTerm | None":
        """Return the term; None if names are not compared, or are symbols."""
        if not settings.lexical_weight or taxon_numbers(kb.species) is not None:
            return None
        return cls(settings.types, settings.types_by_label)

    def prepare(self, query: Query) -> None:
        index = query.kb.prototypes.lexical_index
        for rows, allowed in query.by_allowed(*self._types):
            others = [row for row in rows if row not in query.found]
            read = _read(index, sorted({query.texts[row] for row in others}), allowed)
            for row in others:
                if found := read.get(query.texts[row]):
                    name, entities = found
                    query.found[row] = Found(entities, "form")
                    query.views[row] = with_mention(query.views[row], name)
                    query.texts[row] = name


def _read(
    index: LexicalIndex, texts: Sequence[str], allowed: np.ndarray | None
) -> dict[str, tuple[str, list[int]]]:
    """Return each text that is no name, but the plural of one: that name, and the rows of its
    entities.

    allowed: mask of the entities that it may be linked to; None for all.
    """
    asked = [
        (text, form, singular)
        for text, form in zip(texts, Forms.of(texts).canonical, strict=True)
        # Letters in capitals are no word: "ALS" is no plural.
        if not text[-2:].isupper()
        for singular in singulars(form)
    ]
    named = _entities(index, [*{each for _, *both in asked for each in both}], allowed)
    found: dict[str, tuple[str, list[int]]] = {}
    several = set()
    for text, form, singular in asked:
        if named[form] or not named[singular]:
            continue
        # In its own capitals if it can be: "vsd" is no acronym.
        bare = text.removesuffix("s")
        name = bare if canonical_form(bare) == singular else singular
        if found.setdefault(text, (name, named[singular]))[1] != named[singular]:
            several.add(text)
    return {text: each for text, each in found.items() if text not in several}


def _entities(
    index: LexicalIndex, forms: Sequence[str], allowed: np.ndarray | None
) -> dict[str, list[int]]:
    """Return the rows of the entities that have each canonical form as a name."""
    entities, owners = index.named(index.of_canonical(forms))
    found: dict[str, list[int]] = {form: [] for form in forms}
    for entity, owner in zip(entities.tolist(), owners.tolist(), strict=True):
        if allowed is None or allowed[entity]:
            found[forms[owner]].append(entity)
    return found
