"""Standalone run of a command without spaCy's command line, which takes 300 MB.

python -m spacy_krissel.cli.alone commands.serve_pipeline:serve '{"pipeline": "linker"}'
"""

import json
import os
import sys
from importlib import import_module
from pathlib import Path
from typing import Any, NoReturn

import typer

from .coded import coded_errors


def can_run_alone() -> bool:
    """Return whether this process runs only a command, so that it can be replaced. On Windows, the
    caller would not wait for the replacement."""
    main = sys.modules["__main__"]
    name = getattr(getattr(main, "__spec__", None), "name", "")
    return os.name == "posix" and (name == "spacy.__main__" or Path(sys.argv[0]).stem == "krissel")


def run_alone(function: str, values: dict[str, Any]) -> NoReturn:
    """Replace this process by one that calls "module:function" of this package with these
    values."""
    sys.stdout.flush()
    sys.stderr.flush()
    options = [f"-W{each}" for each in sys.warnoptions]
    command = [sys.executable, *options, "-m", __name__, function, json.dumps(values, default=str)]
    os.execv(sys.executable, command)


def main(function: str, values: str) -> None:
    module, _, name = function.partition(":")
    run = getattr(import_module(f"spacy_krissel.{module}"), name)
    try:
        coded_errors(run)(**json.loads(values))
    except typer.Exit as ended:
        sys.exit(ended.exit_code)


if __name__ == "__main__":
    main(*sys.argv[1:])
