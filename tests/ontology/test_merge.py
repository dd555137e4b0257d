"""Several ontologies as one."""

from collections import Counter

import pytest

from spacy_krissel.ontology.enrich import merge
from spacy_krissel.ontology.entity import Entity
from spacy_krissel.ontology.store import write_store


@pytest.fixture
def merged(tmp_path):
    def merge_all(*ontologies, counts=None):
        stores = [
            write_store(entities, tmp_path / str(number))
            for number, entities in enumerate(ontologies)
        ]
        return list(merge(stores, counts=counts))

    return merge_all


def test_first_ontology_has_priority_and_is_completed(merged):
    ours = Entity("D1", "Gout", ("Podagra",), ("Disease",), xrefs=("DOID:13189",), source="MEDIC")
    theirs = Entity(
        "DOID:13189",
        "gout",
        ("Podagra", "gouty arthritis"),
        ("x",),
        ("1.2",),
        "Crystals.",
        ("UMLS:C1",),
    )
    counts = Counter()
    (found,) = merged([ours], [theirs], counts=counts)
    assert found == Entity(
        "D1",
        "Gout",
        ("Podagra", "gout", "gouty arthritis"),
        ("Disease",),
        ("1.2",),
        "Crystals.",
        ("UMLS:C1",),
        source="MEDIC",
        alt_ids=("DOID:13189",),
    )
    assert counts == {"seen": 2, "merged": 1}
    (other,) = merged([theirs], [ours])
    assert (other.id, other.name, other.definition, other.alt_ids) == (
        "DOID:13189",
        "gout",
        "Crystals.",
        ("D1",),
    )


def test_xref_without_a_common_name_does_not_merge(merged):
    wide, narrow = Entity("D1", "Arthritis"), Entity("X:2", "Gouty arthritis", xrefs=("D1",))
    assert merged([wide], [narrow]) == [wide, narrow]


def test_common_id_merges_without_a_common_name(merged):
    (found,) = merged(
        [Entity("D000001", "Gout", alt_ids=("MIM:7",))], [Entity("OMIM:7", "Uric acid disease")]
    )
    assert (found.id, found.aliases, found.alt_ids) == (
        "D000001",
        ("Uric acid disease",),
        ("MIM:7",),
    )


def test_common_name_alone_does_not_merge(merged):
    first, second = Entity("A:1", "MS"), Entity("B:1", "MS")
    assert merged([first], [second]) == [first, second]


def test_merging_is_transitive(merged):
    chain = [
        [Entity("A:1", "gout")],
        [Entity("B:1", "gout", ("podagra",), xrefs=("A:1",))],
        [Entity("C:2", "other"), Entity("C:1", "podagra", xrefs=("B:1",))],
    ]
    found = merged(*chain)
    assert [entity.id for entity in found] == ["A:1", "C:2"]
    assert found[0].alt_ids == ("B:1", "C:1") and found[0].names == ("gout", "podagra")


def test_entity_is_merged_into_only_one_other(merged):
    both = Entity("B:1", "gout", xrefs=("A:1", "A:2"))
    found = merged([Entity("A:1", "gout"), Entity("A:2", "Gout")], [both])
    assert [(entity.id, entity.alt_ids) for entity in found] == [("A:1", ("B:1",)), ("A:2", ())]
