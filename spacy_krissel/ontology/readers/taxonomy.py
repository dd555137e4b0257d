"""NCBI Taxonomy's `names.dmp`: a name a line, `tax_id | name | unique name | name class |` between tabs; and
`merged.dmp` beside it, `old tax_id | new tax_id |`."""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path

from ..entity import Entity
from .records import RecordFile, Start, groups, open_records, unique

PREFERRED = "scientific name"
# The classes of names that a text may use. "authority" adds who named the taxon and when; "type material" names
# specimens and strains in collections; "includes" and "in-part" name other taxa, narrower and wider ones.
NAME_CLASSES = (
    PREFERRED,
    "genbank common name",
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
MERGED = "merged.dmp"


def read_taxonomy(
    path: str | Path, *, classes: Sequence[str] = NAME_CLASSES, types: Sequence[str] = ("Species",)
) -> Iterator[Entity]:
    """Read the taxa of a names.dmp file, the names of one taxon next to each other.

    Ids are bare numbers, as in the file and in the corpora that are linked to it. The name is the scientific one. Where
    `merged.dmp` lies beside the file, as in NCBI's archive, ids that were merged into a taxon are its alternative ids:
    corpora are older than taxonomies.

    classes: the classes of names that become aliases.
    types: given to every taxon.
    Raises KrisselError K101, K102, K103; a line that cannot be used is counted (KW101).
    """
    merged = _read_merged(Path(path).with_name(MERGED))
    expected = "lines `tax_id | name | unique name | name class |`, with tabs around bars"
    with open_records(path, "taxonomy", expected, closing=(b"|",)) as records:
        for tax_id, rows in groups(records, _read_rows(records)):
            names = [(name, name_class) for _, name, name_class in rows]
            preferred = next((name for name, name_class in names if name_class == PREFERRED), names[0][0])
            yield Entity(
                id=tax_id,
                name=preferred,
                aliases=unique((name for name, name_class in names if name_class in classes), without=preferred),
                types=tuple(types),
                source="NCBI Taxonomy",
                alt_ids=tuple(merged.get(tax_id, ())),
            )


def is_taxonomy(start: Start) -> bool:
    line = start.first
    cells = line.removesuffix(END).split(JOINT)
    return line.endswith(END) and len(cells) == COLUMNS and cells[0].isdecimal()


def _read_merged(path: Path) -> dict[str, dict[str, None]]:
    """The former ids of each taxon; nothing where there is no such file."""
    merged: dict[str, dict[str, None]] = defaultdict(dict)
    if not path.is_file():
        return merged
    expected = "lines `old tax_id | new tax_id |`, with tabs around bars"
    with open_records(path, "taxonomy", expected, closing=(b"|",)) as records:
        for line in records.lines():
            ids = [cell.strip() for cell in line.removesuffix(END).split(JOINT)]
            if not line.strip():
                continue
            if len(ids) != 2 or not all(id_.isdecimal() for id_ in ids):
                records.reject("is not two tax ids")
                continue
            records.accept()
            merged[ids[1]][ids[0]] = None
    return merged


def _read_rows(records: RecordFile) -> Iterator[tuple[str, ...]]:
    """The id, name and name class of each line."""
    for line in records.lines():
        if not line.strip():
            continue
        cells = [cell.strip() for cell in line.removesuffix(END).split(JOINT)]
        if not line.endswith(END) or len(cells) != COLUMNS:
            records.reject(f"has {len(cells)} columns instead of {COLUMNS}, or no bar at its end")
        elif not cells[0].isdecimal():
            records.reject(f"has no number as tax id, but {cells[0][:20]!r}")
        elif not cells[1]:
            records.reject("has no name")
        else:
            records.accept()
            yield cells[0], cells[1], cells[3]
