"""Clinical notes of shared tasks, with annotations next to texts.

SemEval-2015's task 14 (hNLP in OSLAT), ShARe (task 7 of SemEval-2014, ShARe/CLEF 2013) and track 3
of n2c2 2019.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from itertools import zip_longest
from pathlib import Path

from ...errors import Errors
from ...mentions.annotations import NIL
from ..annotation import AnnotatedText, Mention, covered_text, parse_fragments
from ..bundles import read_standoff
from ..files import read_records
from ..report import CorpusReport, reporting

SUFFIX, SHARE_SUFFIX, N2C2_SUFFIX = ".pipe", ".pipe.txt", ".norm"
LABEL = "Disorder"
WITHOUT = "cui-less"
_OFFSETS = re.compile(r"\d+-\d+(?:,\d+-\d+)*")
Parse = Callable[[str, str, int], Mention]


@reporting
def read_semeval(
    path: str | Path, *, documents: str | Path | None = None, report: CorpusReport
) -> Iterator[AnnotatedText]:
    """Yield the notes that `.pipe` files annotate, one at a time.

    path: a `.pipe` file, or a folder or `.tar.gz` of them, at any depth.
    documents: the folder of the texts (for an archive, one in it); without it, `1.text` is next to
        `1.pipe`. The id of this note is `1`.

    A line is `note|0-4,10-14|C0231749|…`: the offsets of a disorder's fragments in characters, and
    its concept or `CUI-less`. Further columns, such as negation, are not read. Lines of 2014
    (`read_share_or_n2c2`) are read, too. OSLAT (§5.3) takes each line of a note as a text:
    `krissel text-split --unit line`.

    report: counts `bad_records`.

    Raises KrisselError K201 (no file), K202 (truncated gzip), K203 (not UTF-8), K211
    (damaged archive), K226 (no text), K236 (the first line that is not blank is no record).
    """
    return _notes(path, (SUFFIX, ".text"), documents, _semeval_mention, report)


@reporting
def read_share_or_n2c2(
    path: str | Path, *, labelled: bool, documents: str | Path | None = None, report: CorpusReport
) -> Iterator[AnnotatedText]:
    """Yield the notes of ShARe (labelled: `.pipe.txt` files) or n2c2 (`.norm` files), whose texts
    end in `.txt`.

    A line is `1.txt||Disease_Disorder||C0231749||0||4||10||14`: the mention's label, its concept or
    `CUI-less`, and the offsets of its fragments; in n2c2, `N000||C0231749||0||4||10||14`.
    Everything else is as in `read_semeval`.
    """
    suffix = SHARE_SUFFIX if labelled else N2C2_SUFFIX
    return _notes(path, (suffix, ".txt"), documents, partial(_pipe_mention, labelled), report)


def _notes(
    path: str | Path,
    suffixes: tuple[str, str],
    documents: str | Path | None,
    parse: Parse,
    report: CorpusReport,
) -> Iterator[AnnotatedText]:
    expected = f"a {suffixes[0]} file, or a folder or .tar.gz of them"

    def read(content: bytes, source: str, text: str) -> Iterator[Mention]:
        parsed = partial(parse, text)
        return read_records(
            source, parsed, report, expected=expected, first_error=Errors.K236, content=content
        )

    return read_standoff(path, suffixes, expected, documents, read)


def _semeval_mention(text: str, line: str, number: int) -> Mention:
    _, *rest = line.split("|")
    if len(rest) > 1 and _OFFSETS.fullmatch(rest[0]):
        return _mention(
            text, line, number, LABEL, rest[1], (each.split("-") for each in rest[0].split(","))
        )
    return _pipe_mention(True, text, line, number)


def _pipe_mention(labelled: bool, text: str, line: str, number: int) -> Mention:
    _, *columns = line.split("||")
    label = columns.pop(0) if labelled and columns else ""
    kb_id, *offsets = columns or [""]
    return _mention(
        text, line, number, label, kb_id, zip_longest(offsets[::2], offsets[1::2], fillvalue="")
    )


def _mention(
    text: str, line: str, number: int, label: str, kb_id: str, offsets: Iterable[Sequence[str]]
) -> Mention:
    """Parse a mention. Raises ValueError without a concept or offsets."""
    fragments, kb_id = parse_fragments(offsets), kb_id.strip()
    if not kb_id or not fragments or not all(start < end <= len(text) for start, end in fragments):
        raise ValueError(f"{line[:40]!r}")
    kb_id = NIL if kb_id.lower() == WITHOUT else kb_id
    return Mention(fragments, covered_text(text, fragments), label.strip(), kb_id, number)
