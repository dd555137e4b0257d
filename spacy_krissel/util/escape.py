"""Escape texts of corpora and ontologies for the formats they are written to."""

import html
import re

# Not allowed in XML 1.0.
_NOT_XML = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
# Starts HTML, an entity or a link, or ends a table cell.
_MARKDOWN = re.compile(r"[\\|<\[]|&(?=[#\w])")


def xml_text(text: str) -> str:
    """`text` with � for characters not allowed in XML."""
    return _NOT_XML.sub("\ufffd", text)


def html_text(text: str) -> str:
    """`text` as content or attribute of HTML, SVG and XML."""
    return html.escape(xml_text(text))


def markdown_text(text: str) -> str:
    """`text` on one line that Markdown renders as plain text, in tables too."""
    return _MARKDOWN.sub(r"\\\g<0>", one_line(text))


def one_line(text: str) -> str:
    """`text` on one line, without tabs."""
    return " ".join(re.split(r"[\t\x0b\x0c\x1c-\x1e\x85\u2028\u2029]|\r\n|\r|\n", text))


def cell_text(text: str) -> str:
    """`text` on one line, which no spreadsheet takes for a formula."""
    return re.sub(r"^(?=[=+\-@])", "'", one_line(text))


def text_of_cell(cell: str) -> str:
    """The text that `cell_text` made a cell of."""
    return re.sub(r"^'(?=[=+\-@])", "", cell)
