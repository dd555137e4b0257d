"""A stretch of unlabelled text."""

import re
from typing import Any, Mapping, NamedTuple, Optional

from .report import CorpusReport

_SURROGATE = re.compile("[\ud800-\udfff]")


class Text(NamedTuple):
    """A stretch of text, an abstract or a paragraph.

    id: the source's own, or `file name:line`; for an archive `member name:line`.
    source: the file; for an archive `file!member`. With `line`, counted from 1, this is where the text stands (in a
        Parquet file, the row).
    """

    id: str
    text: str
    source: str
    line: int


def text_of_record(
    record: Mapping[str, Any], name: str, source: str, line: int, report: CorpusReport
) -> Optional[Text]:
    """The text of a record with "text" and, optionally, "title" and "id", or None for a bad one, which is counted.

    name: the file's, for a record without an id.
    """
    parts = [record.get("title") or "", record.get("text") or ""]
    if not all(isinstance(part, str) for part in parts) or not any(part.strip() for part in parts):
        report.blemish("bad_records", source, line, 'no "text"')
        return None
    id_ = f"{name}:{line}" if record.get("id") in (None, "") else str(record["id"])
    text = " ".join(part for part in parts if part.strip())
    if not (id_.isascii() and text.isascii()) and _SURROGATE.search(id_ + text):
        # JSON can spell half of a character, which no file and no string store can hold.
        report.blemish("bad_records", source, line, "a lone surrogate")
        return None
    return Text(id_, text, source, line)
