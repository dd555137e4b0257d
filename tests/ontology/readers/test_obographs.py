"""OBO Graphs JSON."""

import gzip
import json

import pytest

from spacy_krissel.errors import KrisselError, KrisselWarning
from spacy_krissel.ontology.entity import Entity
from spacy_krissel.ontology.readers import detect_format, read_ontology
from spacy_krissel.ontology.readers.obo import read_obo
from spacy_krissel.ontology.readers.obographs import read_obographs

OBO = "http://purl.obolibrary.org/obo/"
OWL = "http://www.geneontology.org/formats/oboInOwl#"
NEURON = {
    "id": f"{OBO}CL_0000540",
    "lbl": "neuron",
    "type": "CLASS",
    "meta": {
        "definition": {"val": "A cell\n of the nervous system.", "xrefs": ["PMID:1"]},
        "synonyms": [
            {"pred": "hasExactSynonym", "val": "nerve cell"},
            {"pred": "hasRelatedSynonym", "val": "nerve unit"},
            {"pred": "hasBroadSynonym", "val": "cell"},
            {"pred": "hasExactSynonym", "val": "neuron"},
        ],
        "xrefs": [{"val": "FMA:54527"}, {"val": "NCBI_TaxID:9606 ! Homo sapiens"}],
        "basicPropertyValues": [
            {"pred": f"{OWL}hasAlternativeId", "val": f"{OBO}CL_0000899"},
            {"pred": f"{OWL}hasAlternativeId", "val": "CL:0000538"},
            {"pred": f"{OWL}hasOBONamespace", "val": "cell"},
        ],
    },
}
OTHERS = [
    {"id": f"{OBO}CL_0000001", "lbl": "gone", "type": "CLASS", "meta": {"deprecated": True}},
    {"id": f"{OBO}BFO_0000050", "lbl": "part of", "type": "PROPERTY"},
    {"id": f"{OBO}GO_0000001"},
    {"id": "http://example.org/thing", "lbl": " some  thing ", "type": "CLASS"},
    {"id": f"{OBO}BFO_0000051", "lbl": "has part"},
]

EDGES = [
    {"sub": f"{OBO}CL_0000540", "pred": pred, "obj": f"{OBO}CL_{number}"}
    for pred, number in (("is_a", "0000404"), (f"{OBO}BFO_0000050", "0000001"))
]


@pytest.fixture
def write(tmp_path):
    def write(data):
        path = tmp_path / "cl.json"
        path.write_text(
            data if isinstance(data, str) else json.dumps(data, indent=1), encoding="utf8"
        )
        return path

    return write


def graph(nodes):
    return {
        "meta": {"version": "1"},
        "graphs": [{"id": f"{OBO}cl.json", "nodes": nodes, "edges": EDGES}],
    }


def test_classes_are_read(write):
    path = write(graph([NEURON, *OTHERS]))
    neuron, thing = read_obographs(path)
    assert neuron == Entity(
        "CL:0000540",
        "neuron",
        ("nerve cell", "nerve unit"),
        ("cell",),
        definition="A cell of the nervous system.",
        xrefs=("FMA:54527",),
        species=neuron.species,
        source="cl",
        alt_ids=("CL:0000899", "CL:0000538"),
        parents=("CL:0000404",),
    )
    assert neuron.species and (thing.id, thing.name) == ("http://example.org/thing", "some thing")
    exact, _ = read_obographs(path, scopes=["EXACT"], types=["Cell"])
    assert (exact.aliases, exact.types) == (("nerve cell",), ("Cell",))


def test_classes_are_read_from_a_graph_without_types(write):
    untyped = [
        {key: value for key, value in node.items() if key != "type"}
        for node in (NEURON, OTHERS[-1])
    ]
    assert [entity.name for entity in read_obographs(write(graph(untyped)))] == [
        "neuron",
        "has part",
    ]


def test_graph_and_obo_file_give_the_same_entities(write, tmp_path):
    (tmp_path / "cl.obo").write_text(
        "format-version: 1.2\nontology: cl\n\n[Term]\nid: CL:0000540\nname: neuron\n"
        "namespace: cell\n"
        'alt_id: CL:0000899\nalt_id: CL:0000538\ndef: "A cell of the nervous system." [PMID:1]\n'
        'synonym: "nerve cell" EXACT []\nsynonym: "nerve unit" RELATED []\n'
        'synonym: "cell" BROAD []\n'
        "xref: FMA:54527\nxref: NCBI_TaxID:9606 ! Homo sapiens\nis_a: CL:0000404\n"
    )
    assert list(read_obographs(write(graph([NEURON])))) == list(read_obo(tmp_path / "cl.obo"))


def test_format_is_detected(write):
    assert detect_format(write(graph([NEURON]))) == "obographs"
    assert (
        detect_format(write('{"concept_id": "1", "canonical_name": "\\"graphs\\": ["}')) == "jsonl"
    )


def test_bad_nodes_are_counted(write):
    no_meta = {"id": "X:2", "lbl": "x", "type": "CLASS", "meta": []}
    bad = ["node", {"lbl": "no id"}, {"id": "X:1", "lbl": 7}, no_meta, {"id": "X:3"}]
    odd = {
        "id": "X:4",
        "lbl": "odd",
        "type": "CLASS",
        "meta": {"synonyms": 7, "xrefs": ["x"], "definition": "y", "basicPropertyValues": [1]},
    }
    with pytest.warns(
        KrisselWarning, match=r"KW101.*Left out 3 of.*line 1 \(counting nodes\) is not a node"
    ):
        found = list(read_obographs(write(graph([*bad, odd, NEURON]))))
    assert [entity.id for entity in found] == ["X:2", "X:4", "CL:0000540"]


@pytest.mark.parametrize(
    "text", ['{"graphs": [', "[" * 100_000, '{"graphs": [{"nodes": [{"id": "\ud800"}]']
)
def test_invalid_json_raises(write, tmp_path, text):
    path = tmp_path / "cl.json"
    path.write_bytes(text.encode("utf8", "surrogatepass"))
    with pytest.raises(KrisselError, match=r"K102\].*cl\.json"):
        list(read_obographs(path))


@pytest.mark.parametrize(
    "data", [[], {"graphs": {}}, {"graphs": [7]}, {"graphs": [{"nodes": 7}]}, {"graphs": [{}]}]
)
def test_other_json_raises(write, data):
    with pytest.raises(KrisselError, match=r"K103\].*obographs"):
        list(read_obographs(write(data)))


def test_damaged_gzip_raises(tmp_path):
    path = tmp_path / "cl.json.gz"
    path.write_bytes(gzip.compress(json.dumps(graph([NEURON])).encode())[:-30])
    with pytest.raises(KrisselError, match=r"K102\]"):
        list(read_ontology(path, format="obographs"))
