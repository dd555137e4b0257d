import gc
import multiprocessing
from itertools import islice

import pytest
import spacy
import torch

from spacy_krissel.distributed import workers
from spacy_krissel.errors import KrisselError
from spacy_krissel.training.data.self_supervised import SelfSupervisedCorpus


@pytest.fixture
def corpus(toy_store, toy_shards):
    def corpus(mentions=toy_shards, **settings):
        return SelfSupervisedCorpus(toy_store.path, mentions, **settings)

    return corpus


def test_another_stream_is_read_ahead(corpus, monkeypatch):
    """Over the ends of blocks and epochs, and after an epoch that was left early, as `initialize` leaves it."""
    monkeypatch.setattr(workers, "BLOCK", 7)
    here, ahead = corpus(), corpus(read_ahead=20)
    state = torch.random.get_rng_state()
    expected = [list(here.linked_views()) for _ in range(3)]
    assert list(islice(ahead.linked_views(), 10)) == expected[0][:10]
    assert [list(ahead.linked_views()) for _ in range(3)] == expected
    assert expected[0] != expected[1]
    assert torch.equal(torch.random.get_rng_state(), state)


def test_examples_that_are_read_ahead_differ(corpus):
    nlp = spacy.blank("en")
    texts = [
        [(example.reference.text, example.reference.ents[0].kb_id_) for example in each(nlp)]
        for each in (corpus(), corpus(read_ahead=1))
    ]
    assert texts[0] and texts[0] == texts[1]


def test_an_error_of_the_other_process_loses_its_code(corpus):
    with pytest.raises(KrisselError, match=r"^\[K608\]"):
        list(corpus(None, names_per_entity=0, read_ahead=1).linked_views())


def test_training_waits_for_a_process_that_is_gone(corpus, monkeypatch):
    monkeypatch.setattr(workers, "BLOCK", 1)
    before = set(multiprocessing.active_children())
    views = corpus(read_ahead=1).linked_views()
    next(views)
    (reader,) = set(multiprocessing.active_children()) - before
    reader.kill()
    with pytest.raises(KrisselError, match="K645"):
        list(views)


def test_a_corpus_that_is_gone_leaves_its_process_behind(corpus):
    """As that of `initialize`, which looks at a few examples: the process would hold the shards for as long as training
    lasts."""
    ahead = corpus(read_ahead=1)
    before = set(multiprocessing.active_children())
    views = ahead.linked_views()
    next(views)
    assert set(multiprocessing.active_children()) - before
    gc.disable()
    try:
        del views, ahead
        assert set(multiprocessing.active_children()) == before
    finally:
        gc.enable()


def test_development_examples_are_read_by_another_process(corpus):
    ahead = corpus(split="dev", read_ahead=1, held_out=0.3)
    before = set(multiprocessing.active_children())
    assert list(ahead.linked_views()) and set(multiprocessing.active_children()) == before
