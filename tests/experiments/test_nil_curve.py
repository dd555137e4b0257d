import numpy as np
import pytest
from lab.plots import draw_nil_curve, nil_figure

from spacy_krissel.evaluation.nil import nil_curve

pytest.importorskip("matplotlib")
CURVE = nil_curve([0.1, 0.2, 0.3, 0.4], [True, False, True, False])


def test_the_curve_and_the_threshold_are_drawn(tmp_path):
    threshold = float(CURVE.thresholds[2])
    line, point = nil_figure(CURVE, threshold).axes[0].lines
    assert line.get_xdata().tolist() == [0, 50, 50, 100, 100]
    assert line.get_ydata().tolist() == pytest.approx([100, 100, 50, 200 / 3, 50])
    # Each height is that of the step to its left, so that the area is what the label says.
    assert line.get_drawstyle() == "steps-pre"
    area = np.sum(np.diff(line.get_xdata()) * line.get_ydata()[1:]) / 100**2
    assert area == pytest.approx(CURVE.average_precision) and line.get_label() == "auPR 83.3"
    assert (point.get_xdata().tolist(), point.get_ydata().tolist()) == (
        [100],
        pytest.approx([200 / 3]),
    )
    (drawn,) = draw_nil_curve(CURVE, threshold, tmp_path / "nil.svg")
    assert "threshold 0.35" in drawn.read_text() and "auPR 83.3" in drawn.read_text()
