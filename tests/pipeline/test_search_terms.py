import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from spacy.vocab import Vocab
from term_search import search

from spacy_krissel.index.faiss_index import make_faiss_index
from spacy_krissel.kb.prototype_kb import PrototypeKB
from spacy_krissel.kb.prototype_table import Prototype, PrototypeTable
from spacy_krissel.lexical.groups import pad_groups
from spacy_krissel.lexical.index import LexicalIndex
from spacy_krissel.pipeline.linker.query import LEXICAL_CANDIDATES
from spacy_krissel.pipeline.linker.terms.spelling import MAX_SPELLING_MATCHES
from spacy_krissel.views import name_view

NAMES = [
    "lung cancer",
    "cold",
    "common cold",
    "MS",
    "renal failure",
    "failure",
    "cancer of the lung",
    "colds",
]
WHOLE = st.integers(-2, 2).map(float)


class Entity:
    def __init__(self, row):
        self.id, self.name, self.types = f"E{row:02}", f"entity {row}", (f"T{row % 2}",)


def make_kb(owners, names, vectors, kinds=None, **settings):
    kb = PrototypeKB(Vocab(), vectors.shape[1], **settings)
    kb.set_entities([Entity(row) for row in range(max(owners) + 1)])
    kinds = kinds or ["name"] * len(owners)
    prototypes = [
        Prototype(f"E{o:02}", kind, name_view(name))
        for o, kind, name in zip(owners, kinds, names, strict=True)
    ]
    kb.add_prototypes(prototypes, vectors)
    return kb


def restated(kb, owners, names, vectors, query, text, weight):
    """Every entity with a prototype: its score, both parts compared with everything."""
    lexicon = LexicalIndex.of(names, np.array(owners))
    scores = {}
    for entity in sorted(set(owners)):
        dense = max(
            float(query @ vector)
            for owner, vector in zip(owners, vectors, strict=True)
            if owner == entity
        )
        one = np.zeros(1, dtype=np.int64)
        lexical = lexicon.similarity(lexicon.read([text]), one, one + entity)[0]
        scores[entity] = dense + weight * float(lexical)
    return scores


@st.composite
def searches(draw):
    n, d, q = draw(st.integers(1, 30)), draw(st.integers(1, 3)), draw(st.integers(1, 4))
    owners = draw(st.lists(st.integers(0, 9), min_size=n, max_size=n))
    names = draw(st.lists(st.sampled_from(NAMES), min_size=n, max_size=n))
    vectors = draw(arrays(np.float32, (n, d), elements=WHOLE))
    queries = draw(arrays(np.float32, (q, d), elements=WHOLE))
    texts = draw(
        st.lists(st.sampled_from([*NAMES, "lung", "", "cold failure"]), min_size=q, max_size=q)
    )
    return (
        owners,
        names,
        vectors,
        queries,
        texts,
        draw(st.sampled_from([0.5, 3.0])),
        draw(st.integers(1, 12)),
    )


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(searches(), st.booleans())
def test_scores_combine_vectors_and_lexical_similarity(case, masked):
    owners, names, vectors, queries, texts, weight, k = case
    kb = make_kb(owners, names, vectors)
    allowed = np.arange(kb.n_entities) % 2 == 0 if masked else None
    result = search(kb, queries, k, allowed=allowed, texts=texts, lexical_weight=weight)
    dense = search(kb, queries, k, allowed=allowed)
    for i, (query, text) in enumerate(zip(queries, texts, strict=True)):
        expected = restated(kb, owners, names, vectors, query, text, weight)
        if masked:
            expected = {entity: score for entity, score in expected.items() if entity % 2 == 0}
        found = result.entities[i][result.entities[i] >= 0].tolist()
        assert len(set(found)) == len(found) == min(k, len(expected))
        assert result.scores[i][: len(found)] == pytest.approx(
            [expected[entity] for entity in found], abs=1e-5
        )
        assert (np.diff(result.scores[i][: len(found)]) <= 0).all()
        if not found:
            continue
        # No worse than what vectors alone chose, and the best of all where all are looked at.
        assert (
            result.scores[i, 0] >= max(expected[entity] for entity in dense.tied(i).tolist()) - 1e-5
        )
        if k >= len(expected):
            assert result.scores[i, 0] == pytest.approx(max(expected.values()), abs=1e-5)
        for entity in result.tied(i):
            assert expected[int(entity)] == pytest.approx(float(result.scores[i, 0]), abs=1e-5)
        for entity, row in zip(found, result.prototypes[i], strict=False):
            assert owners[row] == entity
            best = max(
                float(query @ vector)
                for owner, vector in zip(owners, vectors, strict=True)
                if owner == entity
            )
            assert float(query @ vectors[row]) == pytest.approx(best, abs=1e-5)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(searches(), st.data())
