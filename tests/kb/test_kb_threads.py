"""A knowledge base that some threads search while another one changes it."""

import copy
import os
import pickle
import sys
import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from spacy.vocab import Vocab
from term_search import search

from spacy_krissel.building.gold_prototypes import add_gold_prototypes
from spacy_krissel.index.exact import make_exact_index
from spacy_krissel.index.faiss_index import make_faiss_index
from spacy_krissel.kb.candidates import candidate_dicts
from spacy_krissel.kb.prototype_kb import PrototypeKB
from spacy_krissel.kb.prototype_table import Prototype
from spacy_krissel.ontology.entity import Entity
from spacy_krissel.util.lock import Lock
from spacy_krissel.views import View

WIDTH, N = 16, 400
INDEXES = {
    "exact": make_exact_index(),
    # Of so few vectors all are compared.
    "hnsw": make_faiss_index("hnsw"),
    # Here they are not.
    "graph": make_faiss_index("hnsw", m=8, ef_search=8),
    "sq8": make_faiss_index("ivf_sq8", nlist=4),
}
# These may find others when they are rebuilt than when they grow.
APPROXIMATE = ("graph", "sq8")


@pytest.fixture(params=list(INDEXES))
def kb(request, random_kb):
    if request.param != "exact":
        pytest.importorskip("faiss")
    vectors = np.random.default_rng(0).standard_normal((N, WIDTH)).astype(np.float32)
    return random_kb([i // 2 for i in range(N)], vectors, index=INDEXES[request.param])


@pytest.fixture
def quick_switches():
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    yield
    sys.setswitchinterval(before)


def queries(n=8):
    return np.random.default_rng(1).standard_normal((n, WIDTH)).astype(np.float32)


def answer(kb):
    kb = kb.snapshot()
    result = search(kb, queries(), 5, texts=["name 7"] * 8, lexical_weight=0.1)
    return (
        candidate_dicts(kb, result),
        kb.has_gold,
        kb.n_prototypes,
        kb.get_vector("E00003").tolist(),
    )


def test_concurrent_first_searches_see_a_complete_index(kb, quick_switches):
    expected = answer(pickle.loads(pickle.dumps(kb)))
    with ThreadPoolExecutor(8) as threads:
        found = list(threads.map(lambda _: answer(kb), range(32)))
    assert all(each == expected for each in found)


def test_concurrent_first_searches_build_one_index(kb, monkeypatch, quick_switches):
    built = []
    cls = type(kb.current.new_index())
    build = cls.build
    monkeypatch.setattr(cls, "build", lambda *args: built.append(1) or build(*args))
    with ThreadPoolExecutor(8) as threads:
        list(threads.map(lambda _: kb.search(queries(), 3), range(16)))
    assert built == [1]


def test_a_search_sees_a_change_completely_or_not_at_all(kb, quick_switches, request):
    """Each thread finds the result before or after the change, with its correct scores."""
    gold = [
        Prototype(f"E{row:05}", "gold", View("of ", f"name {row}", " here")) for row in range(20)
    ]
    vectors = queries(20)
    added = pickle.loads(pickle.dumps(kb))
    added.build_index()
    without = answer(added)
    added.add_prototypes(gold, vectors)
    known = [without, answer(added)]
    kb.build_index()
    stop, errors = threading.Event(), []

    def change():
        try:
            for _ in range(10):
                kb.add_prototypes(gold, vectors)
                answer(kb)
                assert kb.remove_prototypes(kind="gold") == 20
        except Exception as error:
            errors.append(error)
        finally:
            stop.set()

    found = []

    def read(_):
        while not stop.is_set():
            found.append(answer(kb))
            now = kb.snapshot()
            scores, rows = now.build_index().search(queries(), 5)
            expected = np.einsum("qd,qkd->qk", queries(), now.vectors[rows])
            if not np.allclose(scores, expected, atol=1e-5):
                errors.append((scores, expected))

    changing = threading.Thread(target=change)
    changing.start()
    with ThreadPoolExecutor(6) as threads:
        list(threads.map(read, range(6)))
    changing.join()
    assert errors == []
    if request.node.callspec.params["kb"] not in APPROXIMATE:
        assert [each for each in found if each not in known] == []
    else:
        assert {(each[1], each[2]) for each in found} <= {(each[1], each[2]) for each in known}
    assert kb.n_prototypes == N and not kb.has_gold


def test_a_snapshot_does_not_change_with_the_knowledge_base(kb):
    kb.search(queries(), 3)
    before = kb.snapshot()
    expected = answer(before)
    kb.add_prototypes([Prototype("E00001", "gold", View("", "x", ""))], queries(1))
    assert answer(before) == expected and answer(kb) != expected
    kb.remove_prototypes(kind="name")
    kb.set_entities([type("E", (), {"id": "E00001", "name": "one", "types": ()})])
    assert answer(before) == expected and kb.n_entities == 1


def test_changing_a_branch_leaves_the_knowledge_base_unchanged(kb):
    expected = answer(kb)
    branch = kb.branch()
    branch.add_prototypes([Prototype("E00001", "gold", View("", "x", ""))], 10 * queries(1))
    assert branch.n_prototypes == N + 1 and branch.search(queries(1), 1).entities[0, 0] == 1
    assert answer(kb) == expected


def test_an_index_without_concurrent_searches_is_not_copied(kb):
    index = kb.build_index()
    for _ in range(3):
        kb.add_prototypes([Prototype("E00001", "gold", View("", "x", ""))], queries(1))
        kb.search(queries(), 3)
    if index.owns_vectors:
        assert kb.build_index() is index
    assert len(kb.build_index()) == kb.n_prototypes == N + 3


def test_copies_have_their_own_lock(kb):
    with kb.lock:
        for other in (copy.deepcopy(kb), pickle.loads(pickle.dumps(kb))):
            with ThreadPoolExecutor(1) as threads:
                assert (
                    threads.submit(lambda kb=other: len(kb.search(queries(), 3).entities)).result(
                        30
                    )
                    == 8
                )


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_forked_child_does_not_wait_for_a_lock_of_its_parent():
    lock, held, done = Lock(), threading.Event(), threading.Event()

    def hold():
        with lock:
            held.set()
            done.wait(30)

    thread = threading.Thread(target=hold)
    thread.start()
    held.wait(30)
    child = os.fork()
    if not child:
        os._exit(0 if lock._lock.acquire(timeout=10) else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    done.set()
    thread.join()


def test_gold_is_added_in_one_step(quick_switches, random_kb):
    """Believed gold mentions and those of shared names come together."""
    kb = random_kb([0, 1], np.eye(WIDTH, dtype=np.float32)[:2])
    kb.attach_encoder(lambda views: queries(len(views)))
    gold = [
        Prototype("E00000", "gold", View("a ", "name 1", "")),
        Prototype("E00001", "gold", View("", "other", "")),
    ]
    seen, stop = set(), threading.Event()

    def read():
        while not stop.is_set():
            seen.add(kb.n_prototypes)

    thread = threading.Thread(target=read)
    thread.start()
    for _ in range(50):
        add_gold_prototypes(kb, gold)
        kb.remove_prototypes(kind="gold")
    stop.set()
    thread.join()
    assert seen <= {2, 4}


def test_a_branch_shares_the_vocab():
    vocab = Vocab()
    kb = PrototypeKB(vocab, 3)
    kb.set_entities([Entity("E", "e")])
    kb.add_prototypes([Prototype("E", "name", View("", "e", ""))], queries(1)[:, :3])
    assert kb.branch().vocab is vocab
