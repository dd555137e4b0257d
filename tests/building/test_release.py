"""Entities of a knowledge base in another release, and what people added to it."""

import warnings
from collections import Counter
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from spacy.vocab import Vocab

from spacy_krissel.building.fill import fill_kb
from spacy_krissel.building.release import (
    Release,
    ReleaseSource,
    leads_to,
    reusing_vectors,
    shares_followed,
)
from spacy_krissel.errors import KrisselWarning
from spacy_krissel.kb.doc_verdicts import not_repeated
from spacy_krissel.kb.prototype_kb import PrototypeKB
from spacy_krissel.kb.prototype_table import Origin, Prototype
from spacy_krissel.kb.snapshot import verdicts_of
from spacy_krissel.kb.verdicts import Verdict
from spacy_krissel.ontology.build import build_ontology
from spacy_krissel.ontology.entity import Entity
from spacy_krissel.ontology.store import write_store
from spacy_krissel.util.hashing import stable_hash
from spacy_krissel.views import View, name_view

WIDTH = 4
FIRST = [
    Entity("A:1", "asthma", ("bronchial asthma",)),
    Entity("A:2", "rickets", ("rachitis",)),
    Entity("A:3", "gout", ("podagra",), alt_ids=("A:30",)),
    Entity("A:4", "scurvy"),
    Entity("A:5", "cold"),
    Entity("A:6", "measles"),
]
SECOND = [
    Entity("A:1", "Asthma", ("bronchial asthma", "wheezing disease")),
    Entity("A:2", "rickets", ("rachitis",), alt_ids=("A:3",)),
    Entity("A:7", "scurvy", alt_ids=("A:4",)),
    Entity("A:8", "head cold", alt_ids=("A:5",)),
    Entity("A:9", "chest cold", alt_ids=("A:5",)),
]


def encode(views):
    """Return a vector that depends on the whole view."""
    seeds = [stable_hash(*view[:3]) for view in views]
    return np.stack(
        [np.random.default_rng(seed).standard_normal(WIDTH, dtype="f4") for seed in seeds]
    )


def gold(entity, number=0, source="me"):
    view = View("She had ", f"mention {number}", f" of {entity}")
    return Prototype(entity, "gold", view, Origin(source, f"doc {number}", 8, 17))


@pytest.fixture
def store_of(tmp_path):
    numbers = iter(range(100))

    def write(entities):
        with warnings.catch_warnings():
            # An id was split.
            warnings.simplefilter("ignore", KrisselWarning)
            return write_store(entities, tmp_path / f"store-{next(numbers)}")

    return write


@pytest.fixture
def make_kb(store_of):
    def make(entities, own=(), weight=1.0, **policy):
        kb = PrototypeKB(Vocab(), WIDTH, **policy)
        fill_kb(kb, ReleaseSource(Release(kb.current, store_of(entities)), []), encode)
        kb.attach_encoder(encode)
        if own:
            kb.add_prototypes(own, weight=weight)
        return kb

    return make


def updated(kb, store):
    """Move a knowledge base to a store. RETURNS: the new one, and the changes of what people
    added."""
    release = Release(kb.current, store)
    mentions, _ = release.mined_mentions()
    new = kb.emptied()
    fill_kb(new, ReleaseSource(release, mentions, **kb.made_with), encode)
    return new, release.carry_over(new)


def gold_of(snapshot):
    if snapshot is None:
        return {}
    rows = snapshot.prototypes.rows_of_kinds(["gold"])
    return dict(zip(snapshot.prototypes_at(rows), snapshot.vectors[rows].tolist(), strict=True))


