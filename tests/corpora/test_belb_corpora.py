"""Linnaeus, S800 and BioID as their authors publish them, and what BELB makes of corpora."""

import gzip
import json

import pytest
import spacy
from hypothesis import given
from hypothesis import strategies as st

from spacy_krissel.corpora.annotation import covered_text
from spacy_krissel.corpora.convert import convert, read_docs
from spacy_krissel.corpora.readers import READERS, detect_format
from spacy_krissel.corpora.report import CorpusReport
from spacy_krissel.errors import KrisselError
from spacy_krissel.mentions.gold_ids import read_classes
from spacy_krissel.mentions.gold_mentions import document_id, gold_mentions
from spacy_krissel.ontology.entity import Entity
from spacy_krissel.ontology.store import write_store

HEADER = "#species id\tdocument\tstart\tend\ttext\tcode\n"
TEXT = "Humans é, mice\nand mules."
LINNAEUS = HEADER + (
    "species:ncbi:9606\tpmcA1\t0\t6\tHumans\t4\n"
    "species:ncbi:10090;species:ncbi:10116\tpmcA1\t10\t14\tmice\t\n"
    "species:ncbi:9606|species:ncbi:10090\tpmcA2\t0\t6\tHumans\t\n"
    "species:ncbi:0\tpmcA1\t19\t24\tmules\t\n"
)
S800 = (
    "9606\tmed002:20300\t0\t5\tHumans\n10090|10116\tmed002:20300\t10\t13\tmice\n"
    "9606\tmed001:20200\t0\t5\tHumans\n"
)
CAPTIONS = """<?xml version="1.0"?>
<collection><source>SourceData</source>
<document><id>7 Figure_1-A</id><infon key="pmc_id">7</infon><infon key="sourcedata_figure_dir">Figure_1-A</infon>
<passage><offset>0</offset><text>(A) p53 in HeLa é cells.</text><annotation id="1">
<infon key="type">NCBI gene:7157|NCBI gene:22059</infon><location offset="4" length="3"/><text>p53</text></annotation>
<annotation id="2"><infon key="type">CVCL_0030</infon><location offset="11" length="4"/><text>HeLa</text></annotation>
</passage></document>
<document><id>7 Figure_1-B</id><passage><offset>0</offset><text>(B) GFP, heart.</text></passage></document>
</collection>
"""  # noqa: E501
ANNOTATIONS = (
    '"thomas article",doi,don_article,figure,annot id,paper id,first left,last '
    "right,length,text,obj,overlap\n"
    "sd1,10/1,7,Figure_1-A,1,1,4,7,3,p53,NCBI gene:7157|NCBI gene:22059,\n"
    "sd1,10/1,7,Figure_1-B,1,2,4,7,3,GFP,protein:GFP,yes\n"
    "sd1,10/1,7,Figure_1-B,2,3,9,15,6,heart.,Uberon:UBERON:0000948,\n"
    'sd1,10/1,7,Figure_1-A,2,4,11,15,4,"HeLa",CVCL_0030,\n'
)
BIOID = [
    ("p53", "NCBI gene", "NCBI gene:7157|NCBI gene:22059"),
    ("HeLa", "Cellosaurus", "CVCL_0030"),
    ("GFP", "protein", "NIL"),
    ("heart.", "Uberon", "UBERON:0000948"),
]


def states(annotated):
    for mention in annotated.mentions:
        assert covered_text(annotated.text, mention.fragments) == mention.text
    return [(each.text, each.label, each.kb_id) for each in annotated.mentions]


@pytest.fixture
def write(tmp_path):
    def write(name, text):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text.encode("utf8"))
        return path

    return write


def read(format, path, **options):
    report = CorpusReport()
    return list(READERS[format](path, report=report, **options)), report.to_dict()["counts"]


def test_linnaeus_is_read_with_ids_and_offsets(write):
    path = write("tags.tsv", LINNAEUS.replace("\n", "\r\n"))
    for name in ("pmcA1", "pmcA2"):
        write(f"txt/{name}.txt", TEXT)
    assert (
        detect_format(path)
        == detect_format(write("other.tsv", LINNAEUS.removeprefix(HEADER)))
        == "linnaeus"
    )
    (first, second), counts = read("linnaeus", path)
    assert (first.id, first.text, second.id, counts) == ("pmcA1", TEXT, "pmcA2", {})
    assert states(first) == [
        ("Humans", "Species", "9606"),
        ("mice", "Species", "10090|10116"),
        ("mules", "Species", "NIL"),
    ]
    assert states(second) == [("Humans", "Species", "9606|10090")]


