"""Distance of wrong links from the correct entity."""

from collections.abc import Sequence
from functools import cache
from typing import Any

from ..mentions.gold_ids import NIL
from ..ontology.hierarchy import position_keys
from ..ontology.store import OntologyStore
from .records import LinkRecord, counted


def link_distance(records: Sequence[LinkRecord], store: OntologyStore) -> dict[str, Any] | None:
    """Count wrong links by their relation to a gold entity in the ontology, by parents, or else
    tree numbers.

    Wrong links are links to an entity other than gold; ties with a gold entity are left out. With
    several gold entities the nearest counts.

    RETURNS: their number `n`, and the fractions that link to a `parent`, `child` or `sibling` of a
    gold entity, and to any `other`; None without a wrong link, or if none of their entities has a
    parent.
    """
    keys = cache(lambda id_: position_keys(store.get(id_), store) if id_ in store else ({id_}, set()))
    found, placed = dict.fromkeys(("parent", "child", "sibling", "other"), 0), False
    for record in counted(records):
        wrong = {record.prediction, *record.ties}.isdisjoint(record.gold)
        if not wrong or record.prediction in ("", NIL) or record.gold == (NIL,):
            continue
        own, above = keys(record.prediction)
        others = [keys(id_) for id_ in record.gold]
        placed = placed or bool(above) or any(parents for _, parents in others)
        kinds = (
            ("parent", any(own & parents for _, parents in others)),
            ("child", any(above & gold for gold, _ in others)),
            ("sibling", any(above & parents for _, parents in others)),
            ("other", True),
        )
        found[next(kind for kind, holds in kinds if holds)] += 1
    n = sum(found.values())
    return {"n": n, **{kind: number / n for kind, number in found.items()}} if placed else None
