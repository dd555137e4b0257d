from spacy_krissel.ontology.build import build_ontology
from spacy_krissel.ontology.entity import Entity
from spacy_krissel.ontology.store import OntologyStore, write_store


def test_types_are_the_tops_of_the_trees(tmp_path):
    entities = [
        Entity(
            "D1",
            "Multiple Sclerosis",
            types=("Disease",),
            tree_numbers=("C10.114.375", "C20.111", "C10.9"),
        ),
        Entity("D2", "Nerves", types=("Disease",), tree_numbers=("C10",)),
        Entity("D3", "Orphan", types=("Disease",)),
        Entity("D4", "Elsewhere", tree_numbers=("X03.1",)),
    ]
    write_store(entities, tmp_path / "plain")
    store = build_ontology(tmp_path / "plain", tmp_path / "typed", tree_types=True)
    assert {entity.id: entity.types for entity in store} == {
        "D1": ("Nerves", "Immune System Diseases"),
        "D2": ("Nerves",),
        "D3": ("Disease",),
        "D4": ("X03",),
    }
    assert store.manifest["info"]["tree_types"] and len(OntologyStore(tmp_path / "plain")) == 4
    assert store.get("D1").tree_numbers == entities[0].tree_numbers
