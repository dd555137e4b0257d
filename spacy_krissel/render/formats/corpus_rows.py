"""Rows of the parts of a linked corpus: one per mention or per document, as Parquet or JSONL."""

import json
from collections.abc import Callable, Iterable, Iterator
from typing import IO, Any, NamedTuple

import pyarrow
from pyarrow.parquet import ParquetWriter
from spacy.tokens import Doc
from spacy.util import minibatch

from ...mentions.gold_mentions import document_id
from .mentions import linked_mentions
from .parquet import SCHEMA

PARQUET, JSONL = "parquet", "jsonl"
# Number of rows that are written together.
BATCH_ROWS = 10_000
CANDIDATE = ("id", "name", "match", "score")
_CANDIDATES = SCHEMA.field("candidates")


class Rows(NamedTuple):
    """The rows of documents.

    per: "mention" or "document", with its text and the list of its mentions. candidates: each
        mention has its candidates, too.
    """

    per: str
    candidates: bool

    def schema(self) -> pyarrow.Schema:
        mention = [field for field in SCHEMA if self.candidates or field.name != _CANDIDATES.name]
        if self.per == "mention":
            return pyarrow.schema(mention)
        mentions = pyarrow.list_(pyarrow.struct(mention[1:]))
        return pyarrow.schema({"doc": SCHEMA.field("doc").type, "text": pyarrow.string()}).append(
            pyarrow.field("mentions", mentions)
        )

    def of(self, doc: Doc, key: str) -> list[dict[str, Any]]:
        """Return the rows of a document, whose mentions are `doc.spans[key]`, or `doc.ents`."""
        id_ = document_id(doc)
        mentions = [dict(self._shown(each._asdict())) for each in linked_mentions(doc, key)]
        if self.per == "document":
            return [{"doc": id_, "text": doc.text, "mentions": mentions}]
        return [{"doc": id_, **each} for each in mentions]

    def _shown(self, mention: dict[str, Any]) -> Iterator[tuple[str, Any]]:
        for name in SCHEMA.names[1:]:
            if name != _CANDIDATES.name:
                yield name, mention[name]
            elif self.candidates:
                shown = mention[name]
                yield name, [{key: each.get(key) for key in CANDIDATE} for each in shown]


def write_parquet_rows(rows: Iterable[dict[str, Any]], schema: Any, file_: IO[bytes]) -> None:
    with ParquetWriter(file_, schema, compression="zstd") as table:
        for some in minibatch(rows, BATCH_ROWS):
            table.write_table(pyarrow.Table.from_pylist(some, schema))


def write_jsonl_rows(rows: Iterable[dict[str, Any]], schema: Any, file_: IO[bytes]) -> None:
    for row in rows:
        file_.write((json.dumps(row, ensure_ascii=False) + "\n").encode())


ROW_WRITERS: dict[str, Callable[[Iterable[dict[str, Any]], Any, IO[bytes]], None]] = {
    PARQUET: write_parquet_rows,
    JSONL: write_jsonl_rows,
}
