import tracemalloc

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from spacy_krissel.index.faiss_index import make_faiss_index
from spacy_krissel.kb import ranking
from spacy_krissel.kb.prototype_table import Prototype
from spacy_krissel.kb.ties import order_ties
from spacy_krissel.views import View

WHOLE = st.integers(-2, 2).map(float)
INDEXES = [
    None,
    make_faiss_index("flat"),
    make_faiss_index("hnsw"),
    make_faiss_index("ivf", nlist=4, nprobe=1),
]


@st.composite
def searches(draw):
    n, d, q = draw(st.integers(1, 120)), draw(st.integers(1, 3)), draw(st.integers(1, 5))
    owners = draw(st.lists(st.integers(0, 20), min_size=n, max_size=n))
    vectors = draw(arrays(np.float32, (n, d), elements=WHOLE))
    queries = draw(arrays(np.float32, (q, d), elements=WHOLE))
    allowed = draw(st.none() | arrays(np.bool_, max(owners) + 1))
    return owners, vectors, queries, draw(st.integers(1, 25)), allowed


def brute_force(owners, vectors, queries, allowed):
    """For each query, (score, entity) best first, and the entities at the top that nothing tells
    apart.

    Entities at the top are ordered by their number of names, their best score below the top, then
    by id; all others by score, then by id.
    """
    for query in queries:
        scores = {}
        for owner, vector in zip(owners, vectors, strict=True):
            if allowed is None or allowed[owner]:
                scores.setdefault(owner, []).append(float(query @ vector))
        best = {owner: max(found) for owner, found in scores.items()}
        top = max(best.values(), default=None)
        following = {
            o: max((s for s in found if s < top), default=-np.inf) for o, found in scores.items()
        }
        tied = [owner for owner in sorted(best) if best[owner] == top]
        place = {owner: (-owners.count(owner), -following[owner]) for owner in tied}
        ranked = sorted((-best[o], place.get(o, (0, 0)), o) for o in best)
        yield (
            [(score, owner) for score, _, owner in ranked],
            [o for o in tied if place[o] == min(place.values())],
        )


def check(result, owners, vectors, queries, k, allowed):
    for i, (ranked, tied) in enumerate(brute_force(owners, vectors, queries, allowed)):
        expected = [entity for _, entity in ranked[:k]]
        found = result.entities[i].tolist()
        assert found == expected + [-1] * (k - len(expected))
        np.testing.assert_allclose(
            result.scores[i, : len(expected)], [-score for score, _ in ranked[:k]], atol=1e-5
        )
        assert np.isneginf(result.scores[i, len(expected) :]).all()
        for entity, score, row in zip(found, result.scores[i], result.prototypes[i], strict=True):
            if entity >= 0:
                assert owners[row] == entity
                assert vectors[row] @ queries[i] == pytest.approx(score, abs=1e-5)
            else:
                assert row == -1
        assert result.tied(i).tolist() == tied
        assert (i in result.ties) == (len(tied) > 1)


