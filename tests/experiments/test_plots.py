import importlib.util

import pytest
from lab.plots import (
    draw_curves,
    few_shot_figure,
    gradient_norms_figure,
    line_style,
    nil_curves_figure,
    top_k_figure,
)

from spacy_krissel.errors import KrisselWarning

FOUND = {
    "rows": [{"name": "full", "title": "the full one"}, {"name": "lazy", "title": "the lazy one"}],
    "top_k": {
        "ncbi": {"full": [0.5, 0.75], "lazy": [0.625, 0.875]},
        "bc5cdr": {"full": [0.25, 0.5]},
    },
    "few_shot": {
        "ncbi": [
            {"shots": 0, "strict": [0.5], "prototypes": 0.0},
            {"shots": 1, "strict": [0.5, 0.75, 1.0], "prototypes": 5.0},
            {"shots": "all", "strict": [0.875], "prototypes": 50.0},
        ]
    },
}


def test_without_matplotlib_a_warning_is_raised_and_nothing_drawn(tmp_path, monkeypatch):
    find = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name: None if name == "matplotlib" else find(name)
    )
    with pytest.warns(KrisselWarning, match=r"KW901.*spacy-krissel\[plots\]"):
        assert draw_curves(FOUND, tmp_path) == []
    assert list(tmp_path.iterdir()) == []


def test_drawn_files_are_reproducible(tmp_path):
    pytest.importorskip("matplotlib")
    drawn = draw_curves(FOUND, tmp_path)
    assert [path.name for path in drawn] == ["top-k.svg", "few-shot.svg"]
    assert all(
        word in drawn[0].read_text()
        for word in ("the full one", "the lazy one", "NCBI Disease", "BC5CDR diseases")
    )
    assert ">all<" in drawn[1].read_text()
    before = [path.read_bytes() for path in drawn]
    assert [path.read_bytes() for path in draw_curves(FOUND, tmp_path)] == before, (
        "the same figures, the same file"
    )
    (alone,) = draw_curves({**FOUND, "few_shot": {}}, tmp_path)
    assert alone.name == "top-k.svg"


def test_curves_show_the_results():
    pytest.importorskip("matplotlib")
    titles = {row["name"]: row["title"] for row in FOUND["rows"]}
    left, right = top_k_figure(FOUND["top_k"], titles).axes
    assert [line.get_label() for line in left.lines] == ["the full one", "the lazy one"]
    assert list(left.lines[1].get_xdata()) == [1, 2] and list(left.lines[1].get_ydata()) == [
        62.5,
        87.5,
    ]
    assert len(right.lines) == 1
    (panel,) = few_shot_figure(FOUND["few_shot"]).axes
    ((line, _, (bars,)),) = panel.containers
    assert list(line.get_xdata()) == [0, 1, 2] and list(line.get_ydata()) == [50.0, 75.0, 87.5]
    assert [[y for _, y in segment] for segment in bars.get_segments()] == [
        [50, 50],
        [50, 100],
        [87.5, 87.5],
    ]
    assert [label.get_text() for label in panel.get_xticklabels()] == ["0", "1", "all"]


def test_nil_curves_are_drawn(tmp_path):
    pytest.importorskip("matplotlib")
    curves = {"ncbi": {"full": {"recall": [0.5, 1.0], "precision": [1.0, 0.8]}, "lazy": None}}
    (drawn,) = draw_curves({**FOUND, "top_k": {}, "few_shot": {}, "nil_curves": curves}, tmp_path)
    assert drawn.name == "nil.svg" and "precision of NIL" in drawn.read_text()
    titles = {row["name"]: row["title"] for row in FOUND["rows"]}
    (panel,) = nil_curves_figure(curves, titles).axes
    (line,) = panel.lines
    assert list(line.get_xdata()) == [50, 100] and list(line.get_ydata()) == [100, 80]


def test_gradient_norms_are_drawn_relative_to_their_mean(tmp_path):
    pytest.importorskip("matplotlib")
    norms = {"full": {"mean": 2.0, "deviation": 0.5, "smoothed": [4.0, 3.0, 1.0]}}
    (drawn,) = draw_curves(
        {**FOUND, "top_k": {}, "few_shot": {}, "gradient_norms": norms}, tmp_path
    )
    assert drawn.name == "gradient-norms.svg" and "the full one" in drawn.read_text()
    (panel,) = gradient_norms_figure(norms, {"full": "the full one"}).axes
    assert list(panel.lines[0].get_ydata()) == [2.0, 1.5, 0.5]


def test_lines_are_distinguishable_without_colour():
    styles = [line_style(place) for place in range(10)]
    assert len({(str(each["linestyle"]), each["marker"]) for each in styles}) == 10


def test_the_legend_does_not_overlap_a_panel():
    pytest.importorskip("matplotlib")
    titles = {f"row-{i}": f"a row with a long title, {i}" for i in range(9)}
    curves = {"ncbi": {name: {"recall": [0.5, 1.0], "precision": [1.0, 0.8]} for name in titles}}
    figure = nil_curves_figure(curves, titles)
    figure.draw_without_rendering()
    (legend,) = figure.legends
    assert not legend.get_window_extent().overlaps(figure.axes[0].get_tightbbox())
