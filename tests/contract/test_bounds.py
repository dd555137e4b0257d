"""A number below zero is refused where it is set, by every reader, batcher, objective and source of
prototypes."""

import inspect
from importlib.metadata import distribution

import pytest

from spacy_krissel.errors import KrisselError

GROUPS = ("spacy_readers", "spacy_batchers")
ENDINGS = ("Objective.v1", "Source.v1")
POINTS = [
    point
    for point in distribution("spacy-krissel").entry_points
    if point.group in GROUPS or (point.group == "spacy_misc" and point.name.endswith(ENDINGS))
]
# A seed may be any number.
SETTINGS = [
    pytest.param(point, setting, id=f"{point.name}-{setting}")
    for point in sorted(POINTS)
    for setting, parameter in inspect.signature(point.load()).parameters.items()
    if setting != "seed" and type(parameter.default) in (int, float)
]


def test_settings_to_test_are_found():
    assert len(POINTS) > 12 and len(SETTINGS) > 30


@pytest.mark.parametrize("point, setting", SETTINGS)
def test_negative_numbers_raise(point, setting, tmp_path):
    make = point.load()
    required = [
        name
        for name, parameter in inspect.signature(make).parameters.items()
        if parameter.default is inspect.Parameter.empty
    ]
    paths = {name: tmp_path / name if name in ("path", "ontology") else len for name in required}
    with pytest.raises(KrisselError, match=rf"K006.*'{setting}' is -1"):
        make(**{**paths, setting: -1})
