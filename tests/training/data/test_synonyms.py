from collections import Counter
from itertools import combinations

import pytest
import spacy
from spacy.training.loop import create_train_batches

from spacy_krissel.errors import KrisselError
from spacy_krissel.ontology.entity import Entity
from spacy_krissel.ontology.held_out import HeldOut
from spacy_krissel.ontology.store import write_store
from spacy_krissel.training.data.batchers import SynonymBatcher
from spacy_krissel.training.data.examples import linked_mentions
from spacy_krissel.training.data.synonyms import SynonymCorpus

NLP = spacy.blank("en")


def pairs_of(examples):
    found = []
    for example in examples:
        (entity, first), (same, second) = linked_mentions(example.reference)
        assert entity == same
        found.append((entity, *sorted((first.mention, second.mention))))
    return found


@pytest.fixture
def read(toy_store):
    def read(**settings):
        return pairs_of(SynonymCorpus(toy_store.path, **settings)(NLP))

    return read


def test_pairs_of_all_entities_are_read_in_lower_case(read, toy_names):
    expected = [
        (id_, *sorted(pair))
        for id_, names in toy_names.items()
        for pair in combinations(map(str.lower, names), 2)
    ]
    found = read(pairs_per_entity=0)
    assert sorted(found) == sorted(expected)
    assert ("T01", "ms", "multiple sclerosis") in found
    assert sorted(read()) == sorted(expected)  # none has more than fifty
    assert ("T01", "MS", "multiple sclerosis") in read(lowercase=False)
    # Mixed: not entity by entity.
    assert len({entity for entity, *_ in found[:15]}) > 6


def test_pairs_per_entity_are_sampled_by_seed(read, toy_names):
    found = read(pairs_per_entity=2)
    counts = Counter(entity for entity, *_ in found)
    assert counts == {id_: 2 for id_, names in toy_names.items() if len(names) > 1}
    assert set(found) <= set(read())
    assert found == read(pairs_per_entity=2)
    assert sorted(found) != sorted(read(pairs_per_entity=2, seed=1))


def test_epochs_have_the_same_pairs_in_another_order(toy_store):
    corpus, again = (SynonymCorpus(toy_store.path, pairs_per_entity=3) for _ in range(2))
    first, second = pairs_of(corpus(NLP)), pairs_of(corpus(NLP))
    assert first != second and sorted(first) == sorted(second)
    # Looking at the beginning, as initialization does, is no epoch.
    next(again(NLP))
    assert [pairs_of(again(NLP)), pairs_of(again(NLP))] == [first, second]


def test_small_buffer_also_shuffles(read):
    found = read(buffer_size=8)
    assert sorted(found) == sorted(read()) and found != read()


def test_limit_takes_the_first_pairs(read):
    assert read(limit=7) == read()[:7]


def test_held_out_names_are_only_in_dev(toy_store, read):
    held_out = HeldOut(0.4, 2)
    train = read(held_out=0.4, seed=2)
    corpus = SynonymCorpus(toy_store.path, "dev", held_out=0.4, seed=2)
    dev = []
    for example in corpus(NLP):
        ((entity, view),) = linked_mentions(example.reference)
        assert (view.left, view.right) == ("", "") and not example.predicted.ents[0].kb_id_
        assert example.predicted.ents[0].text == view.mention
        dev.append((entity, view.mention))
    expected = {
        (entity.id, name.lower())
        for entity in toy_store
        for name in entity.names
        if held_out(entity, name)
    }
    assert set(dev) == expected and len(dev) == len(expected) > 5
    assert not set(dev) & {(entity, name) for entity, *names in train for name in names}


def test_dev_contains_only_entities_of_a_bounded_kb(toy_store):
    from spacy_krissel.building.sources import make_prototype_source

    source = make_prototype_source(toy_store.path, max_entities=5, held_out=0.4, seed=3)()
    known = {entity.id for entity in source.entities()}
    corpora = [
        SynonymCorpus(toy_store.path, "dev", held_out=0.4, max_entities=n, seed=3) for n in (0, 5)
    ]
    everywhere, within = (
        [linked_mentions(each.reference)[0] for each in corpus(NLP)] for corpus in corpora
    )
    assert within == [each for each in everywhere if each[0] in known] and 0 < len(within) < len(
        everywhere
    )


def test_stream_of_an_ontology_is_not_held_in_memory(tmp_path, monkeypatch):
    """10 M names do not fit: so many entities are read as the buffer needs, and their pairs are
    forgotten."""
    entities = (Entity(f"E{i}", f"name {i}", (f"alias {i}", f"other {i}")) for i in range(3000))
    store = write_store(entities, tmp_path / "store")
    read = []
    entity_at = type(store).entity_at
    monkeypatch.setattr(
        type(store), "entity_at", lambda self, row: read.append(row) or entity_at(self, row)
    )
    corpus = SynonymCorpus(store.path, buffer_size=100)
    batches = create_train_batches(NLP, corpus, SynonymBatcher(pairs=10, ontology=store.path), -1)
    for i, (epoch, batch) in enumerate(batches):
        assert len(batch) == 10
        if epoch == 0:
            assert len(read) <= (10 * (i + 1) + 100) / 3 + 2
        elif i == 1000:
            break
    assert i == 1000 and epoch == 1


def test_invalid_settings_raise(toy_store):
    with pytest.raises(KrisselError, match="K006.*'buffer_size'"):
        SynonymCorpus(toy_store.path, buffer_size=0)


def test_ontology_without_pairs_or_held_out_names_raises(tmp_path, toy_store):
    store = write_store([Entity("E1", "only"), Entity("E2", "one", ("ONE",))], tmp_path / "store")
    with pytest.raises(KrisselError, match="K608.*two names"):
        list(SynonymCorpus(store.path)(NLP))
    with pytest.raises(KrisselError, match="K608.*held_out"):
        list(SynonymCorpus(toy_store.path, "dev")(NLP))
    with pytest.raises(KrisselError, match="K001"):
        list(SynonymCorpus(tmp_path / "nothing")(NLP))
