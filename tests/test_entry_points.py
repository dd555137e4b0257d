"""Registered names: every entry point resolves by the name that a config gives, and setup.cfg is
what is installed."""

from configparser import ConfigParser
from importlib.metadata import EntryPoint, distribution
from pathlib import Path

import pytest
import spacy
from setuptools.config.setupcfg import read_configuration

SETUP = Path(__file__).parents[1] / "setup.cfg"
PREFIXES = {"spacy_factories": "krissel_", "spacy_cli": "krissel"}


def entry_points() -> list[EntryPoint]:
    """Return the entry points of the installed distribution."""
    return sorted(
        distribution("spacy-krissel").entry_points, key=lambda point: (point.group, point.name)
    )


POINTS = [
    pytest.param(point, id=f"{point.group}-{point.name}")
    for point in entry_points()
    # OAK's adapter is looked for by OAK alone: tests/serving/test_oak.py.
    if point.group not in ("console_scripts", "oaklib.plugins")
]


@pytest.mark.parametrize("point", POINTS)
def test_entry_point_resolves(point):
    """By the name that a config gives, through spaCy's own registries, to the function that is
    named."""
    if point.group == "spacy_factories":
        # The registry of factories holds wrappers; the pipeline knows which function they are made
        # of.
        nlp = spacy.blank("en")
        assert spacy.registry._entry_point_factories.get(point.name) is point.load()
        assert (
            nlp.has_factory(point.name) and nlp.get_factory_meta(point.name).factory == point.name
        )
    else:
        registry = point.group.partition("_")[2]
        assert getattr(spacy.registry, registry).get(point.name) is point.load()


@pytest.mark.parametrize("point", POINTS)
def test_registered_name_follows_the_convention(point):
    prefix = PREFIXES.get(point.group)
    if prefix:
        assert point.name.startswith(prefix) and "." not in point.name
    else:
        base, dot, version = point.name.removeprefix("spacy-krissel.").partition(".v")
        assert (
            point.name.startswith("spacy-krissel.")
            and base.isidentifier()
            and dot
            and version.isdigit()
        )


@pytest.mark.skipif(not SETUP.exists(), reason="the suite runs without the source tree")
def test_installed_entry_points_match_setup_cfg():
    parser = ConfigParser()
    parser.optionxform = str  # type: ignore[assignment, method-assign]
    parser.read(SETUP, encoding="utf8")
    written = {}
    for group, lines in parser["options.entry_points"].items():
        written[group] = dict(
            line.replace(" ", "").split("=") for line in lines.strip().splitlines()
        )
    installed: dict[str, dict[str, str]] = {}
    for point in entry_points():
        installed.setdefault(point.group, {})[point.name] = point.value
    assert installed == written, "install the package again: its entry points changed since"


def test_package_data_lists_every_file():
    """setuptools splits a list of patterns at line ends, or at commas where there is one line,
    never at both."""
    package = SETUP.parent / "spacy_krissel"
    patterns = read_configuration(SETUP)["options"]["package_data"]["spacy_krissel"]
    listed = {path for pattern in patterns for path in package.glob(pattern)}
    files = {path for path in package.rglob("*") if path.is_file() and path.suffix != ".py"}
    files = {path for path in files if path.parent.name != "__pycache__"}
    assert files <= listed, "setup.cfg lacks it among [options.package_data]"