def test_each_entity_is_followed_and_each_change_is_named(make_kb, store_of):
    release = Release(make_kb(FIRST).current, store_of(SECOND))
    assert [release.moved(each.id) for each in FIRST] == ["A:1", "A:2", "A:2", "A:7", None, None]
    assert [each[1:] for each in release.entity_changes()] == [
        ("renamed", ("A:1", "asthma"), ("A:1", "Asthma"), "", -1, -1, None),
        ("merged", ("A:3", "gout"), ("A:2", "rickets"), "", -1, -1, None),
        ("replaced", ("A:4", "scurvy"), ("A:7", "scurvy"), "", -1, -1, None),
        ("split", ("A:5", "cold"), ("", "A:8 | A:9"), "", -1, -1, None),
        ("retired", ("A:6", "measles"), ("", ""), "", -1, -1, None),
        ("new", ("", ""), ("A:8", "head cold"), "", -1, -1, None),
        ("new", ("", ""), ("A:9", "chest cold"), "", -1, -1, None),
    ]
    assert [each[1:4] for each in release.name_changes()] == [
        ("added", ("", ""), ("A:1", "Asthma")),
        ("added", ("", ""), ("A:1", "wheezing disease")),
        ("removed", ("A:1", "asthma"), ("", "")),
        # Names that the merged entity had, and not the one that it was merged into.
        ("removed", ("A:3", "gout"), ("A:2", "")),
        ("removed", ("A:3", "podagra"), ("A:2", "")),
    ]
    assert shares_followed(release) == {"": (5, 6)}


def test_corrections_follow_their_entity_or_become_inactive(make_kb, store_of):
    kb = make_kb(FIRST, [gold(each.id, i) for i, each in enumerate(FIRST)])
    new, changes = updated(kb, store_of(SECOND))
    assert [(each.what, each.change) for each in changes] == [
        ("correction", change)
        for change in ("kept", "kept", "followed", "followed", "inactive", "inactive")
    ]
    assert {each.entity for each in gold_of(new.current)} == {"A:1", "A:2", "A:7"}
    assert {each.entity for each in gold_of(new.inactive)} == {"A:5", "A:6"}
    # A retired entity is kept with its ids and names, although nothing links to it.
    assert new.inactive["A:6"].name == "measles" and "A:6" not in new
    # Ids that only the earlier release knew lead on.
    assert new.resolve("A:30") == "A:2"


def test_inactive_corrections_come_back_with_their_entity(make_kb, store_of):
    kb = make_kb(FIRST, [gold(each.id, i) for i, each in enumerate(FIRST)], weight=1.05)
    second, _ = updated(kb, store_of(SECOND))
    again, changes = updated(second, store_of([*SECOND, *FIRST[4:]]))
    assert [each.change for each in changes] == ["kept"] * 4 + ["active again"] * 2
    assert again.inactive is None
    before, after = gold_of(kb.current), gold_of(again.current)
    for number in (4, 5):
        each = gold(FIRST[number].id, number)
        # With the vector and weight of before.
        assert after[each] == before[each]
    (returned,) = {
        each.change for each in Release(second.current, store_of(FIRST)).entity_changes()
    } & {"returned"}
    assert returned


def test_a_split_correction_returns_if_one_entity_is_left(make_kb, store_of):
    kb = make_kb(FIRST, [gold("A:5")])
    second, _ = updated(kb, store_of(SECOND))
    third, changes = updated(second, store_of(SECOND[:-1]))
    assert [each.change for each in changes] == ["active again"]
    assert {each.entity for each in gold_of(third.current)} == {"A:8"}


def test_ids_are_followed_through_several_releases(make_kb, store_of):
    kb = make_kb([Entity("A:2", "a", alt_ids=("A:1",)), Entity("B:1", "b")], [gold("A:2")])
    for number in range(3, 7):
        # Each release knows only the last step.
        entities = [Entity(f"A:{number}", "a", alt_ids=(f"A:{number - 1}",)), Entity("B:1", "b")]
        kb, changes = updated(kb, store_of(entities))
        assert [each.change for each in changes] == ["followed"]
    assert [kb.resolve(f"A:{number}") for number in range(1, 7)] == ["A:6"] * 6
    # An id is back as an entity of its own.
    kb, _ = updated(kb, store_of([Entity("A:6", "a"), Entity("A:1", "other")]))
    assert kb.resolve("A:1") == "A:1" and kb.resolve("A:3") == "A:6"