def test_name_weight_and_gold_prior_match_a_restatement(case, data):
    """Every part of the score restated, over all entities, with and without lexical similarity."""
    owners, names, vectors, queries, texts, weight, _ = case
    gold = data.draw(st.lists(st.booleans(), min_size=len(owners), max_size=len(owners)))
    alone = data.draw(arrays(np.float32, queries.shape, elements=WHOLE))
    share, prior = (
        data.draw(st.sampled_from([0.0, 0.25, 1.0])),
        data.draw(st.sampled_from([0.0, 0.5])),
    )
    weight = data.draw(st.sampled_from([0.0, weight]))
    kb = make_kb(owners, names, vectors, kinds=["gold" if each else "name" for each in gold])
    settings_ = {"lexical_weight": weight, "name_weight": share, "gold_prior": prior}
    k = kb.n_entities
    result = search(kb, queries, k, texts=texts, names=alone, **settings_)
    annotated = {owner for owner, each in zip(owners, gold, strict=True) if each}
    assert kb.has_gold == bool(annotated)
    for i, text in enumerate(texts):
        context = restated(kb, owners, names, vectors, queries[i], text, weight)
        name = restated(kb, owners, names, vectors, alone[i], text, weight)
        # Context alone decides on a name that several entities share.
        of, more = (
            (share, prior)
            if len({o for o, each in zip(owners, names, strict=True) if each == text}) < 2
            else (0.0, 0.0)
        )
        expected = {
            entity: (1 - of) * context[entity] + of * name[entity] + more * (entity in annotated)
            for entity in context
        }
        found = result.entities[i][result.entities[i] >= 0].tolist()
        assert sorted(found) == sorted(expected)
        assert result.scores[i][: len(found)] == pytest.approx(
            [expected[entity] for entity in found], abs=1e-5
        )
        assert (np.diff(result.scores[i][: len(found)]) <= 0).all()
        for entity, row in zip(found, result.prototypes[i], strict=False):
            nearest = max(
                float(queries[i] @ vector)
                for owner, vector in zip(owners, vectors, strict=True)
                if owner == entity
            )
            assert owners[row] == entity and float(queries[i] @ vectors[row]) == pytest.approx(
                nearest, abs=1e-5
            )


def test_entity_found_only_by_name_is_a_candidate():
    """Entity 3 is far from the mention in its context and next to its text: it comes with both."""
    vectors = np.array([[1, 0], [0.9, 0], [0.8, 0], [0, 1]], dtype=np.float32)
    kb = make_kb([0, 1, 2, 3], ["fits", "thirst", "hiccups", "lung cancer"], vectors)
    query, name = np.array([[1, 0.1]], dtype=np.float32), np.array([[0, 1]], dtype=np.float32)
    result = search(kb, query, 2, names=name, name_weight=0.6)
    assert result.entities.tolist() == [[3, 0]] and result.prototypes.tolist() == [[3, 0]]
    assert result.scores[0] == pytest.approx([0.4 * 0.1 + 0.6, 0.4])
    assert (
        search(kb, query, 2, names=name).entities.tolist()
        == search(kb, query, 2).entities.tolist()
        == [[0, 1]]
    )


