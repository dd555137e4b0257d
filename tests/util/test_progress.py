import sys

import pytest

from spacy_krissel.util.progress import progress_bar


@pytest.mark.parametrize("show", [True, False])
@pytest.mark.parametrize("is_terminal", [True, False])
def test_drawn_on_a_terminal_alone(capsys, monkeypatch, show, is_terminal):
    monkeypatch.setattr(sys.stderr, "isatty", lambda: is_terminal)
    assert list(progress_bar(range(3), show=show, desc="Counting")) == [0, 1, 2]
    out, err = capsys.readouterr()
    assert not out and ("Counting: 100%" in err if show and is_terminal else not err)


def test_without_items(terminal):
    with progress_bar(show=True, total=5, unit=" views") as bar:
        bar.update(5)
    assert "5/5" in terminal.readouterr().err
