"""General words of harm: "renal injury" is read as a kidney disease, if no entity has the name."""

from ....kb.snapshot import KBSnapshot
from ....lexical.groups import distinct
from ....mentions.general_words import Readings, readings
from ...settings import LinkerSettings
from ..query import Query
from .term import Term


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
