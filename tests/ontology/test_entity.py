import dataclasses

import pytest

from spacy_krissel.errors import KrisselError
from spacy_krissel.ontology.entity import LISTS, Entity


def test_names_are_distinct_and_in_order():
    assert Entity("1", "MS", ("Multiple Sclerosis", "MS", " ", "ms")).names == (
        "MS",
        "Multiple Sclerosis",
        "ms",
    )


def test_entities_are_values():
    assert Entity("1", "MS") == Entity("1", "MS")
    assert len({Entity("1", "MS"), Entity("1", "MS")}) == 1
    with pytest.raises(dataclasses.FrozenInstanceError):
        Entity("1", "MS").name = "other"


@pytest.mark.parametrize("field", LISTS)
@pytest.mark.parametrize("value", ["heart attack", "", b"MI", {"MI": 1}, {"MI"}, 3, None, iter(())])
def test_fields_other_than_lists_of_texts_raise(field, value):
    with pytest.raises(KrisselError, match=f"K006.*'{field}'.*list or tuple of texts"):
        Entity("LAB:1", "x", **{field: value})


def test_lists_become_tuples():
    assert Entity("LAB:1", "x", ["heart attack", "MI"], parents=[]) == Entity(
        "LAB:1", "x", ("heart attack", "MI")
    )
    with pytest.raises(KrisselError, match=r"\('heart attack',\)"):
        Entity("LAB:1", "x", "heart attack")
