from dataclasses import replace

import pytest

from spacy_krissel.evaluation.distance import link_distance
from spacy_krissel.ontology.entity import Entity
from spacy_krissel.ontology.store import write_store

NUMBERS = {"D1": ("C1",), "D2": ("C1.2",), "D3": ("C1.2.3",), "D4": ("C1.4",), "D5": ()}
PARENTS = {"D1": ("D0",), "D2": ("D1",), "D3": ("D2",), "D4": ("X:1",), "D5": ()}


@pytest.fixture(params=["numbers", "parents"])
def placed(request, tmp_path):
    entities = [
        Entity(id_, id_, tree_numbers=NUMBERS[id_])
        if request.param == "numbers"
        else Entity(id_, id_, parents=PARENTS[id_])
        for id_ in NUMBERS
    ]
    # D4 names its parent by another id.
    return write_store([replace(entities[0], alt_ids=("X:1",)), *entities[1:]], tmp_path / "store")


def test_wrong_links_are_counted_by_distance_in_the_hierarchy(placed, make_record):
    answers = (("D2", "D1"), ("D2", "D3"), ("D2", "D4"), ("D2", "D5"), ("D1", "D3"), ("D404", "D2"))
    records = [make_record(gold=(gold,), prediction=prediction) for gold, prediction in answers]
    found = link_distance(records, placed)
    assert found == {"n": 6, "parent": 1 / 6, "child": 1 / 6, "sibling": 1 / 6, "other": 1 / 2}
    composite = make_record(gold=("D1", "D4"), prediction="D2")
    assert link_distance([composite], placed)["child"] == 1, "of the nearest gold entity"


def test_only_wrong_links_have_a_distance(placed, make_record):
    answers = (("D2", "D2"), ("NIL", "D1"), ("D2", ""), ("D2", "NIL"))
    records = [make_record(gold=(gold,), prediction=prediction) for gold, prediction in answers]
    records.append(make_record(gold=("D2",), prediction="D1", ties=["D1", "D2"]))
    assert link_distance(records, placed) is None


def test_an_ontology_without_a_hierarchy_has_no_distances(store, make_record):
    assert link_distance([make_record(gold=("D5",), prediction="D1")], store) is None