def test_context_decides_between_entities_that_share_a_name():
    """And what the entities below one share does not count as a name of it."""
    vectors = np.array([[1, 0], [0.9, 0], [0.1, 0], [0.1, 0]], dtype=np.float32)
    names, kinds = (
        ["MS", "MS", "multiple sclerosis", "multiple sclerosis"],
        ["name", "gold", "name", "class"],
    )
    kb = make_kb([0, 1, 0, 1], names, vectors, kinds=kinds)
    given = {"names": np.array([[0, 0]], dtype=np.float32), "name_weight": 0.5, "gold_prior": 0.5}
    query = np.array([[1, 0]], dtype=np.float32)
    shared, alone = (
        search(kb, query, 2, texts=[text], **given) for text in ("ms", "multiple sclerosis")
    )
    assert shared.entities.tolist() == [[0, 1]] and shared.scores[0] == pytest.approx([1, 0.9])
    assert alone.entities.tolist() == [[1, 0]] and alone.scores[0] == pytest.approx([0.95, 0.5])


def test_prior_ends_when_gold_mentions_are_removed():
    kb = make_kb([0, 1], ["fever", "cold"], np.array([[0.5, 0], [0.48, 0]], dtype=np.float32))
    query = np.array([[1, 0]], dtype=np.float32)
    assert search(kb, query, 2, gold_prior=0.05).scores[0] == pytest.approx([0.5, 0.48])
    kb.add_prototypes(
        [Prototype("E01", "gold", name_view("catarrh"))], np.zeros((1, 2), dtype=np.float32)
    )
    result = search(kb, query, 2, gold_prior=0.05)
    assert result.entities.tolist() == [[1, 0]] and result.scores[0] == pytest.approx([0.53, 0.5])
    with kb.without_prototypes(kind="gold"):
        assert search(kb, query, 2, gold_prior=0.05).entities.tolist() == [[0, 1]]
    assert search(kb, query, 2, gold_prior=0.05).entities.tolist() == [[1, 0]]


def test_lexical_search_adds_candidates():
    """Entity 3 is far from the query, and no candidate of one that asks for two: it comes with its
    true score."""
    vectors = np.array([[1, 0], [0.9, 0], [0.8, 0], [0.5, 0]], dtype=np.float32)
    kb = make_kb([0, 1, 2, 3], ["fits", "thirst", "hiccups", "lung cancer"], vectors)
    query = np.array([[1, 0]], dtype=np.float32)
    assert search(kb, query, 2).entities.tolist() == [[0, 1]]
    result = search(kb, query, 2, texts=["Lung-Cancer"], lexical_weight=1.0)
    assert result.entities.tolist() == [[3, 0]]
    assert result.scores[0] == pytest.approx([0.5 + 1.0, 1.0])
    assert result.prototypes.tolist() == [[3, 0]] and not result.ties
    result = search(kb, query, 2, texts=["Lung-Cancer"], lexical_weight=0.25)
    assert result.entities.tolist() == [[0, 1]]


def test_lexical_index_is_not_built_for_a_weight_of_zero(monkeypatch):
    kb = make_kb([0, 1], ["fever", "cold"], np.eye(2, dtype=np.float32))
    monkeypatch.setattr(
        PrototypeTable, "lexical_index", property(lambda self: pytest.fail("it was made"))
    )
    query = np.eye(2, dtype=np.float32)
    plain, off = (
        search(kb, query, 2),
        search(kb, query, 2, texts=["cold", "fever"], lexical_weight=0.0),
    )
    assert (plain.entities == off.entities).all() and (plain.scores == off.scores).all()
    assert search(kb, query[:0], 2, texts=[], lexical_weight=1.0).entities.shape == (0, 2)


def test_equal_entities_tie():
    """Homonyms without a difference tie, whatever the index and more than are asked for; the lowest
    id goes first."""
    n = 8
    vectors = np.tile(np.array([[0.6, 0.8]], dtype=np.float32), (n, 1))
    for index in (None, make_faiss_index("hnsw", float16=True)):
        kb = make_kb(list(range(n)), ["MS"] * n, vectors, index=index)
        result = search(kb, vectors[:1], 2, texts=["MS"], lexical_weight=0.5)
        assert result.ties[0].tolist() == list(range(n))
        assert result.entities.tolist() == [[0, 1]] and result.scores[0] == pytest.approx(
            [1.5, 1.5]
        )


