"""Plurals of names as mentions that another component found."""

import pytest
import spacy
from spacy.tokens import Span

from spacy_krissel import Entity, add_corrections, build
from spacy_krissel.evaluation.confidence import TRUST

ENTITIES = [
    Entity("S1", "cough", ("tussis",)),
    Entity("S2", "nosebleed", ("epistaxis",)),
    Entity("S3", "branchial fistula"),
    Entity("S4", "metastasis to the liver"),
    Entity("S5", "amyotrophic lateral sclerosis", ("AL",)),
    Entity("S6", "basis"),
    Entity("S7", "base"),
    Entity("S8", "hives", ("urticaria",)),
    Entity("S9", "hive"),
    Entity("S10", "Alcohols"),
    Entity("S11", "Methanol"),
    Entity("S12", "ventricular septal defect", ("VSD",)),
]


@pytest.fixture
def nlp(make_once):
    folder = make_once("plurals", lambda folder: build(ENTITIES, folder / "nlp"))
    return spacy.load(folder / "nlp")


def link(nlp, mention, text="She had {} today."):
    text = text.format(mention)
    doc = nlp.make_doc(text)
    start = text.index(mention)
    doc.ents = [doc.char_span(start, start + len(mention), label="X")]
    linker = nlp.get_pipe("krissel_linker")
    (ent,) = linker(doc).ents
    return ent


@pytest.mark.parametrize(
    "plural, id_",
    [
        ("coughs", "S1"),
        ("Nosebleeds", "S2"),
        ("branchial fistulae", "S3"),
        ("metastases to the liver", "S4"),
    ],
)
def test_the_plural_of_a_name_is_linked_as_that_name(nlp, plural, id_):
    ent = link(nlp, plural)
    best = ent._.krissel_candidates[0]
    assert (ent.kb_id_, best["match"]) == (id_, "variant")
    assert best["confidence"] == pytest.approx(TRUST, abs=0.01)


def test_a_listed_plural_an_acronym_and_a_singular_are_no_plural(nlp):
    assert link(nlp, "hives").kb_id_ == "S8"
    assert link(nlp, "hive").kb_id_ == "S9"
    assert link(nlp, "ALS")._.krissel_candidates[0]["match"] != "variant"
    assert link(nlp, "alcohol")._.krissel_candidates[0]["match"] != "variant"


def test_the_plural_of_an_acronym_keeps_its_capitals(nlp):
    one, several = (link(nlp, mention)._.krissel_candidates[0] for mention in ("VSD", "VSDs"))
    assert (several["id"], several["match"]) == ("S12", "variant")
    assert several["confidence"] == pytest.approx(one["confidence"], abs=0.01)


def test_the_plural_of_two_names_is_of_neither(nlp):
    assert link(nlp, "bases")._.krissel_candidates[0]["match"] != "variant"


def test_a_correction_of_a_plural_wins(nlp):
    kb = nlp.get_pipe("krissel_linker").kb
    doc = nlp.make_doc("She had coughs today.")
    doc.ents = [Span(doc, 2, 3, label="X", kb_id="S2")]
    before = link(nlp, "coughs")._.krissel_candidates
    add_corrections(kb, [doc], source="mine")
    assert link(nlp, "coughs").kb_id_ == "S2"
    kb.remove_verdicts(source="mine")
    assert link(nlp, "coughs")._.krissel_candidates == before
