"""Extracted entities as SVG: below each line of the text a row per entity, with bars under its
fragments."""

import unicodedata
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby, pairwise
from typing import Any, NamedTuple

from spacy.tokens import Doc

from ..errors import Errors, KrisselError
from ..mentions.discontinuous import read_fragments
from ..util.escape import html_text

# Any two colours differ by 25 or more (CIE 1976), also for colour-blind readers (protan-, deuter-
# and tritanopia), and each has a contrast of at least 3 to 1 with its background. They repeat after
# five: each row also has its name.
LIGHT = ("#063fd9", "#ea6411", "#488b74", "#e557de", "#734f8c")
DARK = ("#659bfa", "#fecb7e", "#66fee2", "#a86184", "#8533f4")
PAPER = {"light": "#ffffff", "dark": "#14181e"}
INK = {"light": "#1d2430", "dark": "#e4e8ee"}
SOFT = {"light": "#5c6675", "dark": "#9aa5b4"}


@dataclass(frozen=True)
class _DrawnEntity:
    """One row: an entity and its cells.

    name: may be "". details: id and score, "" without either.
    colour: an index in `LIGHT` and `DARK`.
    bars: the cells of its fragments. lines: the cells between the fragments of one mention.
    """

    name: str
    details: str
    colour: int
    bars: frozenset[int]
    lines: frozenset[int]

    def kind(self, cell: int) -> str:
        """Return the mark under a cell: "bar", "line" or ""."""
        return "bar" if cell in self.bars else "line" if cell in self.lines else ""


def drawn_entities(doc: Doc, key: str) -> list[_DrawnEntity]:
    """Return the rows of `doc.spans[key]`, by the first token of each entity.

    Mentions are read by `read_fragments`; those with the same `kb_id_` (or without one, the same
    label) share a row. Names and scores are those of `doc.spans[key].attrs["entities"]`, a list of
    `{"id", "name", "score"}`, if present. An entity of that list without fragments has no row.

    Raises KrisselError K691 if the doc has no such key.
    """
    if key not in doc.spans:
        raise KrisselError(Errors.K691.format(key=key, keys=sorted(doc.spans) or "none"))
    known: dict[str, Mapping[str, Any]] = {
        str(entity["id"]): entity
        for entity in doc.spans[key].attrs.get("entities", ())
        if "id" in entity
    }
    bars: dict[str, set[int]] = defaultdict(set)
    joined: dict[str, set[int]] = defaultdict(set)
    labels: dict[str, str] = {}
    for mention in read_fragments(doc, key):
        id_ = mention.kb_id or mention.label
        labels.setdefault(id_, mention.label)
        for start, end in mention.fragments:
            bars[id_].update(range(2 * start, 2 * end - 1))
        joined[id_].update(range(2 * mention.fragments[0][0], 2 * mention.fragments[-1][1] - 1))
    rows = []
    for number, id_ in enumerate(
        sorted(bars, key=lambda id_: (min(bars[id_]), max(bars[id_]), id_))
    ):
        entity = known.get(id_, {})
        name = str(entity.get("name") or labels[id_] or id_)
        details = [id_] if id_ and id_ != name else []
        if entity.get("score") is not None:
            details.append(f"{float(entity['score']):.2f}")
        lines = frozenset(joined[id_] - bars[id_])
        rows.append(
            _DrawnEntity(
                name, " · ".join(details), number % len(LIGHT), frozenset(bars[id_]), lines
            )
        )
    return rows


def _cell_texts(doc: Doc) -> list[str]:
    """Return the text of each cell, "" for a missing space. White space is one space."""
    cells = []
    for token in doc:
        cells.append(" " if token.is_space else token.text)
        cells.append(" " if token.whitespace_ else "")
    return cells


# In pixels. A column is one monospaced letter of 16 pixels, a label letter one of 12.
MARGIN, COLUMN, LABEL_COLUMN = 16, 9.6, 7.2
TEXT_HEIGHT, ROW_HEIGHT, BAR, LINE_GAP = 28, 20, 6, 12


class _Cell(NamedTuple):
    """A cell on its line: its first column and its width in columns."""

    number: int
    text: str
    column: int
    width: int

    @property
    def left(self) -> float:
        return MARGIN + self.column * COLUMN

    @property
    def right(self) -> float:
        return self.left + self.width * COLUMN


def render_page(docs: Iterable[Doc], key: str, *, title: str = "Entities") -> str:
    """Return a self-contained HTML page, also valid XML, with `render_svg` of each doc."""
    drawings = "\n".join(render_svg(doc, key) for doc in docs)
    style = (
        "svg { display: block } @media (prefers-color-scheme: dark) { body { background: "
        f"{PAPER['dark']} }} }}"
    )
    return (
        '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8"/>'
        '<meta name="viewport" content="width=device-width, initial-scale=1"/>'
        f"<title>{html_text(title)}</title><style>{style}</style></head>\n"
        f"<body>{drawings}</body></html>\n"
    )


