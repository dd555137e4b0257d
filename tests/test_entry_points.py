"""Published names: every entry point resolves, and no name or signature changes once it is published.

A pipeline that was saved yesterday names its functions in its config, with their settings. So a published name is
frozen: a change becomes a function of its own under a new name, `spacy-krissel.Name.v2`, and the old one stays.

`python tests/test_entry_points.py` writes the snapshot anew. That is for new names: look at the difference before it
is committed, it must only add.
"""

import ast
import inspect
import json
import textwrap
from configparser import ConfigParser
from importlib.metadata import EntryPoint, distribution
from pathlib import Path
from typing import Any, Dict, List

import pytest
import spacy
import typer

SNAPSHOT = Path(__file__).with_name("entry_points.json")
SETUP = Path(__file__).parents[1] / "setup.cfg"
PREFIXES = {"spacy_factories": "krissel_", "spacy_cli": "krissel"}


def entry_points() -> List[EntryPoint]:
    """Those of the installed distribution."""
    return sorted(distribution("spacy-krissel").entry_points, key=lambda point: (point.group, point.name))


def signature(function: Any) -> str:
    """The signature as it stands in the source: the same under every version of Python."""
    if isinstance(function, typer.Typer):
        return "commands: " + ", ".join(sorted(command.name or "" for command in function.registered_commands))
    (node,) = ast.parse(textwrap.dedent(inspect.getsource(function))).body
    assert isinstance(node, (ast.FunctionDef, ast.ClassDef))
    if isinstance(node, ast.ClassDef):
        return signature(function.__init__)
    returns = f" -> {ast.unparse(node.returns)}" if node.returns else ""
    return f"({ast.unparse(node.args)}){returns}"


def snapshot() -> Dict[str, Dict[str, str]]:
    found: Dict[str, Dict[str, str]] = {}
    for point in entry_points():
        found.setdefault(point.group, {})[point.name] = signature(point.load())
    return found


def published() -> Dict[str, Dict[str, str]]:
    return json.loads(SNAPSHOT.read_text(encoding="utf8"))


POINTS = [pytest.param(point, id=f"{point.group}-{point.name}") for point in entry_points()]


@pytest.mark.parametrize("point", POINTS)
def test_resolves(point):
    """By the name that a config gives, through spaCy's own registries, to the function that is named."""
    if point.group == "spacy_factories":
        # The registry of factories holds wrappers; the pipeline knows which function they are made of.
        nlp = spacy.blank("en")
        assert spacy.registry._entry_point_factories.get(point.name) is point.load()
        assert nlp.has_factory(point.name) and nlp.get_factory_meta(point.name).factory == point.name
    else:
        registry = point.group.partition("_")[2]
        assert getattr(spacy.registry, registry).get(point.name) is point.load()


@pytest.mark.parametrize("point", POINTS)
def test_name(point):
    prefix = PREFIXES.get(point.group)
    if prefix:
        assert point.name.startswith(prefix) and "." not in point.name
    else:
        base, dot, version = point.name.removeprefix("spacy-krissel.").partition(".v")
        assert point.name.startswith("spacy-krissel.") and base.isidentifier() and dot and version.isdigit()


@pytest.mark.skipif(not SETUP.exists(), reason="the suite runs without the source tree")
def test_setup_cfg_is_installed():
    parser = ConfigParser()
    parser.optionxform = str  # type: ignore[assignment, method-assign]
    parser.read(SETUP, encoding="utf8")
    written = {}
    for group, lines in parser["options.entry_points"].items():
        written[group] = dict(line.replace(" ", "").split("=") for line in lines.strip().splitlines())
    installed: Dict[str, Dict[str, str]] = {}
    for point in entry_points():
        installed.setdefault(point.group, {})[point.name] = point.value
    assert installed == written, "install the package again: its entry points changed since"


def test_snapshot():
    before, now = published(), snapshot()
    for group, names in before.items():
        for name, expected in names.items():
            found = now.get(group, {}).get(name)
            assert found is not None, (
                f"The published name '{name}' ({group}) is gone, and saved pipelines that use it cannot be loaded. "
                "Put it back in setup.cfg."
            )
            assert found == expected, (
                f"The signature of the published name '{name}' ({group}) changed.\n"
                f"  published: {expected}\n  found:     {found}\n"
                f"Leave this function as it was. Write the change as a function of its own, add it to setup.cfg under "
                f"the next version ('{next_version(name)}'), and take it up with: python tests/test_entry_points.py"
            )
    added = [(group, name) for group, names in now.items() for name in names if name not in before.get(group, {})]
    assert added == [], "publish these new names with: python tests/test_entry_points.py"


def next_version(name: str) -> str:
    base, dot, version = name.rpartition(".v")
    return f"{base}.v{int(version) + 1}" if dot else f"{name}_v2"


def test_next_version():
    assert next_version("spacy-krissel.Name.v1") == "spacy-krissel.Name.v2"
    assert next_version("krissel_linker") == "krissel_linker_v2"


if __name__ == "__main__":
    SNAPSHOT.write_text(json.dumps(snapshot(), indent=2, sort_keys=True) + "\n", encoding="utf8")
