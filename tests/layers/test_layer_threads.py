"""Models that several threads call at once give what they give to one."""

import copy
import pickle
import sys
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier, Event

import numpy as np
import pytest
from numpy.testing import assert_allclose

from spacy_krissel.layers import list_cross_encoder as vector_cache
from spacy_krissel.layers.hf.cross_encoder import CrossEncoder
from spacy_krissel.layers.hf.piece_states import PieceStates
from spacy_krissel.layers.hf.transformer import TransformerEncoder
from spacy_krissel.layers.hf.wrapper import hf_shim
from spacy_krissel.layers.label_attention import LabelAttention
from spacy_krissel.layers.list_cross_encoder import PARAMS, ListCrossEncoder, VectorCache
from spacy_krissel.layers.ranked import RankedMention
from spacy_krissel.layers.small import SmallEncoder
from spacy_krissel.layers.token_states import WordStates
from spacy_krissel.views import CandidateView, View, name_view

N_THREADS = 8
N_CALLS = 5
WORDS = (
    "the patient had acute lung injury and cold with fever in of a discharge was ms multiple "
    "sclerosis"
).split()


def views(seed):
    random = np.random.default_rng(seed)
    parts = [
        [" ".join(random.choice(WORDS, random.integers(1, 9))) for _ in range(3)] for _ in range(3)
    ]
    return [View(f"{left} ", mention, f" {right}") for left, mention, right in parts]


def texts(seed):
    return [view.left + view.mention + view.right for view in views(seed)]


def ranked(seed):
    names = [view.mention for view in views(seed + 1)]
    candidates = tuple(CandidateView((name,), (name, "a")) for name in names)
    return [
        RankedMention(view, candidates, np.zeros(len(names), dtype="float32"))
        for view in views(seed)
    ]


def small():
    return SmallEncoder(width=16, rows=512, context_rows=256, hidden=4)


def list_model():
    model = ListCrossEncoder(small(), hidden=5)
    model.initialize(X=ranked(0))
    for name in PARAMS:
        shape = model.layers[0].get_param(name).shape
        model.layers[0].set_param(
            name, np.random.default_rng(0).normal(size=shape).astype("float32")
        )
    return model


def pair_model(path):
    model = CrossEncoder(path, window=24, candidate_window=16)
    model.initialize(X=ranked(0))
    model.layers[0].layers[0].layers[1].set_param(
        "W", np.random.default_rng(0).normal(size=(1, 32)).astype("float32")
    )
    return model


def initialized(model, inputs):
    model.initialize(X=inputs)
    return model


MAKERS = {
    "small": (lambda path: initialized(small(), views(0)), views),
    "transformer": (lambda path: initialized(TransformerEncoder(path), views(0)), views),
    "units": (
        lambda path: initialized(TransformerEncoder(path, units=True, pooling="marker"), views(0)),
        views,
    ),
    "words": (lambda path: initialized(LabelAttention(WordStates(small())), texts(0)), texts),
    "pieces": (
        lambda path: initialized(LabelAttention(PieceStates(path, window=32)), texts(0)),
        texts,
    ),
    "pairs": (pair_model, ranked),
    "list": (lambda path: list_model(), ranked),
}
AS_THEY_COME = {
    "made": lambda model, make: model,
    "pickled": lambda model, make: pickle.loads(pickle.dumps(model)),
    "copied": lambda model, make: copy.deepcopy(model),
    "from bytes": lambda model, make: make().from_bytes(model.to_bytes()),
}


@pytest.fixture
def often():
    """Threads that take turns in the middle of everything."""
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(interval)


def in_threads(call, n_threads=N_THREADS):
    """The answers of `call(number of the thread)`, all of them begun at once."""
    barrier = Barrier(n_threads)

    def begin(number):
        barrier.wait()
        return call(number)

    with ThreadPoolExecutor(n_threads) as pool:
        return list(pool.map(begin, range(n_threads)))


def array_of(answer):
    return getattr(answer, "vectors", answer)