def render_svg(doc: Doc, key: str, *, columns: int = 88) -> str:
    """Return an SVG picture of the entities of `doc.spans[key]` (`drawn_entities`).

    It follows the reader's light or dark theme. Colours can be distinguished by colour-blind
    readers, and each row has its name, to the right of its last bar.

    columns: letters per line.
    Raises KrisselError K691 if the doc has no such key.
    """
    rows = drawn_entities(doc, key)
    parts: list[str] = []
    top, right = float(MARGIN), 0.0
    for line in _lines(_cell_texts(doc), columns):
        for cell in line:
            if cell.text.strip():
                width = f'textLength="{cell.width * COLUMN:g}" lengthAdjust="spacingAndGlyphs"'
                position = f'x="{cell.left:g}" y="{top + 18:g}"'
                parts.append(f'<text class="ink" {position} {width}>{html_text(cell.text)}</text>')
        right = max(right, line[-1].right)
        top += TEXT_HEIGHT
        numbers = {cell.number for cell in line}
        for row in rows:
            if not numbers.isdisjoint(row.bars | row.lines):
                right = max(right, _draw_row(row, line, top, parts))
                top += ROW_HEIGHT
        top += LINE_GAP
    width, height = right + MARGIN, top - LINE_GAP + MARGIN
    title = html_text(
        "; ".join(f"{row.name} ({row.details})" if row.details else row.name for row in rows)
    )
    size = f'viewBox="0 0 {width:g} {height:g}" width="{width:g}" height="{height:g}"'
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" class="krissel-svg" {size} role="img">'
        f"<title>{title}</title><style>{_style()}</style>"
        f'<rect class="paper" width="{width:g}" height="{height:g}" rx="6"/>\n'
        + "\n".join(parts)
        + "\n</svg>\n"
    )


def _draw_row(row: _DrawnEntity, line: Sequence[_Cell], top: float, parts: list[str]) -> float:
    """Draw one row of a line of text: bars, lines, and the label after the last bar. RETURNS: its
    right edge."""
    middle = top + BAR / 2
    for kind, cells in groupby(line, key=lambda cell: row.kind(cell.number)):
        run = list(cells)
        if kind:
            wide = sum(cell.width for cell in run) * COLUMN
            shape = (
                f'y="{top:g}" height="{BAR}" rx="2"'
                if kind == "bar"
                else f'y="{middle - 0.75:g}" height="1.5"'
            )
            parts.append(
                f'<rect class="c{row.colour} {kind}" x="{run[0].left:g}" width="{wide:g}" {shape}/>'
            )
    last = max(row.bars)
    end = next((cell.right for cell in line if cell.number == last), None)
    if end is None:
        return 0.0
    details = f'<tspan class="soft" dx="6">{html_text(row.details)}</tspan>' if row.details else ""
    position = f'x="{end + 8:g}" y="{middle + 4:g}"'
    parts.append(f'<text class="label ink" {position}>{html_text(row.name)}{details}</text>')
    return end + 8 + 6 + LABEL_COLUMN * (_width(row.name) + _width(row.details))


def _lines(cells: Sequence[str], columns: int) -> list[list[_Cell]]:
    """Return cells by line; lines break after a space, before a word that would exceed
    `columns`."""
    lines: list[list[_Cell]] = []
    column = 0
    after_spaces = [number + 1 for number, text in enumerate(cells) if text == " "]
    for start, end in pairwise([0, *after_spaces, len(cells)]):
        word = [
            (number, cells[number], max(1, _width(cells[number])))
            for number in range(start, end)
            if cells[number]
        ]
        if not word:
            continue
        if not lines or column + sum(width for _, text, width in word if text != " ") > columns:
            lines.append([])
            column = 0
        for number, text, width in word:
            lines[-1].append(_Cell(number, text, column, width))
            column += width
    return lines


def _width(text: str) -> int:
    """Return the width in columns: two for wide East Asian letters, none for combining marks."""
    return sum(
        0 if unicodedata.combining(char) else 2 if unicodedata.east_asian_width(char) in "WF" else 1
        for char in text
    )


def _style() -> str:
    # Each rule starts with the picture's class, since styles apply to the whole page.
    face = ".krissel-svg text { font: 16px ui-monospace, Menlo, Consolas, monospace }"
    label = (
        ".krissel-svg .label { font-size: 12px; font-weight: 600 } .krissel-svg .soft { "
        "font-weight: 400 }"
    )
    dark = f"@media (prefers-color-scheme: dark) {{ {_fills('dark', DARK)} }}"
    return " ".join((face, label, _fills("light", LIGHT), dark))


def _fills(mode: str, colours: Sequence[str]) -> str:
    fills = {"paper": PAPER[mode], "ink": INK[mode], "soft": SOFT[mode]}
    fills.update((f"c{i}", colour) for i, colour in enumerate(colours))
    return " ".join(f".krissel-svg .{name} {{ fill: {colour} }}" for name, colour in fills.items())
