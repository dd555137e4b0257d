"""Rows of tables with quoted cells: sound ones are as the csv module has them, a damaged one costs
no other."""

import csv
import io

from hypothesis import given
from hypothesis import strategies as st

from spacy_krissel.util.tables import MAX_LINES, csv_rows

# As names and definitions begin: a quote before a delimiter alone may be one that closes.
CELLS = st.from_regex(r"[a-c][a-c,;'\" \n]{0,6}", fullmatch=True)
WIDTH = 3
ROWS = st.lists(st.lists(CELLS, min_size=WIDTH, max_size=WIDTH), min_size=1, max_size=6)


def written(rows, delimiter=","):
    file_ = io.StringIO()
    csv.writer(file_, delimiter=delimiter, lineterminator="\n").writerows(rows)
    return file_.getvalue().removesuffix("\n").split("\n")


def read(lines, delimiter=","):
    return list(csv_rows(enumerate(lines, 1), delimiter))


@given(ROWS, st.sampled_from(",;"))
def test_rows_are_those_that_were_written(rows, delimiter):
    found = read(written(rows, delimiter), delimiter)
    assert [row for _, row in found] == rows
    starts = [1]
    for row in rows:
        starts.append(starts[-1] + 1 + "".join(row).count("\n"))
    assert [number for number, _ in found] == starts[:-1]


@given(ROWS, ROWS, st.sampled_from(['x,"y,z', 'x,y,"z', '"x,y,z', 'x,"y" y,z']))
def test_unclosed_quote_loses_only_one_row(before, after, damaged):
    head = written(before)
    found = read([*head, damaged, *written(after)])
    problems = [(number, row) for number, row in found if isinstance(row, str)]
    assert [number for number, _ in problems] == [len(head) + 1]
    assert [row for _, row in found if not isinstance(row, str)] == [*before, *after]


def test_quote_is_not_closed_by_another_row():
    """The two rows would be one of two lines, with more cells than the first row has."""
    found = read(["id,name", '1,"gout', '2,5",y', "3,croup"])
    assert [number for number, row in found if isinstance(row, str)] == [2]
    assert [row for _, row in found if isinstance(row, list)] == [
        ["id", "name"],
        ["2", '5"', "y"],
        ["3", "croup"],
    ]


def test_unclosed_quotes_take_linear_time():
    lines = ['a,"b'] * 3 + ["a,b"] * (3 * MAX_LINES)
    found = read(lines)
    assert [number for number, row in found if isinstance(row, str)] == [1, 2, 3]
    assert len(found) == len(lines)
