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
from spacy_krissel.training.data.examples import linked_mentions, view_examples
from spacy_krissel.training.objectives.krissbert import ContrastiveObjective
from spacy_krissel.views import name_view

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


def mentions(examples):
    """(entity, view) of every mention of examples, which are all different."""
    return [each for example in examples for each in linked_mentions(example.reference)]


def used(batches):
    return Counter(each for batch in batches for each in mentions(batch))


def names(batches):
    return [mentions(batch) for batch in batches]


def conflict(a, b):
    return a == b or {a, b} in APART


@settings(max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.integers(0, 11), max_size=60), st.integers(2, 8), st.integers(0, 3))
def test_batches_satisfy_their_invariants(store, examples_of, entities, pairs, seed):
    examples = examples_of([f"E{i}" for i in entities])
    batches = batches_of(PairBatcher(pairs=pairs, ontology=store.path, seed=seed), examples)
    check(batches, pairs)
    # What is not used has no second view, or nothing that it could be contrasted with.
    paired = {entity for entity, count in Counter(map(entity_of, examples)).items() if count > 1}
    unused = {entity for entity, _ in set(mentions(examples)) - set(used(batches))} & paired
    assert all(conflict(a, b) for a in unused for b in paired)


def batches_of(batcher, examples):
    """None where it refuses the examples."""
    try:
        return list(batcher(examples))
    except KrisselError as error:
        assert error.code == "K634"
        return []


def check(batches, pairs):
    for batch in batches:
        assert 2 <= len(batch) <= pairs
        found = [linked_mentions(example.reference) for example in batch]
        assert all(
            len(pair) == 2 and pair[0][0] == pair[1][0] and pair[0] != pair[1] for pair in found
        )
        entities = [pair[0][0] for pair in found]
        assert not any(conflict(a, b) for i, a in enumerate(entities) for b in entities[:i])


@settings(max_examples=100, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.lists(st.tuples(st.integers(0, 11), st.integers(1, 5)), max_size=30),
    st.integers(2, 5),
    st.integers(2, 12),
)
def test_batches_of_a_stream_satisfy_their_invariants(
    store, examples_of, groups, pairs, buffer_size
):
    """More parts than one, and homonyms that wait over their ends."""
    batcher = PairBatcher(pairs=pairs, ontology=store.path, buffer_size=buffer_size)
    examples = examples_of([f"E{i}" for i, count in groups for _ in range(count)])
    batches = batches_of(batcher, iter(examples))
    check(batches, pairs)
    # In pairs of the first two of its examples at least, without a homonym in the way.
    runs = {
        i: count
        for i, count in groups
        if i > 5 and count > 1 and sum(j == i for j, _ in groups) == 1
    }
    if len(runs) > 1:
        assert {f"E{i}" for i in runs} <= {entity for entity, _ in used(batches)}


def test_first_batch_needs_only_the_start_of_a_stream(examples_of):
    taken = []
    stream = (
        taken.append(i) or example
        for i, example in enumerate(examples_of([f"E{i}" for i in range(12)] * 20))
    )
    next(PairBatcher(pairs=4, buffer_size=48)(stream))
    assert len(taken) == 49


def test_entity_at_the_end_of_a_part_is_kept_together(examples_of):
    examples = examples_of(["E6", "E6", "E7", "E7", "E7", "E8", "E8", "E9", "E9"])
    batches = list(PairBatcher(pairs=2, buffer_size=4)(iter(examples)))
    assert set(used(batches)) == set(mentions(examples))


def test_waiting_pairs_are_limited(store, examples_of):
    """Homonyms alone follow two pairs, so that the third of the batch does not come."""
    taken = []
    entities = ["E6", "E6", "E3", "E3", *["E4", "E4", "E3", "E3"] * 50]
    stream = (taken.append(i) or each for i, each in enumerate(examples_of(entities)))
    batch = next(PairBatcher(pairs=3, ontology=store.path, buffer_size=4)(stream))
    assert len(batch) == 2 and len(taken) < 20


