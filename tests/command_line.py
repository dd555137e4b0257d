"""The command lines of the package and of the laboratory, in this process."""

import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import typer
from click.testing import Result
from project_files import read_project, words_of
from typer.testing import CliRunner


def laboratory() -> Any:
    """The application of `python experiments/lab`, with all its commands."""
    from lab.app import lab

    return lab


def names_of(application: Any) -> set:
    return set(typer.main.get_group(application).list_commands(None))


def run_commands(
    folder: Path, *names: str, extras: Sequence[str] | None = None, **variables: Any
) -> None:
    """Run commands of a project as they stand, in the working directory and in this process.

    extras: what is appended to each of their first lines, which alone are run; None: nothing, and
        all are.
    """
    from spacy import registry
    from spacy.cli._util import app

    registry.cli.get_all()
    scripts = {
        command["name"]: command["script"]
        for command in read_project(folder, **variables)["commands"]
    }
    lines = [line for name in names for line in scripts[name]]
    for line, extra in zip(lines, [""] * len(lines) if extras is None else extras, strict=False):
        words = words_of(f"{line} {extra}")
        if words[2] == "zipfile":
            zipfile.main(words[3:])
            continue
        own = words[1].endswith("lab")
        result = CliRunner().invoke(laboratory() if own else app, words[2 if own else 3 :])
        if result.exception is not None and not isinstance(result.exception, SystemExit):
            raise result.exception
        assert result.exit_code == 0, f"{line}\n{result.output}"


def invoke(*arguments: Any) -> Result:
    """Run `python -m spacy krissel …`, or `python experiments/lab …` where the command is one of
    those."""
    from spacy import registry
    from spacy.cli._util import app

    registry.cli.get_all()
    given = [*map(str, arguments)]
    if given[0] in names_of(laboratory()):
        return CliRunner().invoke(laboratory(), given)
    return CliRunner().invoke(app, ["krissel", *given])
