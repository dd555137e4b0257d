import pickle
from collections import Counter
from functools import partial

import pytest

from spacy_krissel.building.sources import (
    PrototypeSource,
    make_gold_source,
    make_ontology_loader,
    make_prototype_source,
)
from spacy_krissel.errors import KrisselError
from spacy_krissel.mining.shards import MentionShards, MinedMention
from spacy_krissel.ontology.held_out import HeldOut
from spacy_krissel.training.data.self_supervised import SelfSupervisedCorpus
from spacy_krissel.util.folding import fold_name
from spacy_krissel.views import ReferenceParts, View, name_view, reference_view

HELD_OUT = HeldOut(0.3, 0)


@pytest.fixture
def make(toy_store, toy_shards):
    def make(mentions=toy_shards, **settings):
        shards = None if mentions is None else MentionShards(mentions)
        return PrototypeSource(toy_store, shards, **settings)

    return make


def of_kind(source, kind, entity=None):
    return [p for p in source.prototypes() if p.kind == kind and entity in (None, p.entity)]


def test_each_unshared_name_is_a_prototype(make, toy_names):
    found = [(p.entity, p.view) for p in of_kind(make(), "name")]
    expected = [
        (id_, name_view(name))
        for id_, names in toy_names.items()
        for name in names
        if name not in ("MS", "cold")
    ]
    assert found == expected


def test_a_shared_name_replaces_mentions_in_contexts_of_its_entity(make, toy_shards):
    source = make(contexts_per_shared_name=5)
    for entity, name in (("T01", "MS"), ("T02", "MS"), ("T04", "cold"), ("T05", "cold")):
        views = [p.view for p in of_kind(source, "replaced", entity)]
        assert len(views) == 5
        assert {view.mention for view in views} == {name}
        mined = {(m.left, m.right) for m in MentionShards(toy_shards) if m.entity == entity}
        assert {(view.left, view.right) for view in views} <= mined
    assert len(of_kind(source, "replaced")) == 4 * 5


def test_a_mined_prototype_has_the_origin_of_its_mention(make, toy_shards):
    places = {(m.entity, m.doc, m.start, m.end) for m in MentionShards(toy_shards)}
    for kind in ("mention", "replaced"):
        origins = [(p.entity, *p.origin[1:4]) for p in of_kind(make(), kind)]
        assert origins and set(origins) <= places
    assert all(not p.origin.doc for p in of_kind(make(), "name"))


def test_a_shared_name_without_mined_contexts_is_a_bare_name(make, write_mentions):
    mentions = write_mentions(
        [MinedMention("T01", "multiple sclerosis", "d", 2, 20, "a ", "multiple sclerosis", " b")]
    )
    source = make(mentions)
    assert [p.view for p in of_kind(source, "replaced")] == [View("a ", "MS", " b")]
    assert ("T02", name_view("MS")) in [(p.entity, p.view) for p in of_kind(source, "name")]
    assert ("T01", name_view("MS")) not in [(p.entity, p.view) for p in of_kind(source, "name")]
    for bare in (make(contexts_per_shared_name=0), make(None)):
        assert not of_kind(bare, "replaced")
        assert {p.entity for p in of_kind(bare, "name") if p.view.mention == "MS"} == {"T01", "T02"}


def test_shared_names_setting_makes_a_bare_prototype_for_each_entity(make, toy_shards):
    """For linking by names alone, whether or not mentions were mined."""
    found = list(make(toy_shards, shared_names=True).prototypes())
    bare = {each.entity for each in found if each.kind == "name" and each.view.mention == "MS"}
    assert len(bare) == 2 and not any(each.kind == "replaced" for each in found)


