"""What the chunks of a run amount to."""

import warnings
from collections import Counter
from typing import Any, Dict, Iterable

from ..corpora.report import CorpusReport
from ..errors import KrisselWarning, Warnings
from .miner import COUNTS, TEXT_COUNTS, MinedChunk
from .reading import Chunk

# What is counted in reading.
READ_COUNTS = ("bad_records", "blank_texts")


def chunk_record(chunk: Chunk, mined: MinedChunk) -> Dict[str, Any]:
    """What is kept of a chunk beside its mentions, as JSON."""
    return {
        "unit": chunk.unit,
        "is_last": chunk.is_last,
        "report": chunk.report,
        "counts": {**mined.counts, "deleted_ids": len(chunk.deleted)},
        "first_repeated": mined.first_repeated,
    }


class Tally:
    """The sums of the records of all chunks, whichever run they are of."""

    def __init__(self, records: Iterable[Dict[str, Any]] = ()) -> None:
        self._report = CorpusReport()
        self._counts: Counter = Counter()
        self._first_repeated = ""
        for record in records:
            self.add(record)

    def add(self, record: Dict[str, Any]) -> None:
        self._counts.update(record["counts"])
        self._first_repeated = self._first_repeated or record["first_repeated"]
        if record["report"]:
            self._report.add(record["report"])

    @property
    def counts(self) -> Dict[str, int]:
        mined = {name: self._counts[name] for name in (*TEXT_COUNTS, "deleted_ids", *COUNTS)}
        return {**mined, **{name: self._report[name] for name in READ_COUNTS}}

    def warn(self) -> None:
        """Warns KW302 (texts of an id that was there before), and of bad records."""
        self._report.warn()
        if repeated := self._counts["repeated_ids"]:
            message = Warnings.KW302.format(
                count=repeated, texts=repeated + self._counts["texts"], first=self._first_repeated
            )
            warnings.warn(message, KrisselWarning, stacklevel=3)
