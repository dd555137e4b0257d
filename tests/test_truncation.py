"""Files cut at any place: a last record that differs from the whole file's is an error or a
warning, never silent."""

import gzip
import json
import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

import pytest
from lab.data.lay_names import read_lay_names

from spacy_krissel.corpora.readers import READERS as CORPORA
from spacy_krissel.corpora.readers.brat import read_brat
from spacy_krissel.corpora.readers.text_labels import read_text_labels
from spacy_krissel.corpora.text_stream import read_texts
from spacy_krissel.errors import KrisselError, KrisselWarning
from spacy_krissel.ontology.readers import READERS as ONTOLOGIES

CUTS = 200


class Format(NamedTuple):
    """records: lines, or blocks of lines. several: one record has several lines, and a cut between
    two is not seen."""

    name: str
    content: str
    read: Callable[[Any], Any]
    several: bool = False
    suffix: str = ".txt"


def lines(template: str, count: int = 6) -> str:
    return "".join(template.replace("{i}", str(i)) + "\n" for i in range(1, count + 1))


def ontology(name: str, content: str, **options: Any) -> Format:
    return Format(f"ontology {name}", content, ONTOLOGIES[name], **options)


def corpus(name: str, content: str, **options: Any) -> Format:
    return Format(f"corpus {name}", content, CORPORA[name], **options)


