from itertools import chain

import pytest

from spacy_krissel.errors import KrisselError
from spacy_krissel.training.data.batchers import MentionBatcher
from spacy_krissel.training.data.examples import linked_mentions


@pytest.fixture
def examples(make_example):
    return [make_example(f"T{i % 3}", "the ", f"m{i}") for i in range(10)] + [make_example("")]


def mentions(batch):
    return [view.mention for example in batch for _, view in linked_mentions(example.reference)]


def test_every_linked_mention_is_batched_once(examples):
    batches = list(MentionBatcher(size=4)(examples))
    assert [len(batch) for batch in batches] == [4, 4, 2]
    assert sorted(chain.from_iterable(map(mentions, batches))) == sorted(f"m{i}" for i in range(10))


def test_document_is_split_into_its_mentions():
    import spacy
    from spacy.tokens import Span
    from spacy.training import Example

    nlp = spacy.blank("en")
    docs = [nlp.make_doc("a b c d") for _ in range(2)]
    docs[1].ents = [
        Span(docs[1], i, i + 1, label="X", kb_id=kb_id)
        for i, kb_id in enumerate(("T1", "T2", "NIL", ""))
    ]
    batches = list(MentionBatcher(size=1)([Example(*docs)]))
    assert sorted(map(mentions, batches)) == [["a"], ["b"]]


def test_order_changes_with_seed_and_epoch(examples):
    def orders(seed):
        batcher = MentionBatcher(size=10, seed=seed)
        return [mentions(next(iter(batcher(examples)))) for _ in range(2)]

    assert orders(0) == orders(0) != orders(1)
    assert orders(0)[0] != orders(0)[1]


def test_batch_size_of_zero_raises():
    with pytest.raises(KrisselError, match="K006"):
        MentionBatcher(size=0)
