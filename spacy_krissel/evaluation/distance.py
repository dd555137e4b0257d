"""Relation of a wrong link to the correct entity in the ontology, by parents or tree numbers."""

from collections.abc import Callable, Iterable, Sequence
from functools import cache
from typing import Any, Literal

from ..mentions.annotations import NIL
from ..ontology.hierarchy import NUMBERED_BY_TYPE, position_keys
from ..ontology.store import OntologyStore
from .records import LinkRecord, counted

Relation = Literal["parent", "child", "sibling", "other"]
# Keys of an entity and of its parents (`position_keys`), by id.
Keys = Callable[[str], tuple[set[str], set[str]]]


def cached_keys(store: OntologyStore) -> Keys:
    """Return a function that computes the position keys of each id once."""
    return cache(
        lambda id_: position_keys(store.get(id_), store) if id_ in store else ({id_}, set())
    )


def has_hierarchy(store: OntologyStore) -> bool:
    """Return whether any entity has a parent, or else a tree number below another one."""
    numbers = zip(store.each("tree_numbers"), store.each("source"), strict=True)
    return any(store.each("parents")) or any(
        source not in NUMBERED_BY_TYPE and any("." in number for number in each)
        for each, source in numbers
    )


def relation(prediction: str, gold: Iterable[str], keys: Keys) -> Relation:
    """Return what the predicted entity is to a gold entity: the nearest relation to any of them."""
    own, above = keys(prediction)
    others = [keys(id_) for id_ in gold]
    if any(own & parents for _, parents in others):
        return "parent"
    if any(above & at for at, _ in others):
        return "child"
    return "sibling" if any(above & parents for _, parents in others) else "other"


def link_distance(records: Sequence[LinkRecord], store: OntologyStore) -> dict[str, Any] | None:
    """Count wrong links by their relation to a gold entity in the ontology, by parents, or else
    tree numbers.

    Wrong links are links to an entity other than gold; ties with a gold entity are left out. With
    several gold entities the nearest counts.

    RETURNS: their number `n`, and the fractions that link to a `parent`, `child` or `sibling` of a
    gold entity, and to any `other`; None without a wrong link, or if none of their entities has a
    parent.
    """
    keys = cached_keys(store)
    found: dict[Relation, int] = dict.fromkeys(("parent", "child", "sibling", "other"), 0)
    placed = False
    for record in counted(records):
        wrong = {record.prediction, *record.ties}.isdisjoint(record.gold)
        if not wrong or record.prediction in ("", NIL) or record.gold == (NIL,):
            continue
        placed = placed or any(keys(id_)[1] for id_ in (record.prediction, *record.gold))
        found[relation(record.prediction, record.gold, keys)] += 1
    n = sum(found.values())
    return {"n": n, **{kind: number / n for kind, number in found.items()}} if placed else None