def test_lexical_similarity_breaks_a_tie_of_vectors():
    vectors = np.array([[1, 0], [1, 0]], dtype=np.float32)
    kb = make_kb([0, 1], ["fever", "cold"], vectors)
    assert search(kb, vectors[:1], 2).ties[0].tolist() == [0, 1]
    result = search(kb, vectors[:1], 2, texts=["cold"], lexical_weight=0.5)
    assert result.entities.tolist() == [[1, 0]] and not result.ties


def test_next_best_prototypes_break_a_tie():
    vectors = np.array([[1, 0], [1, 0], [0.1, 0], [0.3, 0]], dtype=np.float32)
    kb = make_kb([0, 1, 0, 1], ["MS", "MS", "sclerosis", "stenosis"], vectors)
    result = search(kb, vectors[:1], 2, texts=["MS"], lexical_weight=0.5)
    assert result.entities.tolist() == [[1, 0]] and not result.ties
    assert result.prototypes.tolist() == [[1, 0]] and result.scores[0] == pytest.approx([1.5, 1.5])


def test_lexical_index_includes_added_prototypes(tmp_path):
    kb = make_kb([0, 1], ["fever", "cold"], np.eye(2, dtype=np.float32))
    query = np.full((1, 2), 0.5, dtype=np.float32)
    both = {"texts": ["lumbago"], "lexical_weight": 1.0}
    assert search(kb, query, 2, **both).scores[0] == pytest.approx([0.5, 0.5])
    kb.add_prototypes(
        [Prototype("E01", "gold", name_view("lumbago"))], np.zeros((1, 2), dtype=np.float32)
    )
    expected = search(kb, query, 2, **both)
    assert expected.entities.tolist() == [[1, 0]] and expected.scores[0] == pytest.approx(
        [1.5, 0.5]
    )
    kb.to_disk(tmp_path / "kb")
    for again in (
        PrototypeKB(Vocab(), 2).from_disk(tmp_path / "kb"),
        PrototypeKB(Vocab(), 2).from_bytes(kb.to_bytes()),
    ):
        found = search(again, query, 2, **both)
        assert (found.entities == expected.entities).all() and (
            found.scores == expected.scores
        ).all()
    with kb.without_prototypes(kind="gold"):
        assert search(kb, query, 2, **both).scores[0] == pytest.approx([0.5, 0.5])
    assert (search(kb, query, 2, **both).scores == expected.scores).all()
    kb.remove_prototypes(kind="gold")
    assert search(kb, query, 2, **both).scores[0] == pytest.approx([0.5, 0.5])


def test_references_are_not_surface_forms():
    kb = make_kb([0, 1], ["fever", "cold"], np.eye(2, dtype=np.float32))
    kb.add_prototypes(
        [Prototype("E00", "reference", name_view("lumbago"))], np.zeros((1, 2), dtype=np.float32)
    )
    index = kb.prototypes.lexical_index
    assert (index.search(index.vectors(["lumbago"]), LEXICAL_CANDIDATES) == -1).all()


def test_missing_candidates_have_no_similarity():
    kb = make_kb([0, 1], ["cold", "flu"], np.array([[1, 0], [0, 1]], dtype=np.float32))
    asked = {
        "texts": ["cold"],
        "lexical_weight": 0.5,
        "spelling_weight": 0.2,
        "species": np.zeros((1, 1), np.float32),
    }
    result = search(
        kb, np.array([[1, 0]], dtype=np.float32), 3, allowed=np.array([True, False]), **asked
    )
    assert result.entities.tolist() == [[0, -1, -1]]
    assert (
        result.parts["vector"].tolist() == [[1, -np.inf, -np.inf]]
        and result.scores[0, 1] == -np.inf
    )
    assert all(
        result.parts[name][0, 1:].tolist() == [0, 0] for name in ("lexical", "spelling", "species")
    )


def test_candidates_by_shared_spelling_are_capped():
    """With a hundred entities of one spelling, the found ones and a few others gain."""
    kb = make_kb(range(100), ["IL-2"] * 100, np.eye(100, dtype=np.float32))
    result = search(
        kb, np.eye(100, dtype=np.float32)[-2:], 100, texts=["IL2", "x"], spelling_weight=0.2
    )
    assert result.entities[0, 0] == 98 and result.scores[0, 0] == np.float32(1.2)
    spelt, other = result.parts["spelling"]
    assert (spelt[result.entities[0] >= 0] == np.float32(0.2)).all() and not other.any()
    rows = pad_groups(np.arange(100), np.zeros(100, dtype=np.int64), 2, MAX_SPELLING_MATCHES)
    assert rows.shape == (2, MAX_SPELLING_MATCHES)
    assert rows[0].tolist() == list(range(MAX_SPELLING_MATCHES)) and (rows[1] == -1).all()


