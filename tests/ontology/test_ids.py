import pytest
from hypothesis import given
from hypothesis import strategies as st

from spacy_krissel.ontology.entity import add_prefix, canonical_id, check_prefix, spellings


@pytest.mark.parametrize(
    "text, canonical",
    [
        ("D009103", "MESH:D009103"),
        ("MSH:D009103", "MESH:D009103"),
        ("MeSH:C537227", "MESH:C537227"),
        ("D000077145", "MESH:D000077145"),
        ("C0018923", "UMLS:C0018923"),
        ("UMLS_CUI:C0018923", "UMLS:C0018923"),
        ("MIM:145250", "OMIM:145250"),
        ("Orphanet:98784", "ORPHA:98784"),
        ("SNOMEDCT_US_2016_03_01:33176006", "SNOMEDCT:33176006"),
        ("taxid:9606", "NCBITaxon:9606"),
        ("GeneID:1956", "NCBIGene:1956"),
        ("cvcl:b375", "CVCL_B375"),
        ("Cellosaurus:CVCL_0030", "CVCL_0030"),
        ("CVCL_00300", "CVCL_00300"),
        # A number says nothing about whose it is, and unknown prefixes are left alone.
        ("145250", "145250"),
        ("DOID:13628", "DOID:13628"),
        ("http://example.org/1", "http://example.org/1"),
    ],
)
def test_ids_have_one_canonical_spelling(text, canonical):
    assert canonical_id(text) == canonical


@given(st.text())
def test_canonical_form_is_stable(text):
    assert canonical_id(canonical_id(text)) == canonical_id(text)
    assert spellings(text)[0] == text


def test_prefix_is_dropped_only_from_unambiguous_ids():
    assert spellings("MSH:D009103") == ["MSH:D009103", "MESH:D009103", "D009103"]
    assert spellings("CVCL:0030") == ["CVCL:0030", "CVCL_0030"]
    # 145250 may as well be a gene or a species.
    assert spellings("OMIM:145250") == ["OMIM:145250"]


def test_prefix_is_added_only_to_ids_without_one():
    assert check_prefix("NCBITaxon") == check_prefix("NCBITaxon:") == "NCBITaxon"
    assert add_prefix("9606", "NCBITaxon") == "NCBITaxon:9606"
    assert add_prefix("MESH:D1", "NCBITaxon") == "MESH:D1" and add_prefix("9606", "") == "9606"
