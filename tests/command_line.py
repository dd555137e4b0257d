"""The command lines of the package and of the laboratory, in this process."""

from typing import Any

import typer
from click.testing import Result
from typer.testing import CliRunner


def laboratory() -> Any:
    """The application of `python experiments/lab`, with all its commands."""
    import lab.cli as cli
    from lab.app import lab

    assert cli
    return lab


def names_of(application: Any) -> set:
    return set(typer.main.get_group(application).list_commands(None))


def invoke(*arguments: Any) -> Result:
    """Run `python -m spacy krissel …`, or `python experiments/lab …` where the command is one of those."""
    from spacy import registry
    from spacy.cli._util import app

    registry.cli.get_all()
    given = [*map(str, arguments)]
    if given[0] in names_of(laboratory()):
        return CliRunner().invoke(laboratory(), given)
    return CliRunner().invoke(app, ["krissel", *given])
