"""The clinical notes of SemEval-2015's task 14 (hNLP in OSLAT): `.pipe` beside `.text`."""

import re
from collections.abc import Iterator
from functools import partial
from pathlib import Path, PurePath

from ...errors import Errors, KrisselError
from ...mentions.gold_ids import NIL
from ..annotation import AnnotatedText, Mention, covered_text, parse_fragments
from ..bundles import Bundle, read_each
from ..files import text_lines
from ..report import CorpusReport, reporting

EXPECTED = "a .pipe file, or a folder or .tar.gz of them"
SUFFIX = ".pipe"
LABEL = "Disorder"
WITHOUT = "cui-less"
_PLACES = re.compile(r"\d+-\d+(?:,\d+-\d+)*")


@reporting
def read_semeval(
    path: str | Path,
    *,
    documents: str | Path | None = None,
    report: CorpusReport,
) -> Iterator[AnnotatedText]:
    """The notes that `.pipe` files annotate, one at a time; of an archive, too.

    path: a `.pipe` file, or a folder or `.tar.gz` of them, in any depth.
    documents: the folder of the texts (of an archive, one in it); without it, `1.text` is beside `1.pipe`. The id of
        this note is `1`.

    A line is `note|0-4,10-14|C0231749|…`: the places of a disorder's fragments, in characters, and its concept, or
    `CUI-less`; what follows, whether it is negated and so on, is not read. OSLAT (§5.3) takes each line of a note for a
    text: `krissel text-split --unit line`.

    report: counts `bad_records`. Without one, the reader warns itself at the end.

    Raises KrisselError K201 (no file), K202 (truncated gzip), K203 (not UTF-8), K211 (damaged archive), K226 (no text),
    K236 (the first line that is not blank is no record).
    """
    return read_each(path, SUFFIX, EXPECTED, partial(_read_file, documents), report)


def _read_file(documents: str | Path | None, bundle: Bundle, file_: PurePath, report: CorpusReport) -> AnnotatedText:
    source = bundle.name(file_)
    name = file_.name.removesuffix(SUFFIX)
    text = bundle.read_text(bundle.find_text(file_, f"{name}.text", (), documents))
    mentions: list[Mention] = []
    is_first = True
    for number, line in text_lines(bundle.read(file_), source, report):
        if not line.strip():
            continue
        mention = _read_mention(line, text, number)
        if mention is None and is_first:
            raise KrisselError(Errors.K236.format(path=source, line=number, found=line[:80]))
        is_first = False
        if mention is None:
            report.blemish("bad_records", source, number, f"{line[:40]!r}")
        else:
            mentions.append(mention)
    return AnnotatedText(name, text, mentions, source, 1)


def _read_mention(line: str, text: str, number: int) -> Mention | None:
    _, *rest = line.split("|")
    if len(rest) < 2 or not _PLACES.fullmatch(rest[0]) or not rest[1].strip():
        return None
    fragments = parse_fragments(fragment.split("-") for fragment in rest[0].split(","))
    if not fragments or not all(start < end <= len(text) for start, end in fragments):
        return None
    kb_id = NIL if rest[1].strip().lower() == WITHOUT else rest[1].strip()
    return Mention(fragments, covered_text(text, fragments), LABEL, kb_id, number)
