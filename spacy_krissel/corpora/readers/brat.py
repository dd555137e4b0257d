"""BRAT's standoff format: `.ann` next to `.txt`."""

import re
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path

from ...errors import Errors
from ...mentions.gold_ids import read_class
from ..annotation import AnnotatedText, Mention, parse_fragments
from ..bundles import read_standoff
from ..files import read_records
from ..report import CorpusReport, reporting

EXPECTED = "a BRAT .ann file, or a folder or .tar.gz of them"
SUFFIX = ".ann"
_RECORD = re.compile(r"(([TNREAM#*])\S*)\t(.*)", re.DOTALL)
_OFFSETS = re.compile(r"(\S+) (\d+ \d+(?:;\d+ \d+)*)")
_REFERENCE = re.compile(r"\S+ (\S+) (\S.*)")


@reporting
def read_brat(
    path: str | Path, *, documents: str | Path | None = None, report: CorpusReport
) -> Iterator[AnnotatedText]:
    """Yield the texts of BRAT's annotations one at a time.

    path: an `.ann` file, or a folder or `.tar.gz` of them, at any depth.
    documents: the folder of the texts (for an archive, one in it); without it, `1.txt` is next to
        `1.ann`. The id of this text is `1`.

    A mention is `T1 TAB Label 0 4;10 14 TAB text`, with one or more fragments. Its ids are those of
    the lines `N1 TAB Reference T1 MESH:D006073 TAB name`, joined by `|`. Without such a line, its
    label names the class (`read_class`), so that `CL:0000540` as a label is an id. Offsets count
    characters.

    report: counts `relations` (relations, events and equivalences, which are skipped) and
        `bad_records`. Attributes and notes are skipped without being counted.

    Raises KrisselError K201 (no file), K202 (truncated gzip), K203 (not UTF-8), K211
    (damaged archive), K226 (no text), K227 (the first line that is not blank is no record).
    """
    read = partial(_mentions, report)
    return read_standoff(path, (SUFFIX, ".txt"), EXPECTED, documents, read)


def _record(line: str, number: int) -> tuple[int, re.Match[str]]:
    if match := _RECORD.fullmatch(line):
        return number, match
    raise ValueError(f"{line[:40]!r}")


def _mentions(report: CorpusReport, content: bytes, source: str, text: str) -> Iterator[Mention]:
    mentions: dict[str, tuple[Mention, list[str]]] = {}
    references: list[tuple[int, str, str]] = []
    records = read_records(
        source, _record, report, expected=EXPECTED, first_error=Errors.K227, content=content
    )
    for number, record in records:
        key, kind, rest = record.groups()
        if kind == "T" and key not in mentions and (mention := _read_mention(rest, number)):
            mentions[key] = (mention, [])
        elif kind == "N" and (reference := _REFERENCE.fullmatch(rest.partition("\t")[0])):
            references.append((number, reference[1], reference[2].strip()))
        elif kind in ("R", "E", "*"):
            report.count("relations")
        elif kind not in ("A", "M", "#"):
            report.record_issue("bad_records", source, number, f"{record[0][:40]!r}")
    for number, target, id_ in references:
        if target in mentions:
            mentions[target][1].append(id_)
        else:
            report.record_issue(
                "bad_records", source, number, f"a reference for {target!r}, which is not a mention"
            )
    for mention, ids in mentions.values():
        label, kb_id = (
            (mention.label, "|".join(dict.fromkeys(ids))) if ids else read_class(mention.label)
        )
        yield replace(mention, label=label, kb_id=kb_id)


def _read_mention(rest: str, line: int) -> Mention | None:
    head, tab, text = rest.partition("\t")
    match = _OFFSETS.fullmatch(head)
    if not tab or not match:
        return None
    fragments = parse_fragments(fragment.split() for fragment in match[2].split(";"))
    return Mention(fragments, text, match[1], "", line) if fragments else None
