"""BioC XML: collections of documents, whose passages hold text and annotations."""

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
# The infons that hold the concept, by descending trust; names are compared without regard to case.
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
# Passages further apart than this are joined by one space instead: their source left out what stood between them.
MAX_GAP = 100


@reporting
def read_bioc(path: str | Path, *, report: CorpusReport) -> Iterator[AnnotatedText]:
    """The documents of a BioC XML file, one at a time; the file is never held whole, and `.gz` is decompressed.

    The text of a document is its passages (or their sentences) at their offsets, gaps filled with spaces. The label of
    a mention is its infon `type`; its id is the first of `ID_INFONS` that it has, else the infon named as its type
    (GNormPlus: `Gene`), else the type names both (BioID: `NCBI gene:7157`, see `read_classes`). Several ids are joined
    as `read_ids` says. Annotations that repeat a part of a composite mention (infon `CompositeRole` =
    `IndividualMention`) are counted and skipped; so are relations, annotations of a whole document, which have neither
    place nor text (NLM-Chem's MeSH headings), and those that BELB adds of other types (infon `foreign`).

    report: counts `composite_parts`, `relations`, `document_annotations`, `foreign_annotations` and `bad_records`.

    Raises KrisselError K201 (no file), K202 (truncated gzip), K204 (no document), K007 (truncated or malformed XML),
    K008 (other XML), K009 (entity declarations).
    """
    handler = _Handler(str(path), report)
    n_documents = 0
    with open_binary(path, EXPECTED) as file_:
        for _ in feed(file_, handler):
            documents, handler.documents = handler.documents, []
            n_documents += len(documents)
            yield from documents
    if not n_documents:
        raise KrisselError(Errors.K204.format(path=path, what="document", line=handler.line, expected=EXPECTED))


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
        # Offsets of the passage and sentence that are open; a sentence without one is where its passage is.
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
                self.report.blemish("bad_records", self.path, self.line, f"the offset {text.strip()!r} of a {parent}")
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
    """A document under way. units: offset and text of passages, and of sentences that have text of their own."""

    def __init__(self, path: str, line: int, report: CorpusReport) -> None:
        self.annotated = AnnotatedText("", "", source=path, line=line)
        self.units: list[tuple[int, str]] = []
        self._report = report

    def annotate(self, infons: dict[str, str], locations: list[tuple[str, str]], text: str, line: int) -> None:
        """infons: by names in lower case. locations: offset and length."""
        if infons.get("compositerole") == "IndividualMention":
            self._report.count("composite_parts")
        elif infons.get("foreign", "").lower() == "true":
            self._report.count("foreign_annotations")
        elif not locations and not text.strip():
            self._report.count("document_annotations")
        elif not (places := parse_fragments(locations)):
            path = self.annotated.source
            self._report.blemish("bad_records", path, line, "an annotation without a numeric location")
        else:
            fragments = tuple((offset, offset + length) for offset, length in places)
            label = infons.get("type", "")
            kb_id = next((infons[key] for key in (*ID_INFONS, label.lower()) if infons.get(key)), "")
            label, kb_id = (label, read_ids(kb_id)) if kb_id else read_classes(label)
            self.annotated.mentions.append(Mention(fragments, text, label, kb_id, line))

    def finished(self) -> AnnotatedText:
        """With its text and the mentions at their places in it."""
        document = self.annotated
        document.id = document.id or f"{Path(document.source).name}:{document.line}"
        # The ranges of the source's offsets that have text, each with the shift to offsets in our text.
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
            places: list[tuple[int, int]] = []
            for start, end in mention.fragments:
                shift = next((shift for first, last, shift in ranges if first <= start < last), 0)
                places.append((start + shift, end + shift))
            text = mention.text or covered_text(document.text, places)
            document.mentions[i] = replace(mention, fragments=tuple(places), text=text)
        return document
