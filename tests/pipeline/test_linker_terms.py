"""A term of one's own: a class and a few lines in a config."""

import pickle
from dataclasses import replace

import numpy as np
import pytest
import spacy

from spacy_krissel import Entity, Term, build
from spacy_krissel.errors import KrisselError
from spacy_krissel.kb.search_result import SearchResult
from spacy_krissel.pipeline.linker import linking
from spacy_krissel.pipeline.linker.component import BUILT_IN, KrisselLinker, named_terms
from spacy_krissel.pipeline.linker.linking import _joined
from spacy_krissel.pipeline.linker.terms.document import DocumentTerm
from spacy_krissel.util.settings import NotNegative, checked

ENTITIES = [
    Entity("D1", "multiple sclerosis", ("MS",), types=("T047",)),
    Entity("D2", "mitral stenosis", ("MS",), types=("T047",)),
    Entity("D3", "mass spectrometry", ("MS",), types=("T059",)),
    Entity("D4", "rickets", types=("T047",)),
    Entity("D5", "osteomalacia", types=("T047",)),
]


@spacy.registry.misc("test-terms.Popularity.v1")
@checked
class Popularity(Term):
    """
    weight: in units of the score.
    counts: how often each entity was seen.
    """

    def __init__(self, weight: NotNegative = 1.0, counts: dict[str, float] | None = None) -> None:
        self.weight, self._counts = weight, counts or {}

    def score(self, query, pairs):
        return np.array(
            [self._counts.get(id_, 0.0) for id_ in query.kb.entity_ids.take(pairs.entities)]
        )


class Codes(Term):
    """The entity that a clinic means by a code of its own."""

    def __init__(self, codes: dict[str, str]) -> None:
        self._codes = codes

    def _rows(self, query):
        return query.kb.entities.rows([self._codes.get(text, "") for text in query.texts])

    def propose(self, query, known, k):
        return self._rows(query)[:, None]

    def score(self, query, pairs):
        return self._rows(query)[pairs.mentions] == pairs.entities


class First(Term):
    """No candidate but the first."""

    def revise(self, query, result):
        return replace(
            result, entities=np.where(np.arange(result.entities.shape[1]) == 0, result.entities, -1)
        )


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    return build(ENTITIES, tmp_path_factory.mktemp("terms") / "linker").output


def load(path, **terms):
    config = {f"components.krissel_linker.terms.{name}": term for name, term in terms.items()}
    return spacy.load(path, config={"components.krissel_linker.min_confidence": 0.0, **config})


@pytest.fixture(scope="module")
def loaded(built):
    return load(built)


@pytest.fixture
def link(loaded, monkeypatch):
    """The link of a mention and its candidates, with further terms."""

    def link(text="MS", **terms):
        monkeypatch.setattr(
            loaded.get_pipe("krissel_linker"), "terms", named_terms("krissel_linker", terms)
        )
        return linked(loaded, text)

    return link


def linked(nlp, text="MS"):
    doc = nlp.make_doc(f"He had {text} then.")
    doc.ents = [doc.char_span(7, 7 + len(text), label="Disease")]
    (span,) = nlp.get_pipe("krissel_linker")(doc).ents
    return span.kb_id_, span._.krissel_candidates


def test_term_of_a_config_is_added_to_the_score(built, loaded, tmp_path):
    _, before = linked(loaded)
    other = before[1]["id"]
    popular = {"@misc": "test-terms.Popularity.v1", "weight": 0.5, "counts": {other: 1.0}}
    link, found = linked(nlp := load(built, popularity=popular))
    assert link == other and all(each["popularity"] == (each["id"] == other) for each in found)
    for each in found:
        parts = (
            each["vector"]
            + 0.3 * each["lexical"]
            + each["spelling"]
            + each["coherence"]
            + 0.5 * each["popularity"]
        )
        assert each["score"] == pytest.approx(parts, abs=1e-5)
    nlp.to_disk(tmp_path / "nlp")
    again = spacy.load(tmp_path / "nlp")
    assert linked(again) == linked(pickle.loads(pickle.dumps(again))) == (link, found)


@pytest.mark.parametrize("count", [0.0, 0.25])
def test_equal_term_scores_keep_the_order_of_ties(link, count):
    (_, before), (_, after) = (
        link(),
        link(popularity=Popularity(1.0, dict.fromkeys(("D1", "D2", "D3"), count))),
    )
    assert [each["id"] for each in after] == [each["id"] for each in before]
    expected = [each["score"] + count * (each["id"] in ("D1", "D2", "D3")) for each in before]
    assert [each["score"] for each in after] == pytest.approx(expected, abs=1e-6)


