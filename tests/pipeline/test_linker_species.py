"""Genes of several species with one name: the document decides."""

from itertools import product

import numpy as np
import pytest
import spacy
from spacy.tokens import Span

from spacy_krissel import Entity, build
from spacy_krissel.evaluation.confidence import TRUST_OF_SYMBOLS, TRUST_OF_SYNONYMS
from spacy_krissel.kb import ranking
from spacy_krissel.mentions.discontinuous import FRAGMENTS_ATTR
from spacy_krissel.mentions.species import species_scores
from spacy_krissel.pipeline.linker.confidence import SPECIES_SHARPNESS, species_of
from spacy_krissel.pipeline.linker.terms import vectors

pytestmark = pytest.mark.slow

GENES = [
    Entity("1", "BRCA1", ("breast cancer 1",), species="9606"),
    Entity("2", "Brca1", ("breast cancer 1",), species="10090"),
    Entity("3", "Rad51", ("RecA",), species="10090"),
    Entity("4", "RAD51", ("RecA",), species="9606"),
    # Of one species: RecA is the preferred name of one, and of no other.
    Entity("5", "RecA", (), species="9606"),
    Entity("6", "mTOR", ("MTOR",), species="9606"),
    Entity("7", "Mtor", ("mTOR",), species="10090"),
    # Of no species.
    Entity("D1", "breast cancer"),
]
NAMES = ("BRCA1", "Rad51", "RecA", "MTOR", "brca-1")


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    return build(GENES, tmp_path_factory.mktemp("genes") / "linker").output


@pytest.fixture
def nlp(built):
    return spacy.load(built, config={"components.krissel_linker.min_confidence": 0.0})


def link(nlp, text, *mentions):
    doc = nlp.make_doc(text)
    doc.ents = [
        doc.char_span(text.index(each), text.index(each) + len(each), label="Gene")
        for each in mentions
    ]
    return [ent.kb_id_ for ent in nlp.get_pipe("krissel_linker")(doc).ents]


def test_species_of_the_document_decides(nlp):
    assert link(nlp, "Patients with BRCA1 were seen.", "BRCA1") == ["1"]
    assert link(nlp, "Mice with BRCA1 were seen.", "BRCA1") == ["2"]
    assert link(nlp, "Patients had Rad51, and men too.", "Rad51") == ["4"]
    nlp.get_pipe("krissel_linker").cfg["species_weight"] = 0.0
    assert link(nlp, "Mice with BRCA1 were seen.", "BRCA1") == link(
        nlp, "Patients with BRCA1 were seen.", "BRCA1"
    )


def test_comparing_lexically_similar_names_alone_links_the_same(nlp, monkeypatch):
    texts = [f"{who} with {name} were seen." for who in ("Men", "Mice") for name in NAMES]
    expected = [link(nlp, text, text.split()[2]) for text in texts]
    monkeypatch.setattr(vectors, "MIN_ALIKE", 0)
    searched = []
    monkeypatch.setattr(ranking, "_search_all", lambda *args: searched.extend(args[3]))
    assert [link(nlp, text, text.split()[2]) for text in texts] == expected
    # No name is compared with all prototypes.
    assert not searched


def confidence(nlp, text, mention, id_):
    doc = nlp.make_doc(text)
    doc.ents = [
        doc.char_span(text.index(mention), text.index(mention) + len(mention), label="Gene")
    ]
    (ent,) = nlp.get_pipe("krissel_linker")(doc).ents
    return {each["id"]: each["confidence"] for each in ent._.krissel_candidates}[id_]


