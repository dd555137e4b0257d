"""The `project.yml` files, as weasel reads them."""

import os
import shlex
from itertools import pairwise
from pathlib import Path
from typing import Any
from unittest.mock import patch

import srsly
from spacy.cli._util import parse_config_overrides
from weasel.util.config import load_project_config

ROOT = Path(__file__).parents[1]
FOLDERS = [ROOT, *sorted(path.parent for path in (ROOT / "experiments").glob("*/project.yml"))]
# Where the source files of the data sets would be.
DATA = "/source"


def name_of(folder: Path) -> str:
    return "" if folder == ROOT else folder.relative_to(ROOT).as_posix()


def read_project(folder: Path, **variables: Any) -> dict[str, Any]:
    """Valid and with its variables filled in; `variables` replace some."""
    # weasel makes them, and fails where another test process makes them at that moment.
    for name in srsly.read_yaml(folder / "project.yml").get("directories", []):
        (folder / name).mkdir(parents=True, exist_ok=True)
    with patch.dict(os.environ, {"KRISSEL_DATA": DATA}):
        return load_project_config(
            folder, overrides={f"vars.{key}": value for key, value in variables.items()}
        )


def words_of(line: str) -> list[str]:
    return shlex.split(line)


def settings_of(folder: str, command: str, line: int = 0) -> dict[str, Any]:
    """Changes of a config by a line of a command (`--training.max_steps 3`), by key; without
    paths."""
    commands = {each["name"]: each["script"] for each in read_project(ROOT / folder)["commands"]}
    words = words_of(commands[command][line])
    pairs = [(key, value) for key, value in pairwise(words) if key.startswith("--") and "." in key]
    found = parse_config_overrides([word for pair in pairs for word in pair])
    return {key: value for key, value in found.items() if not key.startswith(("paths.", "system."))}


def rows_in(path: str) -> dict[str, Any]:
    """Changes of its training config by an ablation file of `experiments/`, by key; without
    paths."""
    overrides = srsly.read_yaml(ROOT / "experiments" / path)["train"]["overrides"]
    return {key: value for key, value in overrides.items() if not key.startswith("paths.")}
