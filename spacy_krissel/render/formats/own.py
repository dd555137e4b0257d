"""Formats that this package reads itself (docs, JSON lines, a table to fill in), and a page."""

import csv
import json
from collections.abc import Iterable, Iterator
from itertools import chain
from types import SimpleNamespace
from typing import IO

from spacy.tokens import Doc, DocBin

from ..links import COLUMNS, doc_to_dict, link_rows, links_page


def write_spacy(docs: Iterable[Doc], key: str, file_: IO[bytes]) -> None:
    """Write spaCy's docs, with all candidates."""
    file_.write(DocBin(docs=docs, store_user_data=True).to_bytes())


def write_html(docs: Iterable[Doc], key: str, file_: IO[bytes]) -> None:
    """Write displaCy's page of the texts, with the links and some of the candidates."""
    # displaCy's page does not state its encoding.
    file_.write(links_page(docs, key).encode("ascii", "xmlcharrefreplace"))


def write_tsv(docs: Iterable[Doc], key: str, file_: IO[bytes]) -> None:
    """Write one row per mention, with columns for verdicts, which `krissel correct` reads. The
    `context` has the mention in ⟦ ⟧, and `alternatives` the other candidates with their scores, on
    the scale of a `threshold` (docs/nil.md)."""
    file_.writelines(
        table_lines(COLUMNS, (row.values() for doc in docs for row in link_rows(doc, key)))
    )


def table_lines(header: Iterable[str], rows: Iterable[Iterable[str]]) -> Iterator[bytes]:
    """Return the lines of a tab-separated table."""
    # `writerow` returns what `write` returns.
    table = csv.writer(SimpleNamespace(write=str.encode), delimiter="\t", lineterminator="\n")
    return map(table.writerow, chain([header], rows))


def write_jsonl(docs: Iterable[Doc], key: str, file_: IO[bytes]) -> None:
    """Write one object per text, with its mentions and all candidates."""
    for doc in docs:
        file_.write((json.dumps(doc_to_dict(doc, key), ensure_ascii=False) + "\n").encode())
