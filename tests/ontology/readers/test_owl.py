"""OWL in RDF/XML."""

import gzip
import re
import sys

import pytest

from spacy_krissel.errors import KrisselError, KrisselWarning
from spacy_krissel.ontology.entity import Entity
from spacy_krissel.ontology.provenance import provenance
from spacy_krissel.ontology.readers import detect_format, read_ontology
from spacy_krissel.ontology.readers.owl import read_owl

OBO = "http://purl.obolibrary.org/obo/"
# As ROBOT and OWLAPI write it.
HEAD = """<?xml version="1.0"?>
<rdf:RDF xmlns="http://purl.obolibrary.org/obo/tst.owl#"
     xml:base="http://purl.obolibrary.org/obo/tst.owl"
     xmlns:obo="http://purl.obolibrary.org/obo/"
     xmlns:owl="http://www.w3.org/2002/07/owl#"
     xmlns:rdf="http://www.w3.org/1999/02/22-rdf-syntax-ns#"
     xmlns:xml="http://www.w3.org/XML/1998/namespace"
     xmlns:rdfs="http://www.w3.org/2000/01/rdf-schema#"
     xmlns:skos="http://www.w3.org/2004/02/skos/core#"
     xmlns:terms="http://purl.org/dc/terms/"
     xmlns:oboInOwl="http://www.geneontology.org/formats/oboInOwl#">
    <owl:Ontology rdf:about="http://purl.obolibrary.org/obo/tst.owl">
        <owl:versionIRI rdf:resource="http://purl.obolibrary.org/obo/tst/releases/2026-01-01/tst.owl"/>
        <terms:license rdf:resource="https://creativecommons.org/licenses/by/4.0/"/>
        <owl:versionInfo rdf:datatype="http://www.w3.org/2001/XMLSchema#string">2026-01-01</owl:versionInfo>
        <rdfs:label>A test</rdfs:label>
    </owl:Ontology>

    <!-- http://purl.obolibrary.org/obo/IAO_0000115 -->

    <owl:AnnotationProperty rdf:about="http://purl.obolibrary.org/obo/IAO_0000115">
        <rdfs:label>definition</rdfs:label>
    </owl:AnnotationProperty>
"""
CELL = """
    <owl:Class rdf:about="http://purl.obolibrary.org/obo/TST_0000001">
        <rdfs:label>cell</rdfs:label>
    </owl:Class>
"""
NEURON = """
    <owl:Class rdf:about="http://purl.obolibrary.org/obo/TST_0000002">
        <owl:equivalentClass>
            <owl:Class>
                <owl:intersectionOf rdf:parseType="Collection">
                    <rdf:Description rdf:about="http://purl.obolibrary.org/obo/TST_0000001"/>
                </owl:intersectionOf>
                <rdfs:label>nested</rdfs:label>
            </owl:Class>
        </owl:equivalentClass>
        <rdfs:subClassOf rdf:resource="http://purl.obolibrary.org/obo/TST_0000001"/>
        <rdfs:subClassOf rdf:resource="http://www.w3.org/2002/07/owl#Thing"/>
        <rdfs:subClassOf>
            <owl:Restriction>
                <owl:onProperty rdf:resource="http://purl.obolibrary.org/obo/RO_0000052"/>
                <owl:someValuesFrom rdf:resource="http://purl.obolibrary.org/obo/TST_0000009"/>
            </owl:Restriction>
        </rdfs:subClassOf>
        <obo:IAO_0000115 xml:lang="fr">Une cellule.</obo:IAO_0000115>
        <obo:IAO_0000115>A cell that
            fires &amp; rests.</obo:IAO_0000115>
        <oboInOwl:hasAlternativeId>TST:0000008</oboInOwl:hasAlternativeId>
        <oboInOwl:hasBroadSynonym>brain cell</oboInOwl:hasBroadSynonym>
        <oboInOwl:hasDbXref>FMA:54527</oboInOwl:hasDbXref>
        <oboInOwl:hasDbXref>NCBI_TaxID:9606 ! Homo sapiens</oboInOwl:hasDbXref>
        <oboInOwl:hasExactSynonym>nerve cell</oboInOwl:hasExactSynonym>
        <oboInOwl:hasExactSynonym xml:lang="de">Nervenzelle</oboInOwl:hasExactSynonym>
        <oboInOwl:hasOBONamespace>cell</oboInOwl:hasOBONamespace>
        <oboInOwl:hasRelatedSynonym>neurocyte</oboInOwl:hasRelatedSynonym>
        <rdfs:label xml:lang="fr">neurone</rdfs:label>
        <rdfs:label xml:lang="en-GB">neuron</rdfs:label>
        <skos:altLabel>ganglion cell</skos:altLabel>
        <skos:exactMatch rdf:resource="http://id.nlm.nih.gov/mesh/D009474"/>
    </owl:Class>
    <owl:Axiom>
        <owl:annotatedSource rdf:resource="http://purl.obolibrary.org/obo/TST_0000002"/>
        <owl:annotatedTarget>nerve cell</owl:annotatedTarget>
        <oboInOwl:hasDbXref>FMA:TA</oboInOwl:hasDbXref>
    </owl:Axiom>
"""
OLD = """
    <owl:Class rdf:about="http://purl.obolibrary.org/obo/TST_0000007">
        <obo:IAO_0100001 rdf:resource="http://purl.obolibrary.org/obo/TST_0000002"/>
        <rdfs:label>obsolete neuron</rdfs:label>
        <owl:deprecated rdf:datatype="http://www.w3.org/2001/XMLSchema#boolean">true</owl:deprecated>
    </owl:Class>
"""
OTHERS = """
    <owl:Class rdf:about="http://purl.obolibrary.org/obo/RO_0000001"/>
    <owl:Class><rdfs:label>general axiom</rdfs:label><rdfs:subClassOf rdf:resource="http://x.org/a"/></owl:Class>
    <owl:NamedIndividual rdf:about="http://x.org/a"><rdfs:label>thing</rdfs:label></owl:NamedIndividual>
"""
FOUND = Entity(
    "TST:0000002",
    "neuron",
    ("nerve cell", "neurocyte", "ganglion cell"),
    ("cell",),
    (),
    "A cell that fires & rests.",
    ("FMA:54527", "mesh:D009474"),
    "Homo sapiens",
    "tst",
    ("TST:0000008", "TST:0000007"),
    ("TST:0000001",),
)
NCIT = """<?xml version="1.0"?>
<rdf:RDF xmlns="http://ncicb.nci.nih.gov/xml/owl/EVS/Thesaurus.owl#"
     xml:base="http://ncicb.nci.nih.gov/xml/owl/EVS/Thesaurus.owl"
     xmlns:owl="http://www.w3.org/2002/07/owl#" xmlns:rdf="http://www.w3.org/1999/02/22-rdf-syntax-ns#"
     xmlns:rdfs="http://www.w3.org/2000/01/rdf-schema#">
    <owl:Ontology rdf:about="http://ncicb.nci.nih.gov/xml/owl/EVS/Thesaurus.owl"/>
    <owl:Class rdf:about="http://ncicb.nci.nih.gov/xml/owl/EVS/Thesaurus.owl#C34650">
        <rdfs:subClassOf rdf:resource="http://ncicb.nci.nih.gov/xml/owl/EVS/Thesaurus.owl#C2991"/>
        <NHC0>C34650</NHC0>
        <P106>Disease or Syndrome</P106>
        <P108>Gout</P108>
        <P207>C0018099</P207>
        <P90>Gouty Arthropathy</P90>
        <P97>Urate in a joint.</P97>
        <rdfs:label>Gout</rdfs:label>
    </owl:Class>
    <owl:Axiom>
        <owl:annotatedSource rdf:resource="http://ncicb.nci.nih.gov/xml/owl/EVS/Thesaurus.owl#C34650"/>
        <owl:annotatedProperty rdf:resource="http://ncicb.nci.nih.gov/xml/owl/EVS/Thesaurus.owl#P90"/>
        <owl:annotatedTarget>Gouty Arthropathy</owl:annotatedTarget>
        <P383>SY</P383>
    </owl:Axiom>
</rdf:RDF>
"""


