"""RDF graphs, read by the library rdflib (the extra `rdf`), and the parts of their classes and
concepts.
"""

import re
from codecs import BOM_UTF8
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from ...errors import Errors, KrisselError
from ...util.xml_files import XmlParser, feed
from .records import RecordFile

# Roles whose texts have a language, which is part of their key: "label@en".
IN_LANGUAGES = ("label", "name", "definition")
# Statements of a class by role; its IRI is under "id", the name of its ontology under "source".
Parts = dict[str, list[str]]
# First tokens of Turtle and N-Triples: an IRI, or a blank node.
TURTLE = re.compile(
    r"(?:@prefix|@base|prefix|base)\s|<\w+:[^<>\s]*>\s|_:[\w.-]+\s+<\w+:", re.IGNORECASE
)
# An XML tag, unlike the IRI in angle brackets at the start of N-Triples.
_XML = re.compile(rb"(?:\xef\xbb\xbf)?\s*<(?:[?!]|[\w.-]+(?::[\w.-]+)?(?:\s|/?>))")


def add_text(parts: Parts, role: str, text: str, language: str) -> None:
    """Add the statement of a property to the parts of a class. language: its key
    (`Languages.key`)."""
    parts[f"{role}@{language}" if role in IN_LANGUAGES else role].append(text)


def is_xml(records: RecordFile) -> bool:
    found = _XML.match(records.file.read(1 << 10)) is not None
    records.file.rewind()
    return found


def read_graph(records: RecordFile) -> Any:
    """Read the graph of a file in RDF/XML or Turtle.

    Raises KrisselError K055 (too large), K102 (damaged Turtle), K114 (no rdflib); K007
    (damaged XML), K008, K009.
    """
    try:
        from rdflib import Graph
    except ImportError as error:
        raise KrisselError(Errors.K114.format(path=records.path)) from error
    in_xml = is_xml(records)
    if in_xml:
        # rdflib would expand entities.
        for _ in feed(records.file, _Checked(str(records.path))):
            pass
        records.file.rewind()
    data = records.file.read_all().removeprefix(BOM_UTF8)
    # Relative IRIs are resolved against the base, by default the working directory.
    base = f"file:///{records.path.name}"
    try:
        return Graph().parse(data=data, format="xml" if in_xml else "turtle", publicID=base)
    except (MemoryError, RecursionError):
        raise
    except Exception as error:  # rdflib's parsers raise various errors for a damaged file.
        line, problem = (
            getattr(error, "lines", 0) + 1,
            " ".join(str(error).partition(" at ^ in")[0].split()),
        )
        raise KrisselError(
            Errors.K102.format(path=records.path, line=line, problem=problem)
        ) from error


def nodes(
    records: RecordFile, graph: Any, kind: str, roles: Mapping[str, str], key: Callable[[str], str]
) -> Iterator[Parts]:
    """Yield the parts of the nodes of a kind. roles: of properties. key: of languages."""
    from rdflib import RDF, BNode, URIRef

    for records.line, node in enumerate(graph.subjects(RDF.type, URIRef(kind), unique=True), 1):
        parts = defaultdict(list, {"id": ["" if isinstance(node, BNode) else str(node)]})
        for property, value in graph.predicate_objects(node):
            role, text = roles.get(str(property)), " ".join(value.split())
            if role and text and not isinstance(value, BNode):
                add_text(parts, role, text, key(getattr(value, "language", "") or ""))
        yield parts


class _Checked(XmlParser):
    """Applies the checks of all XML files."""

    kind = "RDF"
    root = "http://www.w3.org/1999/02/22-rdf-syntax-ns#RDF"
    separator = ""

    def start_element(self, name: str, attributes: dict[str, str]) -> None:
        self.done += 1
        # Real elements have fewer attributes, and each is a triple.
        if len(attributes) > 1000:
            raise self.malformed(self.line, f"an element has {len(attributes)} attributes")
