"""NCBI Taxonomy's `names.dmp`, one name per line.

The columns are `tax_id | name | unique name | name class
|` between tabs. Next to it are `merged.dmp`, `old tax_id | new tax_id |`, and `nodes.dmp`, `tax_id
| parent tax_id | rank | …`.
"""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from ..entity import Entity
from .records import BadRecord, FileHead, groups, open_records, unique

PREFERRED, COMMON = "scientific name", "genbank common name"
# Classes of names that texts may use. "authority" adds who named the taxon and when; "type
# material" names specimens and strains in collections; "includes" and "in-part" name narrower and
# wider taxa.
NAME_CLASSES = (
    PREFERRED,
    COMMON,
    "common name",
    "equivalent name",
    "genbank synonym",
    "synonym",
    "genbank acronym",
    "acronym",
    "blast name",
    "genbank anamorph",
    "anamorph",
    "teleomorph",
    "misspelling",
)
JOINT = "\t|\t"
END = "\t|"
COLUMNS = 4
MERGED, NODES = "merged.dmp", "nodes.dmp"
# Maximum digits of a tax id; parents are an array indexed by tax id.
MAX_DIGITS = 8


def read_taxonomy(
    path: str | Path,
    *,
    classes: Sequence[str] = NAME_CLASSES,
    types: Sequence[str] = ("Species",),
    common_names: bool = False,
) -> Iterator[Entity]:
    """Read the taxa of a names.dmp file, in which the names of a taxon are adjacent.

    Ids are bare numbers, as in the file and in corpora. The name is the scientific one. With
    `merged.dmp` next to the file, as in NCBI's archive, ids that were merged into a taxon are its
    alternative ids, since corpora are older than taxonomies. With `nodes.dmp`, a taxon has its
    parent.

    classes: the classes of names that become aliases.
    types: given to every taxon.
    common_names: use GenBank's common name ("human"), if there is one, as the name, and the
        scientific one as an alias. Texts prefer it, and BELHD (§4.1, Table 11) uses it to
        disambiguate homonyms of several species.
    """
    wanted = (COMMON, PREFERRED) if common_names else (PREFERRED,)
    merged, nodes = (
        _read_merged(Path(path).with_name(MERGED)),
        _read_nodes(Path(path).with_name(NODES)),
    )
    expected = "lines `tax_id | name | unique name | name class |`, with tabs around bars"
    with open_records(path, "taxonomy", expected, closing=(b"|",)) as records:
        for tax_id, rows in groups(records, records.parsed(records.lines(), _name_row)):
            named = {name_class: name for _, name, name_class in reversed(rows)}
            preferred = next((named[each] for each in wanted if each in named), rows[0][1])
            yield Entity(
                id=tax_id,
                name=preferred,
                aliases=unique(
                    (name for _, name, name_class in rows if name_class in classes),
                    without=preferred,
                ),
                types=tuple(types),
                source="NCBI Taxonomy",
                alt_ids=tuple(merged.get(tax_id, ())),
                parents=_parents(nodes, tax_id),
            )


def is_taxonomy(start: FileHead) -> bool:
    cells = _cells(start.first)
    return start.first.endswith(END) and len(cells) == COLUMNS and cells[0].isdecimal()


def _read_merged(path: Path) -> dict[str, dict[str, None]]:
    """Return the former ids of each taxon; empty without the file."""
    merged: dict[str, dict[str, None]] = defaultdict(dict)
    if path.is_file():
        expected = "lines `old tax_id | new tax_id |`, with tabs around bars"
        with open_records(path, "taxonomy", expected, closing=(b"|",)) as records:
            for old, new in records.parsed(records.lines(), _merged_row):
                merged[new][old] = None
    return merged


def _read_nodes(path: Path) -> np.ndarray:
    """Return the parent of each taxon by its number, 0 for none; shape (10 ** MAX_DIGITS,)."""
    # Zero pages that are never written take no memory.
    parents = np.zeros(10**MAX_DIGITS, dtype=np.uint32)
    if path.is_file():
        expected = "lines `tax_id | parent tax_id | rank | …`, with tabs around bars"
        with open_records(path, "taxonomy", expected, closing=(b"|",)) as records:
            for tax_id, parent in records.parsed(records.lines(), _node_row):
                # The root is its own parent.
                parents[tax_id] = parent if parent != tax_id else 0
    return parents


def _parents(nodes: np.ndarray, tax_id: str) -> tuple[str, ...]:
    number = int(tax_id) if len(tax_id) <= MAX_DIGITS else 0
    return (str(nodes[number]),) if nodes[number] else ()


def _node_row(line: str) -> tuple[int, int]:
    ids = _cells(line)[:2]
    if len(ids) != 2 or not all(id_.isdecimal() and len(id_) <= MAX_DIGITS for id_ in ids):
        raise BadRecord("does not begin with two tax ids")
    return int(ids[0]), int(ids[1])


def _merged_row(line: str) -> list[str]:
    ids = _cells(line)
    if len(ids) != 2 or not all(id_.isdecimal() for id_ in ids):
        raise BadRecord("is not two tax ids")
    return ids


def _name_row(line: str) -> tuple[str, str, str]:
    """Parse the id, name and name class."""
    cells = _cells(line)
    if not line.endswith(END) or len(cells) != COLUMNS:
        raise BadRecord(f"has {len(cells)} columns instead of {COLUMNS}, or no bar at its end")
    if not cells[0].isdecimal():
        raise BadRecord(f"has no number as tax id, but {cells[0][:20]!r}")
    if not cells[1]:
        raise BadRecord("has no name")
    return cells[0], cells[1], cells[3]


def _cells(line: str) -> list[str]:
    return [cell.strip() for cell in line.removesuffix(END).split(JOINT)]
