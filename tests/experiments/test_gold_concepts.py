import spacy
import srsly
from lab.data.gold_concepts import gold_concepts
from spacy.tokens import Span

from spacy_krissel.corpora.doc_bins import write_doc_bin
from spacy_krissel.ontology.entity import Entity
from spacy_krissel.ontology.store import write_store


def test_each_gold_concept_has_the_names_of_its_mentions(tmp_path):
    nlp = spacy.blank("en")
    docs = []
    for words, ids in (
        ("MS cold gout", ("C1", "C2|C3", "NIL")),
        ("sclerosis MS -", ("C1", "C1", "-")),
    ):
        doc = nlp.make_doc(words)
        doc.ents = [Span(doc, i, i + 1, label="X", kb_id=id_) for i, id_ in enumerate(ids)]
        docs.append(doc)
    write_doc_bin(docs, tmp_path / "gold.spacy")
    assert gold_concepts([tmp_path / "gold.spacy"], tmp_path / "concepts.jsonl") == 3
    found = {each["concept_id"]: each for each in srsly.read_jsonl(tmp_path / "concepts.jsonl")}
    assert {id_: [each["canonical_name"], *each["aliases"]] for id_, each in found.items()} == {
        "C1": ["MS", "sclerosis"],
        "C2": ["cold"],
        "C3": ["cold"],
    }


def test_concepts_take_their_names_from_a_given_store(tmp_path):
    nlp = spacy.blank("en")
    doc = nlp.make_doc("MS cold gout")
    doc.ents = [
        Span(doc, i, i + 1, label="X", kb_id=id_) for i, id_ in enumerate(("OLD1", "C2", "C9"))
    ]
    write_doc_bin([doc], tmp_path / "gold.spacy")
    entities = [
        Entity("C1", "multiple sclerosis", ("MS",), alt_ids=("OLD1",)),
        Entity("C2", "cold"),
        Entity("C3", "flu"),
    ]
    store = write_store(entities, tmp_path / "store")
    assert (
        gold_concepts([tmp_path / "gold.spacy"], tmp_path / "concepts.jsonl", ontology=store.path)
        == 2
    )
    found = list(srsly.read_jsonl(tmp_path / "concepts.jsonl"))
    assert found == [
        {"concept_id": "C1", "canonical_name": "multiple sclerosis", "aliases": ["MS"]},
        {"concept_id": "C2", "canonical_name": "cold", "aliases": []},
    ]
