"""Running text with ids, such as Markdown and the output of a language model.

A label stands before or after its id: "nosebleed (HP:0000421)", "HP:0000421 – Epistaxis",
"[Epistaxis](http://purl.obolibrary.org/obo/HP_0000421)", in a row of a table, in a block of JSON or
YAML. Where it begins or ends is often unclear, so a pair has several possible labels.
"""

import json
import re
import sys
from bisect import bisect_right
from collections.abc import Iterator
from contextlib import suppress
from itertools import chain, islice, pairwise
from pathlib import Path
from typing import NamedTuple

from .json_file import json_nodes
from .pair import Cell, IsId, Pair, PairFile, read_text
from .trees import Node, tree_pairs
from .yaml_file import yaml_nodes

# Maximum words of a label, and of a text after an id that is a label rather than a description.
MAX_WORDS, MAX_STATED = 12, 8
# A CURIE, an OBO id with an underscore, an address that ends in either, or an id without prefix.
_TOKEN = re.compile(
    r"(?<![\w/:#=.-])(?:https?://[^\s<>()\[\]\"'`|]*[/#=])?"
    r"(?:[A-Za-z][A-Za-z0-9.]*[:_](?=[A-Za-z]*\d)[A-Za-z0-9]+(?:[-.][A-Za-z0-9]+)*|[CD]\d{6,9})"
    r"(?![\w/])"
)
_YAML = re.compile(r"^[ \t]*```[ \t]*ya?ml[ \t]*\r?\n(.*?)^[ \t]*```", re.DOTALL | re.MULTILINE)
_JSON = re.compile(r"^[ \t]*(?=[\[{])", re.MULTILINE)
# Lines that begin like JSON, of which most are links.
MAX_BLOCKS = 1000
_LINE = re.compile(r"[^\r\n]+")
_LINK = re.compile(r"\[([^\[\]]*)\]\(<?$")
_BULLET = re.compile(r"\s*(?:[-*+•>#]+\s+|\d+[.)]\s+)*")
# Signs around a label or an id, and those between them.
_WRAPS = "*_`\"'“”‘’«» \t"
_SEPARATORS = "-–—:=!→>|,\t "
_WORD = re.compile(r"[^\s(\[]\S*")


class _Found(NamedTuple):
    """An id in a line: its cell, and the offsets at which its brackets begin and end."""

    cell: Cell
    start: int
    end: int
    is_bracketed: bool


class TextFile(PairFile):
    """A text with ids in it."""

    def __init__(self, path: Path) -> None:
        super().__init__(path, read_text(path))

    def pairs(self, is_id: IsId) -> Iterator[Pair]:
        found, taken = self._blocks(is_id)
        found += [
            pair
            for line in _LINE.finditer(self.text)
            if not _is_within(line.start(), taken)
            for pair in line_pairs(line[0], line.start(), is_id)
        ]
        yield from sorted(found, key=lambda pair: pair.id.start)

    def encode(self, raw: str, value: str) -> str:
        # Only values in a block of JSON or YAML have their quotes.
        return json.dumps(value, ensure_ascii=False) if raw[:1] in ('"', "'") else value

    def _blocks(self, is_id: IsId) -> tuple[list[Pair], list[tuple[int, int]]]:
        """Return the pairs of blocks in another format, and their offsets."""
        found: list[Pair] = []
        taken: list[tuple[int, int]] = []
        for nodes, span in chain(_json_blocks(self.text), _yaml_blocks(self.text)):
            found += tree_pairs(nodes, is_id)
            taken.append(span)
        return found, sorted(taken)


def _is_within(offset: int, spans: list[tuple[int, int]]) -> bool:
    """Return whether an offset is in one of the sorted spans."""
    number = bisect_right(spans, (offset, sys.maxsize)) - 1
    return number >= 0 and offset < spans[number][1]


