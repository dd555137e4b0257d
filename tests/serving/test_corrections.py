"""Corrections in a file: kept, undone, read again, and what a killed process or another one does to
it."""

import errno
import json
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spacy_krissel.errors import KrisselError, KrisselWarning
from spacy_krissel.serving.corrections import CorrectionLog

VALUES = {"text": "He had a cold.", "start": 9, "end": 13, "right": ("D3",), "author": "Ada"}


LINE = {**VALUES, "linked": "", "doc": "", "id": "1", "time": ""}


def test_corrections_are_kept_and_undone_on_disk(tmp_path):
    path = tmp_path / "made" / "corrections.jsonl"
    log = CorrectionLog(path)
    first, second = log.new(**VALUES), log.new(**{**VALUES, "right": (), "author": "É\n"})
    log.add(first)
    log.add(second)
    assert log.in_force == [first, second] and first.id != second.id and first.mention == "cold"
    assert log.undo(first.id, "Bob") == first
    log.close()
    # Nothing that was said is removed.
    lines = [json.loads(line) for line in path.read_text(encoding="utf8").splitlines()]
    assert [line.get("author") for line in lines] == ["Ada", "É\n", "Bob"] and lines[2][
        "undone"
    ] == first.id
    again = CorrectionLog(path)
    assert again.in_force == [second]
    with pytest.raises(KeyError):
        again.undo(first.id)
    again.close()


def test_line_that_was_cut_off_is_dropped(tmp_path):
    path = tmp_path / "corrections.jsonl"
    log = CorrectionLog(path)
    log.add(kept := log.new(**VALUES))
    log.close()
    with path.open("a", encoding="utf8") as file_:
        file_.write('{"text": "He ha')
    with pytest.warns(KrisselWarning, match="KW681.* 15 bytes"):
        log = CorrectionLog(path)
    log.add(more := log.new(**VALUES))
    log.close()
    assert CorrectionLog(path).in_force == [kept, more]


@pytest.mark.parametrize(
    "line",
    [
        "nothing",
        "[]",
        "{}",
        '{"undone": "unknown"}',
        json.dumps({**LINE, "end": 99}),
        "one line\nand another",
        '{"of": "something else',
        "[" * 100_000,
        '{"text": ' * 100_000,
        json.dumps({**LINE, "right": [5]}),
        json.dumps({**LINE, "id": ["1"]}),
        json.dumps({**LINE, "id": ""}),
        json.dumps({**LINE, "text": "\ud800" * 20}),
        json.dumps({**LINE, "start": "9"}),
        '{"undone": ["1"]}',
    ],
)
@pytest.mark.parametrize("end", ["\n", ""])
def test_foreign_file_is_refused_and_unchanged(tmp_path, line, end):
    path = tmp_path / "corrections.jsonl"
    path.write_text(f"{line}{end}", encoding="utf8")
    with pytest.raises(KrisselError, match=r"K681.*line 1"):
        CorrectionLog(path)
    assert path.read_text(encoding="utf8") == f"{line}{end}"


def test_complete_line_without_a_line_end_is_kept(tmp_path):
    path = tmp_path / "corrections.jsonl"
    log = CorrectionLog(path)
    log.add(kept := log.new(**VALUES))
    log.close()
    path.write_bytes(path.read_bytes()[:-1])
    log = CorrectionLog(path)
    log.add(more := log.new(**VALUES))
    log.close()
    assert CorrectionLog(path).in_force == [kept, more]


@pytest.mark.skipif(sys.platform == "win32", reason="files are not locked there")
def test_file_of_another_service_is_refused(tmp_path):
    log = CorrectionLog(tmp_path / "corrections.jsonl")
    with pytest.raises(KrisselError, match=r"K681.*another process"):
        CorrectionLog(tmp_path / "corrections.jsonl")
    log.close()
    CorrectionLog(tmp_path / "corrections.jsonl").close()


class Full:
    """A file on a disk that takes a few bytes more."""

    def __init__(self, file_):
        self.file, self.left = file_, 10

    def __getattr__(self, name):
        return getattr(self.file, name)

    def write(self, data):
        if not self.left:
            raise OSError(errno.ENOSPC, "No space left on device")
        n, self.left = self.file.write(data[: self.left]), 0
        return n


