"""The clinical notes of SemEval-2015's task 14 (hNLP in OSLAT): `.pipe` next to `.text`."""

import re
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from ...errors import Errors
from ...mentions.gold_ids import NIL
from ..annotation import AnnotatedText, Mention, covered_text, parse_fragments
from ..bundles import read_standoff
from ..files import read_records
from ..report import CorpusReport, reporting

EXPECTED = "a .pipe file, or a folder or .tar.gz of them"
SUFFIX = ".pipe"
LABEL = "Disorder"
WITHOUT = "cui-less"
_PLACES = re.compile(r"\d+-\d+(?:,\d+-\d+)*")


@reporting
def read_semeval(
    path: str | Path, *, documents: str | Path | None = None, report: CorpusReport
) -> Iterator[AnnotatedText]:
    """The notes that `.pipe` files annotate, one at a time.

    path: a `.pipe` file, or a folder or `.tar.gz` of them, in any depth.
    documents: the folder of the texts (for an archive, one in it); without it, `1.text` is next to `1.pipe`. The id of
        this note is `1`.

    A line is `note|0-4,10-14|C0231749|…`: the places of a disorder's fragments, in characters, and its concept, or
    `CUI-less`; what follows, whether it is negated and so on, is not read. OSLAT (§5.3) takes each line of a note for a
    text: `krissel text-split --unit line`.

    report: counts `bad_records`.
    Raises KrisselError K201 (no file), K202 (truncated gzip), K203 (not UTF-8), K211 (damaged archive), K226 (no text),
    K236 (the first line that is not blank is no record).
    """

    def read(content: bytes, source: str, text: str) -> Iterator[Mention]:
        parse = partial(_mention, text)
        return read_records(source, parse, report, expected=EXPECTED, first_error=Errors.K236, content=content)

    return read_standoff(path, (SUFFIX, ".text"), EXPECTED, documents, read)


def _mention(text: str, line: str, number: int) -> Mention:
    _, *rest = line.split("|")
    if len(rest) > 1 and _PLACES.fullmatch(rest[0]) and (kb_id := rest[1].strip()):
        fragments = parse_fragments(fragment.split("-") for fragment in rest[0].split(","))
        if fragments and all(start < end <= len(text) for start, end in fragments):
            kb_id = NIL if kb_id.lower() == WITHOUT else kb_id
            return Mention(fragments, covered_text(text, fragments), LABEL, kb_id, number)
    raise ValueError(f"{line[:40]!r}")
