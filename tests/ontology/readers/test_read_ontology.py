import gzip
import re

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from spacy_krissel.errors import KrisselError, KrisselWarning
from spacy_krissel.ontology.readers import READERS, Reader, detect_format, read_ontology

SAMPLES = {
    "medic": "D009103||Multiple Sclerosis|MS\n",
    "obo": "! comment\nformat-version: 1.2\n\n[Term]\nid: X:1\nname: one\n",
    "jsonl": '\n{"concept_id": "1", "canonical_name": "one"}\n',
    "mesh": "DescriptorUI\tTermName\tRecordPreferredTermYN\nD1\tone\tY\n",
    "mesh-tree": "DescriptorUI\tDescriptorName\ttree_location\nD1\tone\tC01\n",
    "phrases": "1\tone\tan example\n",
    "zeshel": '{"title": "one", "text": "One is a number .", "document_id": "00A"}\n',
    "gene-info": (
        "#tax_id\tGeneID\tSymbol\tSynonyms\tdbXrefs\tdescription\t"
        "Symbol_from_nomenclature_authority\tFull_name_from_nomenclature_authority\t"
        "Other_designations\n9606\t1\tone\t-\t-\t-\t-\t-\t-\n"
    ),
    "taxonomy": "1\t|\tone\t|\t\t|\tscientific name\t|\n",
    "cellosaurus": (
        "-----\n  Cellosaurus\n\nID   one\nAC   CVCL_0001\nOX   NCBI_TaxID=9606; ! Homo sapiens\n"
        "//\n"
    ),
    "cellosaurus-tsv": "one\tCVCL_0001\tHomo sapiens\n",
    "obographs": (
        '{"graphs": [{"id": "http://x/y.json", "nodes": [{"id": "X:1", "lbl": "one", "type": '
        '"CLASS"}]}]}\n'
    ),
    "fhir": '{"resourceType": "CodeSystem", "concept": [{"code": "1", "display": "one"}]}\n',
    "icd10cm": (
        "<ICD10CM.tabular><chapter><section><diag><name>A00</name><desc>one</desc></diag></section>"
        "</chapter></ICD10CM.tabular>\n"
    ),
    "skos": (
        "@prefix skos: <http://www.w3.org/2004/02/skos/core#> .\n"
        '<http://x.org/y/1> a skos:Concept ; skos:prefLabel "one"@en .\n'
    ),
    "owl": (
        '<rdf:RDF xmlns:rdf="http://www.w3.org/1999/02/22-rdf-syntax-ns#" '
        'xmlns:owl="http://www.w3.org/2002/07/owl#" '
        'xmlns:rdfs="http://www.w3.org/2000/01/rdf-schema#"><owl:Class '
        'rdf:about="http://x.org/X_1"><rdfs:label>one</rdfs:label></owl:Class></rdf:RDF>\n'
    ),
    "mesh-xml": (
        "<DescriptorRecordSet><DescriptorRecord><DescriptorUI>D1</DescriptorUI><DescriptorName>"
        "<String>one</String></DescriptorName></DescriptorRecord></DescriptorRecordSet>\n"
    ),
    "table": "id,name\nX:1,one\n",
    "medcat": "cui,name,name_status\nC1,one,P\n",
    "ssslm": "text\tcurie\tname\tpredicate\none\tX:1\tone\trdfs:label\n",
    "babelon": "subject_id\ttranslation_value\nX:1\tone\n",
    "umls": "C0000001|ENG|P|L1|PF|S1|Y|A1||||S|PT|C1|one|0|N||\n",
    "rxnorm": "1|ENG||||||A1||1||RXNORM|IN|1|one||N||\n",
    "ctd": "# CTD\n# Fields:\n# DiseaseName,DiseaseID,TreeNumbers,Synonyms\n#\none,MESH:D1,C01,\n",
}
# Any table of three columns looks like one of phrases, so that this format is to be named.
FILES = [
    format
    for format, reader in READERS.items()
    if reader.detects is not Reader.detects or format == "phrases"
]
TOLD = [format for format in FILES if format != "phrases"]
# Read as JSON, XML or a graph, not by lines.
WHOLE = ("obographs", "mesh-xml", "owl", "skos", "fhir", "icd10cm")


