import gzip
import io
import json
import tarfile

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spacy_krissel.corpora.report import CorpusReport
from spacy_krissel.corpora.text_stream import Text, read_texts
from spacy_krissel.errors import KrisselError, KrisselWarning

PARAGRAPHS = "First paragraph.\n\n  Second\u2028one. \r\n"


def archive(path, **files):
    with tarfile.open(path, "w:gz") as tar:
        for name, content in files.items():
            info = tarfile.TarInfo(f"texts/{name.replace('_', '.')}")
            info.size = len(content)
            tar.addfile(info, io.BytesIO(content))
    return path


def test_jsonl_joins_title_and_text(tmp_path):
    path = tmp_path / "a.jsonl"
    records = [
        {"id": 7, "title": "Title.", "text": "Text."},
        {"text": "Only text", "title": None},
        {"title": "Only title", "text": ""},
    ]
    path.write_text("\n\n".join(map(json.dumps, records)))
    assert list(read_texts(path)) == [
        Text("7", "Title. Text.", str(path), 1),
        Text("a.jsonl:3", "Only text", str(path), 3),
        Text("a.jsonl:5", "Only title", str(path), 5),
    ]


@pytest.mark.parametrize(
    "line", ['{"text": 3}', '{"title": "", "text": " "}', "[]", '{"text', r'{"text": "\ud800"}']
)
def test_bad_jsonl_lines_raise_a_warning(tmp_path, line):
    path = tmp_path / "a.jsonl"
    path.write_text(f'{{"text": "one"}}\n{line}\n{{"text": "two"}}\n')
    with pytest.warns(KrisselWarning, match=r"KW201\] 1 record.*a\.jsonl, line 2"):
        assert [text.text for text in read_texts(path)] == ["one", "two"]


@pytest.mark.parametrize("name", ["a.txt", "a.txt.gz"])
def test_each_paragraph_of_plain_text_is_a_text(tmp_path, name):
    path = tmp_path / name
    content = PARAGRAPHS.encode()
    path.write_bytes(gzip.compress(content) if name.endswith("gz") else content)
    assert list(read_texts(path)) == [
        Text(f"{name}:1", "First paragraph.", str(path), 1),
        Text(f"{name}:3", "Second\u2028one.", str(path), 3),
    ]


def test_text_files_of_an_archive_are_read(tmp_path):
    path = archive(
        tmp_path / "a.tar.gz", README_md=b"no", PMC2_txt=PARAGRAPHS.encode(), PMC1_txt=b"Other"
    )
    texts = list(read_texts(path))
    assert [(text.id, text.text) for text in texts] == [
        ("PMC2:1", "First paragraph."),
        ("PMC2:3", "Second\u2028one."),
        ("PMC1:1", "Other"),
    ]
    assert texts[1].source == f"{path}!texts/PMC2.txt" and texts[1].line == 3


def test_text_files_of_a_folder_are_read_in_order(tmp_path):
    (tmp_path / "sub").mkdir()
    for name in ("sub/b.txt", "a.txt", "LICENSE"):
        (tmp_path / name).write_text(name)
    report = CorpusReport()
    assert [text.text for text in read_texts(tmp_path, report=report)] == ["a.txt", "sub/b.txt"]
    assert report["texts"] == 2


@pytest.mark.parametrize(
    "name, content, code",
    [
        ("a.txt", b"", "K204"),
        ("a.jsonl", b"\n", "K204"),
        ("a.jsonl", b"\nplain text\n", "K209.*line 2"),
        ("a.jsonl", b"[1]\n", "K209.*line 1"),
        ("a.csv", b"text", "K210"),
        ("a.txt", b"one\n\xe9t\xe9\n", "K203.*line 2"),
        ("a.txt.gz", gzip.compress(b"word " * 9, mtime=0)[:-10], "K202"),
        ("a.tar.gz", b"no archive at all", "K211"),
        ("a.tar.gz", gzip.compress(b"no archive at all", mtime=0), "K211"),
    ],
)
def test_unreadable_files_raise_coded_errors(tmp_path, name, content, code):
    path = tmp_path / name
    path.write_bytes(content)
    with pytest.raises(KrisselError, match=code):
        list(read_texts(path))


def test_every_truncation_of_an_archive_raises_a_coded_error(tmp_path):
    whole = archive(
        tmp_path / "whole.tar.gz", A_txt=b"one\n" * 400, B_txt=bytes(range(32, 127)) * 30
    ).read_bytes()
    path = tmp_path / "cut.tar.gz"
    for length in range(1, len(whole) - 8, 5):
        path.write_bytes(whole[:length])
        with pytest.raises(KrisselError, match=r"\[K211\].*cut\.tar\.gz"):
            list(read_texts(path))


def test_an_archive_member_that_is_not_utf8_raises(tmp_path):
    with pytest.raises(KrisselError, match=r"\[K203\].*a\.tar\.gz!texts/A\.txt.*line 2"):
        list(read_texts(archive(tmp_path / "a.tar.gz", A_txt=b"one\n\xff\n")))


@pytest.mark.parametrize("path", ["absent.txt", "empty"])
def test_missing_files_and_empty_folders_raise(tmp_path, path):
    (tmp_path / "empty").mkdir()
    with pytest.raises(KrisselError, match=rf"\[K201\].*{path}"):
        list(read_texts(tmp_path / path))


@given(
    st.lists(
        st.text(st.characters(blacklist_categories=["Cs"]), max_size=30), min_size=1, max_size=5
    )
)
def test_arbitrary_texts_round_trip_through_jsonl(tmp_path_factory, contents):
    path = tmp_path_factory.mktemp("wild") / "a.jsonl"
    path.write_text(
        "\n".join(json.dumps({"text": text}, ensure_ascii=False) for text in contents),
        encoding="utf8",
    )
    wanted = [text for text in contents if text.strip()]
    report = CorpusReport()
    if wanted:
        assert [text.text for text in read_texts(path, report=report)] == wanted
        assert report["bad_records"] == len(contents) - len(wanted)


@pytest.mark.data
def test_real_abstracts_have_unique_ids_and_text(data_dir):
    abstracts = list(read_texts(data_dir / "text" / "abstracts.jsonl.gz"))
    assert len(abstracts) == len({text.id for text in abstracts}) == 13_752
    assert all(text.text for text in abstracts)


@pytest.mark.data
@pytest.mark.slow
def test_every_article_of_a_real_archive_is_read(data_dir):
    sources = {
        text.source
        for text in read_texts(data_dir / "text" / "evidence_inference_txt_files.tar.gz")
    }
    # One of the 4,470 articles is empty.
    assert len(sources) == 4469


@pytest.mark.parametrize("name", ["a.pubtator", "dev.PubTator.txt", "a.pubtator.gz"])
def test_pubtator_is_read_as_texts(tmp_path, name):
    content = b"7|t|A cold.\n7|a|It was cold.\n7\t2\t6\tcold\tDisease\tT04\n\n8|t|Flu.\n8|a|\n\n"
    (tmp_path / name).write_bytes(gzip.compress(content) if name.endswith(".gz") else content)
    for path in (tmp_path / name, tmp_path):
        found = list(read_texts(path))
        assert [(text.id, text.text.strip(), text.line) for text in found] == [
            ("7", "A cold. It was cold.", 1),
            ("8", "Flu.", 5),
        ]
