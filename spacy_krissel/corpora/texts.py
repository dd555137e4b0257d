"""Unlabelled text as one stream, whatever file it comes from."""

import json
import re
import tarfile
from pathlib import Path, PurePosixPath
from typing import IO, Any, Iterator, NamedTuple, Optional, Union, cast

from ..errors import Errors, KrisselError
from ..util.compressed import DAMAGED
from .files import decode_line, open_binary, read_lines
from .report import CorpusReport

JSONL_SUFFIXES = (".jsonl", ".jsonl.gz", ".ndjson", ".ndjson.gz")
PLAIN_SUFFIXES = (".txt", ".txt.gz")
ARCHIVE_SUFFIXES = (".tar.gz", ".tgz")
SUFFIXES = (*JSONL_SUFFIXES, *PLAIN_SUFFIXES, *ARCHIVE_SUFFIXES)
_SURROGATE = re.compile("[\ud800-\udfff]")
EXPECTED = f"a file ending in {', '.join(SUFFIXES)}, or a folder of them"


class Text(NamedTuple):
    """A stretch of text, an abstract or a paragraph.

    id: the source's own, or `file name:line`; for an archive `member name:line`.
    source: the file; for an archive `file!member`. With `line`, counted from 1, this is where the text stands.
    """

    id: str
    text: str
    source: str
    line: int


def read_texts(path: Union[str, Path], *, report: Optional[CorpusReport] = None) -> Iterator[Text]:
    """The texts of a file, or of all such files below a folder in the order of their paths, one at a time.

    - `.jsonl`: an object a line with "text" and, optionally, "title" and "id". The text is `title + " " + text`, or the
      one of them that is there. Without "id" it is `file name:line`.
    - `.txt`: a paragraph a line; blank lines and white space around a line are given up.
    - `.tar.gz`: the `.txt` files in it, in the archive's order, each like a `.txt` of its own.

    The first two may be compressed with gzip. The order is the same at every reading.

    report: counts `texts` and `bad_records` (JSONL lines that are no object, or hold no text). Without one, the reader
        warns of bad records itself at the end.

    Raises KrisselError K201 (no file), K202 (truncated gzip), K203 (not UTF-8), K204 (no text), K209 (the first line of
    a JSONL file is no object), K210 (another kind of file), K211 (damaged archive).
    """
    own_report = report is None
    report = CorpusReport() if report is None else report
    path = Path(path)
    if path.is_dir():
        files = sorted(file_ for file_ in path.rglob("*") if file_.is_file() and _has_suffix(file_, SUFFIXES))
        if not files:
            raise KrisselError(Errors.K201.format(path=path / "*", expected=EXPECTED))
    else:
        files = [path]
    for file_ in files:
        if not file_.is_file():
            raise KrisselError(Errors.K201.format(path=file_, expected=EXPECTED))
        n_before = report["texts"]
        for text in _reader(file_)(file_, report):
            report.count("texts")
            yield text
        if report["texts"] == n_before:
            raise KrisselError(Errors.K204.format(path=file_, what="text", line="0 or more blank", expected=EXPECTED))
    if own_report:
        report.warn()


def _has_suffix(path: Path, suffixes: tuple) -> bool:
    return path.name.lower().endswith(suffixes)


def _reader(path: Path) -> Any:
    for suffixes, reader in (
        (ARCHIVE_SUFFIXES, _read_archive),
        (JSONL_SUFFIXES, _read_jsonl),
        (PLAIN_SUFFIXES, _read_plain),
    ):
        if _has_suffix(path, suffixes):
            return reader
    raise KrisselError(Errors.K210.format(path=path, expected=", ".join(SUFFIXES)))


def _read_jsonl(path: Path, report: CorpusReport) -> Iterator[Text]:
    n_objects = 0
    for number, line in read_lines(path, EXPECTED):
        if not line.strip():
            continue
        try:
            record = json.loads(line)
        except (ValueError, RecursionError):
            record = None
        if not isinstance(record, dict):
            if not n_objects:
                raise KrisselError(Errors.K209.format(path=path, line=number, found=line[:80]))
            report.blemish("bad_records", str(path), number, "not a JSON object")
            continue
        n_objects += 1
        parts = [record.get("title") or "", record.get("text") or ""]
        if not all(isinstance(part, str) for part in parts) or not any(part.strip() for part in parts):
            report.blemish("bad_records", str(path), number, 'no "text"')
            continue
        id_ = f"{path.name}:{number}" if record.get("id") in (None, "") else str(record["id"])
        text = " ".join(part for part in parts if part.strip())
        if _SURROGATE.search(id_ + text):
            # JSON can spell half of a character, which no file and no string store can hold.
            report.blemish("bad_records", str(path), number, "a lone surrogate")
            continue
        yield Text(id_, text, str(path), number)


def _read_plain(path: Path, report: CorpusReport) -> Iterator[Text]:
    for number, line in read_lines(path, EXPECTED):
        if text := line.strip():
            yield Text(f"{path.name}:{number}", text, str(path), number)


def _read_archive(path: Path, report: CorpusReport) -> Iterator[Text]:
    member_name = ""
    # gzip is opened apart from tar, because tarfile takes a truncated gzip stream for the end of the archive.
    with open_binary(path, EXPECTED) as file_:
        try:
            with tarfile.open(fileobj=cast(IO[bytes], file_), mode="r|") as archive:
                for member in archive:
                    name = PurePosixPath(member.name)
                    content = archive.extractfile(member) if member.isfile() else None
                    if content is None or name.suffix.lower() != ".txt" or name.name.startswith("."):
                        continue
                    member_name = member.name
                    source = f"{path}!{member_name}"
                    for number, raw in enumerate(content, 1):
                        if text := decode_line(raw, source, number).strip():
                            yield Text(f"{name.stem}:{number}", text, source, number)
        except (*DAMAGED, tarfile.TarError) as error:
            raise KrisselError(Errors.K211.format(path=path, problem=error, member=member_name)) from error
