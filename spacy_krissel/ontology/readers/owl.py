"""OWL in RDF/XML, in the flat layout of OWLAPI (ROBOT, Protégé): classes with their properties, one after another.

Not read by rdflib, which holds the graph: 16 KiB per class of HPO, and seven times the time of this stream, which holds
one class (`benchmarks/reader_peers.py`).
"""

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from ...util.xml_files import XmlHandler, feed
from ..entity import Entity
from .obo import SCOPES
from .records import TAXON_XREF, BadRecord, RecordFile, Start, curie, open_records, species_name, unique

_RDF = "http://www.w3.org/1999/02/22-rdf-syntax-ns#"
_RDFS = "http://www.w3.org/2000/01/rdf-schema#"
_OWL = "http://www.w3.org/2002/07/owl#"
_SKOS = "http://www.w3.org/2004/02/skos/core#"
_OBO = "http://purl.obolibrary.org/obo/"
_OBO_IN_OWL = "http://www.geneontology.org/formats/oboInOwl#"
_EFO = "http://www.ebi.ac.uk/efo/"
_XML = "http://www.w3.org/XML/1998/namespace"
_THING = f"{_OWL}Thing"
# What a property states; for synonyms, their scope as OBO calls it.
PROPERTIES = {
    f"{_RDFS}label": "label",
    f"{_SKOS}prefLabel": "label",
    f"{_OBO_IN_OWL}hasExactSynonym": "EXACT",
    f"{_OBO_IN_OWL}hasRelatedSynonym": "RELATED",
    f"{_OBO_IN_OWL}hasBroadSynonym": "BROAD",
    f"{_OBO_IN_OWL}hasNarrowSynonym": "NARROW",
    f"{_SKOS}altLabel": "name",
    f"{_OBO}IAO_0000118": "name",
    f"{_EFO}alternative_term": "name",
    f"{_OBO}IAO_0000115": "definition",
    f"{_SKOS}definition": "definition",
    f"{_EFO}definition": "definition",
    f"{_OBO_IN_OWL}hasOBONamespace": "namespace",
    f"{_OBO_IN_OWL}hasDbXref": "xref",
    f"{_SKOS}exactMatch": "match",
    f"{_OBO_IN_OWL}hasAlternativeId": "alt_id",
    f"{_OBO}IAO_0100001": "replaced_by",
    f"{_RDFS}subClassOf": "parent",
    f"{_OWL}deprecated": "deprecated",
    f"{_RDF}type": "kind",
}
# NCI Thesaurus numbers its properties: Preferred_Name, FULL_SYN, DEFINITION, Semantic_Type, UMLS_CUI.
_NUMBERED = {"P108": "name", "P90": "name", "P97": "definition", "P106": "type", "P207": "umls"}
for _base in ("http://ncicb.nci.nih.gov/xml/owl/EVS/Thesaurus.owl#", f"{_OBO}NCIT_"):
    PROPERTIES |= {f"{_base}{number}": role for number, role in _NUMBERED.items()}
EXPECTED = "RDF/XML, `<rdf:RDF>` with `<owl:Class rdf:about=…>` directly below it"


class Statement(NamedTuple):
    """role: one of `PROPERTIES`' values. text: on one line, or an address. language: "" where none is stated."""

    role: str
    text: str
    language: str


_IS_CLASS = Statement("kind", f"{_OWL}Class", "")
# A class's address, its first line, and what is stated of it.
Class = tuple[str, int, list[Statement]]


def read_owl(
    path: str | Path, *, scopes: Sequence[str] = SCOPES, types: Sequence[str] | None = None, language: str = "en"
) -> Iterator[Entity]:
    """Read the classes of an OWL file that are not deprecated and have a label.

    Names are labels, synonyms, alternative terms, and FULL_SYN of NCI Thesaurus. Parents are named superclasses. Ids
    are `CL:0000540` in the place of an address that ends in `CL_0000540`. Alternative ids are those stated, and the
    deprecated classes that a class replaces, for which the file is read twice.

    scopes: which synonyms become aliases, as `read_obo` takes them.
    types: given to every class. Without it, a class's types are its OBO namespace, or semantic types of NCI Thesaurus.
    language: names and definitions in other languages are left out; those without a language are taken.
    Raises KrisselError K007 (truncated or malformed XML), K008 (other XML), K009 (entity declarations).
    """
    with open_records(path, "owl", EXPECTED) as records:
        replaced: dict[str, list[str]] = defaultdict(list)
        for iri, _, statements in _classes(records, _Classes(str(path))):
            for statement in statements:
                if statement.role == "replaced_by":
                    replaced[curie(statement.text)].append(curie(iri))
        records.file.rewind()
        handler = _Classes(str(path))

        def parse(found: Class) -> Entity | None:
            return _to_entity(found, handler.source, replaced, scopes, types, language)

        yield from records.parsed(_classes(records, handler), parse)


