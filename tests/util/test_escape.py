import xml.etree.ElementTree as ET

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spacy_krissel.util.escape import html_text, markdown_text, one_line, xml_text


@given(st.text(alphabet=st.characters()))
def test_any_text_is_well_formed_xml(text):
    ET.fromstring(f'<a b="{html_text(text)}">{html_text(text)}</a>'.encode())


def test_surrogates_and_controls_are_replaced_one_by_one():
    assert xml_text("a\x00\x08\x1f\ud800\ufffeb\t\n") == "a\ufffd\ufffd\ufffd\ufffd\ufffdb\t\n"


@pytest.mark.parametrize(
    "text, escaped",
    [
        ("a|b", r"a\|b"),
        (r"a\|b", r"a\\\|b"),
        ("<script>", r"\<script>"),
        ("[click](http://x)", r"\[click](http://x)"),
        ("two\r\nlines\n# title", "two lines # title"),
        ("&lt;b> & signs", r"\&lt;b> & signs"),
        ("snake_case 95 %", "snake_case 95 %"),
    ],
)
def test_markdown_stays_text_in_its_cell(text, escaped):
    assert markdown_text(text) == escaped


def test_one_line_removes_line_breaks_and_tabs():
    assert one_line("a\tb\nc\r\nd\u2028e") == "a b c d e"