def test_every_view_is_used_and_an_odd_one_gets_a_partner(examples_of):
    examples = examples_of([f"E{i}" for i in range(6, 12) for _ in range(5)])
    for seed in range(10):
        batches = list(PairBatcher(pairs=4, seed=seed)(examples))
        uses = used(batches)
        assert len(uses) == 30
        # Five views make three pairs, so one view of each entity stands in two. A pair left alone
        # adds one more.
        assert 36 <= sum(uses.values()) <= 40


def test_single_views_and_unlinked_docs_are_left_out(examples_of, make_example):
    examples = [
        *examples_of(["E6", "E6", "E7", "E8", "E8"]),
        make_example("NIL"),
        make_example("NIL"),
        make_example(""),
    ]
    (batch,) = PairBatcher(pairs=4)(examples)
    assert sorted(entity for entity, _ in mentions(batch)) == ["E6", "E6", "E8", "E8"]


def test_entities_can_come_from_a_span_group(make_example):
    examples = [
        make_example(entity, left, "MS") for entity in ("E6", "E7") for left in ("the ", "in a ")
    ]
    for example in examples:
        example.reference.spans["sc"] = list(example.reference.ents)
        example.reference.ents = []
    (batch,) = PairBatcher(pairs=4, spans_key="sc")(examples)
    found = [[span.kb_id_ for span in example.reference.spans["sc"]] for example in batch]
    assert sorted(found) == [["E6", "E6"], ["E7", "E7"]]
    assert batches_of(PairBatcher(pairs=4), examples) == []


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
    assert set(used(batches)) == set(mentions(examples))


def test_pairs_that_wait_together_are_not_lost(store, examples_of):
    # E1 keeps E0 and E2 waiting, which then fill batches by themselves.
    examples = examples_of(["E0", "E1", "E2"] * 10 + ["E6", "E7"] * 4)
    for seed in range(10):
        batches = PairBatcher(pairs=2, ontology=store.path, seed=seed)(examples)
        assert set(used(batches)) == set(mentions(examples))


def test_batches_are_reproducible_by_seed_and_epoch(examples_of):
    examples = examples_of([f"E{i}" for i in range(12)] * 4)
    batcher = PairBatcher(pairs=4, seed=5)
    first, second = names(batcher(examples)), names(batcher(examples))
    assert first != second
    again = PairBatcher(pairs=4, seed=5)
    assert names(again(examples)) == first and names(again(examples)) == second
    assert names(PairBatcher(pairs=4, seed=6)(examples)) != first


def test_pairs_differ_between_epochs(examples_of):
    examples = examples_of([f"E{i}" for i in range(12)] * 6)
    batcher = PairBatcher(pairs=6)
    partners = [
        {
            frozenset(linked_mentions(example.reference))
            for batch in batcher(examples)
            for example in batch
        }
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


def test_homonyms_are_grouped_by_shared_name(store, toy_store):
    assert homonym_groups(store) == {
        "E0": {"E1"},
        "E1": {"E0", "E2"},
        "E2": {"E1"},
        "E3": {"E4", "E5"},
        "E4": {"E3", "E5"},
        "E5": {"E3", "E4"},
    }
    assert homonym_groups(toy_store) == {
        "T01": {"T02"},
        "T02": {"T01"},
        "T04": {"T05"},
        "T05": {"T04"},
    }


def test_invalid_settings_raise(tmp_path):
    with pytest.raises(KrisselError, match="K006.*pairs"):
        PairBatcher(pairs=1)
    with pytest.raises(KrisselError, match="K006.*max_pairs"):
        PairBatcher(max_pairs=-1)
    with pytest.raises(KrisselError, match="K001"):
        PairBatcher(ontology=tmp_path / "missing")


@pytest.mark.parametrize("entities", ["", "A", "AB", "AAA"])
def test_corpus_without_a_batch_raises(entities):
    examples = list(
        view_examples([(entity, name_view(f"{entity}{i}"))] for i, entity in enumerate(entities))
    )
    with pytest.raises(KrisselError, match="K634.* mention pairs"):
        list(PairBatcher()(examples))
