"""YAML: data, and LinkML schemas, with the comment after each value."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from .pair import Cell, IsId, Pair, PairFile, read_text
from .trees import Builder, Mapping, Node, Scalar, Sequence, tree_pairs

_NOTE = re.compile(r"[ \t]+#[ \t]*([^\n\r]*[^\s])")
# Texts that YAML reads as they are.
_PLAIN = re.compile(r"[A-Za-z](?:[\w.,()/+'\"% -]|:(?! |$))*")
_CONSTANTS = frozenset("y n yes no on off true false null none".split())
# Nesting beyond which no file is read: PyYAML's parser keeps a stack of its own.
MAX_DEPTH = 200


class YamlFile(PairFile):
    """YAML documents of one file."""

    def __init__(self, path: Path) -> None:
        super().__init__(path, read_text(path))

    def pairs(self, is_id: IsId) -> Iterator[Pair]:
        yield from tree_pairs(self._nodes(), is_id)

    def _nodes(self) -> list[Node]:
        import yaml

        bom = len(self.text) - len(self.text.removeprefix("\ufeff"))
        try:
            return yaml_nodes(self.text[bom:], bom)
        except yaml.YAMLError as error:
            mark = getattr(error, "problem_mark", None)
            problem = getattr(error, "problem", None) or str(error)
            raise self.damaged(1 if mark is None else mark.line + 1, problem) from error
        except RecursionError as error:
            raise self.damaged(1, "it is nested too deeply") from error

    def encode(self, raw: str, value: str) -> str:
        if raw.startswith("'"):
            return "'" + value.replace("'", "''") + "'"
        plain = _PLAIN.fullmatch(value) and value[-1] != " " and value.lower() not in _CONSTANTS
        return value if plain and not raw.startswith('"') else json.dumps(value, ensure_ascii=False)


def yaml_nodes(text: str, offset: int = 0) -> list[Node]:
    """Return the documents of a text. offset: of the text in its file.

    Aliases are left out: what they repeat is verified where it stands. Raises yaml.YAMLError for
    damaged YAML, RecursionError beyond `MAX_DEPTH`.
    """
    import yaml

    loader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    build, depth = Builder(), 0
    for event in yaml.parse(text, Loader=loader):
        if isinstance(event, yaml.MappingStartEvent | yaml.SequenceStartEvent):
            depth += 1
            if depth > MAX_DEPTH:
                raise RecursionError
            build.begin(Mapping() if isinstance(event, yaml.MappingStartEvent) else Sequence())
        elif isinstance(event, yaml.CollectionEndEvent):
            depth -= 1
            build.end()
        elif isinstance(event, yaml.ScalarEvent):
            build.add(_scalar(event, text, offset))
        elif isinstance(event, yaml.AliasEvent):
            build.add(Scalar(Cell("", 0, 0), False))
    return build.roots


def _scalar(event: Any, text: str, offset: int) -> Scalar:
    start, end = event.start_mark.index, event.end_mark.index
    note = _NOTE.match(text, end)
    comment = Cell(note[1], note.start(1) + offset, note.end(1) + offset) if note else None
    if event.style in ("|", ">"):
        # Its lines are indented as their place asks.
        return Scalar(Cell(event.value.strip(), 0, 0))
    return Scalar(Cell(event.value, start + offset, end + offset), True, comment)
