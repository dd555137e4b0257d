"""Tables of mentions as published: Linnaeus, S800 and BioID, with a folder of texts; and
phrases."""

import csv
import os
import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

from ...errors import Errors, KrisselError
from ...mentions.annotations import NIL
from ...mentions.gold_ids import read_classes
from ...util.inputs import control_character
from ..annotation import AnnotatedText, Mention, parse_fragments
from ..files import decode_text, open_binary, read_records
from ..report import CorpusReport, reporting
from .bioc import read_bioc

LABEL = "Species"
_LINNAEUS_ID = re.compile("species:ncbi:([0-9]+)")
_S800_ID = re.compile(r"[0-9]+(?:\|[0-9]+)*")
_BIOID_COLUMNS = ("don_article", "figure", "first left", "last right", "text", "obj")
# First bytes of the tables, for detection; S800's has no header.
HEADS = {
    "linnaeus": re.compile(rb"#?species(?: id\tdocument|:ncbi:[0-9][^\t\n]*\t[^\t\n]+\t[0-9]+)\t"),
    "s800": re.compile(rb"[0-9|]+\t[^\t\n|]+:[0-9]+\t[0-9]+\t[0-9]+\t"),
    "bioid": re.compile(rb"[^\n]*\bdon_article,figure,"),
}
PathLike = str | Path
# The document and mention of a line; None for a header.
Row = tuple[str, Mention] | None


@reporting
def read_linnaeus(
    path: PathLike, *, documents: PathLike | None = None, report: CorpusReport
) -> Iterator[AnnotatedText]:
    """Yield the articles of Linnaeus (Gerner et al., 2010) that its `tags.tsv` annotates, one at a
    time.

    A line is `species:ncbi:9606 TAB document TAB start TAB end TAB text TAB code`, below a header.
    A cell may hold several ids, and `species:ncbi:0` is no taxon. Ids become bare numbers; the code
    is not read.

    documents: the folder of the texts, `<document>.txt`; without it, `txt` next to the table.

    All mentions of the table, and one text at a time, are held in memory.

    report: counts `bad_records`.

    Raises KrisselError K201 (no file), K202 (truncated gzip), K203 (not UTF-8), K204 (nothing),
    K226 (no text), K243 (the first line is not of this table).
    """

    def row(line: str, number: int) -> Row:
        cell, document, start, end, text = _columns(line)
        if document == "document":
            return None
        if not (ids := _LINNAEUS_ID.findall(cell)):
            raise ValueError(f"the id {cell[:40]!r}")
        return document, _mention(
            start, end, text, LABEL, "|".join(NIL if id_ == "0" else id_ for id_ in ids), number
        )

    for name, mentions in _by_document(path, row, "tags.tsv of Linnaeus", report):
        yield _plain(path, _find(path, documents, "txt", f"{name}.txt"), name, mentions)


@reporting
def read_s800(
    path: PathLike, *, documents: PathLike | None = None, report: CorpusReport
) -> Iterator[AnnotatedText]:
    """Yield the abstracts of S800 (Pafilis et al., 2013) that its `S800.tsv` annotates, one at a
    time, named by PMID.

    A line is `taxon TAB document:PMID TAB start TAB end TAB text`, without a header. The end is
    inclusive. Several taxa are joined by `|`.

    documents: the folder of the texts, `<document>.txt`; without it, `abstracts` next to the table.
        Everything else is as in `read_linnaeus`.
    """

    def row(line: str, number: int) -> Row:
        kb_id, document, start, last, text = _columns(line)
        if not _S800_ID.fullmatch(kb_id):
            raise ValueError(f"the id {kb_id[:40]!r}")
        return document, _mention(start, last, text, LABEL, kb_id, number, after_last=1)

    for document, mentions in _by_document(path, row, "S800.tsv", report):
        name, _, pmid = document.partition(":")
        yield _plain(
            path, _find(path, documents, "abstracts", f"{name}.txt"), pmid or name, mentions
        )


