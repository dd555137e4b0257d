"""A knowledge base under any order of calls, against a plain list of prototypes that is searched
one by one."""

import copy
import pickle
import shutil
import tempfile
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
import spacy
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    rule,
    run_state_machine_as_test,
)
from spacy.tokens import Span

from spacy_krissel.building.gold_prototypes import GOLD_WEIGHT, add_gold
from spacy_krissel.errors import KrisselError
from spacy_krissel.index.exact import make_exact_index
from spacy_krissel.index.faiss_index import make_faiss_index
from spacy_krissel.kb.prototype_kb import PrototypeKB
from spacy_krissel.kb.prototype_table import Origin, Prototype
from spacy_krissel.mentions.gold_mentions import text_hash
from spacy_krissel.ontology.entity import Entity
from spacy_krissel.util.hashing import stable_hash
from spacy_krissel.views import name_view, span_view

from .harness import SIZE, Size

WIDTH = 8
IDS = [f"E{i:02}" for i in range(8)]
SOURCES = ("", "first", "second")
DOCS = ("", "1", "2", "12")
ENTITIES = st.sets(st.sampled_from(IDS), min_size=1)
NLP = spacy.blank("en")
try:
    import faiss  # noqa: F401

    INDEXES = {
        "exact": make_exact_index(),
        "hnsw": make_faiss_index("hnsw"),
        "flat": make_faiss_index("flat"),
    }
except ImportError:
    INDEXES = {"exact": make_exact_index()}


class Known(NamedTuple):
    """A prototype as the model has it."""

    entity: str
    kind: str
    source: str
    doc: str
    text_hash: str
    vector: tuple[float, ...]


class Model(NamedTuple):
    entities: tuple[str, ...]
    prototypes: tuple[Known, ...]

    def best(self, query: np.ndarray) -> dict[str, float]:
        """The score of each entity that has a prototype."""
        scores: dict[str, float] = {}
        for known in self.prototypes:
            score = float(np.dot(query, np.array(known.vector, dtype=np.float32)))
            scores[known.entity] = max(score, scores.get(known.entity, -np.inf))
        return scores


def encode(views: list[Any]) -> np.ndarray:
    """A vector for each view, from its text alone."""
    vectors = [vector_of(stable_hash(0, view.left, view.mention, view.right)) for view in views]
    return np.array(vectors, dtype=np.float32).reshape(len(views), WIDTH)


def vector_of(seed: int) -> tuple[float, ...]:
    return tuple(np.random.default_rng(seed).normal(size=WIDTH).astype(np.float32).tolist())