@pytest.mark.parametrize("n_candidates", [1, 2, 64])
def test_confidence_includes_the_species_probability(nlp, n_candidates):
    """With two genes of the name, it is that of a name times the probability of the species."""
    linker = nlp.get_pipe("krissel_linker")
    linker.cfg["n_candidates"] = n_candidates
    for text, species in (("Mice with BRCA1 were seen.", 1), ("BRCA1 was seen.", 0)):
        doc = nlp.make_doc(text)
        start = text.index("BRCA1")
        span = doc.char_span(start, start + 5, label="Gene")
        odds = np.exp(SPECIES_SHARPNESS * species_scores(doc, [span], ["9606", "10090"])[0])
        known = 0.75 * 0.6 / (0.75 * 0.6 + 0.25 * 0.01)
        expected = known * odds[species] / odds.sum()
        # The preferred name, its other spelling, and a synonym.
        for mention, trust in (
            ("BRCA1", TRUST_OF_SYMBOLS),
            ("BRCA-1", TRUST_OF_SYNONYMS),
            ("breast cancer 1", TRUST_OF_SYNONYMS),
        ):
            found = confidence(nlp, text.replace("BRCA1", mention), mention, str(species + 1))
            assert found == pytest.approx(trust * expected, abs=1e-4) and found > 0.7


def test_an_ordinary_word_is_no_evidence_for_a_gene(tmp_path):
    """Genes are called "pain" and "anxiety"; in a text, such a word is as often no gene."""
    words = ("pain", "hypertension", "anxiety")
    genes = [
        Entity(f"{i}", f"ABC{i}", (word,), species=species)
        for i, (word, species) in enumerate(product((*words, "XYZ"), ("9606", "10090")))
    ]
    nlp = build(genes, tmp_path / "genes").nlp
    others = [Entity(f"D{i}", word) for i, word in enumerate(words)]
    plain = build(others, tmp_path / "plain").nlp
    for i, word in enumerate(words):
        for mention in (word, word.capitalize()):
            text = f"Patients had {mention}"
            assert 0.6 < confidence(nlp, text, mention, f"{2 * i}") < 0.75
            assert confidence(plain, text, mention, f"D{i}") > 0.9
        # A symbol is no word.
        text = f"Patients had {word.upper()}"
        assert confidence(nlp, text, word.upper(), f"{2 * i}") > 0.8


def test_a_gene_of_a_species_that_the_text_does_not_name_is_unlikely(tmp_path):
    """Genes of the fly are called "reduced" and "six"; other texts have these words, too."""
    names = ("reduced", "six", "Sxl", "B4")
    genes = [
        *(Entity(f"F{i}", name, species="7227") for i, name in enumerate(names)),
        *(Entity(f"{i}{of}", f"XYZ{i}", species=of) for i in range(8) for of in ("9606", "7227")),
    ]
    nlp = build(genes, tmp_path / "genes").nlp
    for i, name in enumerate(names):
        assert confidence(nlp, f"Patients had {name}", name, f"F{i}") < 0.05
        assert confidence(nlp, f"In Drosophila, {name} was seen", name, f"F{i}") > 0.6


def test_spellings_of_one_species_are_one_species(tmp_path):
    """Example: a gene of 9606 and a cell line of Homo sapiens."""
    genes = [Entity("1", "HELA1", species="9606"), Entity("2", "HELA1", species="Homo sapiens")]
    # One of two names is shared.
    nlp = build([*genes, Entity("3", "Hela2", species="10090")], tmp_path / "nlp").nlp
    found = confidence(nlp, "Mice with Hela2", "Hela2", "3")
    assert found == pytest.approx(TRUST_OF_SYMBOLS, abs=0.01)
    kind = species_of(nlp.get_pipe("krissel_linker").kb, np.array([[0, 1, 2, -1]]))
    assert kind[0, 0] == kind[0, 1] != kind[0, 2] and kind[0, 3] == -1


def test_rarely_shared_names_give_no_species_weight(tmp_path):
    """Names of cell lines, for example, need no species to be disambiguated."""
    lines = [
        Entity(f"CVCL_{i:04}", f"LN-{i}", (f"LN{i}x",), species=("9606", "10090")[i % 2])
        for i in range(30)
    ]
    cfg = (
        build([*lines, Entity("CVCL_1", "LN-1", species="10116")], tmp_path / "nlp")
        .nlp.get_pipe("krissel_linker")
        .cfg
    )
    assert cfg["species_weight"] == 0


