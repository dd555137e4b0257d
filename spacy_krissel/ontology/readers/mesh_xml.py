"""MeSH as NLM publishes it: XML of descriptors, or of supplementary records."""

from pathlib import Path
from typing import Any, Iterator, List, Optional, Type, Union

from ...util.xml_files import XmlHandler, feed
from ..entity import Entity
from .mesh import categories
from .records import RecordFile, open_records, unique

# SCRClass of supplementary records.
CLASSES = {"1": "Chemical", "2": "Protocol", "3": "Disease", "4": "Organism", "5": "Population Group", "6": "Anatomy"}
# The elements whose text is read, beside the id's.
TEXTS = ("String", "TreeNumber", "ScopeNote", "Note")
EXPECTED = "NLM's desc….xml with <DescriptorRecordSet>, or supp….xml with <SupplementalRecordSet>"


def read_mesh_xml(path: Union[str, Path]) -> Iterator[Entity]:
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


def is_mesh_xml(start: bytes) -> bool:
    return _kind(start) is not None


class _Records(XmlHandler):
    """Collects the records of a file. record: the element of one; what it is called begins with it."""

    kind = "MeSH"
    record: str
    prefix: str

    def __init__(self, path: str, records: RecordFile) -> None:
        super().__init__(path)
        self.records = records
        self.found: List[Entity] = []
        self._begin("")

    def _begin(self, class_: str) -> None:
        self._class, self._first_line = class_, self.line
        self._id, self._name, self._note = "", "", ""
        self._scope_note = ""
        self._terms: List[str] = []
        self._numbers: List[str] = []
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


def _kind(start: bytes) -> Optional[Type[_Records]]:
    return next((each for each in (_Descriptors, _Supplementary) if f"<{each.root}".encode() in start), None)