class KBMachine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(tempfile.mkdtemp())
        self.saved: dict[int, Model] = {}
        self.packed: tuple[bytes, Model] | None = None
        self.copies: list[tuple[PrototypeKB, Model]] = []
        self.number = 0

    def teardown(self) -> None:
        shutil.rmtree(self.folder, ignore_errors=True)

    @initialize(index=st.sampled_from(sorted(INDEXES)), ids=ENTITIES)
    def make(self, index, ids):
        self.kb = PrototypeKB(NLP.vocab, WIDTH, index=INDEXES[index])
        self.kb.attach_encoder(encode)
        self.model = Model((), ())
        self.set_entities(ids)

    # What is put in and taken out.

    @rule(ids=ENTITIES)
    def set_entities(self, ids):
        entities = [Entity(id_, f"name of {id_}") for id_ in sorted(ids, reverse=True)]
        if {known.entity for known in self.model.prototypes} - ids:
            with pytest.raises(KrisselError, match="K515"):
                self.kb.set_entities(entities)
        else:
            self.kb.set_entities(entities)
            self.model = self.model._replace(entities=tuple(sorted(ids)))

    @rule(
        ids=st.lists(st.sampled_from(IDS), max_size=6),
        seed=st.integers(0, 2**32),
        source=st.sampled_from(SOURCES),
        doc=st.sampled_from(DOCS),
        weight=st.sampled_from([1.0, 0.5]),
    )
    def add_prototypes(self, ids, seed, source, doc, weight):
        kind = "mention" if doc else "name"
        added = [
            Prototype(id_, kind, name_view(f"form {id_}"), Origin(source, doc, 0, 1, ""))
            for id_ in ids
        ]
        vectors = [vector_of(seed + i) for i in range(len(ids))]
        matrix = np.array(vectors, dtype=np.float32).reshape(len(ids), WIDTH)
        if set(ids) - set(self.model.entities):
            with pytest.raises(KrisselError, match="K510"):
                self.kb.add_prototypes(added, matrix, weight=weight)
            return
        self.kb.add_prototypes(added, matrix, weight=weight)
        scaled = matrix * np.float32(weight)
        self._add(
            Known(id_, kind, source, doc, "", tuple(row.tolist()))
            for id_, row in zip(ids, scaled, strict=True)
        )

    @rule(data=st.data(), source=st.sampled_from(SOURCES), doc=st.sampled_from(DOCS[1:]))
    def add_gold(self, data, source, doc):
        """A mention of a form that no other entity has: itself, and its bare text."""
        entity = data.draw(st.sampled_from(self.model.entities))
        self.number += 1
        gold = NLP.make_doc(f"Seen was form{entity}x{self.number} today .")
        gold.user_data["id"] = doc
        gold.ents = [Span(gold, 2, 3, label="X", kb_id=entity)]
        before = self.kb.n_prototypes
        counts = add_gold(self.kb, [gold], source=source)
        assert (counts.mentions, counts.prototypes) == (1, 2)
        view = span_view(gold.ents[0])
        for given in (view, name_view(view.mention)):
            (vector,) = encode([given]) * np.float32(GOLD_WEIGHT)
            origin = self.kb.prototypes_at([before])[0].origin
            self._add(
                [Known(entity, "gold", source, origin.doc, text_hash(gold), tuple(vector.tolist()))]
            )

    @rule(
        source=st.none() | st.sampled_from(SOURCES), docs=st.none() | st.sets(st.sampled_from(DOCS))
    )
    def remove_prototypes(self, source, docs):
        if source is None and docs is None:
            with pytest.raises(KrisselError, match="K006"):
                self.kb.remove_prototypes()
            return
        self._remove(
            lambda known: (
                (source is None or known.source == source)
                and (docs is None or known.doc in docs or known.text_hash in docs)
            ),
            source=source,
            docs=None if docs is None else sorted(docs),
        )

    @rule(data=st.data())
    def remove_by_text(self, data):
        hashes = sorted({known.text_hash for known in self.model.prototypes} - {""})
        if hashes:
            hash_ = data.draw(st.sampled_from(hashes))
            self._remove(lambda known: known.text_hash == hash_, docs=[hash_])

    @rule(kind=st.sampled_from(["name", "mention", "gold", "reference"]))
    def remove_a_kind(self, kind):
        self._remove(lambda known: known.kind == kind, kind=kind)

    @rule(which=st.sampled_from([{"kind": "gold"}, {"source": "first"}]))
    def search_without(self, which):
        """Within, some are gone; afterwards they are back."""
        before = self.model
        (name, value), *_ = which.items()
        with self.kb.without_prototypes(**which):
            self.model = before._replace(
                prototypes=tuple(
                    known for known in before.prototypes if getattr(known, name) != value
                )
            )
            self.searches_like_the_model()
        self.model = before

    # How it is kept.

    @rule(index=st.sampled_from(sorted(INDEXES)))
    def use_index(self, index):
        self.kb.use_index(INDEXES[index])

    @rule(place=st.integers(0, 1))
    def save(self, place):
        self.kb.to_disk(self.folder / str(place))
        self.saved[place] = self.model

    @rule(data=st.data(), fresh=st.booleans())
    def load(self, data, fresh):
        if self.saved:
            place = data.draw(st.sampled_from(sorted(self.saved)))
            if fresh:
                self.kb = PrototypeKB(NLP.vocab, 0)
                self.kb.attach_encoder(encode)
            self.kb.from_disk(self.folder / str(place))
            self.model = self.saved[place]

    @rule()
    def pack(self):
        self.packed = self.kb.to_bytes(), self.model

    @rule()
    def unpack(self):
        if self.packed is not None:
            self.kb.from_bytes(self.packed[0])
            self.model = self.packed[1]

    @rule(deep=st.booleans(), go_on_with_it=st.booleans())
    def copy(self, deep, go_on_with_it):
        """Neither changes with the other."""
        other = copy.deepcopy(self.kb) if deep else pickle.loads(pickle.dumps(self.kb))
        other.attach_encoder(encode)
        if go_on_with_it:
            self.kb, other = other, self.kb
        self.copies = [*self.copies[-1:], (other, self.model)]

    # What is asked of it.

    @invariant()
    def holds_what_the_model_does(self):
        for kb, model in [(self.kb, self.model), *self.copies]:
            assert tuple(kb.entity_ids) == model.entities
            rows = np.arange(kb.n_prototypes)
            found = [
                (each.entity, each.kind, each.origin.source, each.origin.doc)
                for each in kb.prototypes_at(rows)
            ]
            assert found == [
                (known.entity, known.kind, known.source, known.doc) for known in model.prototypes
            ]
            expected = np.array([known.vector for known in model.prototypes], dtype=np.float32)
            np.testing.assert_allclose(kb.vectors, expected.reshape(-1, WIDTH), atol=1e-6)

    @rule()
    def searches_like_the_model(self):
        for kb, model in [(self.kb, self.model), *self.copies]:
            if not model.prototypes:
                with pytest.raises(KrisselError, match="K520"):
                    kb.search(np.zeros((1, WIDTH), dtype=np.float32), 3)
                continue
            queries = (
                np.random.default_rng(len(model.prototypes))
                .normal(size=(3, WIDTH))
                .astype(np.float32)
            )
            result = kb.search(queries, 4)
            for query, rows, scores in zip(queries, result.entities, result.scores, strict=True):
                best = model.best(query)
                expected = sorted(best.values(), reverse=True)[:4]
                np.testing.assert_allclose(scores[rows >= 0], expected, atol=1e-4)
                for row, score in zip(rows[rows >= 0], scores, strict=False):
                    assert abs(best[kb.entity_ids[int(row)]] - score) < 1e-4

    @rule()
    def gives_the_candidates_of_the_model(self):
        if not self.model.prototypes:
            return
        mention = NLP.make_doc("Seen was another form today .")[2:4]
        best = self.model.best(encode([span_view(mention)])[0])
        found = [candidate.entity_ for candidate in self.kb.get_candidates(mention)]
        assert sorted(found) == sorted(best), "fewer entities than candidates: all of them"
        assert best[found[0]] == pytest.approx(max(best.values()), abs=1e-4)

    def _add(self, known) -> None:
        self.model = self.model._replace(prototypes=(*self.model.prototypes, *known))

    def _remove(self, gone, **which) -> None:
        kept = tuple(known for known in self.model.prototypes if not gone(known))
        assert self.kb.remove_prototypes(**which) == len(self.model.prototypes) - len(kept)
        self.model = self.model._replace(prototypes=kept)


@pytest.mark.slow
def test_knowledge_base_matches_a_plain_list_under_any_calls(request):
    size: Size = request.config.pluginmanager.get_plugin(SIZE) or Size()
    # About a third of a second each.
    examples = 25 if size == Size() else int(size.seconds * 5)
    run_state_machine_as_test(
        KBMachine,
        settings=settings(
            max_examples=examples,
            stateful_step_count=25,
            deadline=None,
            derandomize=size == Size(),
            database=None,
            suppress_health_check=list(HealthCheck),
            print_blob=False,
        ),
    )
