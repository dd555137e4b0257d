import numpy as np
import pytest
from thinc.api import Adam, Model, chain, set_dropout_rate

from spacy_krissel.errors import KrisselError
from spacy_krissel.layers.hf.transformer import TransformerEncoder
from spacy_krissel.layers.identity import fingerprint
from spacy_krissel.layers.normalize import normalize_rows
from spacy_krissel.layers.referenced import ReferencedEncoder, reference_parts
from spacy_krissel.layers.small import SmallEncoder
from spacy_krissel.views import ReferenceParts, View, name_view

MENTION = View("the patient had ", "ms", " with fever")
NAME = name_view("cold")
REFERENCE = View("C10.2\nDisease", "multiple sclerosis; ms", "sclerosis with fever", reference=True)
OTHER = View("", "cold", "", reference=True)
VIEWS = [REFERENCE, MENTION, OTHER, NAME]


def small(**settings):
    return SmallEncoder(**{"width": 8, "rows": 256, "context_rows": 128, "hidden": 4, **settings})


@pytest.fixture(params=["small", "transformer"])
def make(request, tiny_bert):
    def make(seed=0, **settings):
        if request.param == "small":
            return small(seed=seed, **settings)
        return TransformerEncoder(str(tiny_bert), window=32, **settings)

    return make


def numbers(value, seen):
    """A stand-in for an encoder: every vector is (value, length of the text), and gradients are
    kept in `seen`."""

    def forward(model, X, is_train):
        def backprop(dY):
            seen.append((value, list(X), dY.tolist()))
            return []

        return np.array([[value, len(view.mention)] for view in X], dtype=np.float32), backprop

    return Model(f"numbers{value}", forward, dims={"nO": 2})


def test_mentions_and_references_go_to_their_encoders_in_order():
    seen = []
    model = ReferencedEncoder(numbers(1, seen), numbers(2, seen))
    model.initialize()
    vectors, backprop = model(VIEWS, is_train=True)
    assert vectors[:, 0].tolist() == [2, 1, 2, 1]
    assert vectors[:, 1].tolist() == [len(view.mention) for view in VIEWS]
    backprop(np.array([[0, 0], [1, 1], [2, 2], [3, 3]], dtype=np.float32))
    assert seen == [
        (1, [MENTION, NAME], [[1, 1], [3, 3]]),
        (2, [REFERENCE, OTHER], [[0, 0], [2, 2]]),
    ]
    seen.clear()
    for only, value in ([MENTION], 1), ([REFERENCE], 2):
        vectors, backprop = model(only, is_train=True)
        assert vectors[0, 0] == value
        backprop(vectors)
    assert [value for value, *_ in seen] == [1, 2]


def test_one_encoder_can_encode_both_kinds():
    seen = []
    model = ReferencedEncoder(numbers(1, seen))
    model.initialize()
    assert model.predict(VIEWS)[:, 0].tolist() == [1, 1, 1, 1]
    assert reference_parts(model) == ReferenceParts()


def test_vectors_equal_those_of_the_two_encoders(make):
    """Each initialised by its own kind of views, as it would be alone."""
    parts = make(seed=1), make(seed=2)
    parts[0].initialize(X=[MENTION, NAME])
    parts[1].initialize(X=[REFERENCE, OTHER])
    model = ReferencedEncoder(make(seed=1), make(seed=2))
    model.initialize(X=VIEWS)
    vectors = model.predict(VIEWS)
    np.testing.assert_allclose(vectors[[1, 3]], parts[0].predict([MENTION, NAME]), atol=1e-6)
    np.testing.assert_allclose(vectors[[0, 2]], parts[1].predict([REFERENCE, OTHER]), atol=1e-6)
    assert model.get_dim("nO") == vectors.shape[1] == parts[0].get_dim("nO")


def test_one_kind_of_views_is_enough_to_initialize(make):
    for views in ([MENTION], [REFERENCE]):
        model = ReferencedEncoder(make(), make())
        model.initialize(X=views)
        assert np.isfinite(model.predict(VIEWS)).all()


def test_vectors_survive_saving_and_loading(make):
    model = ReferencedEncoder(make(seed=1), make(seed=2), definition=False)
    model.initialize(X=VIEWS)
    data = model.to_bytes()
    loaded = ReferencedEncoder(make(seed=5), make(seed=6), definition=False).from_bytes(data)
    assert (loaded.predict(VIEWS) == model.predict(VIEWS)).all()
    assert loaded.to_bytes() == data
    assert fingerprint(loaded) == fingerprint(model)


def test_reference_parts_come_from_the_config_and_change_the_fingerprint():
    """So that references cannot be written otherwise in linking than they were in training."""
    model = ReferencedEncoder(small(), small(), definition=False)
    model.initialize(X=VIEWS)
    others = [
        {},
        {"definition": False, "aliases": False},
        {"tree_numbers": False},
        {"types": False},
    ]
    prints = {fingerprint(model)}
    for parts in others:
        loaded = ReferencedEncoder(small(), small(), **parts).from_bytes(model.to_bytes())
        assert reference_parts(loaded) == ReferenceParts(**parts)
        prints.add(fingerprint(loaded))
    assert len(prints) == 5


def test_reference_parts_are_found_in_nested_models():
    model = chain(ReferencedEncoder(small(), types=False), normalize_rows())
    assert reference_parts(model) == ReferenceParts(types=False)
    assert reference_parts(small()) is None


def test_both_encoders_are_trained(make):
    model = ReferencedEncoder(make(seed=1), make(seed=2))
    model.initialize(X=VIEWS)
    set_dropout_rate(model, 0.0)
    before = model.predict(VIEWS)
    target = np.zeros_like(before)
    target[:, 0] = 1
    optimizer = Adam(0.01, use_averages=False)
    for _ in range(15):
        vectors, backprop = model.begin_update(VIEWS)
        backprop(vectors - target)
        model.finish_update(optimizer)
    after = model.predict(VIEWS)
    assert (((after - target) ** 2).sum(axis=1) < ((before - target) ** 2).sum(axis=1)).all()


def test_different_widths_raise():
    model = ReferencedEncoder(small(width=8), small(width=16))
    with pytest.raises(KrisselError, match="K410.*8 and 16"):
        model.initialize(X=VIEWS)
