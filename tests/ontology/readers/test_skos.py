"""SKOS, which rdflib reads."""

import gzip
import sys

import pytest

from spacy_krissel.errors import KrisselError, KrisselWarning
from spacy_krissel.ontology.entity import Entity
from spacy_krissel.ontology.readers import detect_format, read_ontology
from spacy_krissel.ontology.readers.skos import read_skos

TURTLE = """# A thesaurus
@prefix rdf: <http://www.w3.org/1999/02/22-rdf-syntax-ns#> .
@prefix skos: <http://www.w3.org/2004/02/skos/core#> .
@prefix owl: <http://www.w3.org/2002/07/owl#> .
@prefix t: <http://example.org/joints/> .

<http://example.org/joints> a skos:ConceptScheme ; skos:prefLabel "Joints"@en .

t:c1 a skos:Concept ;
    skos:prefLabel "Gicht"@de , "Gout"@en ;
    skos:altLabel "Podagra"@en-GB , "Zipperlein"@de , "gouty   arthritis" ;
    skos:hiddenLabel "Goot"@en ;
    skos:definition "Urat."@de , "Urate in a joint."@en ;
    skos:notation "M10" ;
    skos:broader t:c2 ;
    skos:exactMatch <http://id.nlm.nih.gov/mesh/D006073> ;
    skos:closeMatch <http://id.nlm.nih.gov/mesh/D1> ;
    skos:inScheme <http://example.org/joints> .

t:c2 a skos:Concept ; skos:prefLabel "Arthritis"@en ; skos:narrower t:c3 ; skos:inScheme <http://example.org/joints/> .
t:c3 a skos:Concept ; skos:prefLabel "Rheumatoid arthritis"@en .
t:c4 a skos:Concept ; skos:prefLabel "Old"@en ; owl:deprecated true .
t:c5 a skos:Concept ; skos:prefLabel "Nur deutsch"@de .
t:c6 skos:prefLabel "No concept"@en .
"""  # noqa: E501
FOUND = [
    Entity(
        "joints:c1",
        "Gout",
        ("Podagra", "gouty arthritis"),
        definition="Urate in a joint.",
        xrefs=("mesh:D006073",),
        source="joints",
        alt_ids=("M10",),
        parents=("joints:c2",),
    ),
    Entity("joints:c2", "Arthritis", source="joints"),
    Entity("joints:c3", "Rheumatoid arthritis", parents=("joints:c2",)),
    Entity("joints:c5", "Nur deutsch"),
]
XML = """<?xml version="1.0" encoding="UTF-8"?>
<rdf:RDF
   xmlns:owl="http://www.w3.org/2002/07/owl#"
   xmlns:rdf="http://www.w3.org/1999/02/22-rdf-syntax-ns#"
   xmlns:skos="http://www.w3.org/2004/02/skos/core#"
>
  <rdf:Description rdf:about="http://example.org/joints/c1">
    <rdf:type rdf:resource="http://www.w3.org/2004/02/skos/core#Concept"/>
    <skos:prefLabel xml:lang="de">Gicht</skos:prefLabel>
    <skos:prefLabel xml:lang="en">Gout</skos:prefLabel>
    <skos:broader>
      <skos:Concept rdf:about="http://example.org/joints/c2">
        <skos:prefLabel>Arthritis</skos:prefLabel>
      </skos:Concept>
    </skos:broader>
  </rdf:Description>
</rdf:RDF>
"""


@pytest.fixture
def write(tmp_path):
    def write(text, pack=bytes):
        path = tmp_path / "joints.rdf"
        path.write_bytes(pack(text.encode("utf8")))
        return path

    return write


@pytest.mark.parametrize("pack", [bytes, gzip.compress])
def test_concepts_in_turtle_are_read_as_written(write, pack):
    pytest.importorskip("rdflib")
    path = write(TURTLE, pack)
    assert detect_format(path) == "skos"
    with pytest.warns(
        KrisselWarning, match=r"KW109\] 1 entities.*'en'.*: de \(1\)\. The first: joints:c5"
    ):
        assert list(read_ontology(path)) == FOUND