def test_s800_mentions_include_their_last_character(write, tmp_path):
    path = write("S800.tsv", S800)
    for name in ("med001", "med002"):
        write(f"texts/{name}.txt", TEXT)
    assert detect_format(path) == "s800"
    (first, second), counts = read("s800", path, documents=tmp_path / "texts")
    assert (first.id, second.id, counts) == ("20300", "20200", {})
    assert states(first) == [("Humans", "Species", "9606"), ("mice", "Species", "10090|10116")]
    with pytest.raises(KrisselError, match=r"K226\].*S800\.tsv.*'med002\.txt'.*abstracts"):
        read("s800", path)


def test_bioid_captions_are_joined_per_article_with_their_mentions(write, tmp_path):
    path = write("annotations.csv", ANNOTATIONS)
    write("caption_bioc/7.xml", CAPTIONS)
    assert detect_format(path) == "bioid"
    (article,), counts = read("bioid", path)
    assert (article.id, article.text) == ("7", "(A) p53 in HeLa é cells.\n(B) GFP, heart.\n")
    assert (states(article), counts) == (BIOID, {})
    genes = write_store([Entity("7157", "TP53"), Entity("22059", "Trp53")], tmp_path / "genes")
    (doc,) = read_docs(path, spacy.blank("en"), labels=["NCBI gene"], ontology=genes.path)
    assert (document_id(doc), [each.kb_id for each in gold_mentions(doc)]) == ("7", ["7157|22059"])


def test_mentions_of_a_missing_caption_are_bad_records(write):
    path = write("annotations.csv", ANNOTATIONS.replace("Figure_1-B", "Figure_2"))
    write("caption_bioc/7.xml", CAPTIONS)
    (article,), counts = read("bioid", path)
    assert (states(article), counts) == (BIOID[:2], {"bad_records": 2})


def test_bioid_captions_are_read_as_bioc_with_ids(write):
    (first, second), _counts = read("bioc", write("7.xml", CAPTIONS))
    assert (first.id, states(first), states(second)) == ("7 Figure_1-A", BIOID[:2], [])


@pytest.mark.parametrize(
    "name, found",
    [
        ("Disease", ("Disease", "")),
        ("", ("", "")),
        ("GO:0005764", ("GO", "GO:0005764")),
        ("Cellosaurus:CVCL_0030", ("Cellosaurus", "Cellosaurus:CVCL_0030")),
        ("CVCL_6412|CL:0002322", ("Cellosaurus", "CVCL_6412|CL:0002322")),
        ("organism:mouse line", ("organism", "NIL")),
        ("organism", ("organism", "")),
    ],
)
def test_class_names_are_split_into_label_and_id(name, found):
    assert read_classes(name) == found


def test_bioid_ids_resolve_to_entities_of_a_store(write, tmp_path):
    """In each spelling of the prefix."""
    store = write_store(
        [Entity("CVCL_0030", "HeLa"), Entity("NCBITaxon:9606", "human")], tmp_path / "store"
    )
    for id_, entity in (
        ("Cellosaurus:CVCL_0030", "CVCL_0030"),
        ("NCBI taxon:9606", "NCBITaxon:9606"),
    ):
        assert store.resolve(id_) == entity


BAD = {
    "linnaeus": [
        "x",
        "species:ncbi:\td\t0\t1\tH",
        "species:ncbi:1\td\t0",
        "species:ncbi:1\td\tx\t1\tH",
    ],
    "s800": ["x", "|\td:1\t0\t1\tH", "1\td:1\t0\t-1\tH", "1\td:1\t0\t1\tH\x07"],
    "bioid": ["7,Figure_1-A", 'sd1,10/1,7,F,1,1,4,7,3,p53,"x', "sd1,10/1,7,F,1,1,x,7,3,p53,GO:1,"],
}


@pytest.mark.parametrize(
    "format, table", [("linnaeus", LINNAEUS), ("s800", S800), ("bioid", ANNOTATIONS)]
)
def test_damaged_table_lines_are_bad_records(write, format, table):
    for folder, names in (("txt", ("pmcA1", "pmcA2")), ("abstracts", ("med001", "med002"))):
        for name in names:
            write(f"{folder}/{name}.txt", TEXT)
    write("caption_bioc/7.xml", CAPTIONS)
    whole, _ = read(format, write("table", table))
    found, counts = read(
        format, write("table", table + "".join(f"{line}\n" for line in BAD[format]))
    )
    assert [each.mentions for each in found] == [each.mentions for each in whole]
    assert counts == {"bad_records": len(BAD[format])}
    with pytest.raises(KrisselError, match=r"K243\].*table.*line 1 is '1\|t\|"):
        read(format, write("table", "1|t|Title\n"))


