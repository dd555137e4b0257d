"""SKOS: the concepts of a thesaurus, in RDF/XML or Turtle, read by the library rdflib (the extra `rdf`)."""

import re
from codecs import BOM_UTF8
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from ...errors import Errors, KrisselError
from ...util.xml_files import XmlParser, feed
from ..entity import Entity
from .languages import Languages
from .owl import PROPERTIES, SKOS, Parts, add_replaced, add_text, to_entity
from .records import RecordFile, Start, open_records
from .replaced import Replaced

_CONCEPT = re.compile(
    # An element; a type in Turtle; an address, as both have it.
    r"(?:<(?:\w+:)?|\s(?:a|rdf:type)\s+(?:[^\s,;]+\s*,\s*)*\w*:|(?:resource=[\"']|<)" + re.escape(SKOS) + r")"
    r"Concept(?:Scheme)?\b"
)
# A tag, unlike the address in angle brackets that N-Triples begin with.
_XML = re.compile(rb"(?:\xef\xbb\xbf)?\s*<(?:[?!]|[\w.-]+(?::[\w.-]+)?(?:\s|/?>))")


def read_skos(path: str | Path, *, hidden: bool = False, language: str = "en") -> Iterator[Entity]:
    """Read the concepts of a SKOS file that are not deprecated and have a preferred label.

    Names are preferred and alternative labels. Parents are broader concepts, and those that call a
    concept narrower; cross-references are exact matches. Alternative ids are notations, and the
    deprecated concepts that a concept replaces, by the statements of either (`Replaced`). Ids are
    `mesh:D006073` in the place of addresses that end in `mesh/D006073`; the source is the end of
    the scheme's address.

    All triples are held in memory, 1.4 KiB each: 14 KiB and 0.3 ms of CPU for a concept with ten.

    hidden: hidden labels, such as misspellings, are names too.
    language: labels and definitions in other languages are left out, but for concepts without a
        preferred label in it (`Languages`); those without a language are taken.
    Warns KW108 of deprecated concepts that lead to none, KW109 of concepts without a label in the
    language. KW101 counts concepts, not lines.
    Raises KrisselError K055 (too large), K102 (damaged Turtle), K114 (no rdflib); K007 (damaged XML), K008, K009.
    """
    roles = {f"{SKOS}broader": "parent", f"{SKOS}notation": "alt_id", f"{SKOS}inScheme": "source", **PROPERTIES}
    roles |= {f"{SKOS}hiddenLabel": "name"} if hidden else {}
    with open_records(path, "skos", "RDF/XML or Turtle with concepts of SKOS") as records:
        graph = _graph(records)
        replaced, languages = Replaced(records.path), Languages(records.path, language)
        for parts in _concepts(records, graph, roles, languages.key):
            add_replaced(replaced, parts)
        concepts = _concepts(records, graph, roles, languages.key)
        yield from records.parsed(concepts, partial(to_entity, replaced, languages, ()))
        replaced.finish()
        languages.finish()


def is_skos(start: Start) -> bool:
    return SKOS in start.text and _CONCEPT.search(start.text) is not None


def _graph(records: RecordFile) -> Any:
    try:
        from rdflib import Graph
    except ImportError as error:
        raise KrisselError(Errors.K114.format(path=records.path)) from error
    is_xml = _XML.match(records.file.read(1 << 10)) is not None
    records.file.rewind()
    if is_xml:
        # rdflib would expand entities.
        for _ in feed(records.file, _Checked(str(records.path))):
            pass
        records.file.rewind()
    data = records.file.read_all().removeprefix(BOM_UTF8)
    # Relative addresses are below the base, which is the working directory where none is given.
    base = f"file:///{records.path.name}"
    try:
        return Graph().parse(data=data, format="xml" if is_xml else "turtle", publicID=base)
    except (MemoryError, RecursionError):
        raise
    except Exception as error:  # rdflib's parsers raise whatever they meet in a damaged file
        line, problem = getattr(error, "lines", 0) + 1, " ".join(str(error).partition(" at ^ in")[0].split())
        raise KrisselError(Errors.K102.format(path=records.path, line=line, problem=problem)) from error


def _concepts(records: RecordFile, graph: Any, roles: Mapping[str, str], key: Callable[[str], str]) -> Iterator[Parts]:
    from rdflib import RDF, BNode, URIRef

    for records.line, concept in enumerate(graph.subjects(RDF.type, URIRef(f"{SKOS}Concept"), unique=True), 1):
        parts = defaultdict(list, {"id": ["" if isinstance(concept, BNode) else str(concept)]})
        for property, value in graph.predicate_objects(concept):
            role, text = roles.get(str(property)), " ".join(value.split())
            if role and text and not isinstance(value, BNode):
                add_text(parts, role, text, key(getattr(value, "language", "") or ""))
        above = graph.subjects(URIRef(f"{SKOS}narrower"), concept)
        parts["parent"] += (str(each) for each in above if not isinstance(each, BNode))
        parts["source"] = [re.split("[/#]", scheme.rstrip("/#"))[-1] for scheme in (*parts["source"], "")]
        yield parts


class _Checked(XmlParser):
    """Refuses what is refused in all XML files."""

    kind = "SKOS"
    root = "http://www.w3.org/1999/02/22-rdf-syntax-ns#RDF"
    separator = ""

    def start_element(self, name: str, attributes: dict[str, str]) -> None:
        self.done += 1
        # No real element has more, and each is a triple.
        if len(attributes) > 1000:
            raise self.malformed(self.line, f"an element has {len(attributes)} attributes")
