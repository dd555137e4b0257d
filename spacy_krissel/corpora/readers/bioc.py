"""BioC XML: collections of documents whose passages hold text and annotations."""

from collections.abc import Iterator
from dataclasses import replace
from operator import itemgetter
from pathlib import Path
from typing import Any

from ...errors import Errors, KrisselError
from ...mentions.gold_ids import read_classes, read_ids
from ...util.xml_files import XmlHandler, feed
from ..annotation import AnnotatedText, Mention, covered_text, parse_fragments, parse_offset
from ..files import open_binary
from ..report import CorpusReport, reporting

EXPECTED = "a BioC XML file"
# Infons that hold the concept, most reliable first. Their names are compared without case.
ID_INFONS = (
    "identifier",
    "identifiers",
    "concept_id",
    "mesh",
    "omim",
    "ncbi gene",
    "ncbi gene identifier",
    "ncbi taxonomy",
    "chebi",
    "cvcl",
    "umls",
    "cui",
)
# Passages further apart than this are joined by one space: their source left out the text between
# them.
MAX_GAP = 100


@reporting
def read_bioc(path: str | Path, *, report: CorpusReport) -> Iterator[AnnotatedText]:
    """Yield the documents of a BioC XML file one at a time; the file is never held whole, and `.gz`
    is decompressed.

    The text of a document is its passages (or their sentences) at their offsets, with gaps filled
    with spaces. The label of a mention is its infon `type`. Its id is the first of `ID_INFONS` that
    it has, else the infon named like its type (GNormPlus: `Gene`), else the type states both
    (BioID: `NCBI gene:7157`, see `read_classes`). Several ids are joined as in `read_ids`.

    Some annotations are counted and skipped: relations; annotations that repeat a part of a
    composite mention (infon `CompositeRole` = `IndividualMention`); annotations of a whole
    document, without offsets and text (NLM-Chem's MeSH headings); and annotations of other types
    that BELB adds (infon `foreign`).

    report: counts `composite_parts`, `relations`, `document_annotations`, `foreign_annotations` and
        `bad_records`.

    Raises KrisselError K201 (no file), K202 (truncated gzip), K204 (no document), K007 (truncated
    or malformed XML), K008 (other XML), K009 (entity declarations).
    """
    handler = _Handler(str(path), report)
    n_documents = 0
    with open_binary(path, EXPECTED) as file_:
        for _ in feed(file_, handler):
            documents, handler.documents = handler.documents, []
            n_documents += len(documents)
            yield from documents
    if not n_documents:
        raise KrisselError(
            Errors.K204.format(path=path, what="document", line=handler.line, expected=EXPECTED)
        )


class _Handler(XmlHandler):
    """Collects finished documents in `documents`, which the reader empties."""

    kind = "BioC XML"
    root = "collection"
    texts = frozenset(("id", "offset", "text", "infon"))

    def __init__(self, path: str, report: CorpusReport) -> None:
        super().__init__(path)
        self.report = report
        self.documents: list[AnnotatedText] = []
        self._document: BioCDocument | None = None
        # Offsets of the open passage and sentence; a sentence without an offset has that of its
        # passage.
        self._offsets: list[int | None] = []
        self._annotation: dict[str, Any] | None = None
        self._infon = ""

    def start(self, name: str, attrs: Any) -> None:
        if name == "document":
            self._document = BioCDocument(self.path, self.line, self.report)
        elif name in ("passage", "sentence"):
            self._offsets.append(None)
        elif name == "annotation":
            self._annotation = {"line": self.line, "infons": {}, "locations": [], "text": ""}
        elif name == "location" and self._annotation is not None:
            self._annotation["locations"].append((attrs.get("offset", ""), attrs.get("length", "")))
        elif name == "infon":
            self._infon = attrs.get("key", "").lower()
        elif name == "relation":
            self.report.count("relations")

    def end(self, name: str, parent: str, text: str) -> None:
        if self._document is None:
            return
        if name == "id" and parent == "document":
            self._document.annotated.id = text.strip()
        elif name == "offset" and self._offsets:
            self._offsets[-1] = parse_offset(text.strip())
            if self._offsets[-1] is None:
                self.report.record_issue(
                    "bad_records",
                    self.path,
                    self.line,
                    f"the offset {text.strip()!r} of a {parent}",
                )
        elif name == "text" and parent in ("passage", "sentence"):
            offset = next((offset for offset in reversed(self._offsets) if offset is not None), 0)
            self._document.units.append((offset, text))
        elif name == "text" and parent == "annotation" and self._annotation:
            self._annotation["text"] = text
        elif name == "infon" and parent == "annotation" and self._annotation:
            self._annotation["infons"][self._infon] = text.strip()
        elif name in ("passage", "sentence"):
            self._offsets.pop()
        elif name == "annotation" and self._annotation:
            self._document.annotate(**self._annotation)
            self._annotation = None
        elif name == "document":
            self.documents.append(self._document.finished())
            self.done += 1
            self._document = None


class BioCDocument:
    """A document that is being read. units: offset and text of passages, and of sentences with
    their own text.
    """

    def __init__(self, path: str, line: int, report: CorpusReport) -> None:
        self.annotated = AnnotatedText("", "", source=path, line=line)
        self.units: list[tuple[int, str]] = []
        self._report = report

    def annotate(
        self, infons: dict[str, str], locations: list[tuple[str, str]], text: str, line: int
    ) -> None:
        """Add an annotation. infons: by lower-case name. locations: offset and length."""
        if infons.get("compositerole") == "IndividualMention":
            self._report.count("composite_parts")
        elif infons.get("foreign", "").lower() == "true":
            self._report.count("foreign_annotations")
        elif not locations and not text.strip():
            self._report.count("document_annotations")
        elif not (offsets := parse_fragments(locations)):
            path = self.annotated.source
            self._report.record_issue(
                "bad_records", path, line, "an annotation without a numeric location"
            )
        else:
            fragments = tuple((offset, offset + length) for offset, length in offsets)
            label = infons.get("type", "")
            kb_id = next(
                (infons[key] for key in (*ID_INFONS, label.lower()) if infons.get(key)), ""
            )
            label, kb_id = (label, read_ids(kb_id)) if kb_id else read_classes(label)
            self.annotated.mentions.append(Mention(fragments, text, label, kb_id, line))

    def finished(self) -> AnnotatedText:
        """Return the document with its text and its mentions at their offsets."""
        document = self.annotated
        document.id = document.id or f"{Path(document.source).name}:{document.line}"
        # Ranges of the source's offsets that have text, each with its shift to offsets in the
        # joined text.
        ranges: list[tuple[int, int, int]] = []
        whole = ""
        for offset, text in sorted(self.units, key=itemgetter(0)):
            if not text:
                continue
            gap = offset - (ranges[-1][1] if ranges else 0)
            if not 0 <= gap <= MAX_GAP:
                gap = 1 if ranges else 0
            whole += " " * gap
            ranges.append((offset, offset + len(text), len(whole) - offset))
            whole += text
        document.text = whole
        for i, mention in enumerate(document.mentions):
            offsets: list[tuple[int, int]] = []
            for start, end in mention.fragments:
                shift = next((shift for first, last, shift in ranges if first <= start < last), 0)
                offsets.append((start + shift, end + shift))
            text = mention.text or covered_text(document.text, offsets)
            document.mentions[i] = replace(mention, fragments=tuple(offsets), text=text)
        return document
