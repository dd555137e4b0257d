"""BRAT's standoff format: `.ann` beside `.txt`."""

import re
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path, PurePath

from ...errors import Errors, KrisselError
from ...mentions.gold_ids import read_class
from ..annotation import AnnotatedText, Mention, parse_fragments
from ..bundles import Bundle, read_each
from ..files import text_lines
from ..report import CorpusReport, reporting

EXPECTED = "a BRAT .ann file, or a folder or .tar.gz of them"
SUFFIX = ".ann"
_RECORD = re.compile(r"([TNREAM#*])\S*\t(.*)", re.DOTALL)
_PLACES = re.compile(r"(\S+) (\d+ \d+(?:;\d+ \d+)*)")
_REFERENCE = re.compile(r"\S+ (\S+) (\S.*)")


@reporting
def read_brat(
    path: str | Path,
    *,
    documents: str | Path | None = None,
    report: CorpusReport,
) -> Iterator[AnnotatedText]:
    """The texts that BRAT's annotations are of, one at a time; of an archive, too.

    path: an `.ann` file, or a folder or `.tar.gz` of them, in any depth.
    documents: the folder of the texts (of an archive, one in it); without it, `1.txt` is beside `1.ann`. The id of this
        text is `1`.

    A mention is `T1 TAB Label 0 4;10 14 TAB text`, of one fragment or several. Its ids are those that lines
    `N1 TAB Reference T1 MESH:D006073 TAB name` give to it, joined by `|`; one without such a line is of the class that
    its label names (`read_class`), so that `CL:0000540` as a label is an id. Offsets count characters.

    report: counts `relations` (relations, events and equivalences, skipped; so are attributes and notes, without being
        counted) and `bad_records`. Without one, the reader warns itself at the end.

    Raises KrisselError K201 (no file), K202 (truncated gzip), K203 (not UTF-8), K211 (damaged archive), K226 (no text),
    K227 (the first line that is not blank is no record).
    """
    return read_each(path, SUFFIX, EXPECTED, partial(_read_file, documents), report)


def _read_file(documents: str | Path | None, bundle: Bundle, file_: PurePath, report: CorpusReport) -> AnnotatedText:
    source = bundle.name(file_)
    name = file_.name.removesuffix(".gz").removesuffix(SUFFIX)
    text_file = bundle.find_text(file_, f"{name}.txt", (), documents)
    mentions: dict[str, tuple[Mention, list[str]]] = {}
    references: list[tuple[int, str, str]] = []
    is_first = True
    for number, line in text_lines(bundle.read(file_), source, report):
        if not line.strip():
            continue
        record = _RECORD.fullmatch(line)
        if record is None and is_first:
            raise KrisselError(Errors.K227.format(path=source, line=number, found=line[:80]))
        is_first = False
        kind, rest = (record[1], record[2]) if record else ("", "")
        key = line.partition("\t")[0]
        if kind == "T" and key not in mentions and (mention := _read_mention(rest, number)):
            mentions[key] = (mention, [])
        elif kind == "N" and (reference := _REFERENCE.fullmatch(rest.partition("\t")[0])):
            references.append((number, reference[1], reference[2].strip()))
        elif kind in ("R", "E", "*"):
            report.count("relations")
        elif kind not in ("A", "M", "#"):
            report.blemish("bad_records", source, number, f"{line[:40]!r}")
    for number, target, id_ in references:
        if target in mentions:
            mentions[target][1].append(id_)
        else:
            report.blemish("bad_records", source, number, f"a reference for {target!r}, which is no mention")
    found = [_with_ids(mention, ids) for mention, ids in mentions.values()]
    return AnnotatedText(name, bundle.read_text(text_file), found, source, 1)


def _read_mention(rest: str, line: int) -> Mention | None:
    head, tab, text = rest.partition("\t")
    places = _PLACES.fullmatch(head)
    if not tab or not places:
        return None
    fragments = parse_fragments(fragment.split() for fragment in places[2].split(";"))
    return Mention(fragments, text, places[1], "", line) if fragments else None


def _with_ids(mention: Mention, ids: list[str]) -> Mention:
    label, kb_id = (mention.label, "|".join(dict.fromkeys(ids))) if ids else read_class(mention.label)
    return replace(mention, label=label, kb_id=kb_id)
