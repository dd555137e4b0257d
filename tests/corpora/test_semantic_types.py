import pytest

from spacy_krissel.corpora.semantic_types import PEL, ST21PV, preset_types, type_key, type_keys
from spacy_krissel.errors import KrisselError


def test_the_sets_of_the_papers():
    assert len(ST21PV) == 21 and len(PEL) == 11
    assert preset_types("pel")[0] == "T041"
    # Types of both have one name.
    assert {id_: PEL[id_] for id_ in PEL.keys() & ST21PV.keys()} == {id_: ST21PV[id_] for id_ in PEL.keys() & ST21PV}


def test_a_type_is_known_by_id_and_by_name_in_any_spelling():
    assert type_key("T196") == type_key("Element, Ion, or Isotope") == type_key("element ion or isotope")
    assert type_key("T041") != type_key("T058")
    assert type_key("Disease") == type_key("disease") != type_key("T047")


def test_misspelt_settings():
    with pytest.raises(KrisselError, match="K006.*preset.*'st22pv'.*st21pv, pel"):
        preset_types("st22pv")
    with pytest.raises(KrisselError, match="K006.*types"):
        type_keys("Disease")
