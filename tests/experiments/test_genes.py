"""Genes: baselines of one species, and what species words are fitted to."""

import json

import pytest
import spacy
from lab.fit_species import fit_species
from lab.gene_baselines import gene_baselines
from spacy.tokens import Span

from spacy_krissel.evaluation.gold import GoldDoc
from spacy_krissel.evaluation.records import LinkRecord
from spacy_krissel.mentions.species import WEIGHTS
from spacy_krissel.mining.mine import mine
from spacy_krissel.ontology.entity import Entity
from spacy_krissel.ontology.store import write_store

GENES = [
    Entity("1", "BRCA1", ("IRIS", "brca 1 protein"), species="9606"),
    Entity("2", "Brca1", ("brca 1 protein",), species="10090"),
    Entity("3", "Brca1", (), species="10116"),
    Entity("4", "IRIS", (), species="9606"),
    Entity("5", "Iris", (), species="10090"),
    Entity("6", "ey", ("brca1",), species="7227"),
]


@pytest.fixture
def store(tmp_path):
    return write_store(GENES, tmp_path / "store")


def test_baselines_use_the_species_of_the_document(store):
    nlp = spacy.blank("en")
    texts = (
        "Rats with BRCA1.",
        "BRCA1 was found.",
        "Mice with IRIS.",
        "Patients with IRIS.",
        "Flies with nothing.",
    )
    docs = [nlp.make_doc(text) for text in texts]
    gold = [GoldDoc(str(i), doc, []) for i, doc in enumerate(docs)]
    places = [
        (doc, Span(doc, 0 if doc[0].text == "BRCA1" else 2, 1 if doc[0].text == "BRCA1" else 3))
        for doc in docs
    ]
    records = [
        LinkRecord(str(i), span.start_char, span.end_char, span.text, "Gene", ("1",), found=True)
        for i, (_, span) in enumerate(places)
    ]
    found = {
        title: [(each.prediction, sorted(each.ties)) for each in rows]
        for title, rows in gene_baselines(records, gold, store).items()
    }
    none = ("", [])
    assert found["exact, human first"] == [
        ("1", []),
        ("1", []),
        ("1", ["1", "4"]),
        ("1", ["1", "4"]),
        none,
    ]
    # The one with the name as its preferred name.
    assert found["the same, rules"] == [("1", []), ("1", []), ("4", []), ("4", []), none]
    assert found["exact, the document's species, rules"] == [
        ("3", []),
        ("1", []),
        ("5", []),
        ("4", []),
        none,
    ]


def test_fitted_species_weights_follow_the_texts(tmp_path):
    """In these texts the species of the title decides, whatever else is named."""
    species = {"9606": "patients", "10090": "mice", "10116": "rats"}
    genes = [
        Entity(f"{taxon}-{i}", f"{name[0]}gen{i}x", species=taxon)
        for taxon, name in species.items()
        for i in range(9)
    ]
    store = write_store(genes, tmp_path / "store")
    names = list(species.values())
    texts = []
    for i, gene in enumerate(genes):
        other = names[(names.index(species[gene.species]) + 1 + i % 2) % 3]
        text = (
            f"A study of {species[gene.species]}. Cells of {other} had {gene.name} in them, and "
            f"{other} others."
        )
        texts.append({"id": gene.id, "text": text})
    path = tmp_path / "texts.jsonl"
    path.write_text("".join(json.dumps(each) + "\n" for each in texts))
    mine(store, [path], tmp_path / "mentions", seed=0)
    weights, n = fit_species(store.path, tmp_path / "mentions", path)
    assert n == len(genes)
    assert weights.title > 1 > 0 > weights.sentence
    assert weights.prefix == WEIGHTS.prefix