def test_a_retired_id_leads_on_once_it_is_replaced(make_kb, store_of):
    kb = make_kb([Entity("A:2", "a", alt_ids=("A:1",)), Entity("B:1", "b")], [gold("A:2")])
    kb, _ = updated(kb, store_of([Entity("B:1", "b")]))
    assert kb.resolve("A:1") is None
    kb, changes = updated(kb, store_of([Entity("B:1", "b"), Entity("C:1", "c", alt_ids=("A:2",))]))
    assert [each.change for each in changes] == ["active again"]
    assert kb.resolve("A:1") == kb.resolve("A:2") == "C:1"


OBO = "format-version: 1.2\n\n[Term]\nid: B:1\nname: b\n"
OBSOLETE = "\n[Term]\nid: {}\nname: obsolete\nis_obsolete: true\nreplaced_by: {}\n"


@pytest.mark.parametrize(
    "replaced, expected",
    [
        ([("A:1", "B:1")], "B:1"),
        ([("A:1", "A:2"), ("A:2", "A:3"), ("A:3", "B:1")], "B:1"),
        ([("A:1", "A:2"), ("A:2", "A:1")], None),
        ([("A:1", "A:2"), ("A:2", "A:3"), ("A:3", "A:1")], None),
        ([("A:1", "A:2"), ("A:2", "A:1\nreplaced_by: B:1")], "B:1"),
        ([("A:1", "B:1\nreplaced_by: B:2")], None),
        ([("A:1", "A:2\nreplaced_by: A:3"), ("A:2", "B:1"), ("A:3", "B:1")], "B:1"),
        ([("A:1", "nothing")], None),
    ],
)
@pytest.mark.filterwarnings("ignore::spacy_krissel.errors.KrisselWarning")
def test_chains_cycles_and_splits_of_a_file_are_followed(make_kb, tmp_path, replaced, expected):
    path = tmp_path / "b.obo"
    stanzas = "".join(OBSOLETE.format(*each) for each in replaced)
    path.write_text(f"{OBO}{stanzas}\n[Term]\nid: B:2\nname: c\n")
    kb = make_kb([Entity("A:1", "a"), Entity("B:1", "b")])
    release = Release(kb.current, build_ontology(path, tmp_path / "store"))
    assert release.moved("A:1") == expected and release.moved("B:1") == "B:1"


def test_retired_entities_may_return_as_one(make_kb, store_of):
    kb = make_kb([*FIRST, Entity("B:1", "b")], [gold("A:5", 1), gold("A:6", 2)])
    kb, _ = updated(kb, store_of([*FIRST[:4], Entity("B:1", "b")]))
    third = store_of([*FIRST[:4], Entity("B:1", "b", alt_ids=("A:5", "A:6"))])
    found = [each[1:4] for each in Release(kb.current, third).entity_changes()]
    assert found == [
        ("returned", (id_, name), ("B:1", "b"))
        for id_, name in (("A:5", "cold"), ("A:6", "measles"))
    ]
    kb, changes = updated(kb, third)
    assert [each.change for each in changes] == ["active again"] * 2
    assert {each.entity for each in gold_of(kb.current)} == {"B:1"} and kb.inactive is None


def test_ids_in_another_spelling_are_followed(make_kb, store_of):
    kb = make_kb([Entity("D003920", "diabetes")], [gold("D003920")])
    new, changes = updated(kb, store_of([Entity("MESH:D003920", "Diabetes")]))
    assert [each.change for each in changes] == ["followed"]
    assert new.resolve("D003920") == "MESH:D003920"


def test_one_correction_of_merged_entities_counts_once(make_kb, store_of):
    own = [gold("A:2"), gold("A:3")._replace(view=gold("A:2").view)]
    new, changes = updated(make_kb(FIRST, own), store_of(SECOND))
    assert len(changes) == 2 and len(gold_of(new.current)) == 1


@pytest.mark.parametrize("policy", [{}, {"normalize": True}, {"dtype": "float16"}])
def test_corrections_keep_their_vectors_and_weights(make_kb, store_of, policy):
    kb = make_kb(FIRST, [gold("A:1"), gold("A:6")], weight=1.5, **policy)
    new, _ = updated(kb, store_of(SECOND[:1]))
    again, _ = updated(new, store_of(FIRST))
    expected = gold_of(kb.current)
    for found in ({**gold_of(new.current), **gold_of(new.inactive)}, gold_of(again.current)):
        assert found.keys() == expected.keys()
        for each, vector in expected.items():
            np.testing.assert_allclose(found[each], vector, rtol=1e-6)


