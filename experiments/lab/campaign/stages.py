"""The stages of a run, as a table: their limits, what they need, and the command lines that they
run."""

import re
import shlex
import sys
from collections.abc import Mapping
from pathlib import Path

import srsly
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from spacy_krissel.util.inputs import coded_reading

from ..errors import Errors, KrisselError

_PLACEHOLDER = re.compile(r"{(\w+)}")


class Stage(BaseModel):
    """A row of the table.

    name: of the stage. seconds: its share of the time, of those of all stages.
    script: command lines, one after another; those of a list in it run at the same time.
    inputs: by name, paths of which the first that is there fills the placeholder; without any, the
        stage is left out.
    saves: it is told to end before its limit, with time to save.
    options: by name, words that fill the placeholder if the file at their end is there.
    results: by name, JSON files whose numbers are copied to the report of the stage.
    """

    model_config = ConfigDict(extra="forbid")
    name: str = Field(pattern=r"^[a-z][a-z-]*$")
    seconds: float = Field(gt=0)
    script: list[str | list[str]]
    saves: bool = False
    inputs: dict[str, list[str]] = {}
    options: dict[str, str] = {}
    results: dict[str, str] = {}

    def groups(self) -> list[list[str]]:
        return [[line] if isinstance(line, str) else line for line in self.script]


class Table(BaseModel):
    """variables: placeholders of all lines, which the command line may change. stages: in the order
    of the run."""

    model_config = ConfigDict(extra="forbid")
    variables: dict[str, str] = {}
    stages: list[Stage] = Field(min_length=1)


def read_stages(path: Path, changed: Mapping[str, str] | None = None) -> Table:
    """Read a table of stages; `changed` replaces some of its variables.

    Raises KrisselError K295 for another content, and what `coded_reading` raises.
    """
    with coded_reading(path):
        content = srsly.read_yaml(path)
    try:
        table = Table.model_validate(content)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"]))
        raise KrisselError(
            Errors.K295.format(path=path, problem=f"{where}: {first['msg']}")
        ) from error
    if unknown := [name for name in changed or () if name not in table.variables]:
        raise KrisselError(
            Errors.K295.format(path=path, problem=f"it has no variable '{unknown[0]}'")
        )
    table.variables.update(changed or {})
    return table


def find_inputs(
    stage: Stage, values: Mapping[str, str]
) -> tuple[dict[str, str], dict[str, str], str]:
    """Return the values with the stage's inputs, its options, and the name of an input that is not
    there, or ""."""
    values = dict(values)
    for name, paths in stage.inputs.items():
        there = [path for path in (filled(each, values) for each in paths) if Path(path).exists()]
        if not there:
            return values, {}, name
        values[name] = there[0]
    options = {}
    for name, option in stage.options.items():
        path = filled(re.split("[= ]", option)[-1], values)
        options[name] = option if Path(path).exists() else ""
    return values, options, ""


def filled(text: str, values: Mapping[str, str]) -> str:
    """Fill the placeholders; what is no known name in braces stays, as in JSON."""
    return _PLACEHOLDER.sub(lambda match: values.get(match[1], match[0]), text)


def words_of(line: str, texts: Mapping[str, str], values: Mapping[str, str]) -> list[str]:
    """Return the words of a command line; `python` is the interpreter that runs this.

    texts: placeholders for any number of words, which may hold others. values: for a word or a part
        of it.
    """
    while (longer := filled(line, texts)) != line:
        line = longer
    words = [filled(word, values) for word in shlex.split(line)]
    return [sys.executable, *words[1:]] if words[0] == "python" else words
