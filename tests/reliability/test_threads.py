"""One pipeline for many threads, while gold is added and removed: the answers of one thread, and no
error."""

import threading
import time
from collections import Counter
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pytest
import spacy
from spacy.tokens import Span
from tiers import nightly

from spacy_krissel.building.gold_prototypes import add_gold
from spacy_krissel.index.faiss_index import make_faiss_index

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]
HEADER = ("pipeline", "threads", "cold rounds", "calls", "with gold", "errors", "differences")
# As near as scores come that are computed in batches of other sizes.
TOLERANCE = 1e-4
GOLD_TEXT, GOLD_MENTION, GOLD_ENTITY = (
    "Bowed legs pointed to rickets in this child.",
    "Bowed legs",
    "T12",
)


# Whatever an extractor thinks of an entity is in its answer.
ALL = {"threshold": 0.0, "max_entities": 12}
# Ids and scores.
Answer = tuple[list[str], np.ndarray]


class Kind(NamedTuple):
    path: Any
    settings: dict
    pipe: str = "krissel_linker"


@pytest.fixture(scope="module")
def kinds(save_linker, save_reranker, save_extractor, tmp_path_factory):
    work = tmp_path_factory.mktemp("threads")

    def hnsw():
        pytest.importorskip("faiss")
        nlp = spacy.load(save_linker("transformer"))
        nlp.get_pipe("krissel_linker").kb.use_index(make_faiss_index("hnsw"))
        # The index is made by the first of the threads.
        nlp.to_disk(work / "hnsw", exclude=["index"])
        return work / "hnsw"

    return {
        "small": lambda: Kind(save_linker("small"), {}),
        "small, lexical, types": lambda: Kind(
            save_linker("small"),
            {"lexical_weight": 0.3, "types_by_label": {"Phenomenon": ["T047"]}},
        ),
        "transformer": lambda: Kind(save_linker("transformer"), {}),
        "transformer, HNSW": lambda: Kind(hnsw(), {}),
        "referenced": lambda: Kind(save_linker("referenced"), {}),
        "re-ranker, list": lambda: Kind(save_reranker("list"), {}, "krissel_linker"),
        "re-ranker, pairs": lambda: Kind(save_reranker("pairs"), {}, "krissel_linker"),
        "extractor, words": lambda: Kind(save_extractor("words"), ALL, "krissel_span_extractor"),
        "extractor, pieces": lambda: Kind(save_extractor("pieces"), ALL, "krissel_span_extractor"),
        "extractor, retrieved": lambda: Kind(
            save_extractor("words"),
            {**ALL, "candidates": "retrieved", "n_retrieved": 3},
            "krissel_span_extractor",
        ),
    }


@pytest.mark.parametrize(
    "name",
    [
        nightly("small"),
        "small, lexical, types",
        nightly("transformer"),
        nightly("transformer, HNSW"),
        nightly("referenced"),
        "re-ranker, list",
        nightly("re-ranker, pairs"),
        "extractor, words",
        nightly("extractor, pieces"),
        nightly("extractor, retrieved"),
    ],
)
def test_threads_get_the_answers_of_a_single_thread(kinds, name, make_docs, size, table):
    kind = kinds[name]()
    load = lambda: _loaded(kind)  # noqa: E731
    nlp = load()
    without = [_answer(nlp(doc)) for doc in make_docs(nlp)]
    _add_gold(nlp, kind.pipe)
    added = [_answer(nlp(doc)) for doc in make_docs(nlp)]
    assert not all(
        _is_one_of(answer, [each]) for answer, each in zip(added, without, strict=True)
    ), "gold changes nothing"
    work = Work([without, added], make_docs)
    end = time.monotonic() + size.seconds / 2
    cold = 0
    while not cold or time.monotonic() < end:
        # Whatever is made at the first call, all threads ask for at once.
        work.run(load(), size.threads, lambda: False)
        cold += 1
    nlp = load()
    end = time.monotonic() + size.seconds / 2
    changes = work.run(
        nlp, size.threads, lambda: time.monotonic() < end, lambda: _change(nlp, kind.pipe)
    )
    table((name, size.threads, cold, work.n, changes, sum(work.errors.values()), work.differences))
    problems = [f"{n} times {error}" for error, n in work.errors.most_common(5)]
    if work.differences:
        problems.append(f"{work.differences} other answers: {work.example}")
    if not changes:
        problems.append("gold was never added and removed")
    if problems:
        pytest.fail(f"of {work.n} calls\n" + "\n".join(problems), pytrace=False)


