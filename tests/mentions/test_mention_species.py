import pytest
import spacy
from spacy.tokens import Span

from spacy_krissel.mentions.species import NOTHING, assigned_species, species_key

NLP = spacy.blank("en")


@pytest.mark.parametrize(
    "text, key",
    [("9606", "9606"), ("NCBITaxon:9606", "9606"), (" NCBITaxID:10090 ", "10090"), ("Homo  sapiens", "homo sapiens")],
)
def test_keys(text, key):
    assert species_key(text) == key


def assigned(text, **links):
    """text: words, species in capitals, mentions called "gene". RETURNS: the keys of each gene."""
    doc = NLP.make_doc(text)
    spans = [Span(doc, token.i, token.i + 1, label="Gene") for token in doc if token.text == "gene"]
    species = [
        Span(doc, token.i, token.i + 1, label="Species", kb_id=links.get(token.text, ""))
        for token in doc
        if token.text.isupper() and len(token) > 1
    ]
    return [set(keys) for keys in assigned_species(doc, spans, species)]


def test_the_last_before_it_in_the_sentence():
    assert assigned("MICE and RATS with gene and MEN . DOGS too .") == [{"rats"}]


def test_else_the_first_after_it():
    assert assigned("DOGS bark . The gene of MICE and RATS .") == [{"mice"}]


def test_else_the_usual_one():
    assert assigned("DOGS bark . MICE eat , DOGS and RATS too . A gene alone .") == [{"dogs"}]
    # Two names of one species, by its id.
    links = {"MEN": "9606", "WOMEN": "NCBITaxon:9606"}
    assert assigned("MICE , MEN . WOMEN here . A gene alone .", **links) == [{"9606", "men"}]
    # Of two that are named as often, the first.
    assert assigned("MICE , MEN . A gene alone .") == [{"mice"}]


def test_none():
    assert assigned("A gene alone .") == [set()]
    doc = NLP.make_doc("gene")
    assert assigned_species(doc, [doc[0:1]], []) == [NOTHING]


def test_what_is_not_in_the_knowledge_base_has_its_text():
    assert assigned("A gene of MICE .", MICE="NIL") == [{"mice"}]
