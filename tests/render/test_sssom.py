import sys

import pytest

from spacy_krissel.render.sssom import Curies, Mapping, write_sssom

ROW = Mapping(
    "X:1",
    "flu",
    "skos:exactMatch",
    "MESH:D007251",
    "influenza",
    "semapv:LexicalMatching",
    "",
    "0.9",
    "",
    "",
    "",
)


@pytest.mark.parametrize(
    "id, curie, prefixes",
    [
        ("HP:0001677", "HP:0001677", {"HP": "http://purl.obolibrary.org/obo/HP_"}),
        ("D009203", "MESH:D009203", {"MESH": "https://meshb.nlm.nih.gov/record/ui?ui="}),
        ("MIM:100100", "OMIM:100100", {"OMIM": "https://omim.org/MIM:"}),
        ("Mine:7:8", "Mine:7:8", {"Mine": "https://w3id.org/sssom/unknown_prefix/mine/"}),
        ("T 1", "kb:T%201", {"kb": "https://w3id.org/sssom/unknown_prefix/kb/"}),
        ("CVCL_0030", "kb:CVCL_0030", {"kb": "https://w3id.org/sssom/unknown_prefix/kb/"}),
        ("7:8", "kb:7:8", {"kb": "https://w3id.org/sssom/unknown_prefix/kb/"}),
        ("http://x.org/a#b", "ns1:b", {"ns1": "http://x.org/a#"}),
        ("http://www.w3.org/2002/07/owl#Thing", "owl:Thing", {}),
        ("owl:Thing", "owl:Thing", {}),
    ],
)
def test_id_becomes_a_curie_with_a_declared_prefix(id, curie, prefixes):
    pytest.importorskip("bioregistry")
    curies = Curies()
    assert (curies(id, "kb"), curies.prefixes()) == (curie, prefixes)


def test_each_prefix_has_its_own_address():
    """Which readers refuse."""
    curies = Curies()
    found = [
        curies(id, "kb")
        for id in ("Foo:1", "foo:2", "http://x.org/1", "http://x.org/2", "http://y.org/1")
    ]
    assert found[:2] == ["Foo:1", "Foo:2"] and found[2][:-1] == found[3][:-1] != found[4][:-1]
    addresses = list(curies.prefixes().values())
    assert len(addresses) == len(set(addresses)) == 3


def test_a_known_prefix_is_declared_without_the_extra(monkeypatch):
    """The prefix gets a placeholder address."""
    monkeypatch.setitem(sys.modules, "bioregistry", None)
    curies = Curies()
    assert curies("HP:1", "kb") == "HP:1"
    assert curies.prefixes() == {"HP": "https://w3id.org/sssom/unknown_prefix/hp/"}


def test_header_and_columns_follow_the_standard(tmp_path):
    curies = Curies()
    curies("X:1", "kb")
    rows = [ROW, ROW._replace(subject_label='of "birds"', confidence="")]
    write_sssom(
        tmp_path / "out", rows, curies, mapping_set_id="https://x.org/1", object_source="NO:1"
    )
    lines = (tmp_path / "out").read_bytes().decode().splitlines(keepends=True)
    assert [line.split(":")[0] for line in lines[:9]] == [
        "#curie_map",
        '#  "NO"',
        '#  "X"',
        "#mapping_set_id",
        "#license",
        "#object_source",
        "#mapping_tool",
        "#mapping_tool_version",
        "#mapping_date",
    ]
    # A column without a cell is none.
    assert lines[9] == (
        "subject_id\tsubject_label\tpredicate_id\tobject_id\tobject_label\tmapping_justification\t"
        "confidence\n"
    )
    assert (
        lines[10]
        == "X:1\tflu\tskos:exactMatch\tMESH:D007251\tinfluenza\tsemapv:LexicalMatching\t0.9\n"
    )
    assert lines[11].split("\t")[1] == '"of ""birds"""' and len(lines) == 12


def test_each_mapping_set_has_its_own_id(tmp_path):
    for name in ("a", "b"):
        write_sssom(tmp_path / name, [ROW], Curies())
    assert (tmp_path / "a").read_text() != (tmp_path / "b").read_text()