@pytest.mark.parametrize("widest", [ranking.MAX_RETRIEVED, 20])
@given(search=searches())
@settings(
    deadline=None, max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
def test_entities_are_ranked_by_their_best_prototype(random_kb, monkeypatch, widest, search):
    # A low MAX_RETRIEVED sends the wider searches through the comparison of all prototypes.
    monkeypatch.setattr(ranking, "MAX_RETRIEVED", widest)
    owners, vectors, queries, k, allowed = search
    kb = random_kb(owners, vectors)
    check(kb.search(queries, k, allowed=allowed), owners, vectors, queries, k, allowed)


@pytest.mark.parametrize("widest", [ranking.MAX_RETRIEVED, 20])
@given(search=searches(), extra_prototypes=st.integers(1, 3))
@settings(
    deadline=None, max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
def test_further_prototypes_are_the_next_nearest(
    random_kb, monkeypatch, widest, search, extra_prototypes
):
    monkeypatch.setattr(ranking, "MAX_RETRIEVED", widest)
    owners, vectors, queries, k, allowed = search
    kb = random_kb(owners, vectors)
    result = ranking.search_entities(
        kb.build_index(), kb.prototypes, queries, k, allowed, extra_prototypes
    )
    plain = ranking.search_entities(kb.build_index(), kb.prototypes, queries, k, allowed)
    np.testing.assert_array_equal(result.entities, plain.entities)
    np.testing.assert_array_equal(result.scores, plain.scores)
    brute = [ranked for ranked, _ in brute_force(owners, vectors, queries, allowed)]
    for (query, rank), entity in np.ndenumerate(result.entities):
        own = np.flatnonzero(np.array(owners) == entity)
        scores = np.sort(vectors[own] @ queries[query])[::-1]
        rows = result.extra_prototypes[query, rank]
        rows = rows[rows >= 0]
        level = [each for score, each in brute[query] if score == brute[query][0][0]]
        if len(level) > 1 and entity in level:
            assert not len(rows) and result.prototypes[query, rank] == -1, "entities that tie"
            continue
        # The first search is of so many, and that of all ends with those that decide.
        if len(owners) <= ranking.MIN_RETRIEVED and widest > 20 and len(own):
            assert len(rows) == min(extra_prototypes, len(own) - 1)
        assert set(rows) <= set(own.tolist()) - {result.prototypes[query, rank]}
        np.testing.assert_allclose(
            vectors[rows] @ queries[query], scores[1 : 1 + len(rows)], atol=1e-5
        )


def test_further_prototypes_of_a_wider_search_belong_to_their_entity(random_kb):
    """The first 64 end among equal scores: entity 2 comes before 1 there, which has its place in
    the wider search."""
    owners = [0] * 60 + [2] * 4 + [1, 3]
    vectors = np.float32([[2, 0]] * 60 + [[1, 0]] * 5 + [[0, 0]])
    kb = random_kb(owners, vectors)
    result = ranking.search_entities(
        kb.build_index(), kb.prototypes, np.float32([[1, 0]]), 4, None, 3
    )
    for entity, rows in zip(result.entities[0], result.extra_prototypes[0], strict=True):
        assert {owners[row] for row in rows if row >= 0} <= {int(entity)}


def test_results_can_be_selected_by_query(random_kb):
    kb = random_kb([0, 0, 1, 2], np.float32([[1, 0], [0.8, 0], [1, 0], [0, 1]]))
    queries = np.float32([[1, 0], [0, 1]])
    result = ranking.search_entities(kb.build_index(), kb.prototypes, queries, 3, None, 1)
    lines = np.array([1, 0, 0])
    again = result.at(lines)
    for name in ("entities", "scores", "prototypes", "extra_prototypes"):
        np.testing.assert_array_equal(getattr(again, name), getattr(result, name)[lines])
    assert [again.tied(row).tolist() for row in range(3)] == [
        result.tied(row).tolist() for row in (1, 0, 0)
    ]


@pytest.mark.parametrize("index", INDEXES)
def test_every_index_gives_the_same_entities(random_kb, index):
    pytest.importorskip("faiss")
    rng = np.random.default_rng(0)
    owners = rng.integers(0, 60, 600).tolist()
    centres = rng.standard_normal((60, 16), dtype=np.float32)
    vectors = centres[owners] + 0.1 * rng.standard_normal((600, 16), dtype=np.float32)
    kb = random_kb(owners, vectors, index)
    for allowed in (None, rng.random(60) < 0.5):
        queries = centres if allowed is None else centres[allowed]
        result = kb.search(queries, 3, allowed=allowed)
        expected = np.array(
            [
                [e for _, e in ranked[:3]]
                for ranked, _ in brute_force(owners, vectors, queries, allowed)
            ]
        )
        assert (result.entities[:, 0] == expected[:, 0]).mean() > 0.95
        # An index that runs dry is helped out: k distinct entities are found where there are as
        # many.
        assert (result.entities >= 0).all()


class Limited:
    """An exact index that finds no more than `most` rows."""

    def __init__(self, vectors, most):
        self.vectors, self.most = vectors, most

    def search(self, queries, k, allowed=None):
        order = np.argsort(-(queries @ self.vectors.T), axis=1, kind="stable")[:, :k]
        scores = np.take_along_axis(queries @ self.vectors.T, order, axis=1)
        order[:, self.most :], scores[:, self.most :] = -1, -np.inf
        return scores, order


@pytest.mark.parametrize("most, compared", [(100, 0), (66, 1), (40, 1)])
def test_all_prototypes_are_compared_only_if_necessary(random_kb, monkeypatch, most, compared):
    """66 of its best hold too few entities; 40 are less than it was first asked for, and may be of
    a graph's island."""
    owners = [0] * 64 + list(range(1, 60)) + [0] * 20
    vectors = np.zeros((len(owners), 4), dtype=np.float32)
    vectors[:, 0] = np.linspace(1, 0.1, len(owners))
    kb = random_kb(owners, vectors)
    asked = []
    monkeypatch.setattr(ranking, "_search_all", lambda *args: asked.append(len(args[3])))
    ranking.search_entities(
        Limited(vectors, most), kb.prototypes, np.eye(4, dtype=np.float32)[:1], 8, None
    )
    assert sum(asked) == compared


@pytest.mark.parametrize("index", [None, make_faiss_index("hnsw")])
def test_a_search_widens_past_an_entity_with_many_prototypes(random_kb, index):
    pytest.importorskip("faiss")
    rng = np.random.default_rng(0)
    # Entity 0 has 5,000 prototypes around the query, more than any widening asks for; the others
    # lie behind them.
    owners = [0] * 5000 + [1, 2, 3]
    vectors = np.zeros((5003, 8), dtype=np.float32)
    vectors[:, 0] = 1
    vectors[:5000, 1:] = 0.01 * rng.standard_normal((5000, 7))
    vectors[5000:, 0] = [0.3, 0.4, 0.2]
    kb = random_kb(owners, vectors, index)
    result = kb.search(np.eye(8, dtype=np.float32)[:1], 4)
    assert result.entities.tolist() == [[0, 2, 1, 3]]
    np.testing.assert_allclose(result.scores[0], [1, 0.4, 0.3, 0.2], atol=1e-6)


def test_ties_within_rounding_are_ordered_by_id(random_kb):
    vectors = np.array(
        [[0.5, 0.1], [1 + 4e-7, 0], [1, 0], [1 - 4e-7, 0], [1 - 1e-4, 0]], dtype=np.float32
    )
    result = random_kb([4, 3, 2, 1, 0], vectors).search(np.array([[1, 0]], dtype=np.float32), 4)
    assert result.entities.tolist() == [[1, 2, 3, 0]]
    assert result.tied(0).tolist() == [1, 2, 3]
    assert (np.diff(result.scores) <= 0).all()


def test_next_best_prototypes_break_a_tie(random_kb):
    # "MS" is a name of entities 0, 1 and 2; what else is known of 1 is nearest to the query.
    owners = [0, 0, 1, 1, 2, 3]
    vectors = np.array([[1, 0], [0, 1], [1, 0], [0.8, 0.1], [1, 0], [0.9, 0]], dtype=np.float32)
    result = random_kb(owners, vectors).search(np.array([[1, 0]], dtype=np.float32), 4)
    assert result.entities.tolist() == [[1, 0, 2, 3]]
    assert result.scores.tolist() == [[1, 1, 1, np.float32(0.9)]]
    assert result.prototypes.tolist() == [[2, 0, 4, 5]]
    assert not result.ties
    assert result.tied(0).tolist() == [1]


def test_an_entity_with_more_names_wins_a_tie_of_names(random_kb):
    # 2 has the most names, 1 the nearest other one; of 0 and 3 as much is known.
    owners = [0, 0, 1, 1, 2, 2, 2, 3, 3]
    vectors = np.array(
        [[1, 0], [0, 1], [1, 0], [0.9, 0.1], [1, 0], [0, 1], [0, 1], [1, 0], [0, 1]],
        dtype=np.float32,
    )
    query = np.array([[1, 0]], dtype=np.float32)
    kb = random_kb(owners, vectors)
    result = kb.search(query, 4)
    assert result.entities.tolist() == [[2, 1, 0, 3]] and not result.ties
    # What is seen of one in text decides instead.
    kb.add_prototypes(
        [Prototype("E00001", "mention", View("a", "b", "c"))],
        np.array([[0.95, 0]], dtype=np.float32),
    )
    assert kb.search(query, 4).entities.tolist() == [[1, 0, 2, 3]]


def test_ordering_a_tie_needs_no_memory_per_entity(random_kb):
    n = 50_000
    vectors = np.zeros((n, 2), dtype=np.float32)
    vectors[:2] = [1, 0]
    kb = random_kb(range(n), vectors)
    kb.add_prototypes(
        [Prototype(f"E{row:05}", "mention", View("a", "b", "c")) for row in range(2, n)],
        np.zeros((n - 2, 2), dtype=np.float32),
    )
    query = np.array([[1, 0]], dtype=np.float32)
    result = kb.search(query, 4)
    result.ties[0] = np.array([0, 1])
    tracemalloc.start()
    order_ties(result, kb.prototypes, query)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < n


@pytest.mark.parametrize("type_", ["flat", "hnsw"])
def test_a_float16_index_breaks_ties_by_the_original_vectors(random_kb, type_):
    pytest.importorskip("faiss")
    # 1/3 is 0.33325 in float16: below the true score, so that the shared prototype itself looks
    # like a better one.
    third = 1 / 3
    owners = [0, 0, 1, 1, 2]
    vectors = np.array([[third, 1], [0.1, 0], [third, 1], [0.3, 0], [0.2, 0]], dtype=np.float32)
    kb = random_kb(owners, vectors, make_faiss_index(type_, float16=True))
    result = kb.search(np.array([[1, 0]], dtype=np.float32), 3)
    assert result.entities.tolist() == [[1, 0, 2]]
    assert result.prototypes.tolist() == [[2, 0, 4]]
    assert not result.ties


def test_a_tie_larger_than_k_is_reported_completely(random_kb):
    owners = list(range(300))
    result = random_kb(owners, np.ones((300, 2), dtype=np.float32)).search(
        np.ones((2, 2), dtype=np.float32), 3
    )
    assert result.entities.tolist() == [[0, 1, 2]] * 2
    assert result.tied(1).tolist() == owners


def test_the_tie_tolerance_is_relative_to_the_score(random_kb):
    # 1e-6 of a score of 1,000 is more than rounding loses there, an absolute 1e-6 is less.
    vectors = np.array([[1000.0], [999.9999], [999.0]], dtype=np.float32)
    result = random_kb([2, 1, 0], vectors).search(np.ones((1, 1), dtype=np.float32), 3)
    assert result.entities.tolist() == [[1, 2, 0]]
    assert result.tied(0).tolist() == [1, 2]


def test_a_query_gives_the_same_result_alone_and_in_a_batch(random_kb):
    rng = np.random.default_rng(3)
    owners = rng.integers(0, 500, 3000).tolist()
    kb = random_kb(owners, rng.standard_normal((3000, 64), dtype=np.float32))
    queries = rng.standard_normal((50, 64), dtype=np.float32)
    together = kb.search(queries, 5)
    for i in range(50):
        alone = kb.search(queries[i : i + 1], 5)
        assert alone.entities.tolist() == together.entities[i : i + 1].tolist()


def test_no_queries_and_no_allowed_entities_give_empty_results(random_kb):
    kb = random_kb([0, 1], np.eye(2, dtype=np.float32))
    assert kb.search(np.zeros((0, 2), dtype=np.float32), 3).entities.shape == (0, 3)
    result = kb.search(np.eye(2, dtype=np.float32), 3, allowed=np.zeros(2, dtype=bool))
    assert (result.entities == -1).all() and np.isneginf(result.scores).all()
    assert len(result.tied(0)) == 0
