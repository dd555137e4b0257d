"""Extracted entities as SVG, for documentation: as `render`, with computed positions."""

import unicodedata
from collections.abc import Sequence
from itertools import groupby
from typing import NamedTuple

from spacy.tokens import Doc

from ..util.escape import html_text
from .rows import DARK, INK, LIGHT, PAPER, SOFT, DrawnEntity, cell_texts, drawn_entities

# Pixels. A column is one letter of a typewriter face of 16 pixels, a label letter one of 12.
MARGIN, COLUMN, LABEL_COLUMN = 16, 9.6, 7.2
TEXT_HEIGHT, ROW_HEIGHT, BAR, LINE_GAP = 28, 20, 6, 12


class _Cell(NamedTuple):
    """A cell on its line: its first column and its width in columns."""

    number: int
    text: str
    column: int
    width: int


def render_svg(doc: Doc, key: str, *, columns: int = 88) -> str:
    """An SVG picture of the entities of `doc.spans[key]` (`drawn_entities`), for light and dark themes.

    columns: letters per line. The name of an entity is to the right of its last bar.
    Raises KrisselError K691 when the doc has no such key.
    """
    rows = drawn_entities(doc, key)
    parts: list[str] = []
    top, right = float(MARGIN), 0.0
    for line in _lines(cell_texts(doc), columns):
        if not line:
            continue
        for cell in line:
            if cell.text.strip():
                width = f'textLength="{cell.width * COLUMN:g}" lengthAdjust="spacingAndGlyphs"'
                place = f'x="{_x(cell.column):g}" y="{top + 18:g}"'
                parts.append(f'<text class="ink" {place} {width}>{html_text(cell.text)}</text>')
        right = max(right, _x(line[-1].column + line[-1].width))
        top += TEXT_HEIGHT
        numbers = {cell.number for cell in line}
        for row in rows:
            if not numbers.isdisjoint(row.bars | row.lines):
                right = max(right, _draw_row(row, line, top, parts))
                top += ROW_HEIGHT
        top += LINE_GAP
    width, height = right + MARGIN, top - LINE_GAP + MARGIN
    title = html_text("; ".join(f"{row.name} ({row.details})" if row.details else row.name for row in rows))
    size = f'viewBox="0 0 {width:g} {height:g}" width="{width:g}" height="{height:g}"'
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" class="krissel-svg" {size} role="img">'
        f"<title>{title}</title><style>{_style()}</style>"
        f'<rect class="paper" width="{width:g}" height="{height:g}" rx="6"/>\n' + "\n".join(parts) + "\n</svg>\n"
    )


def _draw_row(row: DrawnEntity, line: Sequence[_Cell], top: float, parts: list[str]) -> float:
    """Draw one row of a line of text: bars, lines, and the label after the last bar. RETURNS: its right edge."""
    middle = top + BAR / 2
    for kind, cells in groupby(line, key=lambda cell: row.kind(cell.number)):
        run = list(cells)
        left, wide = _x(run[0].column), sum(cell.width for cell in run) * COLUMN
        if kind:
            shape = f'y="{top:g}" height="{BAR}" rx="2"' if kind == "bar" else f'y="{middle - 0.75:g}" height="1.5"'
            parts.append(f'<rect class="c{row.colour} {kind}" x="{left:g}" width="{wide:g}" {shape}/>')
    last = max(row.bars)
    ends = [_x(cell.column + cell.width) for cell in line if cell.number == last]
    if not ends:
        return 0.0
    details = f'<tspan class="soft" dx="6">{html_text(row.details)}</tspan>' if row.details else ""
    place = f'x="{ends[0] + 8:g}" y="{middle + 4:g}"'
    parts.append(f'<text class="label ink" {place}>{html_text(row.name)}{details}</text>')
    return ends[0] + 8 + 6 + LABEL_COLUMN * (_width(row.name) + _width(row.details))


def _lines(cells: Sequence[str], columns: int) -> list[list[_Cell]]:
    """Cells by line; lines break after a space, before a word that would exceed `columns`."""
    lines: list[list[_Cell]] = [[]]
    word: list[_Cell] = []
    column = 0

    def finish() -> None:
        nonlocal column, word
        if word and lines[-1] and sum(cell.width for cell in word if cell.text != " ") + column > columns:
            lines.append([])
            column = 0
        for cell in word:
            lines[-1].append(cell._replace(column=column))
            column += cell.width
        word = []

    for number, text in enumerate(cells):
        if text:
            word.append(_Cell(number, text, 0, max(1, _width(text))))
        if text == " ":
            finish()
    finish()
    return lines


def _width(text: str) -> int:
    """In columns: two for the wide letters of East Asia, none for combining marks."""
    return sum(
        0 if unicodedata.combining(char) else 2 if unicodedata.east_asian_width(char) in "WF" else 1 for char in text
    )


def _x(column: int) -> float:
    return MARGIN + column * COLUMN


def _style() -> str:
    # Each rule starts with the picture's class, since styles in a page apply to all of it.
    face = ".krissel-svg text { font: 16px ui-monospace, Menlo, Consolas, monospace }"
    label = ".krissel-svg .label { font-size: 12px; font-weight: 600 } .krissel-svg .soft { font-weight: 400 }"
    dark = f"@media (prefers-color-scheme: dark) {{ {_fills('dark', DARK)} }}"
    return " ".join((face, label, _fills("light", LIGHT), dark))


def _fills(mode: str, colours: Sequence[str]) -> str:
    fills = {"paper": PAPER[mode], "ink": INK[mode], "soft": SOFT[mode]}
    fills.update((f"c{i}", colour) for i, colour in enumerate(colours))
    return " ".join(f".krissel-svg .{name} {{ fill: {colour} }}" for name, colour in fills.items())