def test_correction_that_was_not_saved_does_not_count(tmp_path):
    path = tmp_path / "corrections.jsonl"
    log = CorrectionLog(path)
    file_ = log._file
    log._file = Full(file_)
    with pytest.raises(KrisselError, match="K026"):
        log.add(log.new(**VALUES))
    assert log.in_force == [] and path.read_bytes() == b""
    # Nor later, when there is room again.
    log._file = file_
    log.add(kept := log.new(**VALUES))
    log.close()
    assert CorrectionLog(path).in_force == [kept]


@given(st.text("a⟦\u2028\r\x00é", min_size=1), st.text(), st.lists(st.text()))
def test_any_text_is_read_as_it_was_written(tmp_path_factory, text, author, right):
    path = tmp_path_factory.mktemp("log") / "corrections.jsonl"
    log = CorrectionLog(path)
    log.add(made := log.new(text=text, start=0, end=len(text), right=tuple(right), author=author))
    log.close()
    again = CorrectionLog(path)
    assert again.in_force == [made]
    again.close()


@given(st.data())
def test_damaged_line_raises_a_coded_error_or_is_harmless(tmp_path_factory, data):
    """Any value in place of any field, or bytes in place of any bytes."""
    path = tmp_path_factory.mktemp("log") / "corrections.jsonl"
    values = st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(), st.lists, max_leaves=3
    )
    line = json.dumps({**LINE, data.draw(st.sampled_from([*LINE])): data.draw(values)}).encode()
    at = data.draw(st.integers(0, len(line)))
    line = line[:at] + data.draw(st.binary(max_size=3)) + line[at + data.draw(st.integers(0, 3)) :]
    path.write_bytes(line.replace(b"\n", b"") + b"\n")
    before = path.read_bytes()
    try:
        log = CorrectionLog(path)
    except KrisselError as error:
        assert error.code == "K681" and "line 1" in str(error)
    else:
        (kept,) = log.in_force
        assert kept.mention and kept.id and all(isinstance(each, str) for each in kept.right)
        log.close()
    assert path.read_bytes() == before


@pytest.mark.skipif(sys.platform == "win32", reason="an open file cannot be moved there")
@pytest.mark.parametrize("how", ["moved", "removed", "with its folder"])
def test_vanished_file_is_written_again(tmp_path, how):
    path = tmp_path / "folder" / "corrections.jsonl"
    log = CorrectionLog(path)
    first, second = log.new(**VALUES), log.new(**{**VALUES, "right": ()})
    log.add(first)
    log.add(second)
    log.undo(first.id)
    if how == "moved":
        path.rename(path.with_name("elsewhere"))
    else:
        path.unlink()
        if how == "with its folder":
            path.parent.rmdir()
    with pytest.warns(KrisselWarning, match="KW683"):
        log.add(third := log.new(**VALUES))
    with pytest.raises(KrisselError, match=r"K681.*another process"):
        CorrectionLog(path)
    log.add(fourth := log.new(**VALUES))
    log.close()
    again = CorrectionLog(path)
    assert again.in_force == [second, third, fourth] and len(path.read_bytes().splitlines()) == 5
    again.close()


@pytest.mark.skipif(sys.platform == "win32", reason="an open file cannot be replaced there")
def test_file_that_was_swapped_is_not_written_to(tmp_path):
    path = tmp_path / "corrections.jsonl"
    log = CorrectionLog(path)
    log.add(first := log.new(**VALUES))
    path.rename(tmp_path / "kept")
    path.write_text("of somebody else")
    with pytest.raises(KrisselError, match=r"K681.*replaced it"):
        log.add(log.new(**VALUES))
    assert log.in_force == [first] and path.read_text() == "of somebody else"
    # Put back, all goes on.
    (tmp_path / "kept").replace(path)
    log.add(second := log.new(**VALUES))
    log.close()
    assert CorrectionLog(path).in_force == [first, second]