@reporting
def read_bioid(
    path: PathLike, *, documents: PathLike | None = None, report: CorpusReport
) -> Iterator[AnnotatedText]:
    """Yield the articles of BioID (BioCreative VI) that its `annotations.csv` annotates: their
    captions, one per line.

    Captions are BioC files, of which only the texts are read: the offsets of their annotations are
    unreliable, so those of the table are used. The table is separated by commas, and its columns
    are found by name: `don_article`, `figure`, `first left`, `last right`, `text` and `obj`, the
    class of a mention (`mentions.gold_ids.read_classes`): `NCBI gene:7157|NCBI gene:22059` has the
    label "NCBI gene". The id of an article is its number in PMC, as in BELB's splits.

    documents: the folder of the captions, `<article>.xml`, each a document named
        `<article> <figure>`; without it, `caption_bioc` next to the table. Everything else is as in
        `read_linnaeus`; raises what `read_bioc` raises, too.
    """
    indices: list[int] = []

    def row(line: str, number: int) -> Row:
        cells = _cells(line)
        if not indices:
            indices.extend(cells.index(column) for column in _BIOID_COLUMNS)
            return None
        if len(cells) <= max(indices):
            raise ValueError(f"{len(cells)} column(s)")
        article, figure, start, end, text, obj = (cells[index].strip() for index in indices)
        return f"{article} {figure}", _mention(start, end, text, *read_classes(obj), number)

    articles: dict[str, dict[str, list[Mention]]] = {}
    for caption, mentions in _by_document(path, row, "annotations.csv of BioID", report):
        articles.setdefault(caption.split(" ")[0], {})[caption] = mentions
    for article, captions in articles.items():
        found = AnnotatedText(article, "", [], str(path), next(iter(captions.values()))[0].line)
        for read in read_bioc(
            _find(path, documents, "caption_bioc", f"{article}.xml"), report=report
        ):
            for mention in captions.pop(read.id, ()):
                fragments = tuple(
                    (start + len(found.text), end + len(found.text))
                    for start, end in mention.fragments
                )
                found.mentions.append(replace(mention, fragments=fragments))
            found.text += f"{read.text}\n"
        for caption, mentions in captions.items():
            for mention in mentions:
                report.record_issue(
                    "bad_records", str(path), mention.line, f"there is no caption {caption!r}"
                )
        yield found


def _by_document(
    path: PathLike, row: Callable[[str, int], Row], expected: str, report: CorpusReport
) -> Iterator[tuple[str, list[Mention]]]:
    """Group mentions by document, in the order of first occurrence."""
    found: dict[str, list[Mention]] = {}
    for each in read_records(
        path, row, report, expected=expected, what="mention", first_error=Errors.K243
    ):
        if each is not None:
            found.setdefault(each[0], []).append(each[1])
    return iter(found.items())


def _find(path: PathLike, documents: PathLike | None, folder: str, name: str) -> Path:
    """Return the file of a text. Raises KrisselError K226 if it is missing."""
    texts = Path(path).parent / folder if documents is None else Path(documents)
    # A table names files inside the folder only. Unlike `Path.is_file`, `isfile` accepts impossible
    # file names.
    if not os.path.isfile(texts / Path(name).name):
        raise KrisselError(Errors.K226.format(path=path, name=name, folders=f"'{texts}'"))
    return texts / Path(name).name


def _plain(path: PathLike, file_: Path, id_: str, mentions: list[Mention]) -> AnnotatedText:
    with open_binary(file_, "a text") as stream:
        text = decode_text(stream.read_all(), file_)
    return AnnotatedText(id_, text, mentions, str(path), mentions[0].line)


def _columns(line: str) -> list[str]:
    columns = line.split("\t")[:5]
    if len(columns) < 5:
        raise ValueError(f"{len(columns)} column(s)")
    return [*map(str.strip, columns[:4]), columns[4]]


def _cells(line: str) -> list[str]:
    try:
        return next(csv.reader([line], strict=True))
    except csv.Error as error:
        raise ValueError(str(error)) from None


def _mention(
    start: str, end: str, text: str, label: str, kb_id: str, line: int, *, after_last: int = 0
) -> Mention:
    """Parse a mention. Raises ValueError for invalid offsets, or a control character in the text or
    ids.
    """
    fragments = parse_fragments([(start, end)])
    if problem := control_character(f"{text}{kb_id}"):
        raise ValueError(problem)
    if not fragments:
        raise ValueError(f"the offsets {start[:20]!r} and {end[:20]!r}")
    ((first, last),) = fragments
    return Mention(((first, last + after_last),), text, label, kb_id, line)


EXPECTED = "a table of phrases: id, name of the concept and phrase, tab-separated"
COLUMNS = 3


@reporting
def read_phrases(path: str | Path, *, report: CorpusReport) -> Iterator[AnnotatedText]:
    """Yield each phrase as a document with one mention that covers it; `.gz` is decompressed.

    Documents are named by file and line, so that a repeated phrase counts twice.

    report: counts `bad_records` (lines that are not UTF-8, or without three non-empty columns).

    Raises KrisselError K201 (no file), K202 (truncated gzip), K203 (UTF-16), K204 (no phrase).
    """
    source, name = str(path), Path(path).name

    def phrase(line: str, number: int) -> AnnotatedText:
        if problem := control_character(line):
            raise ValueError(problem)
        columns = [column.strip() for column in line.split("\t")]
        if len(columns) != COLUMNS or not all(columns):
            raise ValueError(f"{len(columns)} column(s), {sum(map(bool, columns))} filled")
        id_, _, text = columns
        mention = Mention(((0, len(text)),), text, "", id_, number)
        return AnnotatedText(f"{name}:{number}", text, [mention], source=source, line=number)

    return read_records(path, phrase, report, expected=EXPECTED, what="phrase", skip_undecoded=True)