def _json_blocks(text: str) -> Iterator[tuple[list[Node], tuple[int, int]]]:
    """Yield the values of JSON in a text, each at the beginning of a line."""
    decode, at = json.JSONDecoder(strict=False).raw_decode, 0
    for begin in islice(_JSON.finditer(text), MAX_BLOCKS):
        if begin.end() < at:
            continue
        try:
            _, at = decode(text, begin.end())
        except (ValueError, RecursionError):
            continue
        yield json_nodes(text[begin.end() : at], begin.end()), (begin.start(), at)


def _yaml_blocks(text: str) -> Iterator[tuple[list[Node], tuple[int, int]]]:
    import yaml

    for block in _YAML.finditer(text):
        with suppress(yaml.YAMLError, RecursionError):
            yield yaml_nodes(block[1], block.start(1)), block.span(1)


def line_pairs(line: str, offset: int, is_id: IsId) -> list[Pair]:
    """Return the pairs of a line of text. offset: of the line in its file."""
    ids = _ids(line, is_id)
    if not ids:
        return []
    if line.lstrip().startswith("|") and line.count("|") > 2:
        found = _row_pairs(line, ids)
    else:
        mode = _mode(line, ids)
        found = [_pair(line, ids, number, mode) for number in range(len(ids))]
    return [_moved(pair, offset) for pair in found]


def _ids(line: str, is_id: IsId) -> list[_Found]:
    found: list[_Found] = []
    for match in _TOKEN.finditer(line):
        if not is_id(match[0]):
            continue
        start, end = match.span()
        while start and line[start - 1] in "*_`<":
            start -= 1
        while end < len(line) and line[end] in "*_`>":
            end += 1
        is_bracketed = line[start - 1 : start] in ("(", "[") and line[end : end + 1] in (")", "]")
        if is_bracketed:
            start, end = start - 1, end + 1
        if found and line[found[-1].end : start + 1] == "(" and is_bracketed:
            # The address of a link whose text is the id.
            found[-1] = found[-1]._replace(end=end)
            continue
        found.append(_Found(Cell(match[0], *match.span()), start, end, is_bracketed))
    return found


def _pair(line: str, ids: list[_Found], number: int, mode: str) -> Pair:
    """Return the pair of an id and the labels before or after it. mode: of the line (`_mode`)."""
    found = ids[number]
    left, right = _bounds(line, ids, number)
    if found.is_bracketed and (link := _LINK.search(line, left, found.start + 1)):
        label = _cell(line, *link.span(1))
        return Pair(found.cell, (label,), label) if label else Pair(found.cell)
    alone = len(ids) == 1
    before, after = _before(line, left, found, alone), _after(line, right, found, alone)
    if line[found.end :].lstrip().startswith("(") and not found.is_bracketed:
        chosen = [after]
    elif alone and before[0] and after[0] and not found.is_bracketed:
        chosen = [before, after]
    elif alone:
        chosen = [before if before[0] else after]
    else:
        chosen = [before if mode == "before" else after]
    labels = [each for cells, _ in chosen for each in cells]
    stated = next((each for _, each in chosen if each), None)
    return Pair(found.cell, tuple(dict.fromkeys(labels)), stated)


def _bounds(line: str, ids: list[_Found], number: int) -> tuple[int, int]:
    """Return the offsets between which the label of an id stands."""
    left = ids[number - 1].end if number else _begin(line)
    right = ids[number + 1].start if number + 1 < len(ids) else len(line)
    return min(left, ids[number].start), right


def _mode(line: str, ids: list[_Found]) -> str:
    """Return whether the labels of a line with several ids stand "before" or "after" them: on the
    side where the same signs separate each id from a text."""
    signs: dict[str, set[str | None]] = {"before": set(), "after": set()}
    for number, each in enumerate(ids):
        left, right = _bounds(line, ids, number)
        end = _trimmed_end(line, left, each.start)
        start = _trimmed_start(line, each.end, right)
        signs["before"].add(line[end : each.start] if _inner(line, left, end) else None)
        signs["after"].add(line[each.end : start] if _inner(line, start, right) else None)
    regular = [side for side, found in signs.items() if len(found) == 1 and None not in found]
    if regular:
        return regular[0]
    left, _ = _bounds(line, ids, 0)
    heading = line[left : ids[0].start].rstrip().endswith(":")
    return "before" if _inner(line, left, ids[0].start) and not heading else "after"