def whole(*classes):
    return HEAD + "".join(classes) + "</rdf:RDF>\n"


@pytest.fixture
def write(tmp_path):
    def write(text, pack=bytes):
        path = tmp_path / "tst.owl"
        path.write_bytes(pack(text.encode("utf8")))
        return path

    return write


@pytest.mark.parametrize("pack", [bytes, gzip.compress])
def test_classes_are_read_from_their_properties(write, pack):
    path = write(whole(CELL, NEURON, OLD, OTHERS), pack)
    cell = Entity("TST:0000001", "cell", source="tst")
    assert detect_format(path) == "owl"
    assert list(read_ontology(path)) == [cell, FOUND]


@pytest.mark.filterwarnings("ignore:.*KW108")
def test_class_with_deprecated_1_is_left_out(write):
    (found,) = read_owl(write(whole(CELL, OLD.replace(">true<", ">1<"))))
    assert found.id == "TST:0000001"


def test_scopes_types_and_language_apply(write):
    path = write(whole(NEURON))
    (found,) = read_owl(path, scopes=("EXACT", "BROAD"), types=("Cell",))
    assert (found.aliases, found.types) == (
        ("brain cell", "nerve cell", "ganglion cell"),
        ("Cell",),
    )
    (found,) = read_owl(path, language="fr")
    assert (
        found.name == "neurone"
        and found.definition == "Une cellule."
        and "Nervenzelle" not in found.names
    )