def test_induced_hypernym_names_are_prototypes_of_the_class(tmp_path):
    from spacy_krissel.ontology.entity import Entity
    from spacy_krissel.ontology.store import write_store

    members = [
        Entity(f"K{i}", f"Nephropathy, {i}th", tree_numbers=(f"C1.1.{i}",)) for i in range(4)
    ]
    others = [Entity(f"O{i}", f"Other {i}", tree_numbers=(f"C2.{i}",)) for i in range(95)]
    store = write_store(
        [Entity("K", "Kidney Diseases", tree_numbers=("C1.1",)), *members, *others],
        tmp_path / "store",
    )
    (found,) = of_kind(PrototypeSource(store), "class")
    assert (found.entity, found.view) == ("K", name_view("nephropathy"))
    for settings in ({"class_names": False}, {"names": False}):
        assert not of_kind(PrototypeSource(store, **settings), "class")


def test_mentions_per_entity_are_capped(make, toy_shards):
    mined = Counter(mention.entity for mention in MentionShards(toy_shards))
    for cap in (0, 1, 3, 999):
        found = Counter(p.entity for p in of_kind(make(mentions_per_entity=cap), "mention"))
        assert found == Counter({entity: min(cap, count) for entity, count in mined.items() if cap})
    one = {p.view for p in of_kind(make(mentions_per_entity=1), "mention")}
    assert one <= {p.view for p in of_kind(make(mentions_per_entity=3), "mention")}


def test_without_names_only_mentions_are_prototypes(make):
    assert {p.kind for p in make(names=False).prototypes()} == {"mention"}
    assert list(make(None, names=False).prototypes()) == []


def test_names_with_the_same_folded_form_make_one_prototype(tmp_path):
    from spacy_krissel.ontology.entity import Entity
    from spacy_krissel.ontology.store import write_store

    entity = Entity("D1", "Breast Cancer", ("breast cancer", "BREAST-CANCER", "mamma carcinoma"))
    source = PrototypeSource(write_store([entity], tmp_path / "store"))
    assert [p.view.mention for p in source.prototypes()] == ["Breast Cancer", "mamma carcinoma"]


def test_held_out_names_and_their_mentions_are_left_out(make, toy_store, toy_shards):
    source = make(held_out=HELD_OUT.fraction, mentions_per_entity=999, contexts_per_shared_name=999)
    entities = {entity.id: entity for entity in toy_store}
    assert not any(HELD_OUT(entities[p.entity], p.view.mention) for p in source.prototypes())
    hidden = {
        (m.entity, m.left, m.right)
        for m in MentionShards(toy_shards)
        if HELD_OUT(entities[m.entity], m.name)
    }
    seen = {(m.entity, m.left, m.right) for m in MentionShards(toy_shards)} - hidden
    used = {(p.entity, p.view.left, p.view.right) for p in source.prototypes() if p.kind != "name"}
    assert hidden and used <= seen
    # Preferred names are never held out, so that every entity can be found.
    assert {p.entity for p in source.prototypes()} == set(entities)


def test_mentions_are_held_out_by_their_matched_name(make, toy_store, write_mentions):
    name = next(
        name for name in toy_store.get("T03").aliases if HELD_OUT(toy_store.get("T03"), name)
    )
    mined = MinedMention("T03", name, "d", 0, 4, "", "as it stood in the text", " x")
    assert not of_kind(make(write_mentions([mined]), held_out=HELD_OUT.fraction), "mention")


def test_a_bounded_kb_keeps_to_its_bound_and_prefers_needed_entities(make, toy_store, toy_shards):
    """It holds the entities that are asked for first, the same ones that the corpus asks for."""
    needed = {
        m.entity for m in MentionShards(toy_shards) if HELD_OUT(toy_store.get(m.entity), m.name)
    }
    assert 2 < len(needed) < len(toy_store) - 1
    for bound in (1, 2, len(needed), len(needed) + 1, len(toy_store)):
        source = make(held_out=HELD_OUT.fraction, max_entities=bound)
        ids = [entity.id for entity in source.entities()]
        assert len(ids) == bound
        assert needed <= set(ids) if bound >= len(needed) else set(ids) < needed
        assert ids == sorted(ids)  # in the ontology's order
        assert {p.entity for p in source.prototypes()} == set(ids)
        corpus = SelfSupervisedCorpus(
            toy_store.path,
            toy_shards,
            "dev",
            mentions_per_entity=1,
            held_out=HELD_OUT.fraction,
            limit=bound,
        )
        assert {entity for entity, _ in corpus.linked_views()} <= set(ids)
    assert len(list(make(max_entities=5).entities())) == 5
    assert len(list(make(max_entities=999).entities())) == len(toy_store)