@pytest.mark.parametrize("how", AS_THEY_COME)
@pytest.mark.parametrize("kind", MAKERS)
def test_concurrent_predictions_equal_sequential_ones(tiny_bert, often, kind, how):
    make, inputs = MAKERS[kind]
    model = make(str(tiny_bert))
    expected = [array_of(model.predict(inputs(seed))).copy() for seed in range(N_CALLS)]
    model = AS_THEY_COME[how](model, lambda: make(str(tiny_bert)))

    def call(number):
        order = [(number + i) % N_CALLS for i in range(N_CALLS)]
        return [(seed, array_of(model.predict(inputs(seed)))) for seed in order]

    for answers in in_threads(call):
        for seed, answer in answers:
            assert_allclose(answer, expected[seed], atol=1e-5)


def test_no_thread_predicts_with_dropout(tiny_bert):
    """A loaded encoder is in training mode until its first prediction, and its modules leave it one
    after another."""
    make, inputs = MAKERS["transformer"]
    model = make(str(tiny_bert))
    expected = model.predict(inputs(0))
    model = make(str(tiny_bert)).from_bytes(model.to_bytes())
    inside, go_on = Event(), Event()
    last = hf_shim(model).transformer.encoder
    leave = last.train

    def leave_slowly(training=True):
        if not inside.is_set():
            inside.set()
            assert go_on.wait(60)
        return leave(training)

    last.train = leave_slowly
    with ThreadPoolExecutor(1) as pool:
        first = pool.submit(model.predict, inputs(0))
        assert inside.wait(60)
        answer = model.predict(inputs(0))
        go_on.set()
        assert_allclose(first.result(), expected, atol=1e-5)
    assert_allclose(answer, expected, atol=1e-5)


def test_copies_ignore_saved_tokenizer_settings(tiny_bert):
    """It truncates to five pieces and reads markers in texts, and a copy loses a part of what it
    was set to."""
    make, _ = MAKERS["transformer"]
    model = make(str(tiny_bert))
    odd = [View("a [Me] [MASK] " * 5, "[Ms] cold", " [SEP]" + " fever" * 9), name_view("ms")]
    expected = model.predict(odd)
    for how in AS_THEY_COME.values():
        assert np.array_equal(how(model, lambda: make(str(tiny_bert))).predict(odd), expected)


class Counter:
    """An encoder whose vectors say which name they are of."""

    def __init__(self):
        self.ops = small().ops
        self.n_encoded = 0
        self.then = lambda: None

    def predict(self, views):
        self.n_encoded += len(views)
        self.then()
        return np.asarray([[float(view.mention), 1.0] for view in views], dtype="float32")


def test_cached_vectors_belong_to_their_names(often):
    """From the first calls on, with a bound that clears it, and while another thread clears it."""
    cache, encoder = VectorCache(), Counter()

    def call(number):
        random = np.random.default_rng(number)
        for i in range(200):
            numbers = random.integers(0, 300, 20)
            vectors = cache.encode(encoder, [str(n) for n in numbers])
            assert vectors[:, 0].tolist() == numbers.tolist()
            if number == 0 and i % 10 == 0:
                cache.clear()

    in_threads(call)
    assert cache.encode(encoder, []).shape[0] == 0


def test_vectors_encoded_before_the_cache_was_cleared_are_not_kept():
    cache, encoder = VectorCache(), Counter()
    encoder.then = cache.clear
    cache.encode(encoder, ["1"])
    cache.encode(encoder, ["1"])
    assert encoder.n_encoded == 2


def test_the_cache_is_limited(monkeypatch):
    monkeypatch.setattr(vector_cache, "MAX_CACHED_NAMES", 50)
    cache, encoder = VectorCache(), Counter()
    for start in range(0, 300, 30):
        names = [str(n) for n in range(start, start + 30)]
        assert cache.encode(encoder, names)[:, 0].tolist() == list(range(start, start + 30))
        assert len(cache._vectors) <= 50
    assert len(cache.encode(encoder, [str(n) for n in range(1000, 1200)])) == 200
    assert len(cache._vectors) <= 50
    before = encoder.n_encoded
    cache.encode(encoder, ["1000", "1000"])
    assert encoder.n_encoded == before, "each name is encoded once"
    assert pickle.loads(pickle.dumps(cache))._vectors == {} and copy.deepcopy(cache)._vectors == {}
