"""SKOS: the concepts of a thesaurus, in RDF/XML or Turtle, read by the library rdflib (the extra `rdf`)."""

import re
from codecs import BOM_UTF8
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from ...errors import Errors, KrisselError
from ...util.xml_files import XmlParser, feed
from ..entity import Entity
from .owl import is_language
from .records import BadRecord, RecordFile, Start, curie, open_records, unique

if TYPE_CHECKING:
    from rdflib import Graph
    from rdflib.term import Node

# No real element has more, and each is a triple.
MAX_ATTRIBUTES = 1000
_CORE = "http://www.w3.org/2004/02/skos/core#"
_CONCEPT = re.compile(
    # An element; a type in Turtle; an address, as both have it.
    r"(?:<(?:\w+:)?|\s(?:a|rdf:type)\s+(?:[^\s,;]+\s*,\s*)*\w*:|(?:resource=[\"']|<)" + re.escape(_CORE) + r")"
    r"Concept(?:Scheme)?\b"
)
# A tag, unlike the address in angle brackets that N-Triples begin with.
_XML = re.compile(rb"(?:\xef\xbb\xbf)?\s*<(?:[?!]|[\w.-]+(?::[\w.-]+)?(?:\s|/?>))")


def read_skos(
    path: str | Path, *, hidden: bool = False, types: Sequence[str] = (), language: str = "en"
) -> Iterator[Entity]:
    """Read the concepts of a SKOS file that are not deprecated and have a label in the language.

    Names are preferred labels, then alternative ones. Parents are broader concepts, and those that call a concept
    narrower; cross-references are exact matches, alternative ids are notations. Ids are `mesh:D006073` in the place of
    addresses that end in `mesh/D006073`; the source is the end of the scheme's address.

    All triples are held in memory, 1.4 KiB each: 14 KiB and 0.3 ms of CPU for a concept with ten.

    hidden: hidden labels, such as misspellings, are names too.
    types: given to every concept.
    language: labels and definitions in other languages are left out; those without a language are taken.
    KW101 counts concepts, not lines.

    Raises KrisselError K055 (larger than the limit for files), K102 (damaged Turtle), K114 (rdflib is not installed),
    and of RDF/XML K007 (truncated or malformed), K008 (other XML), K009 (entity declarations).
    """
    with open_records(path, "skos", "RDF/XML or Turtle with concepts of SKOS") as records:
        graph = _graph(records)
        parse = partial(_to_entity, graph, hidden=hidden, types=types, language=language)
        yield from records.parsed(_concepts(records, graph), parse)


def is_skos(start: Start) -> bool:
    return _CORE in start.text and _CONCEPT.search(start.text) is not None


def _graph(records: RecordFile) -> "Graph":
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
    graph = Graph()
    try:
        graph.parse(data=data, format="xml" if is_xml else "turtle", publicID=base)
    except (MemoryError, RecursionError):
        raise
    except Exception as error:  # rdflib's parsers raise whatever they meet in a damaged file
        line, problem = getattr(error, "lines", 0) + 1, " ".join(str(error).partition(" at ^ in")[0].split())
        raise KrisselError(Errors.K102.format(path=records.path, line=line, problem=problem)) from error
    return graph


def _concepts(records: RecordFile, graph: "Graph") -> Iterator["Node"]:
    from rdflib import RDF, SKOS

    for records.line, concept in enumerate(graph.subjects(RDF.type, SKOS.Concept, unique=True), 1):
        yield concept


def _to_entity(graph: "Graph", concept: "Node", hidden: bool, types: Sequence[str], language: str) -> Entity | None:
    from rdflib import OWL, SKOS, Literal, URIRef

    def texts(property: URIRef) -> list[str]:
        found = (each for each in graph.objects(concept, property) if isinstance(each, Literal))
        return [" ".join(each.split()) for each in found if is_language(each.language or "", language)]

    if not isinstance(concept, URIRef):
        raise BadRecord("(counting concepts) is a concept without an address")
    names = unique([*texts(SKOS.prefLabel), *texts(SKOS.altLabel), *(texts(SKOS.hiddenLabel) if hidden else ())])
    if not names or "true" in texts(OWL.deprecated):
        return None
    id_ = curie(str(concept))
    above = [*graph.objects(concept, SKOS.broader), *graph.subjects(SKOS.narrower, concept)]
    schemes = (str(each).rstrip("/#") for each in graph.objects(concept, SKOS.inScheme))
    return Entity(
        id=id_,
        name=names[0],
        aliases=names[1:],
        types=unique(types),
        definition="".join(texts(SKOS.definition)[:1]),
        xrefs=unique(curie(str(each)) for each in graph.objects(concept, SKOS.exactMatch)),
        source=re.split("[/#]", next(schemes, ""))[-1],
        alt_ids=unique(texts(SKOS.notation), without=id_),
        parents=unique((curie(str(each)) for each in above if isinstance(each, URIRef)), without=id_),
    )


class _Checked(XmlParser):
    """Refuses what is refused in all XML files."""

    kind = "SKOS"
    root = "http://www.w3.org/1999/02/22-rdf-syntax-ns#RDF"
    separator = ""

    def start_element(self, name: str, attributes: dict[str, str]) -> None:
        self.done += 1
        if len(attributes) > MAX_ATTRIBUTES:
            raise self.malformed(self.line, f"an element has {len(attributes)} attributes")
