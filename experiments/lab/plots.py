"""Figures, drawn by matplotlib where it is installed: the curves of KRISSBERT's Figure 2 and of
PEL's."""

import importlib.util
import json
import warnings
from collections.abc import Callable
from pathlib import Path
from statistics import mean
from typing import Any

import numpy as np

from spacy_krissel.errors import wrong_setting
from spacy_krissel.evaluation.nil import NilCurve
from spacy_krissel.util.atomic import atomic_file, check_file

from .errors import Errors, KrisselError, KrisselWarning, Warnings

TOP_K, FEW_SHOT, NIL, GRADIENTS = "top-k.svg", "few-shot.svg", "nil.svg", "gradient-norms.svg"
# Inches, of one panel.
WIDTH, HEIGHT = 4.2, 3.2
# Colours that colour-blind readers tell apart (Okabe and Ito), and line styles and markers for who
# sees none.
COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#000000", "#56b4e9", "#e69f00")
LINES = ("-", "--", "-.", ":", (0, (5, 1)), (0, (3, 1, 1, 1, 1, 1)))
MARKERS = "osD^vPX*<>"
# Marks on a curve of many points.
N_MARKS = 8
SETS = {
    "ncbi": "NCBI Disease",
    "bc5cdr": "BC5CDR diseases",
    "chemicals": "BC5CDR chemicals",
}
# The same file for the same figures: no date, no random ids.
SETTINGS: Any = {"svg.hashsalt": "spacy-krissel", "svg.fonttype": "none", "font.size": 9.0}
METADATA = {"Date": None}


def draw_curves(found: dict[str, Any], folder: Path) -> list[Path]:
    """Draw an ablation's `top_k`, `few_shot`, `nil_curves` and `gradient_norms`, as they stand in
    ablation.json, to `folder`.

    RETURNS: the files. Warns KW901, and draws nothing, without matplotlib.
    """

    def figures() -> dict[Path, Any]:
        made = {}
        titles = {row["name"]: row["title"] for row in found["rows"]}
        if found["top_k"]:
            made[folder / TOP_K] = top_k_figure(found["top_k"], titles)
        if found["few_shot"]:
            made[folder / FEW_SHOT] = few_shot_figure(found["few_shot"])
        if found.get("nil_curves"):
            made[folder / NIL] = nil_curves_figure(found["nil_curves"], titles)
        if found.get("gradient_norms"):
            made[folder / GRADIENTS] = gradient_norms_figure(found["gradient_norms"], titles)
        return made

    return draw(figures)


def draw(figures: Callable[[], dict[Path, Any]]) -> list[Path]:
    """Save the figures that `figures` makes, each to its path, the same file for the same
    figures. RETURNS: the paths.

    Warns KW901, and makes none, without matplotlib. Raises KrisselError K026 (the disk).
    """
    if importlib.util.find_spec("matplotlib") is None:
        warnings.warn(Warnings.KW901, KrisselWarning, stacklevel=3)
        return []
    import matplotlib

    with matplotlib.rc_context(SETTINGS):
        made = figures()
        for path, figure in made.items():
            with atomic_file(path) as temporary:
                figure.savefig(temporary, format="svg", metadata=METADATA)
    return list(made)


def top_k_figure(curves: dict[str, dict[str, list[float]]], titles: dict[str, str]) -> Any:
    """A panel per set, a line per row: K against the fraction of mentions with a gold entity among
    the first K."""
    figure, axes = panels(len(curves), sharey=True)
    for panel, (gold, rows) in zip(axes, curves.items(), strict=True):
        for index, (name, curve) in enumerate(rows.items()):
            ranks = range(1, len(curve) + 1)
            marks = [rank - 1 for rank in ranks if rank & (rank - 1) == 0]
            panel.plot(
                ranks,
                [100 * value for value in curve],
                label=titles[name],
                **line_style(index),
                markevery=marks,
            )
        panel.set_xscale("log", base=2)
        panel.xaxis.set_major_formatter("{x:.0f}")
        panel.set(title=SETS.get(gold, gold), xlabel="first K candidates")
        panel.grid(alpha=0.3)
    axes[0].set_ylabel("with a right one among them (%)")
    legend(figure, axes[0])
    return figure


def few_shot_figure(curves: dict[str, list[dict[str, Any]]]) -> Any:
    """A line per set: gold mentions per entity against strict accuracy, the mean of the draws and
    their range."""
    figure, (panel,) = panels(1)
    # Not a number: "all" is one of them.
    labels = list(dict.fromkeys(str(shot["shots"]) for shots in curves.values() for shot in shots))
    for index, (gold, shots) in enumerate(curves.items()):
        positions = [labels.index(str(shot["shots"])) for shot in shots]
        means = [100 * mean(shot["strict"]) for shot in shots]
        below = [
            value - 100 * min(shot["strict"]) for value, shot in zip(means, shots, strict=True)
        ]
        above = [
            100 * max(shot["strict"]) - value for value, shot in zip(means, shots, strict=True)
        ]
        # Rounding may leave a bar of minus nothing.
        bars = [[max(value, 0.0) for value in side] for side in (below, above)]
        panel.errorbar(
            positions, means, yerr=bars, capsize=2, label=SETS.get(gold, gold), **line_style(index)
        )
    panel.set_xticks(range(len(labels)), labels)
    panel.set(
        title="Gold mentions as prototypes",
        xlabel="gold mentions per entity",
        ylabel="strict accuracy (%), range of draws",
    )
    panel.grid(alpha=0.3)
    legend(figure, panel)
    return figure