GENE_COLUMNS = (
    "#tax_id GeneID Symbol dbXrefs Symbol_from_nomenclature_authority "
    "Full_name_from_nomenclature_authority description Synonyms Other_designations"
)
DESCRIPTOR = """<DescriptorRecord><DescriptorUI>D{i}</DescriptorUI><DescriptorName><String>Name {i}</String>
</DescriptorName></DescriptorRecord>"""  # noqa: E501
DIAG = (
    "<diag><name>A0{i}</name><desc>Name {i}</desc><diag><name>A0{i}.1</name><desc>Name "
    "{i}</desc></diag></diag>"
)
OWL_CLASS = """<owl:Class rdf:about="http://x.org/XX_{i}"><rdfs:label>Name {i}</rdfs:label>
<rdfs:subClassOf rdf:resource="http://x.org/XX_1"/></owl:Class>"""
OWL_HEAD = """<rdf:RDF xmlns:rdf="http://www.w3.org/1999/02/22-rdf-syntax-ns#" xmlns:owl="http://www.w3.org/2002/07/owl#"
xmlns:rdfs="http://www.w3.org/2000/01/rdf-schema#">
"""
DOCUMENT = """<document><id>{i}</id><passage><offset>0</offset><text>Some pain {i}</text><annotation>
<infon key="identifier">D{i}</infon><location offset="5" length="4"/><text>pain</text></annotation></passage>
</document>"""  # noqa: E501
ARTICLE = """<PubmedArticle><MedlineCitation><PMID>{i}</PMID><Article><ArticleTitle>Title {i}.</ArticleTitle>
</Article></MedlineCitation></PubmedArticle>"""  # noqa: E501
FORMATS: list[Format] = [
    ontology("medic", lines("D00{i}|MESH:1{i}||Name of {i}|Synonym of {i}|Other {i}")),
    ontology(
        "obo",
        "format-version: 1.2\n\n"
        + lines(
            '[Term]\nid: X:{i}\nname: name {i}\nsynonym: "synonym {i}" EXACT []\nxref: UMLS:C{i}\n'
        ),
        several=True,
    ),
    ontology(
        "jsonl",
        lines(
            json.dumps(
                {"concept_id": "C{i}", "canonical_name": "Name {i}", "aliases": ["a {i}", "b {i}"]}
            )
        ),
    ),
    ontology(
        "mesh",
        "DescriptorUI\tTermName\tRecordPreferredTermYN\n"
        + lines("D{i}\tName {i}\tY\nD{i}\tOther {i}\tN"),
        several=True,
    ),
    ontology(
        "mesh-tree",
        "DescriptorUI\tDescriptorName\ttree_location\n"
        + lines("D{i}\tName {i}\tC01.{i}10\nD{i}\tName {i}\tC02.{i}20"),
        several=True,
    ),
    ontology("phrases", lines("C{i}\tName {i}\tphrase {i}")),
    ontology(
        "zeshel",
        lines(json.dumps({"document_id": "A{i}", "title": "Title {i}", "text": "Text of {i}"})),
    ),
    ontology(
        "gene-info",
        GENE_COLUMNS.replace(" ", "\t")
        + "\n"
        + lines("9606\t{i}\tG{i}\t-\tG{i}\tgene {i}\tgene {i}\tS{i}|T{i}\tO{i}"),
    ),
    ontology(
        "taxonomy",
        lines("{i}\t|\tTaxon {i}\t|\t\t|\tscientific name\t|\n{i}\t|\tTax {i}\t|\t\t|\tsynonym\t|"),
        several=True,
    ),
    ontology(
        "cellosaurus",
        lines(
            "ID   Line {i}\nAC   CVCL_000{i}\nSY   L{i}; L-{i}\nOX   NCBI_TaxID=9606; ! Human\n//"
        ),
    ),
    ontology(
        "table",
        "id,name,synonyms,definition\n" + lines("X:{i},Name {i},a {i}|b {i},Text of {i}."),
        several=True,
    ),
    ontology(
        "medcat", "cui,name,name_status,description\n" + lines("C{i},name {i},P,text"), several=True
    ),
    ontology(
        "ssslm",
        "text\tcurie\tname\tpredicate\tsource\n"
        + lines("a {i}\tX:{i}\tName {i}\toboInOwl:hasExactSynonym\tX"),
        several=True,
    ),
    ontology(
        "babelon",
        "subject_id\tpredicate_id\ttranslation_value\n" + lines("X:{i}\trdfs:label\tNom {i}"),
        several=True,
    ),
    ontology("cellosaurus-tsv", lines("Line {i}\tCVCL_000{i}\tHomo sapiens"), several=True),
    ontology(
        "ctd",
        "# DiseaseName\tDiseaseID\tAltDiseaseIDs\tDefinition\tTreeNumbers\tSynonyms\n"
        + lines("Name {i}\tMESH:D{i}\tDO:DOID:{i}\tA definition\tC01.{i}\tSynonym {i}|Other {i}"),
    ),
    ontology(
        "umls",
        lines("C000000{i}|ENG|P|L1|PF|S{i}|Y|A{i}||||SNOMEDCT_US|PT|C1|name {i}|0|N||"),
    ),
    ontology("rxnorm", lines("{i}|ENG||||||A{i}||{i}||RXNORM|IN|{i}|name {i}||N||")),
    ontology(
        "obographs",
        json.dumps(
            {
                "graphs": [
                    {
                        "nodes": [
                            {"id": f"X_{i}", "lbl": f"name {i}", "type": "CLASS"} for i in range(6)
                        ]
                    }
                ]
            }
        ),
    ),
    ontology("mesh-xml", "<DescriptorRecordSet>\n" + lines(DESCRIPTOR) + "</DescriptorRecordSet>"),
    ontology(
        "fhir",
        json.dumps(
            {
                "resourceType": "CodeSystem",
                "concept": [{"code": f"{i}", "display": f"a {i}"} for i in range(6)],
            }
        ),
    ),
    ontology("icd10cm", "<ICD10CM.tabular>\n" + lines(DIAG) + "</ICD10CM.tabular>"),
    ontology(
        "skos",
        '<rdf:RDF xmlns:rdf="http://www.w3.org/1999/02/22-rdf-syntax-ns#"\n'
        ' xmlns:skos="http://www.w3.org/2004/02/skos/core#">\n'
        + lines(
            '<skos:Concept rdf:about="http://x.org/{i}"><skos:prefLabel>a '
            "{i}</skos:prefLabel></skos:Concept>"
        )
        + "</rdf:RDF>",
    ),
    ontology("owl", OWL_HEAD + lines(OWL_CLASS) + "</rdf:RDF>"),
    corpus(
        "pubtator",
        lines(
            "{i}|t|Title of {i}\n{i}|a|Abstract {i}.\n"
            "{i}\t0\t5\tTitle\tDisease\tMESH:D{i}\n{i}\t9\t10\t{i}\tGene\t77{i}\n"
        ),
        several=True,
    ),
    corpus("phrases", lines("C{i}\tName {i}\tphrase {i}")),
    corpus("bioc", "<collection>\n" + lines(DOCUMENT) + "</collection>"),
    Format(
        "text labels",
        lines(json.dumps({"id": "{i}", "text": "Pain {i}", "entities": [{"id": "C{i}"}]})),
        read_text_labels,
    ),
    Format(
        "lay names",
        lines("HP:000000{i}\tterm {i}\tlay name {i}"),
        lambda path: read_lay_names(path).items(),
    ),
    Format("plain texts", lines("A paragraph of text {i}."), read_texts),
    Format(
        "JSONL texts",
        lines(json.dumps({"id": "{i}", "text": "Some text {i}"})),
        read_texts,
        suffix=".jsonl",
    ),
    Format(
        "PubMed",
        "<PubmedArticleSet>\n" + lines(ARTICLE) + "</PubmedArticleSet>",
        read_texts,
        suffix=".xml",
    ),
]


