"""FHIR's CodeSystem."""

import json

import pytest

from spacy_krissel.errors import KrisselError, KrisselWarning
from spacy_krissel.ontology.entity import Entity
from spacy_krissel.ontology.provenance import provenance
from spacy_krissel.ontology.readers import detect_format, read_ontology
from spacy_krissel.ontology.readers.fhir import read_fhir

GOUT = {
    "code": "GOUT",
    "display": "Gout",
    "definition": "Urate in\n a joint.",
    "designation": [
        {"language": "en-US", "use": {"code": "900000000000013009"}, "value": "Gouty arthritis"},
        {"language": "de", "value": "Gicht"},
        {"value": "Podagra"},
    ],
    "property": [
        {"code": "parent", "valueCode": "METABOLIC"},
        {"code": "inactive", "valueBoolean": False},
    ],
    "concept": [
        {
            "code": "GOUT-A",
            "display": "Acute gout",
            "concept": [{"code": "GOUT-T", "display": "Gouty toe"}],
        }
    ],
}
RETIRED = [
    {"code": "OLD", "display": "Old", "property": [{"code": "status", "valueCode": "retired"}]},
    {"code": "GONE", "display": "Gone", "property": [{"code": "inactive", "valueBoolean": True}]},
]


def system(*concepts, **more):
    """Build a CodeSystem in publishers' order: the resource's elements, then its concepts."""
    return {
        "resourceType": "CodeSystem",
        "id": "joints",
        "meta": {"versionId": "7"},
        "url": "http://example.org/fhir/CodeSystem/joints",
        "version": "2.1.0",
        "name": "Joints",
        "status": "active",
        "copyright": "Free to use.",
        "hierarchyMeaning": "is-a",
        "content": "complete",
        "property": [{"code": "parent", "type": "code"}],
        **more,
        "concept": list(concepts),
    }


@pytest.fixture
def write(tmp_path):
    def write(data, indent=2):
        path = tmp_path / "CodeSystem-joints.json"
        path.write_text(data if isinstance(data, str) else json.dumps(data, indent=indent))
        return path

    return write


@pytest.mark.parametrize("indent", [None, 2])
def test_concepts_are_read_as_written(write, indent):
    path = write(system(GOUT, *RETIRED), indent)
    assert detect_format(path) == "fhir"
    assert list(read_ontology(path)) == [
        Entity(
            "GOUT",
            "Gout",
            ("Gouty arthritis", "Podagra"),
            definition="Urate in a joint.",
            source="Joints",
            parents=("METABOLIC",),
        ),
        Entity("GOUT-A", "Acute gout", source="Joints", parents=("GOUT",)),
        Entity("GOUT-T", "Gouty toe", source="Joints", parents=("GOUT-A",)),
    ]


def test_displays_in_another_language_are_not_names(write):
    german = {"code": "1", "display": "Gicht", "designation": [{"language": "en", "value": "Gout"}]}
    path = write(system(german, language="de-AT"))
    assert [each.names for each in read_fhir(path)] == [("Gout",)]
    assert [each.names for each in read_fhir(path, language="de")] == [("Gicht",)]


def test_bad_concepts_are_counted(write):
    bad = [
        7,
        {"display": "x"},
        {"code": "x"},
        {"code": 1, "display": "x"},
        {"code": "x", "display": "\ud800"},
    ]
    with pytest.warns(KrisselWarning, match=r"KW101.*Left out 5 of 8.*line 4 is a int instead"):
        assert len(list(read_fhir(write(system(GOUT, *bad))))) == 3


def test_deeply_nested_concepts_are_read(write):
    text = '{"code": "c", "display": "d"}'
    for _ in range(400):
        text = '{"code": "c", "display": "d", "concept": [' + text + "]}"
    assert (
        len(list(read_fhir(write('{"resourceType": "CodeSystem", "concept": [' + text + "]}"))))
        == 401
    )


@pytest.mark.parametrize(
    "data, code",
    [
        (system(), "K103"),
        ({"resourceType": "CodeSystem"}, "K103"),
        ([], "K103"),
        (json.dumps(system(GOUT))[:-9], "K102"),
    ],
)
def test_errors_are_coded(write, data, code):
    with pytest.raises(KrisselError, match=rf"{code}\].*CodeSystem-joints"):
        list(read_fhir(write(data)))


def test_version_and_copyright_of_a_code_system_are_kept(write):
    (found,) = provenance(write(system(GOUT)), "auto")
    assert (found["version"], found["licence"]) == ("2.1.0", "Free to use.")