class Work:
    """Calls from many threads, each compared with the answers of one."""

    def __init__(self, states: list[list[Any]], make_docs: Callable[[Any], list[Any]]) -> None:
        self.states, self.make_docs = states, make_docs
        self.errors: Counter = Counter()
        self.n = self.differences = 0
        self.example: Any = ""
        self._lock = threading.Lock()

    def run(self, nlp: Any, threads: int, goes_on: Callable[[], bool], change: Any = None) -> int:
        """All threads link all docs at least once. RETURNS: how often `change` was called
        meanwhile."""
        changes = 0
        start = threading.Barrier(threads)
        workers = [
            threading.Thread(target=self._call, args=(nlp, start, goes_on, i), daemon=True)
            for i in range(threads)
        ]
        for worker in workers:
            worker.start()
        while change and any(worker.is_alive() for worker in workers):
            try:
                change()
                changes += 1
            except Exception as error:
                self._note(f"while gold changes: {type(error).__name__}: {error}")
        for worker in workers:
            worker.join(300)
            assert not worker.is_alive(), "a thread hangs"
        return changes

    def _call(
        self, nlp: Any, start: threading.Barrier, goes_on: Callable[[], bool], number: int
    ) -> None:
        start.wait()
        first = True
        while first or goes_on():
            first = False
            try:
                docs = self.make_docs(nlp)
                # Half of them in batches.
                docs = (
                    list(nlp.pipe(docs, batch_size=3)) if number % 2 else [nlp(doc) for doc in docs]
                )
                answers = [_answer(doc) for doc in docs]
            except Exception as error:
                self._note(f"{type(error).__name__}: {error}"[:200])
                continue
            for i, answer in enumerate(answers):
                right = _is_one_of(answer, [state[i] for state in self.states])
                with self._lock:
                    self.n += 1
                    if not right:
                        self.differences += 1
                        self.example = self.example or (answer, self.states[0][i])

    def _note(self, error: str) -> None:
        with self._lock:
            self.n += 1
            self.errors[error] += 1


def _loaded(kind: Kind) -> Any:
    nlp = spacy.load(kind.path)
    nlp.get_pipe(kind.pipe).cfg.update(kind.settings)
    return nlp


def _answer(doc: Any) -> list[Answer]:
    """Return the decision and all scores for each mention or entity."""
    found = [
        (ent.kb_id_, ent._.krissel_candidates or ())
        for ent in doc.ents
        if ent.has_extension("krissel_candidates")
    ]
    if doc.has_extension("krissel_entities"):
        found.append(("", doc._.krissel_entities or ()))
    return [
        ([link, *(each["id"] for each in ranked)], np.array([each["score"] for each in ranked]))
        for link, ranked in found
    ]


def _is_one_of(answer: list[Answer], states: list[list[Answer]]) -> bool:
    """Is each mention's answer that of one of the states?"""
    return all(
        any(
            link == expected[i][0] and scores.shape == expected[i][1].shape
            and np.allclose(scores, expected[i][1], atol=TOLERANCE)
            for expected in states
        )
        for i, (link, scores) in enumerate(answer)
    )  # fmt: skip


def _gold(nlp: Any) -> Any:
    doc = nlp.make_doc(GOLD_TEXT)
    start = GOLD_TEXT.index(GOLD_MENTION)
    found = doc.char_span(start, start + len(GOLD_MENTION))
    doc.ents = [Span(doc, found.start, found.end, label="Disease", kb_id=GOLD_ENTITY)]
    return doc


def _add_gold(nlp: Any, pipe: str) -> None:
    add_gold(nlp.get_pipe(pipe).kb, [_gold(nlp)], source="threads")


def _change(nlp: Any, pipe: str) -> None:
    kb = nlp.get_pipe(pipe).kb
    # What an earlier call that failed has left.
    kb.remove_prototypes(source="threads")
    _add_gold(nlp, pipe)
    time.sleep(0.01)
    assert kb.remove_prototypes(source="threads")
    time.sleep(0.01)
