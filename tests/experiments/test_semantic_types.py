import pytest
from lab.data.semantic_types import PEL, preset_types, type_key

from spacy_krissel.errors import KrisselError


def test_the_pel_preset_has_11_types():
    assert len(PEL) == 11 and preset_types("pel")[0] == "T041"


def test_spellings_of_a_type_have_the_same_key():
    assert (
        type_key("T196")
        == type_key("Element, Ion, or Isotope")
        == type_key("element ion or isotope")
    )
    assert type_key("T041") != type_key("T058")
    assert type_key("Disease") == type_key("disease") != type_key("T047")


def test_an_unknown_preset_raises():
    with pytest.raises(KrisselError, match="K006.*preset.*'st22pv'.*pel"):
        preset_types("st22pv")
