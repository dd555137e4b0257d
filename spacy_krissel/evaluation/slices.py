"""Slices: named subsets of the evaluated mentions."""

from collections.abc import Callable, Collection, Iterable, Sequence

from ..mentions.annotations import NIL
from ..ontology.store import OntologyStore
from .records import LinkRecord

# Returns the ids of the entities with a name.
Find = Callable[[str], Sequence[str]]


def primary_ids(ids: Iterable[str], store: OntologyStore) -> set[str]:
    """Return the primary ids; an id that the store does not know is kept."""
    return {store.resolve(id_) or id_ for id_ in ids}


def slice_mentions(
    records: Sequence[LinkRecord],
    store: OntologyStore,
    find: Find,
    *,
    seen: Collection[str] | None = None,
    mined: Collection[str] | None = None,
) -> dict[str, list[bool]]:
    """Return a boolean per record for each slice. `seen` and `mined` are primary ids.

    unambiguous / ambiguous: the mention's text is a name of exactly one entity / of none or
    several.
    homonym: of two or more. listed / unlisted: of any / of none.
    seen / unseen: any / no gold entity is in `seen`, the entities seen in training; only if given.
    mined / unmined: any / no gold entity is in `mined`, those with mined mentions as prototypes;
    only if given.
    composite: more than one gold id. nil: gold is NIL; only if there is such a mention.
    label:X, type:X: the mention's label in the corpus, and a semantic type of a gold entity.

    Mentions with gold NIL are in `nil`, and in the slices of their label and text.
    """
    n_entities = [len(find(record.text)) for record in records]
    is_nil = [record.gold == (NIL,) for record in records]
    slices: dict[str, list[bool]] = {
        "ambiguous": [n != 1 for n in n_entities],
        "unambiguous": [n == 1 for n in n_entities],
        "homonym": [n >= 2 for n in n_entities],
        "listed": [n >= 1 for n in n_entities],
        "unlisted": [n == 0 for n in n_entities],
        "composite": [len(record.gold) > 1 for record in records],
    }
    for inside, outside, entities in (("seen", "unseen", seen), ("mined", "unmined", mined)):
        if entities is not None:
            slices[inside] = [any(id_ in entities for id_ in record.gold) for record in records]
            slices[outside] = [
                not value and not nil for value, nil in zip(slices[inside], is_nil, strict=True)
            ]
    if any(is_nil):
        slices["nil"] = is_nil
    for label in sorted({record.label for record in records}):
        slices[f"label:{label}"] = [record.label == label for record in records]
    rows = [[store.row(entity) for entity in record.gold] for record in records]
    types = [
        {type_ for row in found if row is not None for type_ in store.entity_at(row).types}
        for found in rows
    ]
    for type_ in sorted(set().union(*types)):
        slices[f"type:{type_}"] = [type_ in types_ for types_ in types]
    return slices
