"""Draws `coverage.svg` and `peers.svg` from `benchmarks/results`: `python docs/pictures.py`.

The pictures have a style for dark themes, and a title and a description for screen readers.
"""

import html
import json
import math
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import NamedTuple

FOLDER = Path(__file__).parent
RESULTS = FOLDER.parent / "benchmarks" / "results"
WIDTH, HEIGHT = 680, 320
# Margins of the plot.
LEFT, RIGHT, TOP, BOTTOM = 60, 40, 30, 52
FONT = '14px system-ui, -apple-system, "Segoe UI", Helvetica, Arial, sans-serif'
STYLE = f"""
.plot text {{ font: {FONT}; fill: #1d2430 }}
.plot .soft {{ font-size: 12px; fill: #5c6675 }} .plot .end {{ text-anchor: end }}
.plot .middle {{ text-anchor: middle }} .plot .ours {{ font-weight: 600 }}
.plot .paper {{ fill: #ffffff; stroke: #d5dae2 }} .plot .rule {{ stroke: #d5dae2 }}
.plot .line {{ fill: none; stroke-width: 2 }}
.plot .a {{ stroke: #0b57d0 }} .plot .b {{ stroke: #b3400b }} .plot .c {{ stroke: #5c6675 }}
.plot circle.a {{ fill: #0b57d0 }} .plot circle.b {{ fill: #b3400b }}
.plot circle.c {{ fill: #5c6675 }}
@media (prefers-color-scheme: dark) {{
.plot text {{ fill: #e4e8ee }} .plot .soft {{ fill: #a3adbb }}
.plot .paper {{ fill: #14181e; stroke: #343b46 }} .plot .rule {{ stroke: #343b46 }}
.plot .a {{ stroke: #6ea3ff }} .plot .b {{ stroke: #ffa36e }} .plot .c {{ stroke: #a3adbb }}
.plot circle.a {{ fill: #6ea3ff }} .plot circle.b {{ fill: #ffa36e }}
.plot circle.c {{ fill: #a3adbb }} }}
"""


class Axis(NamedTuple):
    """Values at the ends of an axis, the values that have a label, and its title."""

    low: float
    high: float
    ticks: tuple[float, ...]
    title: str
    is_log: bool = False

    def at(self, value: float) -> float:
        """Return the position of a value, from 0 to 1."""
        low, high, here = (
            map(math.log, (self.low, self.high, value))
            if self.is_log
            else (self.low, self.high, value)
        )
        return (here - low) / (high - low)


class Plot:
    """Lines of an SVG with two axes."""

    def __init__(self, source: str, title: str, what: str, x: Axis, y: Axis) -> None:
        self.x, self.y = x, y
        right, bottom = WIDTH - RIGHT, HEIGHT - BOTTOM
        self.lines = [
            f'<svg xmlns="http://www.w3.org/2000/svg" class="plot" viewBox="0 0 {WIDTH} {HEIGHT}" '
            f'width="{WIDTH}" height="{HEIGHT}" role="img" aria-labelledby="t d">',
            f"<!-- Drawn by docs/pictures.py from benchmarks/results/{source}. -->",
            f'<title id="t">{html.escape(title)}</title>',
            f'<desc id="d">{html.escape(what)}</desc>',
            f"<style>{STYLE}</style>",
            f'<rect class="paper" width="{WIDTH}" height="{HEIGHT}" rx="8"/>',
        ]
        for value in y.ticks:
            level = self.point(x.low, value)[1]
            self.lines.append(f'<path class="rule" d="M {LEFT} {level} H {right}"/>')
            self.text(LEFT - 8, level + 4, f"{value:g}", "soft end")
        for value in x.ticks:
            self.text(self.point(value, y.low)[0], bottom + 20, f"{value:,g}", "soft middle")
        self.text((LEFT + right) / 2, HEIGHT - 10, x.title, "soft middle")
        self.text(LEFT - 40, TOP - 10, y.title, "soft")

    def point(self, x: float, y: float) -> tuple[float, float]:
        return (
            round(LEFT + (WIDTH - LEFT - RIGHT) * self.x.at(x), 1),
            round(HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * self.y.at(y), 1),
        )

    def text(self, x: float, y: float, text: str, kind: str) -> None:
        self.lines.append(f'<text class="{kind}" x="{x}" y="{y}">{html.escape(text)}</text>')

    def curve(self, points: Iterable[tuple[float, float]], kind: str) -> None:
        steps = " L ".join(f"{x} {y}" for x, y in (self.point(*each) for each in points))
        self.lines.append(f'<path class="line {kind}" d="M {steps}"/>')

    def dot(self, x: float, y: float, kind: str) -> None:
        left, top = self.point(x, y)
        self.lines.append(f'<circle class="{kind}" cx="{left}" cy="{top}" r="5"/>')

    def label(self, x: float, y: float, text: str, kind: str, by: tuple[float, float]) -> None:
        """Write next to a point. by: distance right and down."""
        left, top = self.point(x, y)
        self.text(left + by[0], top + by[1], text, kind)

    def svg(self) -> str:
        return "\n".join([*self.lines, "</svg>"]) + "\n"