def test_corrections_keep_their_vectors_next_to_references(make_kb, store_of):
    kb = make_kb(FIRST, [gold("A:1")])
    ids = list(kb.entity_ids)
    kb.set_references([(ids, encode([name_view(id_) for id_ in ids]))])
    new, _ = updated(kb, store_of(SECOND))
    (row,) = new.prototypes.rows_of_kinds(["gold"])
    # Without the reference, since the release has others.
    np.testing.assert_allclose(new.vectors[row], encode([gold("A:1").view])[0], rtol=1e-5)


def test_names_added_by_hand_stay(make_kb, store_of):
    own = [Prototype("A:1", "name", name_view("wheeze")), Prototype("A:6", "name", name_view("m"))]
    kb = make_kb(FIRST, own)
    new, changes = updated(kb, store_of(SECOND))
    assert [(each.what, each.change) for each in changes] == [
        ("own name", "kept"),
        ("own name", "inactive"),
    ]
    assert new.contains_alias("wheeze") and not new.contains_alias("m")
    again, _ = updated(new, store_of(FIRST))
    assert again.contains_alias("wheeze") and again.contains_alias("m")


def verdict(number, right=(), rejected=(), **more):
    view = View("She had ", f"mention {number}", ".")
    origin = Origin("me", f"doc {number}", 8, 17)
    return Verdict(view, tuple(right), tuple(rejected), origin=origin, **more)


def test_verdicts_follow_their_entities_or_become_inactive_in_part(make_kb, store_of, tmp_path):
    kb = make_kb(FIRST)
    kb.add_verdicts(
        [
            verdict(0, ["A:3"], ["A:1"]),
            # One entity of each is gone, or was split.
            verdict(1, ["A:6", "A:2"]),
            verdict(2, ["A:5"], ["A:4"]),
            verdict(3, [], ["A:6"]),
            verdict(4, no_entity=True),
        ]
    )
    vectors = np.array(kb.verdicts.vectors)
    new, changes = updated(kb, store_of(SECOND))
    kept = [
        verdict(0, ["A:2"], ["A:1"]),
        verdict(1, ["A:2"]),
        verdict(2, [], ["A:7"]),
        verdict(4, no_entity=True),
    ]
    gone = [verdict(1, ["A:6"]), verdict(2, ["A:5"]), verdict(3, [], ["A:6"])]
    assert [*new.all_verdicts()] == kept and [*verdicts_of(new.inactive)] == gone
    assert np.allclose(new.verdicts.vectors, vectors[[0, 1, 2, 4]])
    said = Counter((each.what, each.change) for each in changes if each.what != "own name")
    assert said == {
        ("correction", "followed"): 1,
        ("correction", "kept"): 1,
        ("correction", "inactive"): 2,
        ("rejection", "kept"): 1,
        ("no entity", "kept"): 1,
        ("rejection", "followed"): 1,
        ("rejection", "inactive"): 1,
    }
    # They survive a copy, and come back with their entities.
    new.to_disk(tmp_path / "kb")
    read = PrototypeKB(Vocab(), 0).from_disk(tmp_path / "kb")
    assert [*verdicts_of(read.inactive)] == gone
    read.attach_encoder(encode)
    again, changes = updated(read, store_of([*SECOND, FIRST[5]]))
    # In the order in which they were said, and the parts of one as one.
    whole = verdict(1, ["A:2", "A:6"])
    assert [*again.all_verdicts()] == [kept[0], whole, kept[2], gone[2], kept[3]]
    assert [*verdicts_of(again.inactive)] == [gone[1]]
    assert Counter(each.change for each in changes)["active again"] == 2
    again.remove_verdicts(source="me")
    assert not len(again.verdicts) and not len(again.inactive.verdicts)


def mined(entity, mention, doc, kind="mention"):
    return Prototype(entity, kind, View("he had ", mention, " then"), Origin("", doc, 7, 12))


