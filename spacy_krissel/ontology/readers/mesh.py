"""MeSH: tables of terms and tree numbers, and NLM's XML of descriptors and supplementary records."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from ...util.xml_files import XmlHandler, feed
from ..entity import Entity
from .records import RecordFile, Start, groups, open_records, table_rows, unique

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
    """Read a table of terms, tab-separated with a header, the terms of one descriptor next to each other.

    tree_path: table of tree numbers, held in memory (65,000 rows in all of MeSH). Types are the categories of the tree
        numbers, so without it there are none.
    Raises KrisselError K101, K102, K103; a row that cannot be used is counted (KW101).
    """
    trees: dict[str, tuple[str, ...]] = {}
    if tree_path is not None:
        trees = {entity.id: entity.tree_numbers for entity in read_mesh_tree(tree_path)}
    with open_records(path, "mesh", f"a tab-separated table with the columns {', '.join(TERM_COLUMNS)}") as records:
        for id_, rows in groups(records, table_rows(records, TERM_COLUMNS)):
            terms: list[str] = []
            name = ""
            for _, term, preferred in rows:
                terms.append(term)
                if preferred == "Y" and not name:
                    name = term
            name = name or terms[0]
            tree_numbers = trees.get(id_, ())
            yield Entity(
                id=id_,
                name=name,
                aliases=unique(terms, without=name),
                types=categories(tree_numbers),
                tree_numbers=tree_numbers,
                source="MeSH",
            )


def read_mesh_tree(path: str | Path) -> Iterator[Entity]:
    """Read a table of tree numbers: descriptors with their name, tree numbers and categories, and no further terms.

    Enough to enrich another ontology from. Raises and warns as `read_mesh`.
    """
    expected = f"a tab-separated table with the columns {', '.join(TREE_COLUMNS)}"
    with open_records(path, "mesh-tree", expected) as records:
        for id_, rows in groups(records, table_rows(records, TREE_COLUMNS)):
            tree_numbers = unique(tree_number for _, _, tree_number in rows)
            types = categories(tree_numbers)
            yield Entity(id=id_, name=rows[0][1], types=types, tree_numbers=tree_numbers, source="MeSH")


def is_mesh(start: Start) -> bool:
    return set(TERM_COLUMNS) <= set(start.cells)


def is_mesh_tree(start: Start) -> bool:
    return set(TREE_COLUMNS) <= set(start.cells)


def categories(tree_numbers: Sequence[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(CATEGORIES[number[0]] for number in tree_numbers if number[0] in CATEGORIES))


# SCRClass of supplementary records.
CLASSES = {"1": "Chemical", "2": "Protocol", "3": "Disease", "4": "Organism", "5": "Population Group", "6": "Anatomy"}
# The elements whose text is read, beside the id's.
TEXTS = ("String", "TreeNumber", "ScopeNote", "Note")
EXPECTED = "NLM's desc….xml with <DescriptorRecordSet>, or supp….xml with <SupplementalRecordSet>"


def read_mesh_xml(path: str | Path) -> Iterator[Entity]:
    """Read MeSH's descriptors (desc2026.xml) or supplementary records (supp2026.xml), one at a time.

    The aliases are all terms of all concepts of a record, its narrower ones too: MeSH enters them under it. The
    definition is the preferred concept's scope note, or a supplementary record's note. Types are the categories of the
    tree numbers; a supplementary record, which has none, has the kind of its class.

    Raises KrisselError K101, K103, K102 (damaged compression), K007 (truncated or malformed XML), K008 (other
    XML), K009 (entity declarations); a record without an id or a name is counted (KW101).
    """
    with open_records(path, "mesh-xml", EXPECTED) as records:
        file_ = records.file
        kind = _kind(file_.read(1 << 16))
        if kind is None:
            raise records.wrong_format("begins another kind of file", 1)
        file_.rewind()
        handler = kind(str(path), records)
        for _ in feed(file_, handler):
            found, handler.found = handler.found, []
            yield from found


def is_mesh_xml(start: Start) -> bool:
    return _kind(start.data) is not None


class _Records(XmlHandler):
    """Collects the records of a file. record: the element of one; what it is called begins with it."""

    kind = "MeSH"
    record: str
    prefix: str

    def __init__(self, path: str, records: RecordFile) -> None:
        super().__init__(path)
        self.records = records
        self.found: list[Entity] = []
        self._begin("")

    def _begin(self, class_: str) -> None:
        self._class, self._first_line = class_, self.line
        self._id, self._name, self._note = "", "", ""
        self._scope_note = ""
        self._terms: list[str] = []
        self._numbers: list[str] = []
        self._is_preferred = False

    def start(self, name: str, attrs: Any) -> None:
        if name == self.record:
            self._begin(attrs.get("SCRClass", ""))
        elif name == "Concept":
            self._is_preferred = attrs.get("PreferredConceptYN") == "Y"

    def end(self, name: str, parent: str, text: str) -> None:
        above = self._stack[-2] if len(self._stack) > 1 else ""
        if name == f"{self.prefix}UI" and parent == self.record:
            self._id = text.strip()
        elif name == "String" and parent == f"{self.prefix}Name" and above == self.record:
            self._name = " ".join(text.split())
        elif name == "String" and parent == "Term":
            self._terms.append(" ".join(text.split()))
        elif name == "TreeNumber":
            self._numbers.append(text)
        elif name == "ScopeNote" and self._is_preferred:
            self._scope_note = " ".join(text.split())
        elif name == "Note" and parent == self.record:
            self._note = " ".join(text.split())
        elif name == self.record:
            self._finish()

    def _finish(self) -> None:
        self.done += 1
        if not self._id or not self._name:
            self.records.reject(f"begins a record without {'a name' if self._id else 'an id'}", self._first_line)
            return
        self.records.accept()
        numbers = unique(self._numbers)
        kind = CLASSES.get(self._class)
        self.found.append(
            Entity(
                id=self._id,
                name=self._name,
                aliases=unique(self._terms, without=self._name),
                types=categories(numbers) or ((kind,) if kind else ()),
                tree_numbers=numbers,
                definition=self._scope_note or self._note,
                source="MeSH",
            )
        )


class _Descriptors(_Records):
    root, record, prefix = "DescriptorRecordSet", "DescriptorRecord", "Descriptor"
    texts = frozenset((f"{prefix}UI", *TEXTS))


class _Supplementary(_Records):
    root, record, prefix = "SupplementalRecordSet", "SupplementalRecord", "SupplementalRecord"
    texts = frozenset((f"{prefix}UI", *TEXTS))


def _kind(start: bytes) -> type[_Records] | None:
    return next((each for each in (_Descriptors, _Supplementary) if f"<{each.root}".encode() in start), None)