def coverage() -> str:
    """Draw precision against coverage; a dot is at the fitted `min_confidence`."""
    found = json.loads((RESULTS / "coverage.json").read_text(encoding="utf8"))
    plot = Plot(
        "coverage.json",
        "Precision of the most confident links",
        "; ".join(
            f"{name}: {100 * each['chosen'][0]:.1f} % of the mentions are linked as built, "
            f"{100 * each['chosen'][1]:.1f} % of these links are correct, "
            f"and {100 * each['points'][-1][1]:.1f} % of all links"
            for name, each in found.items()
        ),
        Axis(50, 100, (50, 60, 70, 80, 90, 100), "mentions that are linked, %"),
        Axis(75, 100, (75, 80, 85, 90, 95, 100), "correct links, %"),
    )
    for (name, each), kind, by in zip(found.items(), "ab", ((0, -14), (-40, 34)), strict=True):
        points = [(100 * x, 100 * y) for x, y in each["points"]]
        plot.curve(points, kind)
        x, y = (100 * value for value in each["chosen"])
        plot.dot(x, y, kind)
        plot.label(*points[0], name, "", by)
    plot.text(
        LEFT + 12, HEIGHT - BOTTOM - 12, "dots: the confidence that krissel build chose", "soft"
    )
    return plot.svg()


def peers() -> str:
    """Draw the F1 of ids against texts per second, of five annotators."""
    rows = json.loads((RESULTS / "finder.json").read_text(encoding="utf8"))["rows"]
    names = {"finder and linker": "spacy-krissel", "fasthpocr": "FastHPOCR", "gilda": "Gilda"}
    plot = Plot(
        "finder.json",
        "F1 and speed of five annotators",
        "; ".join(
            f"{names.get(each['system'], each['system'])}: "
            f"F1 {100 * each['ids']['micro']['f1']:.1f}, "
            f"{each['texts_per_second']:,.0f} texts per second"
            for each in rows
        ),
        Axis(100, 100_000, (100, 1_000, 10_000, 100_000), "abstracts per second, one core", True),
        Axis(50, 80, (50, 55, 60, 65, 70, 75, 80), "F1 of ids per document, %"),
    )
    for each in rows:
        is_ours = each["system"] == "finder and linker"
        name = names.get(each["system"], each["system"])
        f1 = 100 * each["ids"]["micro"]["f1"]
        low, high = (100 * value for value in each["ids"]["micro"]["intervals"]["f1"])
        speed, kind = each["texts_per_second"], "a" if is_ours else "c"
        plot.curve([(speed, low), (speed, high)], kind)
        plot.dot(speed, f1, kind)
        label = " ".join(filter(None, (name, each.get("version"))))
        is_right = speed > plot.x.high / 10
        look = f"{'ours' if is_ours else ''} {'end' if is_right else ''}".strip()
        plot.label(speed, f1, f"{label}: {f1:.1f}", look, (-10, -8) if is_right else (10, 5))
    plot.text(LEFT + 12, HEIGHT - BOTTOM - 12, "lines: 95 % intervals", "soft")
    return plot.svg()


PICTURES: dict[str, Callable[[], str]] = {"coverage.svg": coverage, "peers.svg": peers}

if __name__ == "__main__":
    for name, draw in PICTURES.items():
        (FOLDER / name).write_text(draw(), encoding="utf8")
