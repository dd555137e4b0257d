"""JSON and JSON lines. The `json` module checks them; it does not say where a value stands."""

import json
import re
from collections.abc import Iterator
from pathlib import Path

from ..util.inputs import coded_reading
from .pair import Cell, IsId, Pair, PairFile, read_text
from .trees import Builder, Mapping, Node, Scalar, Sequence, tree_pairs

_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|[{}\[\]]|[^\s{}\[\]",:]+')


class JsonFile(PairFile):
    """A JSON value, or one per line.

    lines: whether each line is a value.
    """

    def __init__(self, path: Path, *, lines: bool = False) -> None:
        super().__init__(path, read_text(path))
        with coded_reading(path):
            check_json(self, self.text.removeprefix("\ufeff"), lines)

    def pairs(self, is_id: IsId) -> Iterator[Pair]:
        yield from tree_pairs(json_nodes(self.text), is_id)

    def encode(self, raw: str, value: str) -> str:
        return json.dumps(value, ensure_ascii=False)


def check_json(file_: PairFile, text: str, lines: bool) -> None:
    """Raise KrisselError K102 unless the text is JSON, or JSON lines."""
    number = 0
    for number, part in enumerate(text.splitlines() if lines else [text], 1):
        try:
            if part.strip() or not lines:
                json.loads(part)
        except json.JSONDecodeError as error:
            raise file_.damaged(number if lines else error.lineno, error.msg) from error


def json_nodes(text: str, offset: int = 0) -> list[Node]:
    """Return the values of a text of valid JSON. offset: of the text in its file."""
    build = Builder()
    for match in _TOKEN.finditer(text):
        token = match[0]
        start, end = match.start() + offset, match.end() + offset
        if token == "{":
            build.begin(Mapping())
        elif token == "[":
            build.begin(Sequence())
        elif token in "}]":
            build.end()
        elif token[0] == '"':
            value = json.loads(token, strict=False)
            build.add(Scalar(Cell(value, start, end)))
        else:
            build.add(Scalar(Cell(token, start, end), False))
    return build.roots
