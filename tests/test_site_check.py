"""docs/check.py finds what a reader who does not see a page would miss."""

import runpy
from pathlib import Path

import pytest

CHECK = runpy.run_path(str(Path(__file__).parents[1] / "docs" / "check.py"))
PAGE = '<html lang="en"><h1>A</h1><h2 id="b">B</h2><a href="#b">to B</a><img alt="" src="c">'


@pytest.mark.parametrize(
    "added, fault",
    [
        ("", None),
        ('<img src="d">', "no alternative text: d"),
        ("<h1>E</h1>", "2 headings of level 1"),
        ("<h4>F</h4>", "a heading of level 4 follows one of level 2"),
        ('<p id="b"></p>', "2 times the id b"),
        ('<a href="g"> </a>', "a without a name: g"),
        ('<a href="g"><img alt="G" src="g"></a><button aria-label="h"></button>', None),
    ],
)
def test_faults_of_a_page_are_found(added, fault):
    assert CHECK["Page"]().check(PAGE + added) == ([fault] if fault else [])


@pytest.mark.parametrize(
    "text, ground, expected",
    [
        ("#000", "#ffffff", 21.0),
        ("#777777", "#fff", 4.48),
        ("#0000008a", "#f5f5f5", 4.52),
        ("hsla(var(--hue), 0%, 100%, 1)", "hsl(232deg 0% 0%)", 21.0),
    ],
)
def test_contrast_is_that_of_wcag(text, ground, expected):
    assert CHECK["contrast"](text, ground, {"--hue": "232"}) == pytest.approx(expected, abs=0.01)


def test_properties_are_those_of_the_scheme_by_specificity():
    css = """:root{--a:#111;--b:#222}
    [data-md-color-scheme="slate"]{--a:#333} [data-md-color-primary=pink]{--b:#444}
    @media screen{[data-md-color-scheme=slate]{--b:#555}} .x{--a:#666} :root{--b:#222}"""
    assert CHECK["properties"](css, "default") == {"--a": "#111", "--b": "#222"}
    assert CHECK["properties"](css, "slate") == {"--a": "#333", "--b": "#555"}
