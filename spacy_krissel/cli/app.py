"""`python -m spacy krissel …`: one typer front a command, over the plain function that does the work.

spaCy's command line imports this module through the `spacy_cli` entry point each time it starts, so nothing heavy is
imported here; every front imports what it needs when it is called.
"""

import sys
from contextlib import contextmanager
from typing import Iterator

import typer
from spacy.cli._util import app

from ..errors import KrisselError

krissel = typer.Typer(
    name="krissel",
    help="Build, evaluate and run entity linkers of spacy-krissel.",
    no_args_is_help=True,
)
app.add_typer(krissel)


@contextmanager
def coded_errors() -> Iterator[None]:
    """Print a coded error as one message and exit with 1: a user's mistake needs no traceback."""
    try:
        yield
    except KrisselError as error:
        typer.secho(f"✘ {error}", fg=typer.colors.RED, err=True)
        raise typer.Exit(1) from None


def command_line() -> str:
    """What was typed, for reports."""
    return " ".join(["python -m spacy", *sys.argv[1:]])
