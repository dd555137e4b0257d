"""Parquet table of mentions, as pandas, polars and `datasets` read it."""

from collections.abc import Iterable
from itertools import islice
from typing import IO

import pyarrow
from pyarrow.parquet import ParquetWriter
from spacy.tokens import Doc

from ...mentions.gold_mentions import document_id
from .mentions import linked_mentions

# Number of docs whose mentions are written together.
BATCH_DOCS = 1_000
_CANDIDATE = pyarrow.struct(
    {
        "id": pyarrow.string(),
        "name": pyarrow.string(),
        "match": pyarrow.string(),
        "score": pyarrow.float64(),
    }
)
SCHEMA = pyarrow.schema(
    {
        "doc": pyarrow.string(),
        "start": pyarrow.int64(),
        "end": pyarrow.int64(),
        "text": pyarrow.string(),
        "label": pyarrow.string(),
        "id": pyarrow.string(),
        "name": pyarrow.string(),
        "match": pyarrow.string(),
        "matched_name": pyarrow.string(),
        "score": pyarrow.float64(),
        "confidence": pyarrow.float64(),
        "candidates": pyarrow.list_(_CANDIDATE),
    }
)


def write_parquet(docs: Iterable[Doc], key: str, file_: IO[bytes]) -> None:
    """Write one row per mention: its doc, offsets, label and entity, with match, matched name,
    score, confidence and candidates. `id` is `NIL` for a mention without an entity, and empty
    without a linker; score and confidence are then empty."""
    docs = iter(docs)
    with ParquetWriter(file_, SCHEMA) as table:
        while some := list(islice(docs, BATCH_DOCS)):
            rows = [
                {"doc": document_id(doc), **each._asdict()}
                for doc in some
                for each in linked_mentions(doc, key)
            ]
            table.write_table(pyarrow.Table.from_pylist(rows, SCHEMA))
