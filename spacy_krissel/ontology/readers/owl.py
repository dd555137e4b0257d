"""OWL in Turtle, read by rdflib, and in RDF/XML, in the flat layout of OWLAPI (ROBOT, Protégé):
classes with their properties, one after another.

RDF/XML is not read by rdflib, which holds the graph: 16 KiB per class of HPO. This stream holds one
class and takes a seventh of the time (`benchmarks/reader_peers.py`).
"""

import re
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from ...util.xml_files import XmlHandler
from ..entity import Entity
from .graphs import IN_LANGUAGES, TURTLE, Parts, add_text, is_xml, nodes, read_graph
from .languages import Languages
from .obo import SCOPES
from .records import (
    TAXON_XREF,
    BadRecord,
    FileHead,
    RecordFile,
    curie,
    open_records,
    require_storable,
    species_name,
    unique,
    xml_records,
)
from .replaced import Replaced

_RDF = "http://www.w3.org/1999/02/22-rdf-syntax-ns#"
_RDFS = "http://www.w3.org/2000/01/rdf-schema#"
_OWL = "http://www.w3.org/2002/07/owl#"
SKOS = "http://www.w3.org/2004/02/skos/core#"
_OBO = "http://purl.obolibrary.org/obo/"
_OBO_IN_OWL = "http://www.geneontology.org/formats/oboInOwl#"
_EFO = "http://www.ebi.ac.uk/efo/"
_DCTERMS = "http://purl.org/dc/terms/"
_XML = "http://www.w3.org/XML/1998/namespace"
# Roles of properties; for synonyms, their scope under its OBO name.
PROPERTIES = {
    f"{_RDFS}label": "label",
    f"{SKOS}prefLabel": "label",
    **{
        f"{_OBO_IN_OWL}has{scope.title()}Synonym": scope
        for scope in ("EXACT", "RELATED", "BROAD", "NARROW")
    },
    f"{SKOS}altLabel": "name",
    f"{_OBO}IAO_0000118": "name",
    f"{_EFO}alternative_term": "name",
    f"{_OBO}IAO_0000115": "definition",
    f"{SKOS}definition": "definition",
    f"{_EFO}definition": "definition",
    f"{_OBO_IN_OWL}hasOBONamespace": "namespace",
    f"{_OBO_IN_OWL}hasDbXref": "xref",
    f"{SKOS}exactMatch": "match",
    f"{_OBO_IN_OWL}hasAlternativeId": "alt_id",
    f"{_OBO}IAO_0100001": "replaced_by",
    f"{_DCTERMS}isReplacedBy": "replaced_by",
    f"{_OBO_IN_OWL}consider": "consider",
    f"{_DCTERMS}replaces": "replaces",
    f"{_RDFS}subClassOf": "parent",
    f"{_OWL}deprecated": "deprecated",
    f"{_RDF}type": "kind",
}
# NCI Thesaurus numbers its properties: Preferred_Name, FULL_SYN, DEFINITION, Semantic_Type,
# UMLS_CUI.
_NUMBERED = {"P108": "name", "P90": "name", "P97": "definition", "P106": "type", "P207": "umls"}
for _base in ("http://ncicb.nci.nih.gov/xml/owl/EVS/Thesaurus.owl#", f"{_OBO}NCIT_"):
    PROPERTIES |= {f"{_base}{number}": role for number, role in _NUMBERED.items()}


def read_owl(
    path: str | Path,
    *,
    scopes: Sequence[str] = SCOPES,
    types: Sequence[str] | None = None,
    language: str = "en",
) -> Iterator[Entity]:
    """Read the classes of an OWL file that are not deprecated and have a label.

    Names are labels, synonyms, alternative terms, and FULL_SYN of NCI Thesaurus. Parents are named
    superclasses. An IRI that ends in `CL_0000540` becomes the id `CL:0000540`. Alternative ids are
    those stated, and the deprecated classes that a class replaces (`Replaced`), which requires a
    second pass over the file. All triples of a Turtle file are held in memory.

    scopes: the scopes of synonyms that become aliases, as in `read_obo`.
    types: given to every class; default: its OBO namespace, or semantic types of NCI Thesaurus.
    language: names and definitions in other languages are left out, unless a class has no label in
        it (`Languages`); those without a language are read.

    Warns KW108 about deprecated classes without a replacement, KW109 about classes without a label
    in the language. Raises KrisselError K007 (truncated or malformed XML), K008 (other XML), K009
    (entity declarations), and for Turtle what `read_graph` raises.
    """
    roles = {property: "name" if role in scopes else role for property, role in PROPERTIES.items()}
    expected = "Turtle, or RDF/XML with `<owl:Class rdf:about=…>` directly below its root"
    with open_records(path, "owl", expected) as records:
        replaced, languages = Replaced(records.path), Languages(records.path, language)
        graph = None if is_xml(records) else read_graph(records)

        def classes() -> Iterator[Parts]:
            if graph is not None:
                return _of_graph(records, graph, roles, languages.key)
            records.file.rewind()
            return xml_records(records, _Classes(str(path), roles, languages.key))

        for parts in classes():
            add_replaced(replaced, parts)
        yield from records.parsed(classes(), partial(to_entity, replaced, languages, types))
        replaced.finish()
        languages.finish()


