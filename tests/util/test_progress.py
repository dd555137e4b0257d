import gzip
import sys
from itertools import islice

import pytest

from spacy_krissel.util.inputs import CountedFile, open_input
from spacy_krissel.util.progress import progress_bar, reading_bar, size_of


@pytest.mark.parametrize("show", [True, False])
@pytest.mark.parametrize("is_terminal", [True, False])
def test_bar_is_drawn_only_on_a_terminal(capsys, monkeypatch, show, is_terminal):
    monkeypatch.setattr(sys.stderr, "isatty", lambda: is_terminal)
    assert list(progress_bar(range(3), show=show, desc="Counting")) == [0, 1, 2]
    out, err = capsys.readouterr()
    assert not out and ("Counting: 100%" in err if show and is_terminal else not err)


def test_bar_can_be_updated_without_items(terminal):
    with progress_bar(show=True, total=5, unit=" views") as bar:
        bar.update(5)
    assert "5/5" in terminal.readouterr().err


def lines_of(path):
    with open_input(path, "no file", "damaged") as file_:
        yield from file_.lines()


@pytest.mark.parametrize("packed", [True, False])
def test_bar_of_files_follows_their_bytes_to_the_end(tmp_path, terminal, packed):
    path = tmp_path / "lines.txt"
    lines = [f"{number:050}\n".encode() for number in range(20_000)]
    path.write_bytes(gzip.compress(b"".join(lines), 0) if packed else b"".join(lines))
    size, began = size_of([path]), CountedFile.n_read
    stream = reading_bar(lines_of(path), size, show=True, unit=" lines", desc="Reading")
    assert [*islice(stream, 10_000)] == lines[:10_000]
    assert 0.4 * size < CountedFile.n_read - began < 0.6 * size
    assert [*stream] == lines[10_000:]
    shown = terminal.readouterr().err
    assert "Reading:   0%" in shown and "Reading: 100%" in shown and "20,000 lines" in shown
    # What is read otherwise, or not to its end.
    assert list(reading_bar([1], 5, show=True, unit=" items", desc="Other")) == [1]
    assert "Other: 100%" in terminal.readouterr().err
    assert list(reading_bar([1], 5, show=False, unit=" items", desc="Silent")) == [1]
    assert not terminal.readouterr().err


def test_size_of_folders_is_that_of_their_files(tmp_path):
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a").write_bytes(b"abc")
    (tmp_path / "b").write_bytes(b"de")
    assert (
        size_of([tmp_path]) == 5
        and size_of([tmp_path / "in", str(tmp_path / "b"), tmp_path / "missing"]) == 5
    )
