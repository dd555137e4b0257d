"""BioC XML; `read_bioc` reads it back."""

from collections.abc import Iterable
from typing import IO
from xml.etree.ElementTree import Element, SubElement, tostring

from spacy.tokens import Doc

from ...mentions.gold_mentions import document_id
from ...util.escape import xml_text
from .mentions import LinkedMention, linked_mentions

_HEAD = (
    '<?xml version="1.0" encoding="UTF-8"?>\n<!DOCTYPE collection SYSTEM "BioC.dtd">\n<collection>'
)


def write_bioc(docs: Iterable[Doc], key: str, file_: IO[bytes]) -> None:
    """Write one passage per text. A mention's infons are `type`, `identifier`, `name`, `match`,
    `matched_name`, `score` and `confidence`. Offsets count characters. `krissel convert` reads the
    file."""
    head = f"{_HEAD}\n<source>spacy-krissel</source><date></date><key>BioC.key</key>\n"
    file_.write(head.encode())
    for doc in docs:
        document = Element("document")
        _add(document, "id", document_id(doc))
        passage = SubElement(document, "passage")
        _add(passage, "offset", "0")
        _add(passage, "text", doc.text)
        for number, each in enumerate(linked_mentions(doc, key)):
            _annotate(passage, number, each)
        file_.write(
            tostring(document, "utf-8", xml_declaration=False).replace(b"\r", b"&#13;") + b"\n"
        )
    file_.write(b"</collection>\n")


def _annotate(passage: Element, number: int, each: LinkedMention) -> None:
    annotation = SubElement(passage, "annotation", id=str(number))
    infons = {"type": each.label, "identifier": each.id, "name": each.name}
    infons |= {"match": each.match, "matched_name": each.matched_name}
    infons |= {key: _number_text(getattr(each, key)) for key in ("score", "confidence")}
    for name, value in infons.items():
        if value:
            _add(annotation, "infon", value, {"key": name})
    for start, end in each.fragments:
        SubElement(annotation, "location", offset=str(start), length=str(end - start))
    _add(annotation, "text", " ".join(each.texts))


def _number_text(number: float | None) -> str:
    return "" if number is None else repr(number)


def _add(parent: Element, name: str, text: str, attributes: dict[str, str] = {}) -> None:  # noqa: B006
    SubElement(parent, name, attributes).text = xml_text(text)
