"""The precision–recall curve of NIL (PEL, Figure 2), drawn by matplotlib where it is installed."""

from pathlib import Path
from typing import Any, List

import numpy as np

from ..evaluation.nil import NilCurve
from .plots import draw, panels


def draw_nil_curve(curve: NilCurve, threshold: float, path: Path) -> List[Path]:
    """Draw the curve, with a mark at the one of its thresholds that was chosen, to the SVG at `path`.

    RETURNS: the files; none without matplotlib, which KW901 warns of.
    """
    return draw(lambda: {path: nil_figure(curve, threshold)})


def nil_figure(curve: NilCurve, threshold: float) -> Any:
    """Recall against precision in percent, in steps, so that the area below is the auPR."""
    figure, (panel,) = panels(1)
    recall, precision = (100 * values for values in (curve.recall, curve.precision))
    panel.plot(
        np.concatenate([[0.0], recall]),
        np.concatenate([precision[:1], precision]),
        drawstyle="steps-pre",
        label=f"auPR {100 * curve.average_precision:.1f}",
    )
    chosen = int(np.abs(curve.thresholds - threshold).argmin())
    panel.plot(recall[chosen], precision[chosen], "o", label=f"threshold {threshold:.4g}")
    panel.set(xlabel="recall of NIL (%)", ylabel="precision of NIL (%)", xlim=(0, 102), ylim=(0, 102))
    panel.grid(alpha=0.3)
    panel.legend(loc="lower left")
    return figure
