"""Provenance of entities in a manifest."""

import gzip
import hashlib
import json

import pytest

from spacy_krissel.errors import KrisselError
from spacy_krissel.ontology.build import build_ontology
from spacy_krissel.ontology.provenance import provenance

OBO = """\
format-version: 1.2
data-version: releases/2022-12-15
ontology: cl
property_value: dcterms-license http://creativecommons.org/licenses/by/4.0/
property_value: owl:versionInfo "2022" xsd:string

[Term]
id: CL:1
name: cell
"""
GRAPHS = {
    "graphs": [
        {
            "meta": {
                "basicPropertyValues": [{"pred": "http://purl.org/dc/terms/license", "val": "CC0"}],
                "version": "2024-01-01",
            },
            "nodes": [
                {"id": "CL_1", "lbl": "cell", "type": "CLASS", "meta": {"version": "not this"}}
            ],
        }
    ]
}


def test_files_version_and_licence_are_recorded(tmp_path):
    path = tmp_path / "cl.obo"
    path.write_text(OBO)
    (found,) = provenance(path, "auto", version="other", licence="other")
    assert found == {
        "source": "cl.obo",
        "format": "obo",
        "files": {
            "cl.obo": {"bytes": len(OBO), "sha256": hashlib.sha256(OBO.encode()).hexdigest()}
        },
        "version": "releases/2022-12-15",
        "licence": "http://creativecommons.org/licenses/by/4.0/",
    }


@pytest.mark.parametrize(
    "line, licence",
    [
        (
            (
                'property_value: http://purl.org/dc/elements/1.1/license "see http://example.org" '
                "xsd:string"
            ),
            "see http://example.org",
        ),
        (
            "remark: This work is licensed under CC BY 3.0.",
            "This work is licensed under CC BY 3.0.",
        ),
        ("remark: something else", None),
    ],
)
def test_licences_of_obo_files_are_read(tmp_path, line, licence):
    path = tmp_path / "x.obo.gz"
    path.write_bytes(gzip.compress(f"ontology: x\n{line}\n\n[Term]\nid: X:1\nname: x\n".encode()))
    (found,) = provenance(path, "auto")
    assert found.get("licence") == licence and "version" not in found


@pytest.mark.parametrize("is_last", [False, True])
def test_metadata_of_a_graph_counts_wherever_it_stands(tmp_path, is_last):
    path = tmp_path / "cl.json"
    (graph,) = GRAPHS["graphs"]
    # More edges than the first lines of a file hold.
    edges = [{"sub": "CL_1", "pred": "is_a", "obj": "CL_1"}] * 20_000
    keys = ["edges", "nodes", "meta"] if is_last else ["meta", "edges", "nodes"]
    whole = {**graph, "edges": edges}
    path.write_text(json.dumps({"graphs": [{key: whole[key] for key in keys}]}, indent=1))
    (found,) = provenance(path, "auto")
    assert (found["version"], found["licence"]) == ("2024-01-01", "CC0")
    path.write_text(json.dumps({"graphs": [{"nodes": graph["nodes"]}]}))
    assert "version" not in provenance(path, "auto")[0]


def test_store_keeps_the_provenance_of_its_sources(tmp_path):
    path = tmp_path / "names.jsonl"
    path.write_text('{"concept_id": "C1", "canonical_name": "gout"}\n')
    first = build_ontology(path, tmp_path / "first", version="3", licence="CC0")
    again = build_ontology([first.path], tmp_path / "again", version="4")
    (found,) = again.manifest["info"]["provenance"]
    assert (found["source"], found["version"], found["licence"]) == ("names.jsonl", "3", "CC0")
    with pytest.raises(KrisselError, match="K101"):
        provenance(tmp_path / "nowhere", "auto")
    (tmp_path / "short.obo.gz").write_bytes(gzip.compress(OBO.encode())[:40])
    with pytest.raises(KrisselError, match=r"K102.*short\.obo\.gz"):
        provenance(tmp_path / "short.obo.gz", "obo")


LICENCE = 'Of the "society" &\nof © others'


@pytest.mark.parametrize(
    "name, data",
    [
        (
            "code.json",
            {
                "resourceType": "CodeSystem",
                "copyright": LICENCE,
                "concept": [{"code": "1", "display": "a"}],
            },
        ),
        (
            "graph.json",
            {
                "graphs": [
                    {
                        "meta": {
                            "basicPropertyValues": [
                                {"pred": "http://purl.org/dc/terms/license", "val": LICENCE}
                            ]
                        },
                        "nodes": [
                            {
                                "id": "http://purl.obolibrary.org/obo/A_1",
                                "lbl": "a",
                                "type": "CLASS",
                            }
                        ],
                    }
                ]
            },
        ),
    ],
)
def test_licence_in_json_is_read_whole_and_unescaped(tmp_path, name, data):
    (tmp_path / name).write_text(json.dumps(data))
    (found,) = provenance(tmp_path / name, "auto")
    assert found["licence"] == " ".join(LICENCE.split())


def test_licence_in_xml_is_unescaped(tmp_path):
    (tmp_path / "a.owl").write_text(
        '<rdf:RDF xmlns:rdf="http://www.w3.org/1999/02/22-rdf-syntax-ns#" '
        'xmlns:owl="http://www.w3.org/2002/07/owl#" xmlns:dc="http://purl.org/dc/terms/">\n'
        '<owl:Ontology rdf:about="http://example.org/a.owl"><dc:license>Free &amp; '
        "open</dc:license></owl:Ontology></rdf:RDF>"
    )
    (found,) = provenance(tmp_path / "a.owl", "auto")
    assert found["licence"] == "Free & open"