@pytest.mark.parametrize("format", TOLD)
@pytest.mark.parametrize("pack", [bytes, gzip.compress])
@pytest.mark.parametrize("start", ["", "\ufeff"])
def test_format_is_detected_by_content(tmp_path, format, pack, start):
    path = tmp_path / "ontology.bin"
    path.write_bytes(pack((start + SAMPLES[format]).encode("utf8")))
    assert detect_format(path) == format
    (entity,) = read_ontology(path)
    assert [entity] == list(read_ontology(path, format=format))
    assert entity.name.lower() in ("one", "multiple sclerosis")


@pytest.mark.parametrize("content", [b"", b"Once upon a time\n", b"<?xml?>"])
def test_unknown_content_raises(tmp_path, content):
    path = tmp_path / "what.txt"
    path.write_bytes(content)
    with pytest.raises(KrisselError, match=r"K104.*what\.txt.*zeshel, jsonl.*concept_id"):
        read_ontology(path)


@pytest.mark.parametrize("format", ["auto", "table", "obo", "jsonl"])
@pytest.mark.parametrize("content, advice", [
    (b"\x00\x01" * 50, "binary data"),
    (b"%PDF-1.4\n%\xe2\xe3", "PDF"),
    (b"PK\x03\x04\x14\x00\x06[Content_Types].xml", "Excel workbook.*Save a workbook as CSV UTF-8"),
    (b"\xd0\xcf\x11\xe0\xa1\xb1", "Excel workbook"),
    (b"BZh91AY&SY", "Decompress"),
])  # fmt: skip
def test_binary_files_raise_with_their_kind(tmp_path, content, advice, format):
    path = tmp_path / "lab.xlsx"
    path.write_bytes(content)
    with pytest.raises(KrisselError, match=rf"K060.*lab\.xlsx.*{advice}") as caught:
        list(read_ontology(path, format=format))
    assert str(caught.value).isprintable()


@pytest.mark.parametrize(
    "format", [format for format in FILES if not SAMPLES[format].lstrip().startswith("<")]
)
@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16", "utf-32"])
def test_marked_encodings_are_read(tmp_path, format, encoding):
    path = tmp_path / "plain.txt"
    path.write_text(SAMPLES[format], encoding="utf8")
    marked = tmp_path / "marked" / "plain.txt"
    marked.parent.mkdir()
    marked.write_text(SAMPLES[format], encoding=encoding)
    assert list(read_ontology(marked, format=format)) == list(read_ontology(path, format=format))
    assert format == "phrases" or detect_format(marked) == format


def test_windows_encoding_is_named_once(tmp_path):
    path = tmp_path / "lab.csv"
    rows = ["id,name", *(f"X:{n},name {n}" for n in range(9)), "X:10,Ménière", "X:11,Sjögren"]
    path.write_text("\n".join([*rows, ""]), encoding="cp1252")
    with pytest.warns(KrisselWarning) as caught:
        assert len(list(read_ontology(path))) == 9
    (said,) = (str(each.message) for each in caught)
    assert re.search(
        (
            r"KW101.*2 of 11.*line 11 is not UTF-8.*'X:10,Ménière'.*iconv -f WINDOWS-1252 -t "
            r"UTF-8.*Sjögren"
        ),
        said,
    )
    assert said.count("iconv") == 1


@pytest.mark.parametrize("content, code", [
    ("Prefix(owl:=<http://www.w3.org/2002/07/owl#>)\nOntology(<http://a.org/b>\n)",
     "K119.*functional.*robot convert"),
    ("Prefix: owl: <http://www.w3.org/2002/07/owl#>\nOntology: <http://a.org/b>\n",
     "K119.*Manchester.*robot convert"),
    ('<?xml version="1.0"?>\n<Ontology xmlns="http://www.w3.org/2002/07/owl#">',
     "K119.*OWL/XML.*robot"),
    ('{"@context": {"owl": "http://www.w3.org/2002/07/owl#"}, "@graph": []}',
     "K119.*JSON-LD.*rdfpipe"),
    ('[\n{"@id": "http://a.org/b", "@type": ["http://www.w3.org/2002/07/owl#Class"]}\n]',
     "K119.*JSON-LD.*rdfpipe"),
    ("fever\nheart attack\nWilson's disease, type 2\n",
     "K120.*'fever'.*columns id and name.*krissel map"),
    ("name\nfever\n", "K120"),
])  # fmt: skip
def test_other_syntaxes_raise_with_advice(tmp_path, content, code):
    path = tmp_path / "what.txt"
    path.write_text(content)
    with pytest.raises(KrisselError, match=code):
        read_ontology(path)


