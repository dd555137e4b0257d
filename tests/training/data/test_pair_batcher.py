import random
from collections import Counter

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from spacy.training.loop import subdivide_batch

from spacy_krissel.errors import KrisselError
from spacy_krissel.ontology.entity import Entity
from spacy_krissel.ontology.store import write_store
from spacy_krissel.training.data.batchers import PairBatcher, homonym_groups
from spacy_krissel.training.objectives.krissbert import ContrastiveObjective

# E0 and E1 share a name, E1 and E2 another (folded alike); E3, E4 and E5 all share one.
ALIASES = {0: ("a a",), 1: ("A-A", "b"), 2: ("B",), 3: ("c",), 4: ("c",), 5: ("c",)}
APART = [{"E0", "E1"}, {"E1", "E2"}, {"E3", "E4"}, {"E4", "E5"}, {"E3", "E5"}]


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    entities = [Entity(f"E{i}", f"name {i}", ALIASES.get(i, ())) for i in range(12)]
    return write_store(entities, tmp_path_factory.mktemp("pairs") / "store")


@pytest.fixture(scope="module")
def examples_of(make_example):
    """Examples of a list of entities, made once: example n of an entity is always the same."""
    made = {}

    def examples(entities):
        seen = Counter()
        found = []
        for entity in entities:
            key = (entity, seen[entity])
            seen[entity] += 1
            if key not in made:
                made[key] = make_example(entity, "a " * seen[entity], f"mention {entity}")
            found.append(made[key])
        return found

    return examples


def entity_of(example):
    return example.reference.ents[0].kb_id_


def names(batches):
    return [[(entity_of(example), example.reference.text) for example in batch] for batch in batches]


def conflict(a, b):
    return a == b or {a, b} in APART


@settings(max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.integers(0, 11), max_size=60), st.integers(2, 8), st.integers(0, 3))
def test_invariants_do_not_hold(store, examples_of, entities, pairs, seed):
    examples = examples_of([f"E{i}" for i in entities])
    batches = list(PairBatcher(pairs=pairs, ontology=store.path, seed=seed)(examples))
    used = {id(example) for batch in batches for example in batch}
    for batch in batches:
        found = [entity_of(example) for example in batch]
        assert 4 <= len(batch) <= 2 * pairs
        assert set(Counter(found).values()) == {2}
        assert found[::2] == found[1::2]
        assert all(batch[i] is not batch[i + 1] for i in range(0, len(batch), 2))
        distinct = sorted(set(found))
        assert not any(conflict(a, b) for i, a in enumerate(distinct) for b in distinct[:i])
    # What is not used has no second view, or nothing that it could be contrasted with.
    paired = {entity for entity, count in Counter(map(entity_of, examples)).items() if count > 1}
    unused = {entity_of(example) for example in examples if id(example) not in used} & paired
    assert all(conflict(a, b) for a in unused for b in paired)


def test_every_view_is_used_and_an_odd_one_gets_a_partner(examples_of):
    examples = examples_of([f"E{i}" for i in range(6, 12) for _ in range(5)])
    for seed in range(10):
        batches = list(PairBatcher(pairs=4, seed=seed)(examples))
        uses = Counter(id(example) for batch in batches for example in batch)
        assert len(uses) == 30
        # Five views make three pairs, so one view of each entity stands in two. A pair left alone adds one more.
        assert 36 <= sum(uses.values()) <= 40


def test_single_views_and_unlinked_docs_are_left_out(examples_of, make_example):
    examples = [
        *examples_of(["E6", "E6", "E7", "E8", "E8"]),
        make_example("NIL"),
        make_example("NIL"),
        make_example(""),
    ]
    (batch,) = PairBatcher(pairs=4)(examples)
    assert sorted(map(entity_of, batch)) == ["E6", "E6", "E8", "E8"]


def test_entities_of_a_span_group(make_example):
    examples = [make_example(entity, left, "MS") for entity in ("E6", "E7") for left in ("the ", "in a ")]
    for example in examples:
        example.reference.spans["sc"] = list(example.reference.ents)
        example.reference.ents = []
    (batch,) = PairBatcher(pairs=4, spans_key="sc")(examples)
    assert sorted(example.reference.spans["sc"][0].kb_id_ for example in batch) == ["E6", "E6", "E7", "E7"]
    assert list(PairBatcher(pairs=4)(examples)) == []