def found(format_: Format, path: Any, data: bytes) -> Any:
    """Return what is read from `data`, or None if reading raises or warns."""
    path.write_bytes(data)
    with warnings.catch_warnings():
        warnings.simplefilter("error", KrisselWarning)
        try:
            return list(format_.read(path))
        except (KrisselError, KrisselWarning):
            return None


@pytest.mark.parametrize("format_", FORMATS, ids=lambda format_: format_.name)
def test_cut_files_raise_or_warn(format_, tmp_path):
    path = tmp_path / f"file{format_.suffix}"
    data = format_.content.encode("utf8")
    whole = found(format_, path, data)
    assert whole, "the whole file is read without a word"
    ends = [i + 1 for i, byte in enumerate(data) if byte == 10]
    others = range(1, len(data), max(1, len(data) // CUTS))
    silent = []
    for cut in sorted({*ends, *(end - 1 for end in ends), *others} - {len(data)}):
        cut_whole = found(format_, path, data[:cut])
        at_a_line = cut in ends or cut + 1 in ends
        if (
            cut_whole is not None
            and cut_whole != whole[: len(cut_whole)]
            and not (format_.several and at_a_line)
        ):
            silent.append(data[:cut][-60:])
    assert silent == []


@pytest.mark.parametrize("format_", FORMATS, ids=lambda format_: format_.name)
def test_cut_gzip_files_raise_or_warn(format_, tmp_path):
    path = tmp_path / f"file{format_.suffix}.gz"
    data = gzip.compress(format_.content.encode("utf8"))
    for cut in (1, 2, 5, 20, len(data) // 2, len(data) - 8, len(data) - 1):
        assert found(format_, path, data[:cut]) is None, cut


def test_cut_brat_line_warns(tmp_path):
    (tmp_path / "1.txt").write_text("some pain")
    path = tmp_path / "1.ann"
    path.write_text("T1\tDisease 5 9\tpain\nN1\tReference T1 MESH:D0061")
    with pytest.warns(KrisselWarning, match=r"KW210.*1\.ann, line 2"):
        list(read_brat(path))


def test_document_without_its_abstract_warns(tmp_path):
    path = tmp_path / "a.txt"
    path.write_text("1|t|Title\n1|a|Abstract\n\n2|t|Title\n")
    with pytest.warns(KrisselWarning, match="KW211.*document 2"):
        list(CORPORA["pubtator"](path))


@pytest.mark.parametrize(
    "format_",
    [each for each in FORMATS if not each.content.startswith(("<", '{"graphs', '{"resource'))],
)
def test_bare_carriage_returns_raise_and_crlf_is_read(format_, tmp_path):
    path = tmp_path / f"file{format_.suffix}"
    path.write_bytes(format_.content.replace("\n", "\r").encode("utf8"))
    with pytest.raises(KrisselError, match="K057.*carriage return"):
        list(format_.read(path))
    path.write_bytes(format_.content.replace("\n", "\r\n").encode("utf8"))
    assert list(format_.read(path)) == found(format_, path, format_.content.encode("utf8"))
