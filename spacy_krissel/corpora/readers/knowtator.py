"""knowtator XML: annotations stored separately from their texts, as written by CRAFT and eHOST."""

import io
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path, PurePath, PurePosixPath, PureWindowsPath
from typing import Any, NamedTuple

from ...mentions.gold_ids import read_class
from ...util.inputs import InputFile, coded_reading
from ...util.xml_files import XmlHandler, feed
from ..annotation import AnnotatedText, Mention, covered_text, parse_fragments
from ..bundles import open_bundle
from ..report import CorpusReport, reporting

EXPECTED = "a knowtator XML file, or a folder or .tar.gz of them"
SUFFIX = ".knowtator.xml"
# Folders of texts above the annotations: in CRAFT, and in an eHOST project.
LAYOUTS = ("articles/txt", "corpus")


@reporting
def read_knowtator(
    path: str | Path, *, documents: str | Path | None = None, report: CorpusReport
) -> Iterator[AnnotatedText]:
    """Yield the texts of knowtator's annotations, each with the mentions of all files.

    path: an annotation file, or a folder or `.tar.gz` with files ending in `.knowtator.xml`, at any
        depth. All of them are read before the first text: CRAFT has a file per article and
        ontology.
    documents: the folder of the texts (for an archive, one in it). Without it, a text
        (`textSource`) is next to its annotations or, in a folder above them, in CRAFT's
        `articles/txt` or eHOST's `corpus`.

    The id of a text is its file's name without `.txt`. A mention's class is `read_class` of its
    `mentionClass`: CRAFT's `CL:0000540` is the id, and `CL` the label. Offsets count characters; a
    mention with several spans has as many fragments.

    report: counts `bad_records`: annotations without a span, with an invalid offset, or without a
        class.

    Raises KrisselError K201 (no file), K202 (truncated gzip), K203 (a text that is not UTF-8), K007
    (truncated or malformed XML), K008 (other XML), K009 (entity declarations), K211
    (damaged archive), K226 (no text).
    """
    bundle = open_bundle(path, SUFFIX, EXPECTED)
    texts: dict[PurePath, tuple[str, list[Mention]]] = {}
    for file_ in bundle.files:
        source = bundle.name(file_)
        handler = _Handler(source)
        content = InputFile(source, io.BytesIO(bundle.read(file_)))
        with coded_reading(source, lambda: f"line {content.line}"):  # noqa: B023
            for _ in feed(content, handler):
                pass
        text_file = bundle.find_text(
            file_, handler.text_name or file_.name.removesuffix(SUFFIX), LAYOUTS, documents
        )
        texts.setdefault(text_file, (source, []))[1].extend(handler.mentions(report))
    for text_file, (source, found) in texts.items():
        text = bundle.read_text(text_file)
        mentions = [
            mention
            if mention.text
            else replace(mention, text=covered_text(text, mention.fragments))
            for mention in found
        ]
        yield AnnotatedText(text_file.name.removesuffix(".txt"), text, mentions, source, 1)


class _Annotation(NamedTuple):
    """An annotation as stated in the file. spans: offsets as text. mentions: ids that classes refer
    to.
    """

    line: int
    spans: list[tuple[str, str]]
    texts: list[str]
    mentions: list[str]


class _Handler(XmlHandler):
    kind = "knowtator XML"
    root = "annotations"
    texts = frozenset(("spannedText",))

    def __init__(self, path: str) -> None:
        super().__init__(path)
        self.text_name = ""
        self._annotations: list[_Annotation] = []
        self._classes: dict[str, str] = {}
        self._mention = ""

    def start(self, name: str, attrs: Any) -> None:
        if name == "annotations":
            # A path of the annotator's machine.
            self.text_name = PurePosixPath(PureWindowsPath(attrs.get("textSource", "")).name).name
        elif name == "annotation":
            self._annotations.append(_Annotation(self.line, [], [], []))
        elif name == "mention" and self._annotations:
            self._annotations[-1].mentions.append(attrs.get("id", ""))
        elif name == "span" and self._annotations:
            self._annotations[-1].spans.append((attrs.get("start", ""), attrs.get("end", "")))
        elif name == "classMention":
            self._mention = attrs.get("id", "")
        elif name == "mentionClass":
            self._classes[self._mention] = attrs.get("id", "").strip()

    def end(self, name: str, parent: str, text: str) -> None:
        if name == "spannedText" and self._annotations:
            self._annotations[-1].texts.append(text)

    def mentions(self, report: CorpusReport) -> list[Mention]:
        """Return all mentions of the file; classes follow the annotations."""
        found: list[Mention] = []
        for annotation in self._annotations:
            fragments = parse_fragments(annotation.spans)
            name = next(
                (self._classes[id_] for id_ in annotation.mentions if self._classes.get(id_)), ""
            )
            if not fragments:
                report.record_issue(
                    "bad_records",
                    self.path,
                    annotation.line,
                    "an annotation without a numeric span",
                )
            elif not name:
                named = ", ".join(annotation.mentions) or "none"
                report.record_issue(
                    "bad_records",
                    self.path,
                    annotation.line,
                    f"an annotation without a class ({named})",
                )
            else:
                label, kb_id = read_class(name)
                text = " ".join(annotation.texts)
                found.append(Mention(fragments, text, label, kb_id, annotation.line, self.path))
        return found
