import pytest

from spacy_krissel.errors import KrisselError, KrisselWarning
from spacy_krissel.ontology.entity import Entity
from spacy_krissel.ontology.readers import read_obo

HEADER = "format-version: 1.2\ndefault-namespace: disease_ontology\nontology: doid\n\n"
TERM = r"""[Term]
id: DOID:0001816 ! a comment
name: angiosarcoma \(vascular\)
alt_id: DOID:267
alt_id: DOID:4508
def: "A \"malignant\" tumor,\nrapid." [url:http\://example.org, PMID:1]
relationship: part_of DOID:9 ! not kept
synonym: "hemangiosarcoma" EXACT []
synonym: "AS" RELATED ABBREVIATION [PMID:2] {source="x"}
synonym: "sarcoma" BROAD []
synonym: "liver angiosarcoma" NARROW []
synonym: "vessel sarcoma" []
synonym: "hemangiosarcoma" EXACT layperson []
xref: MESH:D006394
xref: OMIM:106150\n
xref: BAMS:1028 "MB"
xref: UMLS_CUI:C0018923 {xref="url:x"}
is_a: DOID:1115 {is_inferred="true"} ! sarcoma

"""
OTHERS = """[Term]
id: DOID:2
name: obsolete thing
is_obsolete: true

[Typedef]
id: part_of
name: part of

[Term]
id: DOID:3
name: other
namespace: elsewhere
is_obsolete: false
"""


@pytest.fixture
def write(tmp_path):
    def write(text):
        path = tmp_path / "small.obo"
        path.write_text(text, encoding="utf8")
        return path

    return write


@pytest.mark.filterwarnings("error")
def test_terms(write):
    angiosarcoma, other = read_obo(write(HEADER + TERM + OTHERS))
    assert angiosarcoma == Entity(
        "DOID:0001816",
        "angiosarcoma (vascular)",
        ("hemangiosarcoma", "AS", "vessel sarcoma"),
        ("disease_ontology",),
        definition='A "malignant" tumor, rapid.',
        xrefs=("MESH:D006394", "OMIM:106150", "BAMS:1028", "UMLS_CUI:C0018923"),
        source="doid",
        alt_ids=("DOID:267", "DOID:4508"),
        parents=("DOID:1115",),
    )
    assert other == Entity("DOID:3", "other", types=("elsewhere",), source="doid")


def test_scopes_and_types_can_be_chosen(write):
    path = write(HEADER + TERM)
    (exact,) = read_obo(path, scopes=["EXACT"], types=["Disease"])
    assert exact.aliases == ("hemangiosarcoma",) and exact.types == ("Disease",)
    (broad,) = read_obo(path, scopes=["BROAD", "NARROW"])
    assert broad.aliases == ("sarcoma", "liver angiosarcoma")


def test_bad_lines_and_terms_are_not_counted(write):
    bad = "[Term]\nid: DOID:9\n\n[Term]\nname: no id\n\n"
    bad += "[Term]\nid: DOID:8\nname: kept\nnonsense\ndef: no quotes\n\n[Ter\n"
    with pytest.warns(KrisselWarning, match=r"KW101.*Left out 5 of 8.*line 24 begins a \[Term\] without name"):
        terms = list(read_obo(write(HEADER + TERM + bad + "[Term]\nid: DOID:7\nname: last\n")))
    # A broken stanza line ends nothing: what follows it still belongs to its own stanza.
    assert [term.id for term in terms] == ["DOID:0001816", "DOID:8", "DOID:7"]


@pytest.mark.parametrize(
    "text, message",
    [
        ("<?xml version='1.0'?>\n<rdf/>\n", "K103.*line 1 is no `tag: value` line"),
        (HEADER, "K103.*without a record"),
        (HEADER + TERM + '[Term]\nid: DOID:5\nname: cut\nsynonym: "cu', "K102.*line 27"),
        (HEADER + TERM + "[Term]\nid: DOID:5\nna", "K102.*line 26"),
    ],
)
def test_wrong_format_and_truncation_is_accepted(write, text, message):
    with pytest.raises(KrisselError, match=message):
        list(read_obo(write(text)))


@pytest.mark.data
@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize(
    "file, stanzas, obsolete",
    [
        ("doid_2016-09-01.obo", 9344, 2373),
        ("hp_2017-04-13.obo.gz", 12358, 132),
        ("cl-basic_2022-12-15.obo", 2804, 160),
        ("taxslim_2022-10-06.obo", 14907, 0),
    ],
)
def test_real_files(data_dir, file, stanzas, obsolete):
    terms = list(read_obo(data_dir / "ontologies" / file))
    assert len(terms) == len({term.id for term in terms}) == stanzas - obsolete


@pytest.mark.data
def test_layperson_synonyms_and_xrefs_of_hpo(data_dir):
    terms = {term.id: term for term in read_obo(data_dir / "ontologies" / "hp_2017-04-13.obo.gz")}
    assert "Abnormally shaped skull" in terms["HP:0002648"].aliases
    assert "MSH:D021782" in terms["HP:0000003"].xrefs and terms["HP:0000003"].types == ("human_phenotype",)
