from collections import Counter

import pytest
import spacy

from spacy_krissel.errors import KrisselError
from spacy_krissel.training.data.batchers import SynonymBatcher
from spacy_krissel.training.data.examples import linked_mentions, view_examples
from spacy_krissel.training.data.synonyms import SynonymCorpus, synonym_pair

NLP = spacy.blank("en")


def entities_of(batch):
    return [linked_mentions(example.reference)[0][0] for example in batch]


def batches(entities, **settings):
    pairs = [
        synonym_pair(entity, f"{entity} {i}", f"{entity} {i}'") for i, entity in enumerate(entities)
    ]
    return [entities_of(batch) for batch in SynonymBatcher(**settings)(view_examples(pairs))]


def test_pairs_keep_their_order():
    assert batches("abcabdd", pairs=3) == [["a", "b", "c"], ["a", "b", "d"]]
    assert batches("abcabde", pairs=5) == [["a", "b", "c", "a", "b"], ["d", "e"]]
    assert batches("", pairs=5) == []


def test_batches_have_at_least_two_entities():
    assert batches("aabbbab", pairs=2) == [["b", "a"]]
    assert batches("aaab", pairs=4) == [["a", "a", "a", "b"]]


def test_homonyms_are_never_in_one_batch(toy_store):
    """ "MS" is a name of T01 and of T02, "cold" one of T04 and of T05."""
    found = batches(
        ["T01", "T02", "T03", "T04", "T02", "T05", "T01", "T06"], pairs=3, ontology=toy_store.path
    )
    assert found == [["T01", "T03", "T04"], ["T02", "T02", "T05"], ["T01", "T06"]]
    # Without an ontology nothing is known of names.
    assert batches(["T01", "T02", "T03"], pairs=3) == [["T01", "T02", "T03"]]


def test_pairs_of_an_ontology_are_used_at_most_once(toy_store):
    corpus = SynonymCorpus(toy_store.path)
    every = Counter(example.reference.text for example in SynonymCorpus(toy_store.path)(NLP))
    used = Counter()
    for batch in SynonymBatcher(5, toy_store.path)(corpus(NLP)):
        found = set(entities_of(batch))
        assert len(batch) <= 5 and len(found) > 1
        assert not {"T01", "T02"} <= found and not {"T04", "T05"} <= found
        used.update(example.reference.text for example in batch)
    # What cannot stand with anything that is left is left out at the very end.
    assert set(used.values()) == {1} and sum((every - used).values()) <= 4 and not used - every


def test_a_stream_of_homonyms_is_not_read_to_its_end(toy_store):
    """T02 cannot stand beside T01: so many of its pairs wait as a batch has, and no more are
    read."""
    read = []

    def examples():
        entities = ["T01", "T03", *["T02"] * 5, "T03"]
        for i, example in enumerate(
            view_examples(synonym_pair(id_, f"a {i}", f"b {i}") for i, id_ in enumerate(entities))
        ):
            read.append(i)
            yield example

    stream = SynonymBatcher(pairs=4, ontology=toy_store.path)(examples())
    assert entities_of(next(stream)) == ["T01", "T03"] and len(read) == 6
    assert [entities_of(batch) for batch in stream] == [["T02", "T03"]]


def test_pairs_without_a_batch_raise():
    """Asked for an epoch after the other, `spacy train` would never come back."""
    for entities in ("a", "aaaa", "aabbb"):
        with pytest.raises(KrisselError, match=f"K634.* {len(entities)} synonym pairs"):
            batches(entities, pairs=2)


def test_invalid_settings_raise():
    with pytest.raises(KrisselError, match="K006.*'pairs'"):
        SynonymBatcher(1)
