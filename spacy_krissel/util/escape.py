"""Texts of corpora and ontologies, harmless in the formats that they are written to."""

import html
import re

# What XML 1.0 cannot hold.
_NOT_XML = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
# What opens HTML, an entity, a link, or ends the cell of a table.
_MARKDOWN = re.compile(r"[\\|<\[]|&(?=[#\w])")
# What a spreadsheet takes for a formula at the start of a cell.
_FORMULA = ("=", "+", "-", "@")


def xml_text(text: str) -> str:
    """`text` with � for what XML cannot hold."""
    return _NOT_XML.sub("\ufffd", text)


def html_text(text: str) -> str:
    """`text` as content or attribute of HTML, SVG and XML."""
    return html.escape(xml_text(text))


def markdown_text(text: str) -> str:
    """`text` on one line, of which Markdown makes no HTML, link or further cell."""
    return _MARKDOWN.sub(r"\\\g<0>", _one_line(text))


def tsv_cell(text: str) -> str:
    """`text` on one line without tabs; with a leading ' where a spreadsheet would compute it."""
    text = _one_line(text)
    return f"'{text}" if text.lstrip().startswith(_FORMULA) else text


def _one_line(text: str) -> str:
    return " ".join(re.split(r"[\t\x0b\x0c\x1c-\x1e\x85\u2028\u2029]|\r\n|\r|\n", text))