def test_a_table_cannot_name_a_file_outside_its_folder(write):
    write("secret.txt", TEXT)
    path = write("tables/S800.tsv", "9606\t../../secret:1\t0\t5\tHumans\n")
    with pytest.raises(KrisselError, match="K226"):
        read("s800", path)


def annotation(text, offset, **infons):
    return {"infons": infons, "text": text, "locations": [{"offset": offset, "length": len(text)}]}


COLLECTION = {
    "source": "",
    "documents": [
        {
            "id": "12",
            "passages": [
                {
                    "offset": 0,
                    "text": "Gout é.",
                    "annotations": [
                        annotation(
                            "Gout",
                            0,
                            type="disease",
                            identifier="MESH:D006073;MESH:D1",
                            foreign=False,
                        ),
                        annotation("é", 5, type="species", foreign=True),
                    ],
                },
                {
                    "offset": 9,
                    "sentences": [
                        {
                            "offset": 9,
                            "text": "HeLa",
                            "annotations": [annotation("HeLa", 9, type="CVCL_0030")],
                        }
                    ],
                },
            ],
        },
        {"id": "13", "passages": [{"offset": 0, "text": "\ud800"}]},
    ],
}


@pytest.mark.parametrize("compress", [bytes, gzip.compress])
def test_belb_bioc_keeps_its_mentions_and_skips_foreign_annotations(tmp_path, compress):
    path = tmp_path / "train.bioc.json"
    path.write_bytes(compress(json.dumps(COLLECTION, indent=1).encode("utf8")))
    assert detect_format(path) == "bioc-json"
    (document,), counts = read("bioc-json", path)
    assert (document.id, document.text) == ("12", "Gout é.  HeLa")
    assert states(document) == [
        ("Gout", "disease", "MESH:D006073|MESH:D1"),
        ("HeLa", "Cellosaurus", "CVCL_0030"),
    ]
    assert counts == {"foreign_annotations": 1, "bad_records": 1}


@pytest.mark.parametrize(
    "text, code",
    [
        ('{"documents": [', "K244"),
        ("[1]", "K244"),
        ('{"documents": {}}', "K244"),
        ('{"documents": [1]}', "K204"),
    ],
)
def test_json_that_is_no_collection_raises_a_coded_error(write, text, code):
    with pytest.raises(KrisselError, match=rf"{code}\].*a\.json"):
        read("bioc-json", write("a.json", text))


def bioc_document(id_, text):
    found = annotation(text, 0, type="disease", identifier="MESH:D006073")
    return {
        "_id": f"{id_}|None",
        "id": id_,
        "passages": [{"infons": {}, "offset": 0, "text": text, "annotations": [found]}],
    }


GOUT, CROUP = bioc_document("21", "Gout"), bioc_document("22", "Croup")
DUMPED = [json.dumps(GOUT), json.dumps(CROUP)]


@pytest.mark.parametrize(
    "text",
    [
        json.dumps({"PubTator3": [GOUT, CROUP]}),
        json.dumps({"source": "PubTator", "documents": [GOUT, CROUP]}, indent=2),
        json.dumps([GOUT, CROUP]),
        json.dumps([{"documents": [GOUT]}, CROUP], indent=1),
        "\n".join(DUMPED),
        "\ufeff" + "\r\n\r\n".join(DUMPED) + "\r\n",
        "".join(json.dumps({"PubTator3": [each]}) + "\n" for each in (GOUT, CROUP)),
        " ".join(json.dumps(each, indent=2) for each in (GOUT, CROUP)),
    ],
)
def test_bioc_json_documents_are_found_in_every_layout(write, text):
    path = write("a.json", text)
    assert detect_format(path) == "bioc-json"
    documents, counts = read("bioc-json", path)
    assert [(each.id, each.text) for each in documents] == [
        ("21", "Gout"),
        ("22", "Croup"),
    ] and not counts
    assert [states(each) for each in documents] == [
        [(t, "disease", "MESH:D006073")] for t in ("Gout", "Croup")
    ]