def test_mined_mentions_stay_unless_another_entity_has_their_name(make_kb, store_of):
    own = [
        mined("A:1", "asthma", "1"),
        mined("A:3", "gout", "2"),
        mined("A:4", "barlow", "3"),
        mined("A:5", "chest cold", "4"),
        mined("A:5", "sniff", "5"),
        mined("A:6", "measles", "6"),
        mined("A:2", "head cold", "7"),
    ]
    new, changes = updated(make_kb(FIRST, own), store_of(SECOND))
    rows = new.prototypes.rows_of_kinds(["mention"])
    assert changes == []
    assert {(each.entity, each.view.mention) for each in new.prototypes_at(rows)} == {
        ("A:1", "asthma"),
        ("A:2", "gout"),
        ("A:7", "barlow"),
        ("A:9", "chest cold"),
    }


def test_contexts_replace_a_name_that_is_shared_now(make_kb, store_of):
    """The same as if the mentions were mined for the new release."""
    kb = make_kb(FIRST, [mined("A:1", "asthma", "1")])
    shared = Entity("A:10", "another", ("bronchial asthma",))
    new, _ = updated(kb, store_of([*FIRST, shared]))
    rows = new.prototypes.rows_of_kinds(["replaced"])
    assert [(each.entity, each.view.mention) for each in new.prototypes_at(rows)] == [
        ("A:1", "bronchial asthma")
    ]
    # And no longer, where the name is not.
    again, _ = updated(new, store_of(FIRST))
    assert again.description()["prototype_kinds"] == kb.description()["prototype_kinds"]


def test_known_views_are_not_encoded_again(make_kb):
    kb, asked = make_kb(FIRST, [gold("A:1")], weight=2.0), []
    reuse = reusing_vectors(lambda views: asked.extend(views) or encode(views), kb.current)
    views = [
        name_view("gout"),
        name_view("new"),
        gold("A:1").view,
        name_view("new"),
        name_view("cold"),
    ]
    np.testing.assert_array_equal(reuse(views), encode(views))
    # Gold mentions have weights.
    assert asked == [name_view("new"), gold("A:1").view]


def test_removed_corrections_do_not_come_back(make_kb, store_of):
    kb = make_kb(FIRST, [gold("A:1", 0, "a"), gold("A:6", 1, "a"), gold("A:6", 2, "b")])
    new, _ = updated(kb, store_of(SECOND))
    assert new.remove_prototypes(source="a") == 1
    assert {each.origin.source for each in gold_of(new.inactive)} == {"b"}
    again, _ = updated(new, store_of(FIRST))
    assert {each.origin.source for each in gold_of(again.current)} == {"b"}


IDS = st.sampled_from([f"A:{number}" for number in range(6)])
ENTITIES = st.dictionaries(IDS, st.lists(IDS, max_size=2, unique=True), min_size=1, max_size=5)


@settings(max_examples=60)
@given(st.lists(ENTITIES, min_size=2, max_size=5))
@pytest.mark.filterwarnings("ignore::spacy_krissel.errors.KrisselWarning")
def test_no_correction_is_lost_in_any_sequence_of_releases(releases):
    def entities(release):
        return [Entity(id_, id_, alt_ids=(*alt_ids,)) for id_, alt_ids in release.items()]

    with TemporaryDirectory() as folder:
        kb = PrototypeKB(Vocab(), WIDTH)
        for number, release in enumerate(releases):
            store = write_store(entities(release), Path(folder) / str(number))
            if not number:
                fill_kb(kb, ReleaseSource(Release(kb.current, store), []), encode)
                own = [gold(id_, i) for i, id_ in enumerate(sorted(release))]
                kb.add_prototypes(own, encode([each.view for each in own]))
                # The entity that each correction must be of.
                where = {each.origin.doc: each.entity for each in own}
                continue
            kb, _ = updated(kb, store)
            found = {
                doc: [entity]
                if (entity := where[doc]) in release
                else sorted(id_ for id_, alt_ids in release.items() if entity in alt_ids)
                for doc in where
            }
            where |= {doc: ids[0] for doc, ids in found.items() if len(ids) == 1}
            active = {each.origin.doc: each.entity for each in gold_of(kb.current)}
            inactive = {each.origin.doc: each.entity for each in gold_of(kb.inactive)}
            assert active == {doc: id_ for doc, id_ in where.items() if len(found[doc]) == 1}
            assert inactive == {doc: id_ for doc, id_ in where.items() if len(found[doc]) != 1}
            loaded = PrototypeKB(Vocab(), WIDTH).from_bytes(kb.to_bytes())
            assert gold_of(loaded.inactive) == gold_of(kb.inactive)