def test_each_document_of_a_batch_has_its_own_species(nlp):
    docs = []
    for text in ("No mention.", "Mice with BRCA1.", "Patients with BRCA1.", "BRCA1 in mice."):
        doc = nlp.make_doc(text)
        start = text.find("BRCA1")
        doc.ents = [doc.char_span(start, start + 5, label="Gene")] if start >= 0 else []
        docs.append(doc)
    linked = nlp.get_pipe("krissel_linker").pipe(docs, batch_size=4)
    assert [[ent.kb_id_ for ent in doc.ents] for doc in linked] == [[], ["2"], ["1"], ["2"]]


def test_name_preferred_in_one_species_is_found_in_another(nlp):
    # In man RecA is one gene's preferred name; in mice it is the other name of Rad51.
    assert link(nlp, "Patients with RecA", "RecA") == ["5"]
    assert link(nlp, "Mice with RecA", "RecA") == ["3"]


def test_species_prefix_is_stripped_from_the_name(nlp):
    assert link(nlp, "In mice, hBRCA1 was made.", "hBRCA1") == ["1"]
    assert link(nlp, "In patients, mRad51 was made.", "mRad51") == ["3"]
    # Here it is part of the name.
    assert link(nlp, "In patients, mTOR was active.", "mTOR") == ["6"]


def test_disease_wins_over_genes(nlp):
    assert link(
        nlp, "In patients, women with breast cancer were seen by patients.", "breast cancer"
    ) == ["D1"]


def test_fragments_of_a_mention_share_their_species(built):
    nlp = spacy.load(
        built, config={"components.krissel_linker": {"min_confidence": 0.0, "spans_key": "found"}}
    )
    doc = nlp.make_doc(
        "Of mice and mice, in mice BRCA1 was lost. Patients, patients had the protein."
    )
    doc.spans["found"] = [
        Span(doc, 7, 8, label="Gene", span_id="m1"),
        Span(doc, 16, 17, label="Gene", span_id="m1"),
        Span(doc, 7, 8, label="Gene", span_id="m2"),
    ]
    doc.spans["found"].attrs[FRAGMENTS_ATTR] = True
    assert [span.text for span in doc.spans["found"]] == ["BRCA1", "protein", "BRCA1"]
    first, second, _ = nlp.get_pipe("krissel_linker")(doc).spans["found"]
    assert first.kb_id_ == second.kb_id_


def test_candidates_state_the_species_score(nlp):
    doc = nlp.make_doc("Mice with BRCA1")
    doc.ents = [doc.char_span(10, 15, label="Gene")]
    first, second, *_ = nlp.get_pipe("krissel_linker")(doc).ents[0]._.krissel_candidates
    assert (first["id"], second["id"]) == ("2", "1")
    assert 0 >= first["species"] > second["species"]
    weight = nlp.get_pipe("krissel_linker").cfg["lexical_weight"]
    for each in (first, second):
        assert each["score"] == pytest.approx(
            each["vector"] + weight * each["lexical"] + each["species"] + each["spelling"], abs=1e-5
        )
        assert each["spelling"] == pytest.approx(0.2)


def test_abbreviation_that_is_a_name_is_still_found(nlp):
    """No gene has the long form, most of whose n-grams count against it."""
    linker = nlp.get_pipe("krissel_linker")
    linker.cfg["spelling_weight"] = 0.3
    doc = nlp.make_doc("Patients with mild thoracic occlusive rhabdomyoma (MTOR), and MTOR")
    doc.ents = [Span(doc, len(doc) - 1, len(doc), label="Gene")]
    first = linker(doc).ents[0]._.krissel_candidates[0]
    assert first["id"] == "6" and first["spelling"] == pytest.approx(0.3)
    linker.cfg["spelling_weight"] = 0.0
    first = linker(doc).ents[0]._.krissel_candidates[0]
    assert first["id"] != "6" and "spelling" not in first


def test_entities_of_one_species_have_no_species_weight(tmp_path):
    built = build(
        [Entity("1", "BRCA1", species="9606"), Entity("2", "gout", species="9606")],
        tmp_path / "linker",
    )
    cfg = built.nlp.get_pipe("krissel_linker").cfg
    assert cfg["species_weight"] == 0
