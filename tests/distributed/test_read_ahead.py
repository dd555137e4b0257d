import gc
import multiprocessing
from itertools import islice

import pytest
import spacy
import torch

from spacy_krissel.distributed import workers
from spacy_krissel.errors import KrisselError
from spacy_krissel.training.data.self_supervised import SelfSupervisedCorpus

pytestmark = pytest.mark.slow


@pytest.fixture
def corpus(toy_store, toy_shards):
    def corpus(mentions=toy_shards, **settings):
        return SelfSupervisedCorpus(toy_store.path, mentions, **settings)

    return corpus


def test_reading_ahead_gives_the_same_stream(corpus, monkeypatch):
    """Over the ends of blocks and epochs, and after an epoch that was left early, as `initialize`
    leaves it."""
    monkeypatch.setattr(workers, "BLOCK", 7)
    here, ahead = corpus(), corpus(read_ahead=20)
    state = torch.random.get_rng_state()
    expected = [list(here.linked_views()) for _ in range(3)]
    assert list(islice(ahead.linked_views(), 10)) == expected[0][:10]
    assert [list(ahead.linked_views()) for _ in range(3)] == expected
    assert expected[0] != expected[1]
    assert torch.equal(torch.random.get_rng_state(), state)


def test_examples_read_ahead_are_the_same(corpus):
    nlp = spacy.blank("en")
    texts = [
        [(example.reference.text, example.reference.ents[0].kb_id_) for example in each(nlp)]
        for each in (corpus(), corpus(read_ahead=1))
    ]
    assert texts[0] and texts[0] == texts[1]


def test_an_error_of_the_reader_process_keeps_its_code(corpus):
    with pytest.raises(KrisselError, match=r"^\[K608\]"):
        list(corpus(None, names_per_entity=0, read_ahead=1).linked_views())


def test_a_killed_reader_process_raises(corpus, monkeypatch):
    monkeypatch.setattr(workers, "BLOCK", 1)
    before = set(multiprocessing.active_children())
    views = corpus(read_ahead=1).linked_views()
    next(views)
    (reader,) = set(multiprocessing.active_children()) - before
    reader.kill()
    with pytest.raises(KrisselError, match="K645"):
        list(views)


def test_deleting_a_corpus_ends_its_reader_process(corpus):
    """Else the reader process of `initialize` would hold the shards for as long as training
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


def test_development_examples_are_not_read_ahead(corpus):
    ahead = corpus(split="dev", read_ahead=1, held_out=0.3)
    before = set(multiprocessing.active_children())
    assert list(ahead.linked_views()) and set(multiprocessing.active_children()) == before