def test_entity_proposed_only_by_a_term_is_linked(link, monkeypatch):
    # Else vectors find all entities of so small a knowledge base.
    monkeypatch.setattr(linking, "MIN_REORDERED", 2)
    monkeypatch.setattr(DocumentTerm, "n_candidates", 0)
    monkeypatch.setattr(KrisselLinker, "n_candidates_kept", lambda self: 2)
    found = [each["id"] for each in link("E55")[1]]
    other = min({entity.id for entity in ENTITIES} - {*found})
    assert len(found) == 2
    id_, found = link("E55", codes=Codes({"E55": other}))
    assert id_ == other and [each["codes"] for each in found] == [1, 0]


def test_types_restrict_what_a_term_proposes(link, loaded, monkeypatch):
    monkeypatch.setattr(loaded.get_pipe("krissel_linker").cfg, "types", ["T059"])
    assert [each["id"] for each in link("E55", codes=Codes({"E55": "D5"}))[1]] == ["D3"]


def test_a_weight_of_zero_leaves_a_term_out(link):
    assert link(popularity=Popularity(0.0, {"D2": 1.0})) == link()


def test_a_term_revises_candidates(link):
    id_, found = link(first=First())
    assert [each["id"] for each in found] == [id_]


def test_minus_infinity_leaves_an_entity_out(link):
    class All(Term):
        def score(self, query, pairs):
            return np.where(pairs.entities == 0, -np.inf, 0.0)

    _, found = link(all=All())
    assert sorted(each["id"] for each in found) == ["D2", "D3", "D4", "D5"]


@pytest.mark.parametrize(
    "values", [lambda n: np.zeros(n + 1), lambda n: [np.nan] * n, lambda n: [np.inf] * n]
)
def test_invalid_scores_raise(link, values):
    class Wrong(Term):
        def score(self, query, pairs):
            return values(len(pairs.entities))

    with pytest.raises(KrisselError, match="K663.*'wrong' scored"):
        link(wrong=Wrong())


@pytest.mark.parametrize("rows", [[[99]], [[-2]], [0], [[0.5]], [[0], [1]]])
def test_invalid_proposals_raise(link, rows):
    class Wrong(Term):
        def propose(self, query, known, k):
            return np.array(rows)

    with pytest.raises(KrisselError, match="K663.*'wrong' proposed"):
        link(wrong=Wrong())


@pytest.mark.parametrize(
    "name", ["id", "name", "score", "confidence", *(term.name for term in BUILT_IN)]
)
def test_reserved_term_names_raise(link, name):
    with pytest.raises(KrisselError, match=f"K662.*'{name}'.*another key of candidates"):
        link(**{name: Popularity()})


def test_objects_that_are_no_terms_raise(built):
    with pytest.raises(KrisselError, match="K662.*'count'.*type int"):
        load(built, count=3)


def test_settings_of_a_term_are_checked(built):
    with pytest.raises(KrisselError, match="K006.*weight.*0 or more"):
        load(built, popularity={"@misc": "test-terms.Popularity.v1", "weight": -1})


def test_results_of_types_are_joined_in_the_order_of_mentions():
    """Mentions 0 and 2 are of one type, 1 and 3 of another; mentions 1 and 2 are ties."""
    parts = [
        (
            [0, 2],
            SearchResult(
                np.array([[1], [5]]), np.float32([[0.5], [0.25]]), np.array([[7], [8]]), {1: [5, 6]}
            ),
        ),
        (
            [1, 3],
            SearchResult(
                np.array([[2], [3]]), np.float32([[0.75], [1]]), np.array([[9], [4]]), {0: [2, 3]}
            ),
        ),
    ]
    for _, part in parts:
        part.parts["vector"] = part.scores * 2
    found = _joined(parts, 4)
    assert found.entities.tolist() == [[1], [2], [5], [3]] and found.prototypes.tolist() == [
        [7],
        [9],
        [8],
        [4],
    ]
    assert found.scores.tolist() == [[0.5], [0.75], [0.25], [1]] and found.ties == {
        1: [2, 3],
        2: [5, 6],
    }
    assert found.parts["vector"].tolist() == [[1], [1.5], [0.5], [2]]
