"""MeSH: tables of terms and tree numbers, and NLM's XML of descriptors and supplementary
records."""

from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from ...util.xml_files import XmlHandler
from ..entity import Entity
from .records import BadRecord, FileHead, groups, open_records, table_rows, unique, xml_records

TERM_COLUMNS = ("DescriptorUI", "TermName", "RecordPreferredTermYN")
TREE_COLUMNS = ("DescriptorUI", "DescriptorName", "tree_location")
# The sixteen categories of MeSH, by the first letter of a tree number.
CATEGORIES = {
    "A": "Anatomy",
    "B": "Organisms",
    "C": "Diseases",
    "D": "Chemicals and Drugs",
    "E": "Analytical, Diagnostic and Therapeutic Techniques, and Equipment",
    "F": "Psychiatry and Psychology",
    "G": "Phenomena and Processes",
    "H": "Disciplines and Occupations",
    "I": "Anthropology, Education, Sociology, and Social Phenomena",
    "J": "Technology, Industry, and Agriculture",
    "K": "Humanities",
    "L": "Information Science",
    "M": "Named Groups",
    "N": "Health Care",
    "V": "Publication Characteristics",
    "Z": "Geographicals",
}


def read_mesh(path: str | Path, tree_path: str | Path | None = None) -> Iterator[Entity]:
    """Read a tab-separated table of terms with a header, in which the terms of a descriptor are
    adjacent.

    tree_path: table of tree numbers, held in memory (65,000 rows in all of MeSH). Types are the
        categories of the tree numbers, so without it there are none.
    """
    trees: dict[str, tuple[str, ...]] = {}
    if tree_path is not None:
        trees = {entity.id: entity.tree_numbers for entity in read_mesh_tree(tree_path)}
    with open_records(
        path, "mesh", f"a tab-separated table with the columns {', '.join(TERM_COLUMNS)}"
    ) as records:
        for id_, rows in groups(records, table_rows(records, TERM_COLUMNS)):
            name = next((term for _, term, preferred in rows if preferred == "Y"), rows[0][1])
            tree_numbers = trees.get(id_, ())
            yield Entity(
                id=id_,
                name=name,
                aliases=unique((term for _, term, _ in rows), without=name),
                types=categories(tree_numbers),
                tree_numbers=tree_numbers,
                source="MeSH",
            )


def read_mesh_tree(path: str | Path) -> Iterator[Entity]:
    """Read a table of tree numbers: descriptors with their name, tree numbers and categories, and
    no further terms.

    It suffices to enrich another ontology.
    """
    expected = f"a tab-separated table with the columns {', '.join(TREE_COLUMNS)}"
    with open_records(path, "mesh-tree", expected) as records:
        for id_, rows in groups(records, table_rows(records, TREE_COLUMNS)):
            tree_numbers = unique(tree_number for _, _, tree_number in rows)
            types = categories(tree_numbers)
            yield Entity(
                id=id_, name=rows[0][1], types=types, tree_numbers=tree_numbers, source="MeSH"
            )


def is_mesh(start: FileHead) -> bool:
    return set(TERM_COLUMNS) <= set(start.cells)


def is_mesh_tree(start: FileHead) -> bool:
    return set(TREE_COLUMNS) <= set(start.cells)


def categories(tree_numbers: Sequence[str]) -> tuple[str, ...]:
    return tuple(
        dict.fromkeys(CATEGORIES[number[0]] for number in tree_numbers if number[0] in CATEGORIES)
    )


# SCRClass of supplementary records.
CLASSES = {
    "1": "Chemical",
    "2": "Protocol",
    "3": "Disease",
    "4": "Organism",
    "5": "Population Group",
    "6": "Anatomy",
}
# Paths in a record: its terms, and the scope note of its preferred concept.
TERM, SCOPE_NOTE = "ConceptList/Concept/TermList/Term/String", "ConceptList/Concept/ScopeNote"
# Elements whose text is read, in addition to the id.
TEXTS = ("String", "TreeNumber", "ScopeNote", "Note")
# Root elements, and the prefix of the elements of a record's id and name.
ROOTS = {"DescriptorRecordSet": "Descriptor", "SupplementalRecordSet": "SupplementalRecord"}
EXPECTED = "NLM's desc….xml with <DescriptorRecordSet>, or supp….xml with <SupplementalRecordSet>"


def read_mesh_xml(path: str | Path) -> Iterator[Entity]:
    """Read MeSH's descriptors (desc2026.xml) or supplementary records (supp2026.xml), one at a
    time.

    Aliases are all terms of all concepts of a record, including narrower ones, which MeSH enters
    under it. The definition is the preferred concept's scope note, or a supplementary record's
    note. Types are the categories of the tree numbers; a supplementary record, which has none, has
    the kind of its class.

    Raises KrisselError K007 (truncated or malformed XML), K008 (other XML), K009 (entity
    declarations).
    """
    with open_records(path, "mesh-xml", EXPECTED) as records:
        root = _root(records.file.read(1 << 16).decode("utf8", errors="replace"))
        if root is None:
            raise records.wrong_format("begins another kind of file", 1)
        records.file.rewind()
        handler = _Records(str(path), root)
        yield from records.parsed(
            xml_records(records, handler), partial(_to_entity, prefix=ROOTS[root])
        )


def is_mesh_xml(start: FileHead) -> bool:
    return _root(start.text) is not None


def _root(start: str) -> str | None:
    return next((root for root in ROOTS if f"<{root}" in start), None)


# Texts of a record by the path of their element, such as "Note".
Texts = dict[str, list[str]]


def _to_entity(texts: Texts, prefix: str) -> Entity:
    first = {path: each[0] for path, each in texts.items()}
    id_, name = first.get(f"{prefix}UI"), first.get(f"{prefix}Name/String")
    if not id_ or not name:
        raise BadRecord(f"begins a record without {'a name' if id_ else 'an id'}")
    numbers = unique(texts.get("TreeNumberList/TreeNumber", ()))
    return Entity(
        id=id_,
        name=name,
        aliases=unique(texts.get(TERM, ()), without=name),
        types=categories(numbers) or unique([CLASSES.get(first["class"], "")]),
        tree_numbers=numbers,
        definition=first.get(SCOPE_NOTE) or first.get("Note", ""),
        source="MeSH",
    )


class _Records(XmlHandler):
    """Collects the records of a file, each with its first line."""

    kind = "MeSH"

    def __init__(self, path: str, root: str) -> None:
        super().__init__(path)
        self.root = root
        self.texts = frozenset((f"{ROOTS[root]}UI", *TEXTS))
        self.found: list[tuple[int, Texts]] = []
        self._is_preferred = False

    def start(self, name: str, attrs: Any) -> None:
        if len(self._stack) == 2:
            self._first_line, self._texts = self.line, {"class": [attrs.get("SCRClass", "")]}
        elif name == "Concept":
            self._is_preferred = attrs.get("PreferredConceptYN") == "Y"

    def end(self, name: str, parent: str, text: str) -> None:
        if len(self._stack) == 1:
            self.done += 1
            self.found.append((self._first_line, self._texts))
        elif name in self.texts and (name != "ScopeNote" or self._is_preferred):
            path = "/".join((*self._stack[2:], name))
            self._texts.setdefault(path, []).append(" ".join(text.split()))
