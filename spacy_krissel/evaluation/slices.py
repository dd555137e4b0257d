"""Named subsets of the evaluated mentions."""

from collections.abc import Callable, Collection, Sequence
from functools import cache

from ..mentions.gold_ids import NIL
from ..ontology.store import OntologyStore
from .records import LinkRecord

Find = Callable[[str], tuple[str, ...]]


def cached_find(store: OntologyStore) -> Find:
    """`store.find`, cached."""

    @cache
    def find(name: str) -> tuple[str, ...]:
        return tuple(store.find(name)) if name else ()

    return find


def slice_mentions(
    records: Sequence[LinkRecord],
    store: OntologyStore,
    find: Find,
    *,
    seen: Collection[str] | None = None,
    mined: Collection[str] | None = None,
) -> dict[str, list[bool]]:
    """For each slice, a boolean per record.

    unambiguous / ambiguous: the mention's text is a name of exactly one entity / of none or several.
    homonym: of two or more. listed / unlisted: of any / of none.
    seen / unseen: any / no gold entity is in `seen`, the entities seen in training; only when given.
    mined / unmined: any / no gold entity is in `mined`, those with mined mentions as prototypes; only when given.
    composite: more than one gold id. nil: gold is NIL; only when there is such a mention.
    label:X, type:X: the mention's label in the corpus, and a semantic type of a gold entity.

    Mentions with gold NIL are in `nil`, and in the slices of their label and text.
    """
    n_entities = [len(find(record.text)) for record in records]
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
            known = {store.resolve(entity) or entity for entity in entities}
            slices[inside] = [not known.isdisjoint(record.gold) for record in records]
            slices[outside] = [
                not value and record.gold != (NIL,) for value, record in zip(slices[inside], records, strict=True)
            ]
    if any(record.gold == (NIL,) for record in records):
        slices["nil"] = [record.gold == (NIL,) for record in records]
    for label in sorted({record.label for record in records}):
        slices[f"label:{label}"] = [record.label == label for record in records]
    types = [_gold_types(record, store) for record in records]
    for type_ in sorted(set().union(*types)):
        slices[f"type:{type_}"] = [type_ in types_ for types_ in types]
    return slices


def _gold_types(record: LinkRecord, store: OntologyStore) -> Collection[str]:
    types: set[str] = set()
    for entity in record.gold:
        if (row := store.row(entity)) is not None:
            types.update(store.types_at(row))
    return types
