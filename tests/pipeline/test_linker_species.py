"""Genes of several species with one name: the document decides."""

import numpy as np
import pytest

from spacy_krissel import Entity, build
from spacy_krissel.errors import KrisselError

GENES = [
    Entity("1", "BRCA1", ("breast cancer 1",), species="9606"),
    Entity("2", "Brca1", ("breast cancer 1",), species="10090"),
    Entity("3", "Rad51", ("RecA",), species="10090"),
    Entity("4", "RAD51", ("RecA",), species="9606"),
    # Of one species: RecA is the preferred name of one, and of no other.
    Entity("5", "RecA", (), species="9606"),
]


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    return build(GENES, tmp_path_factory.mktemp("genes") / "linker").output


@pytest.fixture
def nlp(built):
    import spacy

    return spacy.load(built, config={"components.krissel_linker.min_confidence": 0.0})


def link(nlp, text, *mentions):
    doc = nlp.make_doc(text)
    doc.ents = [doc.char_span(text.index(each), text.index(each) + len(each), label="Gene") for each in mentions]
    return [ent.kb_id_ for ent in nlp.get_pipe("krissel_linker")(doc).ents]


def test_the_species_of_the_document_does_not_decide(nlp):
    assert link(nlp, "Patients with BRCA1 were seen.", "BRCA1") == ["1"]
    assert link(nlp, "Mice with BRCA1 were seen.", "BRCA1") == ["2"]
    assert link(nlp, "Patients had Rad51, and men too.", "Rad51") == ["4"]
    nlp.get_pipe("krissel_linker").cfg["species_weight"] = 0.0
    assert link(nlp, "Mice with BRCA1 were seen.", "BRCA1") == link(nlp, "Patients with BRCA1 were seen.", "BRCA1")


def test_documents_of_a_batch_share_their_species(nlp):
    docs = []
    for text in ("No mention.", "Mice with BRCA1.", "Patients with BRCA1.", "BRCA1 in mice."):
        doc = nlp.make_doc(text)
        start = text.find("BRCA1")
        doc.ents = [doc.char_span(start, start + 5, label="Gene")] if start >= 0 else []
        docs.append(doc)
    linked = nlp.get_pipe("krissel_linker").pipe(docs, batch_size=4)
    assert [[ent.kb_id_ for ent in doc.ents] for doc in linked] == [[], ["2"], ["1"], ["2"]]


def test_a_name_preferred_in_one_species_is_lost_in_another(nlp):
    # In man RecA is one gene's preferred name; in mice it is the other name of Rad51.
    assert link(nlp, "Patients with RecA", "RecA") == ["5"]
    assert link(nlp, "Mice with RecA", "RecA") == ["3"]


def test_a_prefix_hides_the_name(nlp):
    assert link(nlp, "In mice, hBRCA1 was made.", "hBRCA1") == ["1"]
    assert link(nlp, "In patients, mRad51 was made.", "mRad51") == ["3"]


def test_candidates_do_not_say_what_the_species_adds(nlp):
    doc = nlp.make_doc("Mice with BRCA1")
    doc.ents = [doc.char_span(10, 15, label="Gene")]
    first, second, *_ = nlp.get_pipe("krissel_linker")(doc).ents[0]._.krissel_candidates
    assert (first["id"], second["id"]) == ("2", "1")
    assert 0 >= first["species"] > second["species"]
    weight = nlp.get_pipe("krissel_linker").cfg["lexical_weight"]
    for each in (first, second):
        assert each["score"] == pytest.approx(each["vector"] + weight * each["lexical"] + each["species"], abs=1e-5)


def test_scores_of_other_species_than_the_knowledge_bases(nlp):
    kb = nlp.get_pipe("krissel_linker").kb
    assert sorted(kb.species) == ["10090", "9606"]
    for shape in ((2, 2), (1, 3), (2,)):
        with pytest.raises(KrisselError, match="K006.*species"):
            kb.search(np.ones((1, kb.entity_vector_length)), 1, species=np.zeros(shape))


def test_entities_of_one_species_have_a_weight(tmp_path):
    built = build([Entity("1", "BRCA1", species="9606"), Entity("2", "gout", species="9606")], tmp_path / "linker")
    assert built.nlp.get_pipe("krissel_linker").cfg["species_weight"] == 0
