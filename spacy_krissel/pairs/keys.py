"""Keys of objects, and columns of tables, that hold ids and their labels."""

from collections.abc import Sequence

from ..util.tables import IDS, NAMES, column_key

LABELS = ("label", "lbl", *NAMES)
# Most specific first: `term_id` belongs to `term_label`.
_ID_ENDS = ("identifier", "accession", "curie", "code", "iri", "uri", "cui", "id")


def paired_keys(names: Sequence[str]) -> list[tuple[int, int | None]]:
    """Return the index of each key of an id, with that of its label, if there is one.

    `id` has the label `label` or `name`; `object_id` has `object_label`, `object_name` or `object`.
    """
    keys = [column_key(name) for name in names]
    found = []
    for index, key in enumerate(keys):
        end = next((each for each in _ID_ENDS if key.endswith(each)), None)
        if end is None:
            continue
        stem = key.removesuffix(end)
        wanted = [stem + each for each in LABELS] + ([stem] if stem else [])
        label = next((keys.index(each) for each in wanted if each in keys), None)
        if label is None and key in IDS:
            label = next((keys.index(each) for each in LABELS if each in keys), None)
        found.append((index, label))
    return found