def test_errors_come_before_the_first_entity(tmp_path):
    path = tmp_path / "medic.txt"
    path.write_text(SAMPLES["medic"])
    with pytest.raises(KrisselError, match="K101.*missing.txt"):
        read_ontology(tmp_path / "missing.txt")
    with pytest.raises(KrisselError, match="K101.*missing.txt"):
        read_ontology(tmp_path / "missing.txt", format="obo")
    with pytest.raises(KrisselError, match="K101.*directory"):
        read_ontology(tmp_path)
    with pytest.raises(KrisselError, match="K006.*'xls'.*medic, obo"):
        read_ontology(path, format="xls")
    with pytest.raises(KrisselError, match="K110.*'tree_path'.*types"):
        read_ontology(path, tree_path=path)


@pytest.mark.parametrize("format", [format for format in FILES if format not in WHOLE])
def test_truncated_and_damaged_gzip_raises(tmp_path, format):
    head, _, record = SAMPLES[format].rstrip("\n").rpartition("\n")
    block = {
        "obo": "[Term]\nid: X:{0}\nname: name {0}",
        "mesh": "D{0}\tname {0}\tY",
        "mesh-tree": "D{0}\tn {0}\tC{0}",
        "taxonomy": "{0}\t|\tname {0}\t|\t\t|\tscientific name\t|",
        "cellosaurus": "ID   name {0}\nAC   CVCL_{0}\n//",
        "cellosaurus-tsv": "name {0}\tCVCL_0001\tHomo sapiens",
        "ctd": "name {0},MESH:D{0},C{0},",
        "table": "X:{0},name {0}",
        "medcat": "C{0},name {0},P",
        "ssslm": "s {0}\tX:{0}\tname {0}\trdfs:label",
        "babelon": "X:{0}\tname {0}",
        "rxnorm": "{0}|ENG||||||A{0}||{0}||RXNORM|IN|{0}|name {0}||N||",
        "umls": "C0000001|ENG|P|L1|PF|S{0}|Y|A{0}||||S|PT|C1|name {0}|0|N||",
    }
    one = block.get(
        format, record.replace("009103", "{0}").replace('"1"', '"{0}"').replace("1\t", "{0}\t")
    )
    body = "\n".join(one.replace("{0}", str(i * 7919 % 100_003)) for i in range(12_000))
    header = (
        head
        if format
        in ("mesh", "mesh-tree", "gene-info", "ctd", "table", "medcat", "ssslm", "babelon")
        else "format-version: 1.2"
        if format == "obo"
        else ""
    )
    packed = gzip.compress(f"{header}\n{body}\n".lstrip().encode("utf8"))
    path = tmp_path / "ontology.gz"
    middle = len(packed) * 3 // 4
    for data in (
        packed[:middle],
        packed[:middle] + b"\x00" * 200 + packed[middle + 200 :],
        packed + b"trailing",
    ):
        path.write_bytes(data)
        with pytest.raises(KrisselError, match=r"K102.*ontology\.gz.*line \d{4,}"):
            for _ in read_ontology(path, format=format if format == "phrases" else "auto"):
                pass
    path.write_bytes(packed[:40])
    with pytest.raises(KrisselError, match="K102.*line 1"):
        list(read_ontology(path, format=format if format == "phrases" else "auto"))


@settings(
    deadline=None, max_examples=100, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(st.sampled_from(sorted(FILES)), st.binary(max_size=200), st.booleans())
@example("jsonl", b"\x1f\x8b", False)
@pytest.mark.filterwarnings("ignore::spacy_krissel.errors.KrisselWarning")
def test_random_bytes_give_entities_or_a_coded_error(tmp_path, format, data, after_sample):
    path = tmp_path / "wild"
    path.write_bytes(SAMPLES[format].encode() * after_sample + data)
    try:
        entities = list(read_ontology(path, format=format))
    except KrisselError as error:
        codes = (
            "K007",
            "K008",
            "K009",
            "K056",
            "K057",
            "K058",
            "K060",
            "K102",
            "K103",
            "K118",
            "K131",
        )
        assert str(error).startswith(tuple(f"[{code}]" for code in codes))
    else:
        assert entities and all(entity.id.strip() and entity.name.strip() for entity in entities)
