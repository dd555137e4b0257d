import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spacy_krissel.errors import KrisselError
from spacy_krissel.evaluation.records import LinkRecord, read_records, record_keys, write_records
from spacy_krissel.mentions.gold_mentions import split_gold


@pytest.mark.parametrize(
    "kb_id, expected",
    [
        ("D1", ("D1",)),
        ("D1|D2", ("D1", "D2")),
        ("D1+D2", ("D1", "D2")),
        ("D1 | -1", ("D1",)),
        ("OMIM:300", ("D3",)),
        ("OMIM:300|D1", ("D3", "D1")),
        ("MESH:D5", ("D5",)),
        ("X9", ("X9",)),
        ("", ()),
        ("-1", ()),
        ("-", ()),
        ("NIL", ()),
    ],
)
def test_gold_ids_are_split_and_mapped_to_primary_ids(store, kb_id, expected):
    assert split_gold(kb_id, store) == expected


@pytest.mark.parametrize("kb_id", ["-1", "-", "NIL", "-1|-1"])
def test_gold_nil_is_kept_only_on_request(store, kb_id):
    assert split_gold(kb_id, store) == ()
    assert split_gold(kb_id, store, gold_nil=True) == ("NIL",)
    assert split_gold("", store, gold_nil=True) == ()


def test_mentions_with_equal_offsets_have_different_keys(make_record):
    records = [make_record(), make_record(), make_record(doc="2")]
    assert list(record_keys(records)) == [("1", 0, 13, 0), ("1", 0, 13, 1), ("2", 0, 13, 0)]


@given(
    text=st.text(max_size=20),
    gold=st.lists(st.text(max_size=5), max_size=3),
    scores=st.lists(st.floats(0, 1)),
)
def test_records_are_read_back_unchanged(tmp_path_factory, text, gold, scores):
    record = LinkRecord(
        "1", 3, 9, text, "Disease", tuple(gold), ["D1"], scores, left=text, found=False
    )
    path = tmp_path_factory.mktemp("records") / "r.jsonl"
    write_records([record, record], path)
    assert read_records(path) == [record, record]


@pytest.mark.parametrize("line", ["{", "[]", '{"doc": "1"}', "\x00"])
def test_a_damaged_record_raises_with_its_line(tmp_path, make_record, line):
    path = tmp_path / "r.jsonl"
    write_records([make_record()], path)
    with path.open("a", encoding="utf8") as file_:
        file_.write(line + "\n")
    with pytest.raises(KrisselError, match=r"K704.*r\.jsonl', line 2"):
        read_records(path)


@pytest.mark.parametrize(
    "changed",
    [{"gold": "D1"}, {"text": None}, {"scores": ["1"]}, {"start": "3"}, {"found": 1}, {"more": 1}],
    ids=str,
)
def test_a_value_of_another_type_raises(tmp_path, make_record, changed):
    path = tmp_path / "r.jsonl"
    write_records([make_record()], path)
    values = json.loads(path.read_text())
    path.write_text(json.dumps({**values, **changed}) + "\n")
    with pytest.raises(KrisselError, match=f"K704.*'{next(iter(changed))}"):
        read_records(path)


def test_a_missing_file_raises(tmp_path):
    with pytest.raises(KrisselError, match="K001"):
        read_records(tmp_path / "none.jsonl")


def test_a_deeply_nested_line_raises_a_coded_error(tmp_path):
    path = tmp_path / "r.jsonl"
    path.write_text("[" * 200_000 + "\n")
    with pytest.raises(KrisselError, match=r"K704.*r\.jsonl', line 1"):
        read_records(path)
