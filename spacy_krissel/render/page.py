"""Extracted entities as HTML: a row per entity below the text, bars under its fragments and a line between."""

from collections.abc import Iterable, Sequence
from itertools import accumulate
from pathlib import Path

from spacy.tokens import Doc

from ..errors import Errors, KrisselError
from ..util.atomic import write_text
from ..util.escape import html_text
from .rows import DARK, INK, LIGHT, PAPER, SOFT, DrawnEntity, cell_texts, drawn_entities
from .svg import render_svg

# The width of a label's letter in letters of the text, rounded up.
LABEL_SCALE = 0.85
# Rows are 1.4 em apart, bars .3 em high; a label is under the first bar of its row. The padding on the right is for
# labels that start near the edge.
_STYLE = """
.krissel-spans { %s font: 16px/1.5 system-ui, sans-serif; color: var(--ink); background: var(--paper);
  color-scheme: light dark; padding: 1em 13em 1em 1em; overflow-x: auto; }
@media (prefers-color-scheme: dark) { .krissel-spans { %s } }
.krissel-spans p { margin: 0 0 1em; } .krissel-spans p:last-child { margin: 0; }
.krissel-spans .word { white-space: nowrap; }
.krissel-spans .cell { display: inline-block; position: relative; white-space: pre; vertical-align: top;
  padding-bottom: calc(var(--rows, 0) * 1.4em); }
.krissel-spans i { position: absolute; left: 0; right: 0; top: calc(1.5em + var(--row) * 1.4em); height: .3em;
  background: currentColor; }
.krissel-spans i.line { height: .1em; margin-top: .1em; }
.krissel-spans i.start { border-top-left-radius: .15em; border-bottom-left-radius: .15em; }
.krissel-spans i.end { border-top-right-radius: .15em; border-bottom-right-radius: .15em; }
.krissel-spans .label { position: absolute; left: 0; top: calc(1.8em + var(--row) * 1.4em); line-height: 1;
  pointer-events: none; -webkit-user-select: none; user-select: none; }
.krissel-spans .label span { display: inline-block; font-size: .68em; font-weight: 600; line-height: 1.3;
  max-width: 19em; overflow: hidden; text-overflow: ellipsis; vertical-align: top; }
.krissel-spans .label small { font-size: 1em; font-weight: 400; color: var(--soft); }
"""


def render(docs: Doc | Iterable[Doc], key: str, *, page: bool = True, title: str = "Entities") -> str:
    """Self-contained HTML, also valid XML, that shows the entities of `doc.spans[key]` (`drawn_entities`).

    Long texts wrap with their rows. Follows the reader's light or dark theme; colours can be distinguished by
    colour-blind readers, and each row has its name.

    docs: one doc, or several below each other. page: a whole page; else a fragment, for a notebook.
    Raises KrisselError K691 when a doc has no such key.
    """
    style = _STYLE % (_variables("light"), _variables("dark"))
    colours = "".join(f".krissel-spans .c{i} {{ color: {colour}; }}\n" for i, colour in enumerate(LIGHT))
    dark = "".join(f".krissel-spans .c{i} {{ color: {colour}; }}\n" for i, colour in enumerate(DARK))
    style = f"<style>{style}{colours}@media (prefers-color-scheme: dark) {{\n{dark}}}\n</style>"
    texts = "\n".join(_text(doc, key) for doc in ([docs] if isinstance(docs, Doc) else docs))
    fragment = f'<div class="krissel-spans">{style}\n{texts}\n</div>'
    if not page:
        return fragment + "\n"
    return (
        '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8"/>'
        '<meta name="viewport" content="width=device-width, initial-scale=1"/>'
        f"<title>{html_text(title)}</title><style>body {{ margin: 0; }} @media (prefers-color-scheme: dark) "
        f"{{ body {{ background: {PAPER['dark']}; }} }}</style></head>\n<body>{fragment}</body></html>\n"
    )


def save_rendering(docs: Doc | Iterable[Doc], key: str, path: str | Path) -> Path:
    """Write `render` to an `.html` file, or `render_svg` of one doc to an `.svg` file.

    Raises KrisselError K006 (another ending, or several docs for a picture), K026 (the disk), K691 (a doc without the
    key).
    """
    path = Path(path)
    if path.suffix == ".html":
        text = render(docs, key, title=path.stem)
    elif path.suffix == ".svg" and isinstance(docs, Doc):
        text = render_svg(docs, key)
    else:
        expected = "a path that ends in .html, or in .svg for one document"
        raise KrisselError(Errors.K006.format(setting="path", found=str(path), expected=expected))
    write_text(path, text)
    return path


def _variables(mode: str) -> str:
    return f"--ink: {INK[mode]}; --soft: {SOFT[mode]}; --paper: {PAPER[mode]};"


def _text(doc: Doc, key: str) -> str:
    cells = cell_texts(doc)
    rows = _stacked(drawn_entities(doc, key), cells)
    parts: list[str] = ['<p dir="auto">', '<span class="word">']
    for cell, text in enumerate(cells):
        if text:
            parts.append(_cell(cell, text, rows))
        # Lines break after spaces only: cells without a space between them are a word.
        if text == " ":
            parts.append('</span><span class="word">')
    return "".join([*parts, "</span></p>"])


def _stacked(rows: Sequence[DrawnEntity], cells: Sequence[str]) -> list[tuple[int, DrawnEntity]]:
    """Rows with their line below the text, from 0: the highest without overlaps of bars, lines or labels. Otherwise an
    entity at the end of a long text would be far below it."""
    columns = list(accumulate((len(text) for text in cells), initial=0))
    free: list[float] = []
    stacked = []
    for row in rows:
        start, end = columns[min(row.bars)], columns[max(row.bars) + 1]
        label = start + LABEL_SCALE * (len(row.name) + len(row.details) + 1)
        place = next((place for place, column in enumerate(free) if column <= start), len(free))
        free[place : place + 1] = [max(end, label) + 1]
        stacked.append((place, row))
    return stacked


def _cell(cell: int, text: str, rows: Sequence[tuple[int, DrawnEntity]]) -> str:
    marks = []
    height = 0
    for place, row in rows:
        kind = row.kind(cell)
        if not kind:
            continue
        ends = "".join(f" {name}" for name, cells in (("start", row.starts), ("end", row.ends)) if cell in cells)
        marks.append(f'<i class="{kind} c{row.colour}{ends}" style="--row: {place}"></i>')
        if cell == min(row.bars):
            marks.append(_label(row, place))
        height = max(height, place + 1)
    style = f' style="--rows: {height}"' if height else ""
    return f'<span class="cell"{style}>{html_text(text)}{"".join(marks)}</span>'


def _label(row: DrawnEntity, place: int) -> str:
    details = f" <small>{html_text(row.details)}</small>" if row.details else ""
    return f'<span class="label" style="--row: {place}"><span>{html_text(row.name)}{details}</span></span>'