def is_owl(start: Start) -> bool:
    return start.first.startswith("<") and _OWL in start.text and ":RDF" in start.text


def is_language(found: str, wanted: str) -> bool:
    """Whether a text is in no language, or in the wanted one: `en-GB` is taken for `en`."""
    return not found or found.lower().split("-")[0] == wanted.lower()


def _classes(records: RecordFile, handler: "_Classes") -> Iterator[Class]:
    for _ in feed(records.file, handler):
        found, handler.found = handler.found, []
        for each in found:
            records.start = each[1]
            yield each


def _to_entity(
    found: Class,
    source: str,
    replaced: Mapping[str, list[str]],
    scopes: Sequence[str],
    types: Sequence[str] | None,
    language: str,
) -> Entity | None:
    iri, _, statements = found
    parts: dict[str, list[str]] = defaultdict(list)
    for role, text, its_language in statements:
        if is_language(its_language, language):
            parts["name" if role in scopes else role].append(text)
    if not parts["label"] or "true" in parts["deprecated"]:
        return None
    if not iri:
        raise BadRecord("begins a class with an empty address")
    id_, (name, *labels) = curie(iri), parts["label"]
    xrefs = [*parts["xref"], *map(curie, parts["match"]), *(f"UMLS:{cui}" for cui in parts["umls"])]
    if types is None:
        types = [*parts["namespace"][:1], *parts["type"]]
    return Entity(
        id=id_,
        name=name,
        aliases=unique([*labels, *parts["name"]], without=name),
        types=unique(types),
        definition="".join(parts["definition"][:1]),
        xrefs=unique(xref for xref in xrefs if not xref.startswith(TAXON_XREF)),
        species=species_name(xref for xref in xrefs if xref.startswith(TAXON_XREF)),
        source=source,
        alt_ids=unique([*map(curie, parts["alt_id"]), *replaced.get(id_, ())], without=id_),
        parents=unique((curie(parent) for parent in parts["parent"] if parent != _THING), without=id_),
    )


class _Classes(XmlHandler):
    """Collects the classes of a file. source: the last part of the ontology's address."""

    kind = "OWL"
    root = f"{_RDF}RDF"
    # Names are whole addresses: files choose their own prefixes.
    separator = ""
    texts = frozenset(PROPERTIES)

    def __init__(self, path: str) -> None:
        super().__init__(path)
        self.found: list[Class] = []
        self.source = self._base = self._language = ""
        self._iri: str | None = None
        self._line = 0
        self._statements: list[Statement] = []

    def start(self, name: str, attrs: dict[str, str]) -> None:
        depth = len(self._stack)
        if depth == 1:
            self._base = attrs.get(f"{_XML}base", "")
        elif depth == 2:
            local = attrs.get(f"{_RDF}ID")
            self._iri = self._address(attrs.get(f"{_RDF}about") if local is None else f"#{local}")
            self._line, self._statements = self.line, [Statement("kind", name, "")]
            if name == f"{_OWL}Ontology" and self._iri:
                self.source = re.split("[/#]", self._iri)[-1].removesuffix(".owl")
        elif depth == 3 and name in PROPERTIES:
            self._language = attrs.get(f"{_XML}lang", "")
            if address := self._address(attrs.get(f"{_RDF}resource")):
                self._statements.append(Statement(PROPERTIES[name], address, ""))

    def end(self, name: str, parent: str, text: str) -> None:
        depth = len(self._stack)
        if depth == 2 and name in PROPERTIES and (text := " ".join(text.split())):
            self._statements.append(Statement(PROPERTIES[name], text, self._language))
        elif depth == 1:
            self.done += 1
            # A class without an address is a general axiom.
            if self._iri is not None and _IS_CLASS in self._statements:
                self.found.append((self._iri, self._line, self._statements))

    def _address(self, text: str | None) -> str | None:
        return f"{self._base}{text}" if text and text.startswith("#") else text