def test_one_entity_alone_makes_no_batch(examples_of):
    assert list(PairBatcher(pairs=4)(examples_of(["E6"] * 6))) == []
    assert list(PairBatcher(pairs=4)([])) == []


def test_homonyms_wait_for_another_batch(store, examples_of):
    examples = examples_of(["E3", "E4", "E5", "E6", "E7", "E8"] * 2)
    for seed in range(10):
        batches = list(PairBatcher(pairs=2, ontology=store.path, seed=seed)(examples))
        assert not any({"E3", "E4", "E5"} <= set(map(entity_of, batch)) for batch in batches)
    # Without an ontology they may meet.
    (batch,) = PairBatcher(pairs=6)(examples)
    assert {"E3", "E4", "E5"} <= set(map(entity_of, batch))


def test_no_pair_starves(store, examples_of):
    # Many pairs of one entity, and a homonym of it.
    examples = examples_of(["E3"] * 12 + ["E4"] * 4 + [f"E{i}" for i in range(6, 12)] * 6)
    batches = list(PairBatcher(pairs=4, ontology=store.path, seed=1)(examples))
    assert {id(example) for batch in batches for example in batch} == set(map(id, examples))


def test_pairs_that_wait_together_are_not_lost(store, examples_of):
    # E1 keeps E0 and E2 waiting, which then fill batches by themselves.
    examples = examples_of(["E0", "E1", "E2"] * 10 + ["E6", "E7"] * 4)
    for seed in range(10):
        batches = PairBatcher(pairs=2, ontology=store.path, seed=seed)(examples)
        assert {id(example) for batch in batches for example in batch} == set(map(id, examples))


def test_seeds_and_epochs(examples_of):
    examples = examples_of([f"E{i}" for i in range(12)] * 4)
    batcher = PairBatcher(pairs=4, seed=5)
    first, second = names(batcher(examples)), names(batcher(examples))
    assert first != second
    again = PairBatcher(pairs=4, seed=5)
    assert names(again(examples)) == first and names(again(examples)) == second
    assert names(PairBatcher(pairs=4, seed=6)(examples)) != first


def test_pairs_are_drawn_anew_each_epoch(examples_of):
    examples = examples_of([f"E{i}" for i in range(12)] * 6)
    batcher = PairBatcher(pairs=6)
    partners = [
        {frozenset((id(batch[i]), id(batch[i + 1]))) for batch in batcher(examples) for i in range(0, len(batch), 2)}
        for _ in range(2)
    ]
    assert partners[0] != partners[1]


def test_order_within_a_batch_does_not_matter_to_the_objective(examples_of):
    """spaCy sorts a batch by length before the update."""
    examples = examples_of([f"E{i}" for i in range(12)] * 2)
    (batch,) = PairBatcher(pairs=12, seed=1)(examples)
    random.Random(0).shuffle(batch)
    (sorted_batch,) = subdivide_batch(batch, 1)
    objective = ContrastiveObjective(None, p_mask=0, p_replace=0)
    views = [view for _, pair in objective.pairs(sorted_batch) for view in pair]
    assert len(views) == 24
    assert [view.mention for view in views[::2]] == [view.mention for view in views[1::2]]
    assert all(a != b for a, b in zip(views[::2], views[1::2], strict=True))


def test_homonym_groups(store, toy_store):
    assert homonym_groups(store) == {
        "E0": {"E1"},
        "E1": {"E0", "E2"},
        "E2": {"E1"},
        "E3": {"E4", "E5"},
        "E4": {"E3", "E5"},
        "E5": {"E3", "E4"},
    }
    assert homonym_groups(toy_store) == {"T01": {"T02"}, "T02": {"T01"}, "T04": {"T05"}, "T05": {"T04"}}


def test_wrong_settings_are_accepted(tmp_path):
    with pytest.raises(KrisselError, match="K006.*pairs"):
        PairBatcher(pairs=1)
    with pytest.raises(KrisselError, match="K006.*max_pairs"):
        PairBatcher(max_pairs=-1)
    with pytest.raises(KrisselError, match="K001"):
        PairBatcher(ontology=tmp_path / "missing")
