"""Parents: kept, followed, and what a part of an ontology is made by."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spacy_krissel.errors import KrisselError
from spacy_krissel.ontology.build import build_ontology
from spacy_krissel.ontology.enrich import enrich, merge
from spacy_krissel.ontology.entity import Entity
from spacy_krissel.ontology.hierarchy import Hierarchy
from spacy_krissel.ontology.hypernyms import class_names
from spacy_krissel.ontology.store import OntologyStore, write_store


def entity(id_, *parents, **fields):
    return Entity(id_, fields.pop("name", id_), parents=parents, **fields)


PHENOTYPES = [
    entity("HP:1", name="All"),
    entity("HP:2", "HP:1", name="Phenotypic abnormality", alt_ids=("HP:9",)),
    entity("HP:3", "HP:1", name="Mode of inheritance"),
    entity("HP:4", "HP:2", name="Abnormal heart"),
    entity("HP:5", "HP:2", name="Abnormal vessel"),
    # Its first parent is in another file.
    entity("HP:6", "UBERON:1", "HP:4", "HP:5", name="Coronary disease"),
    entity("HP:7", "HP:3", name="Dominant"),
]
NUMBERED = [
    Entity("D1", "Neoplasms", tree_numbers=("C04",)),
    # C04.588 is a number of none.
    Entity("D2", "Breast Neoplasms", tree_numbers=("C04.588.180", "C17.800")),
    Entity("D3", "Skin Diseases", tree_numbers=("C17",)),
    Entity("D4", "Gout", tree_numbers=("C05",)),
]


@pytest.fixture
def part(tmp_path):
    def part(entities, **asked):
        write_store(entities, tmp_path / "all")
        return list(build_ontology(tmp_path / "all", tmp_path / "part", **asked).ids)

    return part


def test_below_and_not_below_select_descendants(part):
    assert part(PHENOTYPES, below=["HP:2"]) == ["HP:2", "HP:4", "HP:5", "HP:6"]
    assert part(PHENOTYPES, below=["HP:9"]) == ["HP:2", "HP:4", "HP:5", "HP:6"], (
        "by an alternative id"
    )
    assert part(PHENOTYPES, below=["HP:4", "HP:3"]) == ["HP:3", "HP:4", "HP:6", "HP:7"]
    assert part(PHENOTYPES, not_below=["HP:3"]) == ["HP:1", "HP:2", "HP:4", "HP:5", "HP:6"]
    assert part(PHENOTYPES, below=["HP:2"], not_below=["HP:5"]) == ["HP:2", "HP:4"], (
        "one of two paths is enough"
    )


def test_tree_numbers_count_despite_missing_steps(part):
    assert part(NUMBERED, below=["D1"]) == ["D1", "D2"]
    assert part(NUMBERED, not_below=["D3"]) == ["D1", "D4"]


def test_umls_semantic_types_are_no_hierarchy(part):
    concepts = [
        Entity(f"C{i}", f"n{i}", tree_numbers=(number,), source="UMLS")
        for i, number in enumerate(("A1", "A1.2"))
    ]
    with pytest.raises(KrisselError, match="K113.*'C0'.*no entity has a parent"):
        part(concepts, below=["C0"])


def test_cycle_is_followed_once(tmp_path, part):
    cycle = [
        entity("A", "C"),
        entity("B", "A"),
        entity("C", "B"),
        entity("D", "D", "B"),
        entity("E"),
    ]
    assert part(cycle, below=["B"]) == ["A", "B", "C", "D"]
    hierarchy = Hierarchy(OntologyStore(tmp_path / "all"))
    assert (
        sorted(hierarchy.ancestors(3)) == [0, 1, 2, 3]
        and hierarchy.ancestors(4) == []
        and hierarchy.roots() == []
    )
    assert class_names(OntologyStore(tmp_path / "all")) == {}


@pytest.mark.parametrize(
    "asked, message",
    [
        ({"below": ["HP:404"]}, "K113.*'HP:404'.*no entity has this id"),
        ({"not_below": ["HP:404"]}, "K113.*'HP:404'.*no entity has this id"),
        ({"not_below": ["HP:1"]}, "K112.*none of 7 is not below HP:1"),
        ({"trees": ["D"]}, "K112.*0 of 7 have a tree number.*`below` takes an id"),
        ({"below": ["HP:2"], "trees": ["C"]}, "K112.*0 of 4 have a tree number"),
    ],
)
def test_empty_selection_raises_and_writes_nothing(tmp_path, part, asked, message):
    with pytest.raises(KrisselError, match=message):
        part(PHENOTYPES, **asked)
    assert not (tmp_path / "part").exists()


def test_source_without_a_usable_entity_raises(tmp_path):
    path = tmp_path / "old.obo"
    path.write_text("format-version: 1.2\n\n[Term]\nid: X:1\nname: one\nis_obsolete: true\n")
    with pytest.raises(KrisselError, match="K112.*the sources have none"):
        build_ontology(path, tmp_path / "store")
    assert not (tmp_path / "store").exists()


def test_parents_are_kept_in_a_store(tmp_path):
    assert list(write_store(PHENOTYPES, tmp_path / "store")) == PHENOTYPES


def test_parents_of_a_merged_entity_resolve(tmp_path):
    ours = [
        Entity("D1", "heart disease", alt_ids=("X:1",)),
        Entity("D2", "infarction", alt_ids=("X:2",)),
    ]
    theirs = [entity("X:1", name="heart disease"), entity("X:2", "X:1", name="infarction")]
    stores = [write_store(each, tmp_path / str(i)) for i, each in enumerate((ours, theirs))]
    merged = write_store(merge(stores), tmp_path / "merged")
    assert list(merged.ids) == ["D1", "D2"] and merged.get("D2").parents == ("X:1",)
    assert Hierarchy(merged).ancestors(1) == [1, 0]


def test_parents_come_only_from_shared_ids(tmp_path):
    theirs = write_store([entity("D2", "D1"), entity("X:2", "X:1")], tmp_path / "theirs")
    by_id, by_xref = enrich([Entity("D2", "a"), Entity("Y", "X:2", xrefs=("X:2",))], [theirs])
    assert (by_id.parents, by_xref.parents) == (("D1",), ())


def test_types_are_the_top_ancestors_by_parents(tmp_path):
    write_store(PHENOTYPES, tmp_path / "all")
    typed = build_ontology(tmp_path / "all", tmp_path / "typed", tree_types=True)
    # One root above all says nothing.
    assert {each.id: each.types for each in typed} == {
        "HP:1": (),
        **{f"HP:{i}": ("Phenotypic abnormality",) for i in (2, 4, 5, 6)},
        **{f"HP:{i}": ("Mode of inheritance",) for i in (3, 7)},
    }
    several = build_ontology(
        tmp_path / "all", tmp_path / "some", not_below=["HP:1"][:0], below=["HP:4", "HP:5", "HP:3"]
    )
    typed = build_ontology(several.path, tmp_path / "typed", tree_types=True)
    assert typed.get("HP:6").types == ("Abnormal heart", "Abnormal vessel")


def test_parents_and_tree_numbers_give_the_same_class_names(tmp_path):
    members = ["IgA nephropathy", "Gouty nephropathy", "Diabetic nephropathy"]
    places = {"C12.1": "Kidney Diseases", **{f"C12.1.{i}": name for i, name in enumerate(members)}}
    places |= {"C20": "Others", **{f"C20.{i}": f"Other {i}" for i in range(60)}}
    numbered = [Entity(number, name, tree_numbers=(number,)) for number, name in places.items()]
    children = [
        entity(number, number.rpartition(".")[0], name=name) for number, name in places.items()
    ]
    found = [
        class_names(write_store(each, tmp_path / str(i)), largest=0.1)
        for i, each in enumerate((numbered, children))
    ]
    assert found[0] == found[1] == {"nephropathy": 0}


IDS = st.sampled_from("ABCDEFG")


@settings(max_examples=60, deadline=None)
@given(
    st.dictionaries(IDS, st.lists(IDS, max_size=3), min_size=1),
    st.lists(IDS, min_size=1, max_size=2),
)
def test_below_equals_a_plain_restatement(tmp_path_factory, parents, roots):
    store = write_store(
        [entity(id_, *above) for id_, above in parents.items()],
        tmp_path_factory.mktemp("h") / "store",
    )
    expected = set(roots) & set(parents)
    for _ in parents:
        expected |= {id_ for id_, above in parents.items() if expected & set(above)}
    hierarchy = Hierarchy(store)
    mask = hierarchy.descendants([store.row(root) for root in roots if root in parents])
    assert {store.id_at(row) for row in np.flatnonzero(mask)} == expected
    for row, id_ in enumerate(store.ids):
        for above in hierarchy.ancestors(row):
            assert hierarchy.descendants([above])[row], (id_, above)
