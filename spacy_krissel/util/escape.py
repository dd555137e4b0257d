"""Escape texts of corpora and ontologies for the formats they are written to."""

import html
import re

# Characters not allowed in XML 1.0.
_NOT_XML = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
# Characters that start HTML, an entity or a link, or end a table cell.
_MARKDOWN = re.compile(r"[\\|<\[]|&(?=[#\w])")


def xml_text(text: str) -> str:
    """Replace characters that XML does not allow by �."""
    return _NOT_XML.sub("\ufffd", text)


def html_text(text: str) -> str:
    """Escape `text` for content and attributes of HTML, SVG and XML."""
    return html.escape(xml_text(text))


def markdown_text(text: str) -> str:
    """Escape `text` as one line that Markdown renders as plain text, including in tables."""
    return _MARKDOWN.sub(r"\\\g<0>", one_line(text))


def one_line(text: str) -> str:
    """Put `text` on one line without tabs."""
    return " ".join(re.split(r"[\t\x0b\x0c\x1c-\x1e\x85\u2028\u2029]|\r\n|\r|\n", text))


def cell_text(text: str) -> str:
    """Put `text` on one line that no spreadsheet reads as a formula."""
    return re.sub(r"^(?=[=+\-@])", "'", one_line(text))


def text_of_cell(cell: str) -> str:
    """Return the text of a cell written by `cell_text`."""
    return re.sub(r"^'(?=[=+\-@])", "", cell)
