import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from spacy_krissel.corpora import text_stream
from spacy_krissel.corpora.report import CorpusReport
from spacy_krissel.corpora.text_stream import Text, read_texts
from spacy_krissel.errors import KrisselError

COLUMNS = {
    "year": [1, 2, 3, 4, 5],
    "text": ["One.", "Two.", None, "", "Five."],
    "title": ["First", None, "Third", "  ", ""],
    "id": ["a", None, "c", "d", "e"],
}


@pytest.fixture
def write(tmp_path):
    def write(columns=COLUMNS, **options):
        path = tmp_path / "a.parquet"
        pq.write_table(pa.table(columns), path, **options)
        return path

    return write


@pytest.mark.parametrize("batch_rows, group_rows", [(1024, 1024), (1, 2), (2, 1), (2, 3)])
def test_texts_are_read_by_column_name(write, batch_rows, group_rows, monkeypatch):
    monkeypatch.setattr(text_stream, "BATCH_ROWS", batch_rows)
    path = write(row_group_size=group_rows)
    report = CorpusReport()
    assert list(read_texts(path, report=report)) == [
        Text("a", "First One.", str(path), 1),
        Text("a.parquet:2", "Two.", str(path), 2),
        Text("c", "Third", str(path), 3),
        Text("e", "Five.", str(path), 5),
    ]
    assert report["bad_records"] == 1 and report.examples["bad_records"] == [
        f'{path}, line 4 (no "text")'
    ]


@pytest.mark.parametrize(
    "columns",
    [
        {"text": pa.array(["One."], pa.large_string())},
        {"text": pa.array(["One."]).dictionary_encode()},
        {"title": ["One."]},
        {"id": [7], "text": ["One."]},
    ],
)
def test_columns_of_other_types_are_read(write, columns):
    (text,) = read_texts(write(columns))
    assert text.text == "One." and text.id in ("7", "a.parquet:1")


def test_unsuitable_tables_raise(write):
    with pytest.raises(KrisselError, match=r"\[K213\].*a\.parquet.*\['id', 'abstract'\]"):
        list(read_texts(write({"id": [1], "abstract": ["One."]})))
    with pytest.raises(KrisselError, match=r"\[K204\].*a\.parquet"):
        list(read_texts(write({"text": []})))
    not_utf8 = pa.Array.from_buffers(pa.string(), 1, pa.array([b"\xff"]).buffers())
    with pytest.raises(KrisselError, match=r"\[K213\].*a\.parquet.*utf-8"):
        list(read_texts(write({"text": not_utf8})))


def test_every_truncation_raises_a_coded_error(write):
    path = write()
    whole = path.read_bytes()
    for length in range(0, len(whole), 97):
        path.write_bytes(whole[:length])
        with pytest.raises(KrisselError, match=r"\[K213\].*a\.parquet"):
            list(read_texts(path))


def test_damaged_pages_raise_a_coded_error(write):
    path = write(write_page_checksum=True)
    whole = bytearray(path.read_bytes())
    whole[4:200] = bytes(196)
    path.write_bytes(whole)
    with pytest.raises(KrisselError, match=r"\[K213\].*a\.parquet"):
        list(read_texts(path))
