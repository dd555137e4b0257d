"""Names of different entities that are equal in canonical form, but not as they are written.

    python benchmarks/canonical_names.py STORE [STORE …] --list collisions.tsv

For each ontology store: its names, how many are changed by `canonical_name` beyond `fold_name`, the
collisions (canonical forms that several entities have, where no writing is shared by all of them),
and how many of these writings `OntologyStore.find` resolves to the entities that have them: all, or
writing does not keep them apart. A writing is looked up as the source spells it: folded,
"Quincke's" is two words.
"""

from collections import defaultdict
from pathlib import Path
from typing import Annotated

import typer
from wasabi import msg

from spacy_krissel.ontology.store import OntologyStore
from spacy_krissel.util.folding import canonical_name, fold_name

# Form → writing → row of an entity → name as the source spells it.
Writings = dict[str, dict[str, dict[int, str]]]


def main(
    stores: Annotated[list[Path], typer.Argument(help="Ontology stores")],
    list: Annotated[Path | None, typer.Option(help="Write all collisions to this table")] = None,
) -> None:
    """Count the collisions of each store, and write them to a table."""
    rows, lines = [], ["store\tcanonical\twriting\tids"]
    for path in stores:
        store = OntologyStore(path)
        n_names, n_changed, writings = read_names(store)
        collisions = {form: own for form, own in writings.items() if collides(own)}
        apart = sum(is_found(store, own) for each in collisions.values() for own in each.values())
        total = sum(map(len, collisions.values()))
        counts = (n_names, n_changed, len(collisions))
        rows.append((path.name, *(f"{count:,}" for count in counts), f"{apart:,} of {total:,}"))
        for form, each in sorted(collisions.items()):
            for writing, own in sorted(each.items()):
                ids = ", ".join(sorted(map(store.id_at, own)))
                lines.append("\t".join((path.name, form, writing, ids)))
    header = ("store", "names", "changed", "collisions", "found by their writing")
    msg.table(rows, header=header, divider=True, aligns=("l", *"rrrr"))
    if list is not None:
        list.write_text("\n".join(lines) + "\n", encoding="utf8")


def read_names(store: OntologyStore) -> tuple[int, int, Writings]:
    """Return the number of names, of those that the canonical form changes, and the writings of
    each form that has one of these."""
    writings: Writings = defaultdict(lambda: defaultdict(dict))
    changed, n = set(), 0
    for row, name, _ in store.names():
        written, canonical = fold_name(name), canonical_name(name)
        writings[canonical][written][row] = name
        n += 1
        if written != canonical:
            changed.add(name)
    forms = {canonical_name(name) for name in changed}
    return n, len(changed), {form: writings[form] for form in forms}


def collides(writings: dict[str, dict[int, str]]) -> bool:
    """Return whether entities share the form but no writing of it."""
    return len(set().union(*writings.values())) > max(map(len, writings.values()))


def is_found(store: OntologyStore, names: dict[int, str]) -> bool:
    """Return whether each spelling of a writing finds exactly the entities that have the
    writing."""
    ids = set(map(store.id_at, names))
    return all(set(store.find(name)) == ids for name in set(names.values()))


if __name__ == "__main__":
    typer.run(main)
