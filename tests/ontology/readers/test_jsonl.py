import json

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from spacy_krissel.errors import KrisselError, KrisselWarning
from spacy_krissel.ontology.entity import Entity
from spacy_krissel.ontology.readers import read_jsonl, read_ontology

RECORD = {
    "concept_id": "C0000039",
    "canonical_name": "DPPC",
    "aliases": ["a", "DPPC", "a", ""],
    "types": ["T109"],
}


@pytest.fixture
def write(tmp_path):
    def write(*lines):
        path = tmp_path / "small.jsonl"
        path.write_text(
            "".join(f"{line if isinstance(line, str) else json.dumps(line)}\n" for line in lines)
        )
        return path

    return write


@pytest.mark.filterwarnings("error")
def test_scispacys_keys_and_ours_are_read(write):
    more = {
        **RECORD,
        "concept_id": "2",
        "definition": "A lipid.",
        "tree_numbers": ["D10.570"],
        "xrefs": ["MESH:D015060"],
        "species": "mouse",
        "source": "UMLS",
        "alt_ids": ["3"],
        "parents": ["4"],
    }
    first, second = read_jsonl(write({**RECORD, "definition": None}, "", more))
    assert first == Entity("C0000039", "DPPC", ("a",), ("T109",))
    assert second == Entity(
        "2",
        "DPPC",
        ("a",),
        ("T109",),
        ("D10.570",),
        "A lipid.",
        ("MESH:D015060",),
        "mouse",
        "UMLS",
        ("3",),
        ("4",),
    )


@pytest.mark.parametrize(
    "bad, problem",
    [
        ('{"concept_id": "1", ', "is not JSON"),
        ('["a"]', "holds a list instead of an object"),
        ('{"concept_id": "1"}', "has no 'canonical_name'"),
        ('{"canonical_name": "x"}', "has no 'concept_id'"),
        (
            '{"concept_id": 1, "canonical_name": "x"}',
            "has a int instead of a text under 'concept_id'",
        ),
        (
            '{"concept_id": "1", "canonical_name": "x", "aliases": "xyz"}',
            "has no list of texts under 'aliases'",
        ),
        (
            '{"concept_id": "1", "canonical_name": "x", "types": [1]}',
            "has no list of texts under 'types'",
        ),
        ('{"concept_id": "1", "canonical_name": "\\ud800"}', "holds half a surrogate pair"),
        ("[" * 100_000, "is (nested too deeply|not JSON)"),
    ],
)
def test_bad_record_in_the_middle_is_counted(write, bad, problem):
    path = write(RECORD, bad, {**RECORD, "concept_id": "2"})
    with pytest.warns(
        KrisselWarning, match=f"KW101.*Left out 1 of 3.*small.jsonl.*line 2 {problem}"
    ):
        assert [entity.id for entity in read_jsonl(path)] == ["C0000039", "2"]


def test_whole_surrogate_pairs_are_text(write):
    (entity,) = read_jsonl(write('{"concept_id": "1", "canonical_name": "\\ud83e\\udda0"}'))
    assert entity.name == "🦠"


def test_unknown_keys_are_counted(write):
    path = write({**RECORD, "synonyms": ["lost"]}, {**RECORD, "concept_id": "2", "synonyms": []})
    with pytest.warns(KrisselWarning, match=r"KW104.*Ignored 2 values.*'synonyms' \(2\).*aliases"):
        assert len(list(read_jsonl(path))) == 2


def test_file_cut_within_its_last_line_raises(tmp_path):
    path = tmp_path / "cut.jsonl"
    path.write_text(json.dumps(RECORD) + "\n" + json.dumps(RECORD)[:40])
    with pytest.raises(KrisselError, match="K102.*cut.jsonl.*line 2"):
        list(read_jsonl(path))


@settings(
    deadline=None, max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(st.binary(max_size=300))
def test_random_bytes_raise(tmp_path, data):
    path = tmp_path / "wild.jsonl"
    path.write_bytes(data)
    with pytest.raises(KrisselError):
        list(read_jsonl(path))


@pytest.mark.parametrize("start", ["", "\ufeff", "\n "])
@pytest.mark.parametrize("indent", [None, 2])
def test_lists_of_objects_are_read(tmp_path, start, indent):
    path = tmp_path / "list.json"
    records = [
        RECORD,
        7,
        {**RECORD, "concept_id": "2", "other": 1},
        {**RECORD, "concept_id": "\ud800"},
    ]
    path.write_text(start + json.dumps(records, indent=indent), encoding="utf8")
    with pytest.warns(KrisselWarning) as caught:
        found = list(read_ontology(path))
    assert [entity.id for entity in found] == ["C0000039", "2"]
    said = " ".join(str(each.message) for each in caught)
    assert (
        "line 2 holds a int instead of an object; line 4 holds half a surrogate" in said
        and "'other' (1)" in said
    )
    path.write_text(json.dumps([RECORD])[:-9])
    with pytest.raises(KrisselError, match="K102"):
        list(read_ontology(path))
