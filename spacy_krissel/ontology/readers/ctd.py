"""CTD's vocabularies: tables of diseases (MEDIC) and chemicals, and MEDIC as lines
`ID|other ids||name|synonyms`.
"""

import csv
from collections.abc import Iterator, Sequence
from html import unescape
from pathlib import Path

from ..entity import Entity
from .records import BadRecord, FileHead, RecordFile, check_width, open_records, unique

COMMENT = "#"
KINDS = ("Disease", "Chemical")
# CTD's tables of relations name the same concepts, but not their tree numbers.
TREE_COLUMN = "TreeNumbers"
# Releases differ in the columns for synonyms of chemicals.
SYNONYM_COLUMNS = ("Synonyms", "MESHSynonyms", "CTDCuratedSynonyms")
XREF_COLUMNS = {"CasRN": "CAS", "DrugBankIDs": "DrugBank"}
# Top rows of MeSH's trees of diseases and chemicals, which are not MeSH concepts.
TOPS = ("MESH:C", "MESH:D")


# The kind of concepts, the column names, and the delimiter of a vocabulary.
Header = tuple[str, list[str], str]


def read_ctd(path: str | Path, *, types: Sequence[str] | None = None) -> Iterator[Entity]:
    """Read CTD_diseases or CTD_chemicals, tab- or comma-separated, by the names of the columns.

    Ids have prefixes (`MESH:D003920`, `OMIM:264300`). Alternative ids from the Disease Ontology
    lose CTD's own prefix (`DO:DOID:2377`).

    types: given to every concept; default: "Disease" or "Chemical".
    """
    expected = (
        "CTD's diseases or chemicals, with a line `# DiseaseName DiseaseID …` (or `# Chemical…`) "
        "above the rows"
    )
    with open_records(path, "ctd", expected) as records:
        yield from records.parsed(_rows(records), lambda row: _to_entity(*row, types))


def is_ctd(start: FileHead) -> bool:
    # A comment names the columns.
    return any(_header(line) for line in start.lines if line.startswith(COMMENT))


def is_medic(start: FileHead) -> bool:
    return "||" in start.first


def _header(line: str) -> Header | None:
    """Return the columns that a comment names, if they are those of diseases or chemicals."""
    delimiter = "\t" if "\t" in line else ","
    columns = [column.strip() for column in line.removeprefix(COMMENT).split(delimiter)]
    for kind in KINDS:
        if {f"{kind}Name", f"{kind}ID", TREE_COLUMN} <= set(columns):
            return kind, columns, delimiter
    return None


def _rows(records: RecordFile) -> Iterator[tuple[str, Header]]:
    """Yield the lines below the column names, with the names."""
    header: Header | None = None
    for line in records.lines():
        if line.startswith(COMMENT):
            header = header or _header(line)
        elif header is None:
            raise records.wrong_format("stands above the names of the columns")
        else:
            yield line, header


def _to_entity(line: str, header: Header, types: Sequence[str] | None) -> Entity | None:
    kind, columns, delimiter = header
    try:
        # In tab-separated rows, quotes are part of a text.
        cells = line.split("\t") if delimiter == "\t" else next(csv.reader([line], strict=True))
    except csv.Error as error:
        raise BadRecord(f"is not a comma-separated row ({error})") from None
    check_width(cells, len(columns))
    row = {column: cell.strip() for column, cell in zip(columns, cells, strict=True)}
    for column in (f"{kind}ID", f"{kind}Name"):
        if not row[column]:
            raise BadRecord(f"has nothing in column {column!r}")
    id_, name = row[f"{kind}ID"], row[f"{kind}Name"]
    if id_ in TOPS:
        return None
    xrefs = (
        f"{prefix}:{xref}"
        for column, prefix in XREF_COLUMNS.items()
        for xref in _parts(row, column)
    )
    return Entity(
        id=id_,
        name=name,
        aliases=unique(
            (alias for column in SYNONYM_COLUMNS for alias in _parts(row, column)), without=name
        ),
        types=(kind,) if types is None else tuple(types),
        tree_numbers=unique(_parts(row, TREE_COLUMN)),
        definition=row.get("Definition", ""),
        xrefs=unique(xrefs),
        source="CTD",
        alt_ids=unique(
            (alt_id.removeprefix("DO:") for alt_id in _parts(row, "AltDiseaseIDs")), without=id_
        ),
        parents=unique(parent for parent in _parts(row, "ParentIDs") if parent not in TOPS),
    )


def _parts(row: dict[str, str], column: str) -> list[str]:
    return [part.strip() for part in row.get(column, "").split("|") if part.strip()]


def read_medic(path: str | Path, *, types: Sequence[str] = ("Disease",)) -> Iterator[Entity]:
    """Read a MEDIC file, one concept per line.

    Ids are unchanged: MeSH's without their prefix, OMIM's as bare numbers. Since corpora write the
    latter with their prefix, `OMIM:145250` becomes an alternative id of the entity with the number
    145250.

    types: given to every disease.
    """
    with open_records(
        path, "medic", "lines `ID|alternative ids||preferred name|synonyms`"
    ) as records:
        yield from records.parsed(records.lines(), lambda line: _to_disease(line, tuple(types)))


def _to_disease(line: str, types: tuple[str, ...]) -> Entity:
    head, bars, tail = line.partition("||")
    if not bars:
        raise BadRecord("has no '||' between ids and names")
    if not head.partition("|")[0].strip():
        raise BadRecord("has no id before '||'")
    if not tail.partition("|")[0].strip():
        raise BadRecord("has no preferred name after '||'")
    # The published file escapes apostrophes and accents as HTML ("Alzheimer&apos;s").
    names = unique(map(unescape, tail.split("|")))
    id_, *others = unique(head.split("|"))
    with_prefix = (
        each
        for id_ in (id_, *others)
        for each in ((id_, f"OMIM:{id_}") if id_.isdecimal() else (id_,))
    )
    return Entity(
        id=id_,
        name=names[0],
        aliases=names[1:],
        types=types,
        source="MEDIC",
        alt_ids=unique(with_prefix, without=id_),
    )