def nil_curves_figure(curves: dict[str, dict[str, Any]], titles: dict[str, str]) -> Any:
    """A panel per set, a line per row: recall against precision of NIL in percent."""
    figure, axes = panels(len(curves), sharey=True)
    lowest = 100.0
    for panel, (gold, rows) in zip(axes, curves.items(), strict=True):
        for index, (name, curve) in enumerate(rows.items()):
            if curve is not None:
                recall, precision = (
                    [100 * value for value in curve[key]] for key in ("recall", "precision")
                )
                panel.plot(
                    recall,
                    precision,
                    label=titles[name],
                    **line_style(index),
                    markevery=marks_of(recall),
                )
                # The first few mentions say nothing yet.
                lowest = min(
                    [lowest, *(low for at, low in zip(recall, precision, strict=True) if at >= 10)]
                )
        panel.set(title=f"NIL, {SETS.get(gold, gold)}", xlabel="recall of NIL (%)")
        panel.grid(alpha=0.3)
    axes[0].set(ylabel="precision of NIL (%)", ylim=(10 * (lowest // 10), 101))
    legend(figure, axes[0])
    return figure


def gradient_norms_figure(norms: dict[str, dict[str, Any]], titles: dict[str, str]) -> Any:
    """A line per row: training steps against the smoothed norm of the gradient, in units of its
    mean over all steps, so that losses of different scale can be compared."""
    figure, (panel,) = panels(1)
    for index, (name, each) in enumerate(norms.items()):
        values = [value / each["mean"] for value in each["smoothed"]]
        panel.plot(values, label=titles[name], **line_style(index), markevery=marks_of(values))
    panel.set(
        title="Size of the gradient in training", xlabel="step", ylabel="gradient norm / its mean"
    )
    panel.set_yscale("log")
    panel.grid(alpha=0.3)
    legend(figure, panel)
    return figure


def line_style(index: int) -> dict[str, Any]:
    """Return colour, dashes and marker of a line by its index: the first ten are distinct without
    colour."""
    return {
        "color": COLOURS[index % len(COLOURS)],
        "linestyle": LINES[index % len(LINES)],
        "marker": MARKERS[index % len(MARKERS)],
        "markersize": 4,
        "linewidth": 1.2,
    }


def marks_of(values: Any) -> int:
    """Return the number of points per marker of a curve."""
    return max(1, len(values) // N_MARKS)


def legend(figure: Any, panel: Any) -> None:
    """Draw the legend below the panels, where it covers no curve and no axis."""
    handles, labels = panel.get_legend_handles_labels()
    columns = len(figure.axes)
    rows = -(-len(labels) // columns)
    figure.set_figheight(HEIGHT + 0.19 * rows)
    figure.legend(
        handles, labels, loc="outside lower center", ncols=columns, frameon=False, handlelength=3.5
    )


def nil_curve(metrics: Path, output: Path) -> list[Path]:
    """Draw the precision–recall curve of NIL, with a mark at the fitted threshold (PEL, Figure 2).

    metrics: file by `krissel calibrate --metrics`
    output: .svg file to draw

    RETURNS: the files. Raises KrisselError K906 (the metrics), and those of `check_drawing`.
    """
    check_drawing(output)
    try:
        found = json.loads(metrics.read_text(encoding="utf8"))
        curve = NilCurve(**{name: np.array(values) for name, values in found["curve"].items()})
        threshold = found["threshold"]
    except (OSError, ValueError, TypeError, KeyError, AttributeError) as error:
        raise KrisselError(Errors.K906.format(path=metrics, problem=repr(error))) from error
    return draw_nil_curve(curve, threshold, output)


def show_nil_curve(drawn: list[Path]) -> str:
    return "\n".join(f"Drawn: {path}" for path in drawn)


def check_drawing(path: Path) -> None:
    """Raise KrisselError K006 for a path that does not end in .svg, K026 if it cannot be
    written."""
    if path.suffix != ".svg":
        raise wrong_setting("output", str(path), "a path ending in .svg")
    check_file(path)


def draw_nil_curve(curve: NilCurve, threshold: float, path: Path) -> list[Path]:
    """Draw the curve, with a mark at the one of its thresholds that was chosen, to the SVG at
    `path`.

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
    panel.set(
        title="Precision and recall of NIL",
        xlabel="recall of NIL (%)",
        ylabel="precision of NIL (%)",
    )
    panel.set(xlim=(0, 102), ylim=(0, 102))
    panel.grid(alpha=0.3)
    legend(figure, panel)
    return figure


def panels(n: int, **settings: Any) -> Any:
    """A figure with n panels in a row, and the panels."""
    # Without pyplot, which would choose a window system for the whole process.
    from matplotlib.figure import Figure

    figure = Figure(figsize=(n * WIDTH, HEIGHT), layout="constrained")
    return figure, figure.subplots(1, n, squeeze=False, **settings)[0]
