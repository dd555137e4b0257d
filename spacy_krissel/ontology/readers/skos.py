"""SKOS: the concepts of a thesaurus in RDF/XML or Turtle, read by the library rdflib
(the extra `rdf`).
"""

import re
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from ..entity import Entity
from .graphs import Parts, nodes, read_graph
from .languages import Languages
from .owl import PROPERTIES, SKOS, add_replaced, to_entity
from .records import FileHead, RecordFile, open_records
from .replaced import Replaced

_CONCEPT = re.compile(
    # An element, a type in Turtle, or an IRI, as in both.
    r"(?:<(?:\w+:)?|\s(?:a|rdf:type)\s+(?:[^\s,;]+\s*,\s*)*\w*:|(?:resource=[\"']|<)"
    + re.escape(SKOS)
    + r")"
    r"Concept(?:Scheme)?\b"
)


def read_skos(path: str | Path, *, hidden: bool = False, language: str = "en") -> Iterator[Entity]:
    """Read the concepts of a SKOS file that are not deprecated and have a preferred label.

    Names are preferred and alternative labels. Parents are broader concepts, and concepts that
    state a narrower one; cross-references are exact matches. Alternative ids are notations, and the
    deprecated concepts that a concept replaces, as stated by either (`Replaced`). An IRI that ends
    in `mesh/D006073` becomes the id `mesh:D006073`; the source is the end of the scheme's IRI.

    All triples are held in memory, 1.4 KiB each: 14 KiB and 0.3 ms of CPU for a concept with ten.

    hidden: hidden labels, such as misspellings, are names, too.
    language: labels and definitions in other languages are left out, unless a concept has no
        preferred label in it (`Languages`); those without a language are read.

    Warns KW108 about deprecated concepts without a replacement, KW109 about concepts without a
    label in the language. KW101 counts concepts, not lines. Raises KrisselError K055 (too large),
    K102 (damaged Turtle), K114 (no rdflib); K007 (damaged XML), K008, K009.
    """
    roles = {
        f"{SKOS}broader": "parent",
        f"{SKOS}notation": "alt_id",
        f"{SKOS}inScheme": "source",
        **PROPERTIES,
    }
    roles |= {f"{SKOS}hiddenLabel": "name"} if hidden else {}
    with open_records(path, "skos", "RDF/XML or Turtle with concepts of SKOS") as records:
        graph = read_graph(records)
        replaced, languages = Replaced(records.path), Languages(records.path, language)
        for parts in _concepts(records, graph, roles, languages.key):
            add_replaced(replaced, parts)
        concepts = _concepts(records, graph, roles, languages.key)
        yield from records.parsed(concepts, partial(to_entity, replaced, languages, ()))
        replaced.finish()
        languages.finish()


def is_skos(start: FileHead) -> bool:
    return SKOS in start.text and _CONCEPT.search(start.text) is not None


def _concepts(
    records: RecordFile, graph: Any, roles: Mapping[str, str], key: Callable[[str], str]
) -> Iterator[Parts]:
    from rdflib import BNode, URIRef

    for parts in nodes(records, graph, f"{SKOS}Concept", roles, key):
        above = graph.subjects(URIRef(f"{SKOS}narrower"), URIRef(parts["id"][0]))
        parts["parent"] += (str(each) for each in above if not isinstance(each, BNode))
        parts["source"] = [
            re.split("[/#]", scheme.rstrip("/#"))[-1] for scheme in (*parts["source"], "")
        ]
        yield parts