# Searched for by name -----------------------------------------------------------------------------


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(searches())
def test_search_by_name_equals_search_by_query_if_they_are_equal(case):
    owners, names, vectors, queries, texts, weight, k = case
    kb = make_kb(owners, names, vectors)
    different, of_query = np.unique(queries, axis=0, return_inverse=True)
    settings = {"texts": texts, "lexical_weight": weight}
    expected, found = (
        search(kb, queries, k, **settings),
        search(kb, queries, k, by_name=(different, of_query.ravel()), **settings),
    )
    np.testing.assert_array_equal(found.entities, expected.entities)
    np.testing.assert_allclose(found.scores, expected.scores, atol=1e-5)
    assert {query: tied.tolist() for query, tied in found.ties.items()} == {
        query: tied.tolist() for query, tied in expected.ties.items()
    }


def test_prototype_is_chosen_among_those_nearest_to_the_name():
    names = ["a", "b", "c", "d", "e", "f"]
    vectors = np.float32([[1, 0], [0.9, 0.1], [0.8, 0.2], [0.7, 0.3], [0.6, 0.9], [0.5, 0.5]])
    kb = make_kb([0, 0, 0, 0, 0, 1], names, vectors)
    name, mention = np.float32([[1, 0]]), np.float32([[0, 1]])
    found = search(kb, mention, 2, by_name=(name, np.zeros(1, dtype=np.int64)))
    # Of the four that are nearest to the name, the fourth; the fifth, nearer to the mention, is not
    # looked at.
    assert found.entities.tolist() == [[1, 0]] and found.prototypes.tolist() == [[5, 3]]
    np.testing.assert_allclose(found.scores, [[0.5, 0.3]])


@pytest.mark.parametrize("swapped", [False, True])
@pytest.mark.parametrize("k", [1, 2, 3])
def test_homonyms_are_compared_by_their_other_names_too(k, swapped):
    a, b = (1, 0) if swapped else (0, 1)
    owners = [a, a, b, b, 2, 2]
    vectors = np.float32([[1, 0], [0.6, 0.8], [1, 0], [0.6, -0.8], [0.95, 0.1], [0.6, 0.75]])
    kb = make_kb(owners, ["x", "y", "x", "z", "v", "w"], vectors)
    name, mention = np.float32([[1, 0]]), np.float32([[0.5, 0.85]])
    found, expected = (
        search(kb, mention, k, by_name=(name, np.zeros(1, dtype=np.int64))),
        search(kb, mention, k),
    )
    assert found.entities[0, 0] == expected.entities[0, 0] == a
    assert found.prototypes[0, 0] == 1 and not found.ties
    np.testing.assert_allclose(found.scores[0, 0], 0.98, atol=1e-6)


def test_ties_are_broken_by_the_remaining_names():
    """The three names of each that are nearest to the text, and a fourth that they share; the fifth
    decides."""
    near = [[1, 0], [0.99, 0.01], [0.98, 0.02]]
    other = [[1, 0.01], [0.99, 0.02], [0.98, 0.03]]
    vectors = np.float32([*near, [0.9, 0.1], [0.3, 0.8], *other, [0.9, 0.1], [0.2, 0.1]])
    kb = make_kb([0] * 5 + [1] * 5, list("abcdefghij"), vectors)
    name, mention = np.float32([[1, 0]]), np.float32([[0, 1]])
    found = search(kb, mention, 2, by_name=(name, np.zeros(1, dtype=np.int64)))
    expected = search(kb, mention, 2)
    assert found.entities.tolist() == expected.entities.tolist() and found.prototypes.tolist() == [
        [4, 8]
    ]
    np.testing.assert_allclose(found.scores, expected.scores, atol=1e-6)
    assert not found.ties
