import random

import numpy
import torch

from spacy_krissel.distributed.random_state import capture_rng, replay_rng
from spacy_krissel.layers.hf.transformer import TransformerEncoder
from spacy_krissel.views import name_view


def draw():
    return [random.random(), numpy.random.rand(), torch.rand(1).item()]


def test_replay_repeats_the_random_numbers():
    state = capture_rng()
    first = draw()
    middle = draw()
    with replay_rng(state):
        assert draw() == first
        assert draw() == middle


def test_a_replay_does_not_advance_the_random_state():
    state = capture_rng()
    draw()
    before = capture_rng()
    with replay_rng(state):
        draw()
    after_replay = draw()
    with replay_rng(before):
        assert draw() == after_replay


def test_state_is_restored_after_an_error():
    state = capture_rng()
    draw()
    before = capture_rng()
    try:
        with replay_rng(state):
            raise KeyError
    except KeyError:
        pass
    after = draw()
    with replay_rng(before):
        assert draw() == after


def test_a_replayed_forward_pass_has_the_same_dropout(tiny_bert):
    model = TransformerEncoder(str(tiny_bert), batch_pieces=16)
    model.initialize()
    views = [name_view("cold " * (i + 1)) for i in range(8)]
    chunks = [views[:5], views[5:]]
    states, first = [], []
    for chunk in chunks:
        states.append(capture_rng())
        first.append(model.begin_update(chunk)[0])
    for chunk, state, vectors in zip(chunks, states, first, strict=True):
        with replay_rng(state):
            assert numpy.array_equal(model.begin_update(chunk)[0], vectors)
        assert not numpy.array_equal(model.begin_update(chunk)[0], vectors)
