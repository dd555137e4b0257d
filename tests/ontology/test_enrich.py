from collections import Counter

import pytest

from spacy_krissel.errors import KrisselError
from spacy_krissel.ontology.build import build_ontology
from spacy_krissel.ontology.enrich import FIELDS, enrich
from spacy_krissel.ontology.entity import Entity
from spacy_krissel.ontology.readers import read_mesh_tree, read_obo
from spacy_krissel.ontology.store import write_store
from spacy_krissel.util.folding import canonical_name, fold_name


@pytest.fixture
def make(tmp_path):
    numbers = iter(range(100))
    return lambda *entities: write_store(entities, tmp_path / f"other{next(numbers)}")


def one(entity, *others, **options):
    (enriched,) = enrich([entity], list(others), **options)
    return enriched


def test_spelling_of_prefixes_does_not_matter(make):
    other = make(Entity("DOID:2377", "MS", definition="A disease.", xrefs=("MSH:D009103",)))
    assert one(Entity("D009103", "x"), other).definition == "A disease."
    assert one(Entity("MESH:D009103", "x"), other).definition == "A disease."
    assert one(Entity("7", "x", alt_ids=("MeSH:D009103",)), other).definition == "A disease."
    assert one(Entity("D009104", "x"), other).definition == ""


def test_links_run_both_ways_but_not_over_a_third_id(make):
    other = make(Entity("U1", "a", definition="Found.", xrefs=("OMIM:1",), alt_ids=("U2",)))
    assert one(Entity("E", "x", xrefs=("U1",)), other).definition == "Found."
    assert one(Entity("E", "x", xrefs=("U2",)), other).definition == "Found."
    assert one(Entity("E", "x", xrefs=("OMIM:1",)), other).definition == ""
    assert one(Entity("OMIM:1", "x"), other).definition == "Found."
    # The same id as id and as xref counts as an id.
    assert one(Entity("OMIM:1", "x", xrefs=("OMIM:1",)), other).definition == "Found."


def test_stronger_links_come_first(make):
    by_xref = make(
        Entity("A1", "far", definition="xref, other name", xrefs=("E",), tree_numbers=("X.1",)),
        Entity("A2", "Near", definition="xref, same name", xrefs=("E",), tree_numbers=("X.2",)),
        Entity("A3", "Near", xrefs=("E",)),
    )
    namesake = make(
        Entity("A1", "narrower", definition="too narrow", xrefs=("E",)),
        Entity("A2", "Near", xrefs=("E",)),
    )
    by_id = make(Entity("E", "e", definition="same id", tree_numbers=("T.1", "T.2")))
    by_alternative = make(Entity("E9", "e", tree_numbers=("T.2", "T.3"), alt_ids=("E",)))
    entity = Entity("E", "near")
    assert one(entity, by_xref, by_id).definition == "same id"
    assert one(entity, by_xref).definition == "xref, same name"
    assert one(entity, by_xref).tree_numbers == ("X.2",)
    assert one(entity, by_xref, by_id, by_alternative).tree_numbers == ("T.1", "T.2", "T.3")
    assert one(entity, namesake).definition == ""
    assert one(entity, namesake, by_xref).definition == "xref, same name"
    # The order of the others decides between equal links.
    preferred = make(Entity("A3", "unlike", definition="preferred", xrefs=("E",)))
    assert one(entity, preferred, by_xref).definition == "preferred"


def test_existing_values_are_kept(make):
    other = make(
        Entity("E", "o", ("b",), ("T",), ("1.1",), "theirs", ("UMLS_CUI:C0000001",), "mouse")
    )
    entity = Entity("E", "e", ("a",), (), ("2.2",), "ours")
    assert one(entity, other) == Entity("E", "e", ("a",), ("T",), ("2.2",), "ours")
    everything = one(entity, other, fields=FIELDS)
    assert everything.aliases == ("a", "o", "b") and everything.species == "mouse"
    assert everything.xrefs == ("UMLS:C0000001",) and everything.definition == "ours"


def test_aliases_come_only_from_shared_ids(make):
    same, other = Entity("M:1", "same", ("s",)), Entity("X:1", "other", xrefs=("M:1",))
    found = one(Entity("M:1", "e"), make(same), make(other), fields=["aliases"])
    assert found.aliases == ("same", "s")


def test_aliases_are_added_only_on_request(make):
    other = make(Entity("E", "o", ("b",), definition="d"))
    assert one(Entity("E", "e"), other).names == ("e",)
    assert one(Entity("E", "e"), other, fields=["aliases"]) == Entity("E", "e", ("o", "b"))


def test_hash_collisions_link_no_entities(make, monkeypatch):
    monkeypatch.setattr("spacy_krissel.ontology.hash_index.stable_hash", lambda text: 7)
    other = make(Entity("A", "a", definition="of A"), Entity("B", "b", definition="of B"))
    assert one(Entity("B", "x"), other).definition == "of B"
    assert one(Entity("C", "x"), other).definition == ""


def test_enriched_entities_are_counted(make):
    counts = Counter()
    entities = [Entity("E", "e"), Entity("F", "f")]
    other = make(Entity("E", "o", definition="d"))
    assert [e.definition for e in enrich(entities, [other], counts=counts)] == ["d", ""]
    assert counts == {"seen": 2, "linked": 1, "definition": 1}
    assert list(enrich(entities, [])) == entities


def test_unknown_field_raises_at_once():
    with pytest.raises(KrisselError, match="K111.*'definitions'.*definition, tree_numbers"):
        enrich([], [], fields=["definitions"])


@pytest.mark.nightly
@pytest.mark.data
def test_medic_is_enriched_from_doid_and_mesh(data_dir, tmp_path):
    folder = data_dir / "ontologies"
    medic, doid = folder / "medic_06Jul2012.txt", folder / "doid_2016-09-01.obo"
    trees = folder / "mesh_tree_numbers.tsv.gz"
    with pytest.warns(Warning, match="KW103"):
        store = build_ontology(medic, tmp_path / "medic", enrich_from=[doid, trees])
    counts = store.manifest["info"]["enriched"]
    assert counts == {"seen": 11915, "linked": 6745, "definition": 2922, "tree_numbers": 4687}

    # The same by plain dictionaries over the raw ids.
    numbers = {entity.id: entity.tree_numbers for entity in read_mesh_tree(trees)}
    linked = {}
    for term in read_obo(doid):
        for xref in term.xrefs:
            prefix, _, local = xref.partition(":")
            if prefix in ("MESH", "MeSH", "MSH", "OMIM"):
                linked.setdefault(xref if prefix == "OMIM" else local, []).append(term)
    for entity in store:
        ids = (entity.id, *entity.alt_ids)
        trees_of = dict.fromkeys(number for id_ in ids for number in numbers.get(id_, ()))
        assert set(entity.tree_numbers) == set(trees_of), entity.id
        terms = [term for id_ in ids for term in linked.get(id_, ())]
        names = set(map(canonical_name, entity.names))
        namesakes = [
            term for term in terms if not names.isdisjoint(map(canonical_name, term.names))
        ]
        definitions = {term.definition for term in namesakes or terms} - {""}
        assert entity.definition in definitions if definitions else entity.definition == "", (
            entity.id
        )
    sclerosis = store.get("MESH:D009103")
    assert (
        sclerosis.definition.startswith("A demyelinating disease")
        and "C10.314.350.500" in sclerosis.tree_numbers
    )
    assert fold_name("MS") in map(fold_name, sclerosis.aliases)