def test_concepts_in_xml_are_read_as_written(write):
    pytest.importorskip("rdflib")
    path = write(XML)
    assert detect_format(path) == "skos"
    assert [(each.id, each.names, each.parents) for each in read_ontology(path)] == [
        ("joints:c1", ("Gout",), ("joints:c2",)),
        ("joints:c2", ("Arthritis",), ()),
    ]


@pytest.mark.parametrize(
    "line",
    [
        "<http://x.org/y/1> a <http://www.w3.org/2004/02/skos/core#Concept> .",
        "<http://x.org/y/1> <http://www.w3.org/1999/02/22-rdf-syntax-ns#type> "
        "<http://www.w3.org/2004/02/skos/core#Concept> .",
        (
            "PREFIX c: <http://www.w3.org/2004/02/skos/core#>\n<http://x.org/y/1>\n"
            "  a <http://x.org/Z>, c:Concept ."
        ),
    ],
)
def test_other_spellings_of_a_type_are_read(write, line):
    pytest.importorskip("rdflib")
    path = write(
        f'{line}\n<http://x.org/y/1> <http://www.w3.org/2004/02/skos/core#prefLabel> "one" .\n'
    )
    assert [(each.id, each.name) for each in read_ontology(path)] == [("y:1", "one")]


def test_language_and_hidden_labels_can_be_chosen(write):
    pytest.importorskip("rdflib")
    with pytest.warns(KrisselWarning, match=r"KW109\] 2 entities.*'de'.*: en \(2\)"):
        found = list(read_skos(write(TURTLE), language="de", hidden=True))
    named = [
        ("Gicht", "Zipperlein", "gouty arthritis"),
        ("Arthritis",),
        ("Rheumatoid arthritis",),
        ("Nur deutsch",),
    ]
    assert [each.names for each in found] == named
    assert found[0].definition == "Urat."
    assert "Goot" in next(read_skos(write(TURTLE), hidden=True)).aliases


def test_ids_are_independent_of_the_working_directory(write, tmp_path, monkeypatch):
    pytest.importorskip("rdflib")
    path = write(
        '@prefix s: <http://www.w3.org/2004/02/skos/core#> . <#a> a s:Concept ; s:prefLabel "one" .'
    )
    (first,) = read_skos(path)
    monkeypatch.chdir(tmp_path)
    assert first.id == next(read_skos(path)).id == "file:///joints.rdf#a"


@pytest.mark.filterwarnings("ignore:.*KW109")
def test_concept_without_an_address_is_counted(write):
    pytest.importorskip("rdflib")
    with pytest.warns(KrisselWarning, match=r"KW101.*Left out 1 of 6.*line 6 has no address"):
        assert (
            len(list(read_skos(write(TURTLE + '[] a skos:Concept ; skos:prefLabel "x" .\n')))) == 4
        )


@pytest.mark.parametrize(
    "text, code",
    [
        (
            TURTLE[:-40],
            "K102.*line 23: at line 23 of <>: Bad syntax .EOF found after object.*Expected",
        ),
        (TURTLE.replace("a skos:Concept ", "a skos:Other "), "K103"),
        (XML[:-20], "K007"),
        (XML.replace("<rdf:RDF", '<!DOCTYPE rdf:RDF [<!ENTITY a "b">]>\n<rdf:RDF', 1), "K009"),
        ("<other/>", "K008"),
    ],
)
def test_errors_are_coded(write, text, code):
    pytest.importorskip("rdflib")
    with pytest.raises(KrisselError, match=code):
        list(read_skos(write(text)))


@pytest.mark.filterwarnings("ignore:.*KW109")
def test_blank_and_control_character_names_are_left_out(write):
    pytest.importorskip("rdflib")
    more = (
        't:c7 a skos:Concept ; skos:prefLabel " "@en .\n'
        't:c8 a skos:Concept ; skos:prefLabel "a\\u0007"@en .\n'
    )
    with pytest.warns(
        KrisselWarning, match=r"KW101.*Left out 1 of 7.*holds the control character U\+0007"
    ):
        assert len(list(read_skos(write(TURTLE + more)))) == 4


def test_missing_library_raises(write, monkeypatch):
    monkeypatch.setitem(sys.modules, "rdflib", None)
    with pytest.raises(
        KrisselError, match=r"K114.*joints\.rdf.*pip install 'spacy-krissel\[rdf\]'"
    ):
        list(read_ontology(write(TURTLE)))
