"""Columns of tables by their usual names."""

from collections.abc import Iterable, Sequence

# As `column_key` has them.
IDS = (
    "id",
    "conceptid",
    "classid",
    "termid",
    "entityid",
    "subjectid",
    "identifier",
    "curie",
    "code",
    "cui",
    "conceptcode",
    "termcode",
    "uri",
    "iri",
    "accession",
)
NAMES = (
    "name",
    "label",
    "preferredlabel",
    "preflabel",
    "preferredname",
    "prefname",
    "preferredterm",
    "canonicalname",
    "conceptname",
    "entityname",
    "termname",
    "subjectlabel",
    "term",
    "title",
    "display",
    "displayname",
)


def column_key(name: str) -> str:
    """Return the name of a column without case, spaces, underscores and other punctuation."""
    return "".join(filter(str.isalnum, name.lower()))


def find_column(header: Sequence[str], wanted: Iterable[str]) -> int | None:
    """Return the index of the first wanted column that the header has: as written, else by its key."""
    names, keys = [name.strip() for name in header], [column_key(name) for name in header]
    for each in wanted:
        for found, name in ((names, each.strip()), (keys, column_key(each))):
            if name and name in found:
                return found.index(name)
    return None
