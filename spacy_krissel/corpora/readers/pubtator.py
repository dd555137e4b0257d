"""PubTator: `ID|t|title`, `ID|a|abstract`, then one tab-separated mention per line."""

import re
from collections.abc import Iterator
from pathlib import Path

from ...errors import Errors, KrisselError
from ...mentions.gold_ids import read_ids
from ...util.limits import RECORD
from ..annotation import AnnotatedText, Mention, parse_offset
from ..files import open_lines
from ..report import CorpusReport, reporting

_PASSAGE = re.compile(r"([^|\t]+)\|([ta])\|(.*)", re.DOTALL)
EXPECTED = "a PubTator file"


@reporting
def read_pubtator(path: str | Path, *, report: CorpusReport) -> Iterator[AnnotatedText]:
    """Yield the documents of a PubTator file one at a time; `.gz` is decompressed.

    A mention is `ID start end text label kb_id`, tab-separated. The id may be missing, and a
    seventh column (the parts of a composite mention in words) is not read. Several ids are joined
    as in `read_ids`. Offsets count characters of `title + " " + abstract`. Relations
    (`ID type argument argument`) are counted and skipped. Documents are unchecked, with repeated
    ids and wrong offsets: `to_doc` checks them.

    report: counts `relations` and `bad_records`.

    Raises KrisselError K201 (no file), K202 (truncated gzip), K203 (not UTF-8), K204 (no document),
    K205 (the first line that is not blank is no title).
    """
    current: AnnotatedText | None = None
    has_abstract = any_abstract = False
    number = size = 0
    with open_lines(path, EXPECTED, report=report) as lines:
        for number, line in lines:
            if not line.strip():
                continue
            # A mention takes more memory than its letters.
            size += len(line) + 100
            passage = _PASSAGE.fullmatch(line)
            if passage and passage[2] == "t":
                if current is not None:
                    yield current
                current = AnnotatedText(
                    passage[1].strip(), passage[3], source=str(path), line=number
                )
                has_abstract, size = False, len(line)
            elif current is None:
                raise KrisselError(Errors.K205.format(path=path, line=number, found=line[:80]))
            elif size > RECORD.bytes:
                raise RECORD.exceeded(
                    size, path, f"document {current.id!r}, up to line {number},", RECORD.bytes
                )
            elif passage:
                if passage[1].strip() != current.id or has_abstract:
                    report.record_issue(
                        "bad_records", str(path), number, "an abstract without its title"
                    )
                    continue
                has_abstract = any_abstract = True
                if passage[3]:
                    current.text = f"{current.text} {passage[3]}"
            else:
                _read_row(line.split("\t"), number, current, report)
    if current is None:
        raise KrisselError(
            Errors.K204.format(path=path, what="document", line=number, expected=EXPECTED)
        )
    if any_abstract and not has_abstract:
        report.record_issue("cut_documents", str(path), number, f"document {current.id}")
    yield current


def _read_row(
    columns: list[str], number: int, current: AnnotatedText, report: CorpusReport
) -> None:
    if len(columns) < 4:
        report.record_issue("bad_records", current.source, number, f"{len(columns)} column(s)")
        return
    if columns[0].strip() != current.id:
        report.record_issue(
            "bad_records",
            current.source,
            number,
            f"id {columns[0][:40]!r} below document {current.id!r}",
        )
        return
    start, end = parse_offset(columns[1]), parse_offset(columns[2])
    if len(columns) == 4 and start is None:
        report.count("relations")
    elif len(columns) == 4 or start is None or end is None:
        report.record_issue("bad_records", current.source, number, "no mention and no relation")
    else:
        kb_id = read_ids(columns[5]) if len(columns) > 5 else ""
        current.mentions.append(
            Mention(((start, end),), columns[3], columns[4].strip(), kb_id, number)
        )
