"""PubMed's XML files, as NLM publishes them in the baseline and its updates."""

from collections.abc import Iterator
from pathlib import Path

from ..util.xml_files import XmlParser, feed
from .files import open_binary
from .report import CorpusReport

EXPECTED = "an XML file of PubMed with <PubmedArticleSet>"
# The elements of an article, and elements whose text is read. Other text is not collected.
RECORDS = frozenset(("MedlineCitation", "BookDocument"))
READ = frozenset(("PMID", "ArticleTitle", "AbstractText"))
# Abstracts in other languages and for other readers have the same elements as the article's own.
OTHER_ABSTRACT = "OtherAbstract"
DELETED = "DeleteCitation"


def read_pubmed(
    path: Path, report: CorpusReport, deleted: list[str], *, labels: bool = True
) -> Iterator[tuple[str, str, int]]:
    """Yield the articles of a file, in its order: the PMID, title and abstract as one text, and the
    line.

    The parts of a structured abstract begin with their labels (`METHODS: …`), as in PubMed. The
    text of nested markup (`<i>`, `<sup>`) is kept; white space becomes one space. The file is read
    as a stream, never whole.

    report: counts `blank_texts`, articles without title and abstract.
    deleted: the PMIDs to delete, which are at the end of the file, are appended to this list.
    labels: False leaves out the labels of parts.

    Raises KrisselError K202 (truncated gzip), K007 (truncated or malformed XML), K008 (other XML),
    K009 (entity declarations).
    """
    articles = _Articles(path, report, labels)
    with open_binary(path, EXPECTED) as file_:
        for _ in feed(file_, articles):
            found, articles.found = articles.found, []
            yield from found
    deleted.extend(articles.deleted)


class _Articles(XmlParser):
    """Collects articles in `found`, which the reader empties, and PMIDs to delete.

    The parser calls it for every element, most of which are skipped. These calls dominate the cost
    of reading PubMed.
    """

    kind = "PubMed's XML"
    root = "PubmedArticleSet"

    def __init__(self, path: Path, report: CorpusReport, labels: bool) -> None:
        super().__init__(str(path))
        self.found: list[tuple[str, str, int]] = []
        self.deleted: list[str] = []
        self._name, self._report, self._labels = path.name, report, labels
        self._line = 0
        self._pmid, self._title = "", ""
        self._abstract: list[str] = []
        self._label = ""
        self._in_other_abstract = False
        self._in_deleted = False
        self._characters: list[str] = []
        self.parser.EndElementHandler = self._end

    def start_element(self, name: str, attributes: dict[str, str]) -> None:
        if name in READ:
            self._characters.clear()
            self._label = attributes.get("Label", "")
            self.parser.CharacterDataHandler = self._characters.append
        elif name in RECORDS:
            self._line = self.parser.CurrentLineNumber
            self._pmid, self._title, self._abstract = "", "", []
        elif name == OTHER_ABSTRACT:
            self._in_other_abstract = True
        elif name == DELETED:
            self._in_deleted = True

    def _end(self, name: str) -> None:
        if name in READ:
            self.parser.CharacterDataHandler = None
            self._end_text(name, " ".join("".join(self._characters).split()))
        elif name in RECORDS:
            self._end_record()
        elif name == OTHER_ABSTRACT:
            self._in_other_abstract = False
        elif name == DELETED:
            self._in_deleted = False

    def _end_text(self, name: str, text: str) -> None:
        if name == "PMID":
            if self._in_deleted:
                self.deleted.append(text)
            # The first PMID is the article's own; others are those of comments and corrections.
            self._pmid = self._pmid or text
        elif name == "ArticleTitle":
            self._title = text
        elif text and not self._in_other_abstract:
            labelled = self._labels and self._label.upper() not in ("", "UNLABELLED")
            self._abstract.append(f"{self._label}: {text}" if labelled else text)

    def _end_record(self) -> None:
        self.done += 1
        text = " ".join(part for part in (self._title, *self._abstract) if part)
        if not text:
            self._report.count("blank_texts")
            return
        id_ = self._pmid or f"{self._name}:{self._line}"
        self.found.append((id_, text, self._line))