def test_prototypes_depend_on_the_seed_and_not_on_mention_order(make, toy_shards, write_mentions):
    settings = {"mentions_per_entity": 2, "contexts_per_shared_name": 2, "max_entities": 7}
    first = list(make(seed=1, **settings).prototypes())
    assert list(make(seed=1, **settings).prototypes()) == first
    mined = list(MentionShards(toy_shards))
    assert list(make(write_mentions(mined[::-1]), seed=1, **settings).prototypes()) == first
    assert list(make(seed=2, **settings).prototypes()) != first


def test_prototypes_are_ordered_by_entity(make, toy_store):
    ids = [p.entity for p in make().prototypes()]
    assert ids == sorted(ids)
    assert [entity.id for entity in make().entities()] == list(toy_store.ids)


def test_the_registered_maker_opens_files_only_when_called(toy_store, toy_shards, tmp_path):
    source = make_prototype_source(toy_store.path, toy_shards, held_out=0.3, max_entities=9, seed=4)
    assert len(list(pickle.loads(pickle.dumps(source))().entities())) == 9
    assert source().held_out == HeldOut(0.3, 4)
    missing = make_prototype_source(tmp_path / "store", tmp_path / "mentions")
    with pytest.raises(KrisselError, match="K001"):
        missing()
    with pytest.raises(KrisselError, match="K001.*krissel mine"):
        make_prototype_source(toy_store.path, tmp_path / "mentions")()
    with pytest.raises(KrisselError, match="K006.*held_out"):
        make_prototype_source(toy_store.path, held_out=3.0)()


def test_ontology_loader_opens_a_store_or_raises(toy_store, tmp_path):
    assert make_ontology_loader(toy_store.path)().find(fold_name("Flu")) == ["T10"]
    with pytest.raises(KrisselError, match="K001"):
        make_ontology_loader(tmp_path / "missing")()


def test_without_aliases_only_preferred_names_are_prototypes(make, toy_names):
    found = [(p.entity, p.view) for p in of_kind(make(None, aliases=False), "name")]
    assert found == [(id_, name_view(names[0])) for id_, names in toy_names.items()]


def test_every_entity_has_a_reference(make, toy_store, toy_names):
    """Without held-out names, in the parts that are asked for."""
    parts = ReferenceParts(types=False)
    assert dict(make().references(parts)) == {
        entity.id: reference_view(entity, parts) for entity in toy_store
    }
    source = make(held_out=HELD_OUT.fraction, max_entities=9)
    found = dict(source.references(ReferenceParts()))
    assert list(found) == [entity.id for entity in source.entities()]
    hidden = 0
    for id_, view in found.items():
        shown = [name for name in toy_names[id_] if not HELD_OUT(toy_store.get(id_), name)]
        assert view.mention == "; ".join(shown) and shown[0] == toy_names[id_][0]
        hidden += len(toy_names[id_]) - len(shown)
    assert hidden


@pytest.mark.parametrize(
    "setting", ["mentions_per_entity", "contexts_per_shared_name", "max_entities"]
)
def test_negative_limits_raise(make, toy_store, setting):
    for maker in (make, partial(make_prototype_source, toy_store.path)):
        with pytest.raises(KrisselError, match=f"K006.*'{setting}' is -1"):
            maker(**{setting: -1})


def test_a_negative_gold_limit_raises(toy_store, tmp_path):
    with pytest.raises(KrisselError, match="K006.*'per_entity' is -1"):
        make_gold_source(tmp_path / "gold.spacy", toy_store.path, per_entity=-1)


def test_an_interrupted_entity_selection_is_repeated(toy_store, monkeypatch):
    source = PrototypeSource(toy_store, max_entities=3)
    with monkeypatch.context() as patch:
        patch.setattr("spacy_krissel.building.sources.heapq.nsmallest", None)
        with pytest.raises(TypeError):
            list(source.entities())
    assert len(list(source.entities())) == 3
