"""ICD-10-CM: the XML of its tabular list, `icd10cm-tabular-….xml`, from CMS and NCHS."""

import re
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

from ...util.xml_files import XmlHandler
from ..entity import Entity
from .records import BadRecord, FileHead, open_records, unique, xml_records

ROOT = "ICD10CM.tabular"
# The codes of a chapter after its name: "(A00-B99)".
_CODES = re.compile(r"\s*\([A-Z]\w*-[A-Z]\w*\)$")
# Texts of a code by element name; its parent is under "parent".
Texts = dict[str, list[str]]


def read_icd10cm(path: str | Path) -> Iterator[Entity]:
    """Read the codes of a tabular list, children before parents.

    Aliases are inclusion terms and the notes under "Includes". The type is the chapter. The parent
    is the enclosing code, so that sections (A00-A09) are left out. Codes with a seventh character,
    which the list describes without enumerating them, are left out, too.

    Raises KrisselError K007 (truncated or malformed XML), K008 (other XML), K009 (entity
    declarations).
    """
    with open_records(path, "icd10cm", f"the tabular list as XML, with <{ROOT}>") as records:
        yield from records.parsed(xml_records(records, _Codes(str(path))), _to_entity)


def is_icd10cm(start: FileHead) -> bool:
    return f"<{ROOT}" in start.text


def _to_entity(texts: Texts) -> Entity:
    code, name = (texts[part][0] if texts[part] else "" for part in ("name", "desc"))
    if not code or not name:
        raise BadRecord(f"begins a code without {'a description' if code else 'a name'}")
    return Entity(
        id=code,
        name=name,
        aliases=unique(texts["note"], without=name),
        types=unique(texts["chapter"]),
        source="ICD-10-CM",
        parents=unique(texts["parent"]),
    )


class _Codes(XmlHandler):
    """Collects the codes of a file, each with its first line."""

    kind = "ICD-10-CM"
    root = ROOT
    texts = frozenset(("name", "desc", "note"))

    def __init__(self, path: str) -> None:
        super().__init__(path)
        self.found: list[tuple[int, Texts]] = []
        self._chapter = ""
        # Open codes, the outermost first.
        self._open: list[tuple[int, Texts]] = []

    def start(self, name: str, attrs: dict[str, str]) -> None:
        if name == "diag":
            above = self._open[-1][1]["name"] if self._open else []
            texts = defaultdict(list, {"chapter": [self._chapter], "parent": above[:1]})
            self._open.append((self.line, texts))

    def end(self, name: str, parent: str, text: str) -> None:
        text = " ".join(text.split())
        if name == "diag":
            self.done += 1
            self.found.append(self._open.pop())
        elif name == "desc" and parent == "chapter":
            self._chapter = _CODES.sub("", text)
        elif self._open and name in self.texts and parent in ("diag", "inclusionTerm", "includes"):
            self._open[-1][1][name].append(text)
