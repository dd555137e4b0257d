import pytest
from lab.spans.records import SpanRecord, read_span_records, write_span_records

from spacy_krissel.errors import KrisselError

RECORDS = [
    SpanRecord("é1", "C1", ((0, 1), (4, 5)), (), 3, True, True, (1, 3)),
    SpanRecord("2", "C2"),
]


def test_records_come_back_as_they_were(tmp_path):
    path = tmp_path / "a.spans.jsonl"
    write_span_records(RECORDS, path)
    assert read_span_records(path) == RECORDS


def test_no_such_file_is_an_error(tmp_path):
    with pytest.raises(KrisselError, match="K001.*no.jsonl"):
        read_span_records(tmp_path / "no.jsonl")


@pytest.mark.parametrize(
    "old, new",
    [
        ('"rank": 3', '"rank": 0'),
        ('"rank": 3', '"rank": true'),
        ('"entity"', '"other"'),
        ("[4, 5]", "[5, 5]"),
        ("[4, 5]", "[4]"),
        ("[4, 5]", "4"),
        ('"seen": true', '"seen": "yes"'),
        ('"disjoint": true', '"disjoint": 1'),
        ('"entity": "C1"', '"entity": 1'),
        ("}", ""),
    ],
)
def test_a_line_that_is_no_record_is_named(tmp_path, old, new):
    path = tmp_path / "a.spans.jsonl"
    write_span_records(RECORDS[1:] + RECORDS[:1], path)
    text = path.read_text(encoding="utf8")
    first, second = text.splitlines()
    assert old in second
    path.write_text(f"{first}\n{second.replace(old, new)}\n", encoding="utf8")
    with pytest.raises(KrisselError, match="K731.*line 2"):
        read_span_records(path)


def test_a_line_that_is_nested_deeply_has_no_code(tmp_path):
    path = tmp_path / "a.spans.jsonl"
    path.write_text("[" * 200_000 + "\n")
    with pytest.raises(KrisselError, match="K731.*line 1"):
        read_span_records(path)
