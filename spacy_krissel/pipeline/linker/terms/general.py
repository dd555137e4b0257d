"""General words of harm: "kidney injury" is read as a kidney disease, if no entity has the name."""

from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from ....kb.snapshot import KBSnapshot
from ....mentions.general_words import Readings, readings
from ...settings import LinkerSettings
from ..query import Query
from .term import Term


class GeneralTerm(Term):
    """Reading of mentions with a general word that are no name ("kidney injury").

    "disease" or "disorder" replaces the word, if one entity has that name. Otherwise the word is
    dropped, if the rest is a class name ("renal injury"), but not if it is an entity's name: T cell
    deficiency is no T cell.
    """

    name = "general"

    def __init__(self, types: Sequence[str], by_label: Mapping[str, Sequence[str]]) -> None:
        """types, by_label: types of entities, as `Query.by_types`."""
        self._types = types, by_label

    @classmethod
    def of(cls, settings: LinkerSettings, kb: KBSnapshot) -> "GeneralTerm | None":
        """Return the term; None if it is off, or names are not compared."""
        if not (settings.use_general_words and settings.lexical_weight):
            return None
        return cls(settings.types, settings.types_by_label)

    def prepare(self, query: Query) -> None:
        if not any(map(any, map(readings, query.texts))):
            return
        for rows, allowed in query.by_allowed(*self._types):
            texts = {query.texts[row] for row in rows if row not in query.found}
            found = {text: readings(text) for text in sorted(texts)}
            new = dict(
                _read(query.kb, {text: each for text, each in found.items() if any(each)}, allowed)
            )
            for row in rows:
                if row not in query.found and query.texts[row] in new:
                    query.reword(row, new[query.texts[row]])


def _read(
    kb: KBSnapshot, found: Mapping[str, Readings], allowed: np.ndarray | None
) -> Iterator[tuple[str, str]]:
    """Yield each text that is no name, and what it is read as, if that is known.

    allowed: mask of the entities that it may be linked to; None for all.
    """
    asked = [
        *dict.fromkeys(
            each for text, own in found.items() for each in (text, *own.names, own.other)
        )
    ]
    if not asked:
        return
    index = kb.prototypes.lexical_index
    forms = index.read(asked, with_vectors=False).forms
    # A form that is only a class name has no entities here.
    names, own_names = (index.entities_with_forms(forms, 2, mask) for mask in (None, allowed))
    is_class = dict(zip(asked, ((forms >= 0) & (names[:, 0] < 0)).tolist(), strict=True))
    owners = {name: {*row} - {-1} for name, row in zip(asked, own_names.tolist(), strict=True)}
    for text, own in found.items():
        named = [name for name in own.names if owners[name]]
        entities = set().union(*(owners[name] for name in named))
        if owners[text] or len(entities) > 1:
            continue
        if named:
            yield text, named[0]
        elif own.other and is_class[own.other]:
            yield text, own.other