@pytest.mark.parametrize("is_obo", [False, True])
def test_properties_of_nci_thesaurus_are_read(write, is_obo):
    text = NCIT
    if is_obo:
        # The edition of the OBO Foundry.
        text = re.sub("http://ncicb.*?#(?=C)", f"{OBO}NCIT_", text)
        text = re.sub(r"<(/?)P(?=\d)", r"<\1obo:NCIT_P", text).replace(
            "<rdf:RDF", f'<rdf:RDF xmlns:obo="{OBO}"'
        )
    (found,) = read_owl(write(text))
    assert found == Entity(
        "NCIT:C34650",
        "Gout",
        ("Gouty Arthropathy",),
        ("Disease or Syndrome",),
        definition="Urate in a joint.",
        xrefs=("UMLS:C0018099",),
        source="Thesaurus",
        parents=("NCIT:C2991",),
    )


def test_namespace_prefixes_do_not_matter(write):
    text = """<r:RDF xmlns:r="http://www.w3.org/1999/02/22-rdf-syntax-ns#" xmlns:o="http://www.w3.org/2002/07/owl#"
    xmlns:ns1="http://www.w3.org/2000/01/rdf-schema#" >
    <r:Description r:about="http://x.org/XX_1"><r:type r:resource="http://www.w3.org/2002/07/owl#Class"/>
      <ns1:label>one</ns1:label></r:Description>
    <o:Class r:about="http://x.org/XX_2"><ns1:label>two</ns1:label><ns1:subClassOf r:resource="http://x.org/XX_1"/></o:Class>
    <r:Description r:about="http://x.org/XX_3"><ns1:label>three</ns1:label></r:Description></r:RDF>"""
    assert [(each.id, each.parents) for each in read_ontology(write(text))] == [
        ("XX:1", ()),
        ("XX:2", ("XX:1",)),
    ]


def test_class_without_an_address_is_counted(write):
    bad = '<owl:Class rdf:about=""><rdfs:label>x</rdfs:label></owl:Class>'
    with pytest.warns(KrisselWarning, match=r"KW101.*Left out 1 of 2.*line 2\d has no address"):
        assert [each.name for each in read_owl(write(whole(bad, CELL)))] == ["cell"]


@pytest.mark.parametrize(
    "text, code",
    [
        (whole(CELL, NEURON)[:-30], "K007"),
        (
            whole(CELL).replace("<rdf:RDF", '<!DOCTYPE rdf:RDF [<!ENTITY a "b">]>\n<rdf:RDF', 1),
            "K009",
        ),
        ("<other/>", "K008"),
        (whole(), "K103"),
    ],
)
def test_errors_are_coded(write, text, code):
    with pytest.raises(KrisselError, match=rf"{code}\].*tst\.owl"):
        list(read_owl(write(text)))


def test_version_and_licence_of_a_file_are_kept(write):
    (found,) = provenance(write(whole(CELL)), "auto")
    assert found["version"] == "2026-01-01"
    assert found["licence"] == "https://creativecommons.org/licenses/by/4.0/"


@pytest.mark.parametrize("format", ["turtle", "nt"])
def test_turtle_gives_the_same_entities_as_rdf_xml(tmp_path, format):
    rdflib = pytest.importorskip("rdflib")
    path = tmp_path / "tst.owl"
    path.write_text(whole(CELL, NEURON, OLD), encoding="utf8")
    turtle = tmp_path / "tst.ttl"
    rdflib.Graph().parse(str(path), format="xml").serialize(str(turtle), format=format)
    if format == "nt":
        # In any order; one that begins with a node that has no address is the hardest to tell.
        turtle.write_text("".join(sorted(turtle.read_text().splitlines(True), reverse=True)))
    assert detect_format(turtle) == "owl"
    found = {entity.id: entity for entity in read_ontology(turtle)}
    for entity in read_ontology(path):
        other = found.pop(entity.id)
        for name in ("name", "definition", "source", "types"):
            assert getattr(other, name) == getattr(entity, name)
        for name in ("aliases", "parents", "xrefs", "alt_ids"):
            assert sorted(getattr(other, name)) == sorted(getattr(entity, name))
    assert not found


def test_turtle_needs_rdflib(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "rdflib", None)
    (tmp_path / "a.ttl").write_text(
        "@prefix owl: <http://www.w3.org/2002/07/owl#> .\n<http://a.org/X_1> a owl:Class .\n"
    )
    with pytest.raises(KrisselError, match=r"K114.*spacy-krissel\[rdf\]"):
        list(read_ontology(tmp_path / "a.ttl"))
