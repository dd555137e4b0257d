"""The pictures of the documentation are those that docs/pictures.py draws of the results."""

import runpy
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

FOLDER = Path(__file__).parents[1] / "docs"
PICTURES = runpy.run_path(str(FOLDER / "pictures.py"))["PICTURES"]


@pytest.mark.parametrize("name", PICTURES)
def test_picture_shows_the_stored_results(name):
    assert (FOLDER / name).read_text(encoding="utf8") == PICTURES[name]()


@pytest.mark.parametrize("path", sorted(FOLDER.glob("*.svg")), ids=lambda path: path.name)
def test_picture_has_a_title_and_a_dark_style(path):
    root = ET.parse(path).getroot()
    named = {child.tag.rpartition("}")[2]: child.text or "" for child in root}
    assert named["title"] and "prefers-color-scheme: dark" in named["style"]