def as_said(snapshot):
    """The verdicts of a snapshot, oldest first, without the order of their ids."""
    found = () if snapshot is None else verdicts_of(snapshot)
    return [
        (
            each.origin.source,
            each.view.mention,
            {*each.right},
            {*each.rejected},
            each.no_entity,
        )
        for each in found
    ]


def leading_to(id_, release):
    """The ids of the entities of a release that an id leads to."""
    return [id_] if id_ in release else [new for new, alt in release.items() if id_ in alt]


SAID = st.tuples(
    st.sampled_from(["right", "rejected", "no_entity"]),
    st.lists(IDS, min_size=1, max_size=2, unique=True),
    st.integers(0, 1),
    st.sampled_from("ab"),
)


@settings(max_examples=20, deadline=None)
@given(
    st.lists(st.tuples(ENTITIES, st.lists(SAID, max_size=3)), min_size=2, max_size=5),
    st.permutations("ab"),
)
@pytest.mark.filterwarnings("ignore::spacy_krissel.errors.KrisselWarning")
def test_verdicts_keep_their_order_in_any_sequence_of_releases(releases, undone):
    """Active and inactive ones together, so that the last one on a mention counts when entities
    come back, and each source is undone as if it had never been."""
    # Each as [source, mention, right, rejected, no_entity].
    expected = []

    def check(kb, release):
        active, inactive = [], []
        for source, mention, right, rejected, none in expected:
            parts = [
                [{id_ for id_ in ids if (id_ in release) is is_there} for ids in (right, rejected)]
                for is_there in (True, False)
            ]
            if none or any(parts[0]):
                active.append((source, mention, *parts[0], none))
            if any(parts[1]):
                inactive.append((source, mention, *parts[1], False))
        assert as_said(kb.current) == active
        assert as_said(kb.inactive) == inactive

    with TemporaryDirectory() as folder:
        kb = PrototypeKB(Vocab(), WIDTH)
        for number, (release, said) in enumerate(releases):
            entities = [Entity(id_, id_, alt_ids=(*alt,)) for id_, alt in release.items()]
            store = write_store(entities, Path(folder) / str(number))
            if number:
                kb, _ = updated(kb, store)
                kb = PrototypeKB(Vocab(), WIDTH).from_bytes(kb.to_bytes())
            else:
                fill_kb(kb, ReleaseSource(Release(kb.current, store), []), encode)
            kb.attach_encoder(encode)
            for each in expected:
                for column in (2, 3):
                    found = [(id_, leading_to(id_, release)) for id_ in each[column]]
                    each[column] = {new[0] if len(new) == 1 else old for old, new in found}
            check(kb, release)
            for kind, ids, mention, source in said:
                ids = {id_ for id_ in ids if id_ in release}
                right, rejected = (ids if kind == own else set() for own in ("right", "rejected"))
                view, none = View("She had ", f"mention {mention}", "."), kind == "no_entity"
                new = Verdict(view, (*right,), (*rejected,), none, origin=Origin(source, "doc"))
                if new.problem():
                    continue
                wanted = [source, view.mention, {*right}, {*rejected}, none]
                last = [each for each in expected if each[:2] == wanted[:2]][-1:]
                if last != [wanted]:
                    expected.append(wanted)
                new = not_repeated([new], kb.current)
                kb.add_verdicts(new, np.ones((len(new), WIDTH)))
            check(kb, release)
        for source in undone:
            kb.remove_verdicts(source=source)
            expected = [each for each in expected if each[0] != source]
            check(kb, release)


def test_many_ids_are_followed_as_one(store_of):
    store = store_of(SECOND)
    assert [*leads_to(["A:1", "A:5", "A:6", "A:4", "HP_1"], store)] == [
        ("A:1",),
        ("A:8", "A:9"),
        (),
        ("A:7",),
        (),
    ]
