"""Readers of graphs: tables of nodes and of edges (KGX, CSV), JSON lines, GraphML."""

from collections.abc import Callable, Iterator
from functools import lru_cache, partial
from itertools import chain, islice
from pathlib import Path
from typing import Any

from ..corpora.files import json_object, open_lines, read_records
from ..corpora.report import CorpusReport
from ..errors import Errors, KrisselError, wrong_setting
from ..util.inputs import JSON_CLOSING
from ..util.tables import DELIMITERS, csv_rows
from .graphml import read_graphml
from .records import Columns, Item, with_lists

TABLES, LINES, GRAPHML = (".csv", ".tsv"), ".jsonl", ".graphml"
ENDINGS = (*TABLES, LINES, GRAPHML)
EXPECTED = (
    f"nodes or edges of a graph ({', '.join(ENDINGS)}, or .gz), such as KGX's: nodes with an id "
    "and a name, edges with a subject and an object"
)


def ending_of(path: Path) -> str:
    """Return the ending of a path that says its format, without .gz."""
    return Path(path.name.lower().removesuffix(".gz")).suffix


def read_graph(
    path: Path, report: CorpusReport, *, id_column: str = "", label_column: str = ""
) -> Iterator[Item]:
    """Yield the nodes and edges of a file, in its order.

    id_column, label_column: columns of a table of nodes, or keys of JSON lines; "" for usual names.
        The label may be named for GraphML, too.
    report: counts `bad_records`: unreadable ones, and those without their ids.

    Raises KrisselError K006 (no such column, or none of ids), K204 (neither nodes nor edges), and
    what `read_graphml` and `open_lines` raise.
    """
    ending = ending_of(path)
    if ending == GRAPHML:
        if id_column:
            raise wrong_setting("id_column", id_column, "none for GraphML, whose nodes have ids")
        yield from read_graphml(path, EXPECTED, label_column)
    elif ending == LINES:
        columns = lru_cache(partial(Columns, id_column=id_column, label_column=label_column))

        def parse(line: str, number: int) -> Item:
            record = json_object(line)
            return columns(tuple(record)).read(record)

        yield from read_records(
            path, parse, report, expected=EXPECTED, what="node or edge", closing=JSON_CLOSING
        )
    else:
        yield from _read_table(path, report, id_column, label_column)


def _read_table(
    path: Path, report: CorpusReport, id_column: str, label_column: str
) -> Iterator[Item]:
    def bad(number: int, problem: str) -> None:
        report.record_issue("bad_records", str(path), number, problem)

    read: Callable[[list[str]], Item] | None = None
    number = 0
    with open_lines(path, EXPECTED, report=report, skip=bad) as lines:
        lines = (each for each in lines if each[1].strip())
        for number, row in _rows(lines, is_tsv=ending_of(path) == ".tsv"):
            if isinstance(row, str):
                bad(number, row)
            elif read is None:
                read = _row_reader(path, row, id_column, label_column)
            else:
                try:
                    yield read(row)
                except ValueError as error:
                    bad(number, str(error))
    if read is None:
        raise KrisselError(
            Errors.K204.format(path=path, what="header", line=number, expected=EXPECTED)
        )


def _rows(lines: Iterator[tuple[int, str]], *, is_tsv: bool) -> Iterator[tuple[int, Any]]:
    if is_tsv:
        # KGX quotes no cell.
        return ((number, line.split("\t")) for number, line in lines)
    first = [*islice(lines, 1)]
    return csv_rows(
        chain(first, lines), max(DELIMITERS, key="".join(each for _, each in first).count)
    )


def _row_reader(
    path: Path, header: list[str], id_column: str, label_column: str
) -> Callable[[list[str]], Item]:
    """Return a function that reads a row of a table. Raises KrisselError K006."""
    names = [each.strip() or f"column {at}" for at, each in enumerate(header, 1)]
    columns = Columns(names, id_column, label_column)
    asked = {"id_column": (columns.id, id_column), "label_column": (columns.label, label_column)}
    for setting, (found, wanted) in asked.items():
        if not (found or columns.ends) and (wanted or setting == "id_column"):
            expected = f"one of the columns of '{path}': {', '.join(map(repr, header))}"[:300]
            raise wrong_setting(setting, wanted, expected)
    texts = {columns.label, *(columns.ends or (columns.id,))}

    def read(row: list[str]) -> Item:
        if any(row[len(names) :]):
            raise ValueError(f"{len(row)} cells, not {len(names)}")
        return columns.read(with_lists(dict(zip(names, row, strict=False)), texts))

    return read
