"""One concept of an ontology."""

from dataclasses import dataclass
from typing import Any

from ..errors import wrong_setting

LISTS = ("aliases", "types", "tree_numbers", "xrefs", "alt_ids", "parents")
_TUPLES = (tuple,) * len(LISTS)


@dataclass(frozen=True, slots=True)
class Entity:
    """A concept as its ontology describes it.

    id: primary id, as its source spells it.
    name: canonical (preferred) name.
    aliases: other names, in the order of the source.
    types: semantic types, e.g. `("Disease",)`.
    tree_numbers: positions in a hierarchy, e.g. MeSH's `C04.588.322`.
    definition: one text, or "".
    xrefs: ids of the same or a close concept elsewhere, e.g. `UMLS:C0018923`.
    species: its organism, or "": a name where the source has one, else an id of NCBI Taxonomy.
    source: the ontology it was read from.
    alt_ids: other ids of this concept.
    parents: ids of the concepts directly above it in its ontology.

    Lists become tuples. Raises KrisselError K006 for a text, or anything else, where several texts are expected.
    """

    id: str
    name: str
    aliases: tuple[str, ...] = ()
    types: tuple[str, ...] = ()
    tree_numbers: tuple[str, ...] = ()
    definition: str = ""
    xrefs: tuple[str, ...] = ()
    species: str = ""
    source: str = ""
    alt_ids: tuple[str, ...] = ()
    parents: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        # One comparison, since ontologies have millions of entities.
        of = self.aliases.__class__, self.types.__class__, self.tree_numbers.__class__
        if (*of, self.xrefs.__class__, self.alt_ids.__class__, self.parents.__class__) != _TUPLES:
            for name in LISTS:
                object.__setattr__(self, name, _tuple(name, getattr(self, name)))

    @property
    def names(self) -> tuple[str, ...]:
        """The canonical name and the aliases, each once, without blank ones."""
        return tuple(dict.fromkeys(name for name in (self.name, *self.aliases) if name.strip()))


def _tuple(name: str, texts: Any) -> tuple[str, ...]:
    """Raises KrisselError K006: a text is a sequence of texts too, and would become a list of letters."""
    if not isinstance(texts, (list, tuple)):
        example = f"({texts!r},)" if isinstance(texts, str) else "('first', 'second')"
        raise wrong_setting(name, texts, f"a list or tuple of texts, such as {example}")
    return tuple(texts)
