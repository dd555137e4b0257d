"""MeSH's XML."""

import gzip

import pytest

from spacy_krissel.errors import KrisselError, KrisselWarning
from spacy_krissel.ontology.entity import Entity
from spacy_krissel.ontology.readers import detect_format, read_ontology
from spacy_krissel.ontology.readers.mesh import read_mesh_xml

HEAD = (
    '<?xml version="1.0"?>\n<!DOCTYPE {root} SYSTEM "https://www.nlm.nih.gov/x.dtd">\n'
    '<{root} LanguageCode="eng">\n'
)
RECORD = """
<DescriptorRecord DescriptorClass="1">
 <DescriptorUI>D006073</DescriptorUI>
 <DescriptorName><String>Gout</String></DescriptorName>
 <SeeRelatedList><SeeRelatedDescriptor><DescriptorReferredTo>
  <DescriptorUI>D014527</DescriptorUI><DescriptorName><String>Uric Acid</String></DescriptorName>
 </DescriptorReferredTo></SeeRelatedDescriptor></SeeRelatedList>
 <TreeNumberList><TreeNumber>C05.550.354.500</TreeNumber><TreeNumber>C16.320.565</TreeNumber></TreeNumberList>
 <ConceptList>
  <Concept PreferredConceptYN="N"><ConceptName><String>Tophus</String></ConceptName><ScopeNote>A lump.</ScopeNote>
   <TermList><Term><TermUI>T2</TermUI><String>Tophi &amp; Tophus</String></Term></TermList></Concept>
  <Concept PreferredConceptYN="Y"><ConceptName><String>Gout</String></ConceptName>
   <ScopeNote>Urate
     crystals. </ScopeNote>
   <TermList><Term><String>Gout</String></Term><Term><String>Podagra</String></Term></TermList></Concept>
 </ConceptList>
</DescriptorRecord>
"""  # noqa: E501
SUPPLEMENT = """
<SupplementalRecord SCRClass="3">
 <SupplementalRecordUI>C536280</SupplementalRecordUI>
 <SupplementalRecordName><String>Gout, HPRT-related</String></SupplementalRecordName>
 <Note>Kelley.</Note>
 <HeadingMappedToList><HeadingMappedTo><DescriptorReferredTo><DescriptorUI>*D006073</DescriptorUI>
  <DescriptorName><String>Gout</String></DescriptorName></DescriptorReferredTo></HeadingMappedTo></HeadingMappedToList>
 <ConceptList><Concept PreferredConceptYN="Y"><TermList><Term><String>HPRT deficiency</String></Term></TermList>
 </Concept></ConceptList>
</SupplementalRecord>
"""  # noqa: E501
GOUT = Entity(
    "D006073",
    "Gout",
    ("Tophi & Tophus", "Podagra"),
    ("Diseases",),
    ("C05.550.354.500", "C16.320.565"),
    "Urate crystals.",
    source="MeSH",
)


def whole(*records, root="DescriptorRecordSet"):
    return HEAD.replace("{root}", root) + "".join(records) + f"</{root}>\n"


@pytest.fixture
def write(tmp_path):
    def write(text, pack=bytes):
        path = tmp_path / "desc.xml"
        path.write_bytes(pack(text.encode("utf8")))
        return path

    return write


@pytest.mark.parametrize("pack", [bytes, gzip.compress])
def test_descriptors_are_read(write, pack):
    path = write(whole(RECORD), pack)
    assert list(read_mesh_xml(path)) == [GOUT]
    assert detect_format(path) == "mesh-xml" and list(read_ontology(path)) == [GOUT]


def test_supplementary_records_are_read(write):
    path = write(whole(SUPPLEMENT, root="SupplementalRecordSet"))
    (found,) = read_ontology(path)
    assert found == Entity(
        "C536280",
        "Gout, HPRT-related",
        ("HPRT deficiency",),
        ("Disease",),
        definition="Kelley.",
        source="MeSH",
    )


def test_nothing_of_one_record_is_left_in_the_next(write):
    bare = (
        "<DescriptorRecord><DescriptorUI>D1</DescriptorUI><DescriptorName><String>One</String>"
        "</DescriptorName>"
    )
    path = write(whole(RECORD, f"{bare}</DescriptorRecord>"))
    assert list(read_mesh_xml(path)) == [GOUT, Entity("D1", "One", source="MeSH")]


def test_records_are_read_as_a_stream(write):
    stream = read_mesh_xml(write(whole(*(RECORD.replace("D006073", f"D{i}") for i in range(2000)))))
    assert next(stream).id == "D0" and sum(1 for _ in stream) == 1999


def test_bad_records_are_counted(write):
    bad = "<DescriptorRecord><DescriptorUI> </DescriptorUI></DescriptorRecord>\n<DescriptorRecord/>"
    with pytest.warns(
        KrisselWarning, match=r"KW101.*Left out 2 of 3.*begins a record without an id"
    ):
        assert list(read_mesh_xml(write(whole(bad, RECORD)))) == [GOUT]


@pytest.mark.parametrize(
    "text, code",
    [
        (whole(RECORD)[:400], "K007"),
        (whole(RECORD).replace("?>", '?>\n<!DOCTYPE x [<!ENTITY a "b">]>', 1), "K00[79]"),
        ("<other/>", "K103"),
        ("<x><DescriptorRecordSet/></x>", "K008"),
        (whole(), "K103"),
    ],
)
def test_errors_are_coded(write, text, code):
    with pytest.raises(KrisselError, match=rf"{code}\].*desc\.xml"):
        list(read_mesh_xml(write(text)))


def test_damaged_archive_raises(write):
    path = write(whole(RECORD, SUPPLEMENT), lambda data: gzip.compress(data)[:-40])
    with pytest.raises(KrisselError, match=r"K[10]0[27]\]"):
        list(read_mesh_xml(path))