def is_owl(start: FileHead) -> bool:
    in_xml = start.first.startswith("<") and ":RDF" in start.text
    return _OWL in start.text and (in_xml or TURTLE.match(start.first) is not None)


def _of_graph(
    records: RecordFile, graph: Any, roles: Mapping[str, str], key: Callable[[str], str]
) -> Iterator[Parts]:
    sources = [_source(each["id"][0]) for each in nodes(records, graph, f"{_OWL}Ontology", {}, key)]
    for parts in nodes(records, graph, f"{_OWL}Class", roles, key):
        # A class without an IRI is a general axiom.
        if parts["id"][0]:
            parts["source"] = sources[:1] or [""]
            yield parts


def _source(address: str) -> str:
    return re.split("[/#]", address.rstrip("/#"))[-1].removesuffix(".owl")


def add_replaced(replaced: Replaced, parts: Parts) -> None:
    """Add the stated replacements of a deprecated class or concept, and the ids that it
    replaces."""
    id_ = curie(parts["id"][0])
    if parts["replaces"]:
        replaced.add_older(id_, map(curie, parts["replaces"]))
    if _is_deprecated(parts):
        roles = ("replaced_by", "consider", "alt_id")
        replaced.add(id_, *([*map(curie, parts[role])] for role in roles))
    elif _labelled(parts):
        replaced.add_present((id_, *map(curie, parts["alt_id"])))


def _labelled(parts: Parts) -> list[str]:
    """Return the languages of the labels."""
    return [
        language for role, _, language in (key.partition("@") for key in parts) if role == "label"
    ]


def _is_deprecated(parts: Parts) -> bool:
    # Both values mean true in XML Schema.
    return not {"true", "1"}.isdisjoint(parts["deprecated"])


def to_entity(
    replaced: Replaced, languages: Languages, types: Sequence[str] | None, parts: Parts
) -> Entity | None:
    """Return the entity of a class or concept; None if it has no label or is deprecated.

    Raises `BadRecord` for an empty IRI.
    """
    labelled = _labelled(parts)
    if not labelled or _is_deprecated(parts):
        return None
    if not parts["id"][0]:
        raise BadRecord("has no address")
    id_ = curie(parts["id"][0])
    order = languages.order(id_, labelled)
    (name, *labels), names, definitions = (
        [text for language in order for text in parts.get(f"{role}@{language}", ())]
        for role in IN_LANGUAGES
    )
    xrefs = [*parts["xref"], *map(curie, parts["match"]), *(f"UMLS:{cui}" for cui in parts["umls"])]
    entity = Entity(
        id=id_,
        name=name,
        aliases=unique([*labels, *names], without=name),
        types=unique([*parts["namespace"][:1], *parts["type"]] if types is None else types),
        definition="".join(definitions[:1]),
        xrefs=unique(xref for xref in xrefs if not xref.startswith(TAXON_XREF)),
        species=species_name(xref for xref in xrefs if xref.startswith(TAXON_XREF)),
        source=parts["source"][0],
        alt_ids=replaced.alt_ids(id_, [*map(curie, parts["alt_id"])]),
        parents=unique(
            (curie(parent) for parent in parts["parent"] if parent != f"{_OWL}Thing"), without=id_
        ),
    )
    return require_storable(entity)


class _Classes(XmlHandler):
    """Collects the classes of a file, each with its first line."""

    kind = "OWL"
    root = f"{_RDF}RDF"
    # Names are full IRIs, since files choose their own prefixes.
    separator = ""
    texts = frozenset(PROPERTIES)

    def __init__(self, path: str, roles: Mapping[str, str], key: Callable[[str], str]) -> None:
        super().__init__(path)
        self.found: list[tuple[int, Parts]] = []
        self._roles, self._key, self._source = roles, key, ""

    def start(self, name: str, attrs: dict[str, str]) -> None:
        depth = len(self._stack)
        if depth == 2:
            self._line = self.line
            self._parts = defaultdict(list, {"kind": [name], "source": [self._source]})
            if (address := attrs.get(f"{_RDF}about")) is not None:
                self._parts["id"] = [address]
        elif depth == 3 and name in self._roles:
            self._language = attrs.get(f"{_XML}lang", "")
            if address := attrs.get(f"{_RDF}resource"):
                self._parts[self._roles[name]].append(address)

    def end(self, name: str, parent: str, text: str) -> None:
        depth = len(self._stack)
        if depth == 2 and name in self._roles and (text := " ".join(text.split())):
            add_text(self._parts, self._roles[name], text, self._key(self._language))
        elif depth == 1:
            self.done += 1
            # A class without an IRI is a general axiom.
            if self._parts["id"] and f"{_OWL}Class" in self._parts["kind"]:
                self.found.append((self._line, self._parts))
            elif name == f"{_OWL}Ontology" and self._parts["id"]:
                self._source = _source(self._parts["id"][0])
