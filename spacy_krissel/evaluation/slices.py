"""Named subsets of the evaluated mentions."""

from functools import cache
from typing import Callable, Collection, Dict, List, Optional, Sequence, Set, Tuple

from ..mentions.gold_ids import NIL
from ..ontology.store import OntologyStore
from .records import LinkRecord

Find = Callable[[str], Tuple[str, ...]]


def cached_find(store: OntologyStore) -> Find:
    """`store.find`, remembering what it found: the same surface forms come again and again."""

    @cache
    def find(name: str) -> Tuple[str, ...]:
        return tuple(store.find(name)) if name else ()

    return find


def slice_mentions(
    records: Sequence[LinkRecord],
    store: OntologyStore,
    find: Find,
    *,
    seen: Optional[Collection[str]] = None,
    mined: Optional[Collection[str]] = None,
) -> Dict[str, List[bool]]:
    """For each slice, which of `records` belong to it.

    ambiguous / unambiguous: not exactly one / exactly one entity bears the mention's text as a name.
    homonym: two or more do. listed / unlisted: any does / none does.
    seen / unseen: whether any gold entity is in `seen`, the training entities; only when given.
    mined / unmined: whether any gold entity is in `mined`, those with mined mentions as prototypes; only when given.
    composite: more than one gold id. nil: gold is NIL; only when there is such a mention.
    label:X, type:X: mentions of a corpus label, and of a gold entity with a semantic type.

    Mentions with gold NIL belong to `nil`, to their label and to the slices of their text.
    """
    bearers = [len(find(record.text)) for record in records]
    slices: Dict[str, List[bool]] = {
        "ambiguous": [n != 1 for n in bearers],
        "unambiguous": [n == 1 for n in bearers],
        "homonym": [n >= 2 for n in bearers],
        "listed": [n >= 1 for n in bearers],
        "unlisted": [n == 0 for n in bearers],
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
    types: Set[str] = set()
    for entity in record.gold:
        if (row := store.row(entity)) is not None:
            types.update(store.types_at(row))
    return types
