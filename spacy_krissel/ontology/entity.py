"""One concept of an ontology."""

from dataclasses import dataclass


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

    @property
    def names(self) -> tuple[str, ...]:
        """The canonical name and the aliases, each once, without blank ones."""
        return tuple(dict.fromkeys(name for name in (self.name, *self.aliases) if name.strip()))