@pytest.mark.parametrize(
    "infons, kb_id",
    [
        ({"identifier": ["MESH:D1", "MESH:D2"]}, "MESH:D1|MESH:D2"),
        ({"identifiers": ["MESH:D1"]}, "MESH:D1"),
        ({"identifiers": "MESH:D1;MESH:D2"}, "MESH:D1|MESH:D2"),
        ({"Identifiers": [672, " 673 ", None, ""]}, "672|673"),
        ({"identifier": [], "identifiers": ["672(Tax:9606),673"]}, "672|673"),
        ({"identifier": None, "MESH": ["D1"]}, "D1"),
        ({"identifier": ["p|SUB|V|600|E;CorrespondingGene:673", "rs12"]}, "p|SUB|V|600|E|rs12"),
        ({"identifier": ["-1"]}, "-1"),
        ({"identifier": [{"id": "D1"}]}, ""),
    ],
)
def test_ids_in_a_list_are_joined(write, infons, kb_id):
    found = {
        **GOUT["passages"][0],
        "annotations": [annotation("Gout", 0, type="disease", **infons)],
    }
    ((document,), counts) = read(
        "bioc-json", write("a.json", json.dumps({**GOUT, "passages": [found]}))
    )
    assert states(document) == [("Gout", "disease", kb_id)] and not counts


def test_a_single_bioc_json_object_is_a_document(write):
    (found,), counts = read("bioc-json", write("a.json", json.dumps(GOUT, indent=4)))
    assert (found.id, counts) == ("21", {})


FORMS = {
    "under a key": lambda documents: {"PubTator3": documents},
    "collection": lambda documents: {"source": "x", "documents": documents},
    "list": lambda documents: documents,
    "collections": lambda documents: [{"documents": [each]} for each in documents],
}


@given(
    st.lists(
        st.tuples(st.sampled_from([*FORMS]), st.integers(1, 3), st.sampled_from([None, 1])),
        min_size=1,
        max_size=4,
    ),
    st.sampled_from(["", "\n", "\r\n", "\n\n "]),
)
def test_bioc_json_layouts_can_be_concatenated(tmp_path_factory, parts, between):
    path = tmp_path_factory.getbasetemp() / "forms.json"
    texts, n = [], 0
    for form, size, indent in parts:
        documents = [bioc_document(str(n + number), "Gout") for number in range(size)]
        texts.append(json.dumps(FORMS[form](documents), indent=indent))
        n += size
    path.write_text(between.join(texts))
    documents, counts = read("bioc-json", path)
    assert [each.id for each in documents] == [*map(str, range(n))] and not counts


@pytest.mark.parametrize("bad", ['{"id": "9", "passages": [', '{"id": "9"', "[1"])
def test_a_damaged_bioc_json_line_is_one_bad_record(write, bad):
    for lines in ([DUMPED[0], bad, DUMPED[1]], [*DUMPED, bad]):
        documents, counts = read("bioc-json", write("a.json", "\n".join(lines) + "\n"))
        assert [each.id for each in documents] == ["21", "22"] and counts == {"bad_records": 1}
    with pytest.raises(KrisselError, match="K244"):
        read("bioc-json", write("a.json", "\n".join([*DUMPED, bad])))


def row(*ids, start=0, **more):
    return {
        "type": "DISEASE",
        "text": "Gout",
        "start": start,
        "end": start + 4,
        "ids": list(ids),
        **more,
    }


ROWS = [
    {
        "id": "1",
        "text": "Gout",
        "annotations": [row("D006073", "D1")],
        "metadata": {"passages": []},
    },
    {
        "id": 2,
        "text": "No Gout.",
        "annotations": [row("NIL", start=3), row("D1", start=-1, end=-1)],
    },
    {"id": "3", "text": "Gout", "annotations": [row(7157)]},
]


def test_belb_rows_keep_all_their_ids(write, tmp_path):
    path = write("train.jsonl", "".join(f"{json.dumps(each)}\n" for each in ROWS))
    assert detect_format(path) == "belb"
    found, counts = read("belb", path)
    assert [(each.id, states(each)) for each in found] == [
        ("1", [("Gout", "DISEASE", "D006073|D1")]),
        ("2", [("Gout", "DISEASE", "NIL")]),
        ("3", [("Gout", "DISEASE", "7157")]),
    ]
    assert counts == {"document_annotations": 1}
    assert convert(path, tmp_path / "train.spacy")["mentions"] == 3


@pytest.mark.parametrize(
    "change",
    [
        {"text": 1},
        {"annotations": None},
        {"annotations": ["x"]},
        {"annotations": [row("D1", start=True)]},
        {"annotations": [row(None)]},
        {"annotations": [row("D1", text=["x"])]},
        {"text": "\udc00"},
    ],
)
def test_a_damaged_belb_row_is_a_bad_record(write, change):
    bad = json.dumps({**ROWS[0], **change})
    found, counts = read("belb", write("a.jsonl", f"{json.dumps(ROWS[0])}\n{bad}\n"))
    assert (len(found), counts) == (1, {"bad_records": 1})
    with pytest.raises(KrisselError, match=r"K245\].*a\.jsonl.*line 1"):
        read("belb", write("a.jsonl", f"{bad}\n"))
