import pytest

from spacy_krissel.mentions.gold_ids import (
    is_composite,
    is_nil,
    map_ids,
    read_ids,
    split_ids,
    to_kb_id,
)


@pytest.mark.parametrize(
    "kb_id, concepts",
    [
        ("D1", ["D1"]),
        ("D1|D2", ["D1", "D2"]),
        ("D1+OMIM:2 | D1", ["D1", "OMIM:2"]),
        ("-1|D1", ["D1"]),
        ("-1", []),
        ("-", []),
        ("NIL", []),
        ("", []),
        ("CVCL_0045", ["CVCL_0045"]),
    ],
)
def test_split(kb_id, concepts):
    assert split_ids(kb_id) == concepts


def test_no_concept_is_not_the_same_as_no_annotation():
    assert is_nil("-1") and is_nil(" - ") and is_nil("NIL") and is_nil("-1|-")
    assert not is_nil("") and not is_nil("D1|-1")
    assert to_kb_id("-1|-1") == "NIL" and to_kb_id("") == ""


def test_a_composite_of_one_concept_is_still_written_as_one():
    assert is_composite("D1|D1") and is_composite("D1 + D2") and is_composite("D1|-1")
    assert not is_composite("D1") and not is_composite("-1|-1") and not is_composite("")


def test_mapping_keeps_joints_and_marks():
    assert map_ids("OMIM:1 + D2|-1", lambda concept: concept.removeprefix("OMIM:")) == "1+D2|-1"
    assert map_ids("-1", str.lower) == "NIL"


@pytest.mark.parametrize(
    "raw, kb_id",
    [
        ("4363,9429", "4363|9429"),
        ("4363 ; 9429,7", "4363|9429|7"),
        ("4535(Tax:9606),4363(tax:10090)", "4535|4363"),
        ("MESH:D001,MESH:D002", "MESH:D001|MESH:D002"),
        ("D1+D2 | D3", "D1+D2 | D3"),
        ("-", "-"),
        ("", ""),
    ],
)
def test_joints_of_publishers(raw, kb_id):
    assert read_ids(raw) == kb_id


@pytest.mark.parametrize("function", [read_ids, to_kb_id, split_ids])
def test_long_white_space_takes_quadratic_time(function):
    raw = "D1" + " " * 200_000 + "x" + " " * 200_000 + "| D2"
    found = function(raw)
    assert "|".join(found if isinstance(found, list) else [found]).replace(" ", "") == "D1x|D2"