def _begin(line: str) -> int:
    bullet = _BULLET.match(line)
    return bullet.end() if bullet else 0


def _before(line: str, left: int, found: _Found, alone: bool) -> tuple[list[Cell], Cell | None]:
    """Return the possible labels that end before an id, and the one that the line states."""
    end = _trimmed_end(line, left, found.start)
    words = [match.start() for match in _WORD.finditer(line, left, end)][-MAX_WORDS:]
    cells = [cell for at in words if (cell := _cell(line, at, end))]
    whole = _cell(line, left, end)
    ends = alone and not line[found.end :].strip(_WRAPS + ".,;:")
    is_label = whole is not None and ends and _is_label(whole.value, MAX_WORDS)
    return cells, whole if is_label else None


def _after(line: str, right: int, found: _Found, alone: bool) -> tuple[list[Cell], Cell | None]:
    """Return the possible labels that begin after an id, and the one that the line states."""
    start = _trimmed_start(line, found.end, right)
    if line[start : start + 1] == "(":
        close = line.find(")", start, right)
        inner = _cell(line, start + 1, close) if close > 0 else None
        return ([inner] if inner else []), (
            inner if inner and alone and _is_label(inner.value) else None
        )
    ends = [match.end() for match in _WORD.finditer(line, start, right)][:MAX_WORDS]
    cells = [cell for at in reversed(ends) if (cell := _cell(line, start, at))]
    whole = _cell(line, start, right)
    begins = alone and not _inner(line, _begin(line), found.start)
    is_label = whole is not None and begins and _is_label(whole.value)
    return cells, whole if is_label else None


def _row_pairs(line: str, ids: list[_Found]) -> list[Pair]:
    """Return the pairs of a row of a Markdown table, whose other cells may be the label."""
    edges = [match.start() for match in re.finditer(r"(?<!\\)\|", line)] + [len(line)]
    cells = [
        cell
        for start, end in pairwise(edges)
        if not any(start < each.start < end for each in ids)
        and (cell := _cell(line, start + 1, end))
    ]
    found = []
    for each in ids:
        start = max(edge for edge in edges if edge < each.cell.start)
        end = min(edge for edge in edges if edge >= each.cell.end)
        if _inner(line, start + 1, each.start) or _inner(line, each.end, end):
            cut = line[:end]
            own = [other for other in ids if start < other.start < end]
            pair = _pair(cut, own, own.index(each), _mode(cut, own))
            found.append(pair._replace(labels=(*pair.labels, *cells)))
        else:
            stated = cells[0] if len(cells) == 1 and len(ids) == 1 else None
            found.append(Pair(each.cell, tuple(cells), stated))
    return found


def _inner(line: str, start: int, end: int) -> str:
    return line[start:end].strip(_WRAPS + _SEPARATORS + "([{.;")


def _trimmed_end(line: str, left: int, end: int) -> int:
    while end > left and line[end - 1] in _SEPARATORS + "*_`([":
        end -= 1
    return end


def _trimmed_start(line: str, start: int, right: int) -> int:
    while start < right and line[start] in _SEPARATORS + "*_`":
        start += 1
    return start


def _cell(line: str, start: int, end: int) -> Cell | None:
    """Return the text between two offsets, without the signs around it; None if it is blank."""
    while start < end and (
        line[start] in _WRAPS or not (line[start].isalnum() or line[start] in "(")
    ):
        start += 1
    while end > start and not (line[end - 1].isalnum() or line[end - 1] in ")+%"):
        end -= 1
    return Cell(line[start:end], start, end) if start < end else None


def _is_label(text: str, max_words: int = MAX_STATED) -> bool:
    return len(text.split()) <= max_words and not re.search(r"[.!?;:](?:\s|$)", text)


def _moved(pair: Pair, offset: int) -> Pair:
    def moved(cell: Cell) -> Cell:
        return Cell(cell.value, cell.start + offset, cell.end + offset)

    stated = None if pair.stated is None else moved(pair.stated)
    return Pair(moved(pair.id), tuple(map(moved, pair.labels)), stated)
