import dataclasses

import pytest

from spacy_krissel.ontology.entity import Entity


def test_names_are_the_different_ones_in_order():
    assert Entity("1", "MS", ("Multiple Sclerosis", "MS", " ", "ms")).names == ("MS", "Multiple Sclerosis", "ms")


def test_entities_are_values():
    assert Entity("1", "MS") == Entity("1", "MS")
    assert len({Entity("1", "MS"), Entity("1", "MS")}) == 1
    with pytest.raises(dataclasses.FrozenInstanceError):
        Entity("1", "MS").name = "other"
