"""One linker for many threads: each gets its own answer, in time or not at all."""

import json
import queue
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

import pytest
import spacy

from spacy_krissel.serving import service as service_module
from spacy_krissel.serving import worker as worker_module
from spacy_krissel.serving.corrected import CorrectedLinker, Document
from spacy_krissel.serving.corrections import CorrectionLog
from spacy_krissel.serving.service import RequestTimeout, ServiceBusy, WorkerFailed, WorkerLost

TEXT = "He had a cold, and MS."


def ask(service, *texts):
    content = json.dumps(
        [{"text": each} if isinstance(each, str) else each for each in texts]
    ).encode()
    return service.ask("link", content)


def link(service, *texts):
    return json.loads(ask(service, *texts).result(30).content)["documents"]


@pytest.fixture
def held(linker):
    """Linking waits until it is set; `begun` says that it waits."""
    held = threading.Event()
    held.begun = threading.Event()
    original = linker.link

    def link(documents):
        held.begun.set()
        held.wait(10)
        if any("bad" in document.text for document in documents):
            raise SystemExit("bad")
        return original(documents)

    linker.link = link
    return held


def test_threads_get_their_own_answers(service):
    def own(i):
        texts = [f"{'x ' * i}cold {i}", f"{'y ' * i}MS"]
        found = link(service, *({"text": text, "id": f"{i}/{n}"} for n, text in enumerate(texts)))
        assert [each["id"] for each in found] == [f"{i}/0", f"{i}/1"]
        assert [each["mentions"][0]["start"] for each in found] == [2 * i, 2 * i]

    with ThreadPoolExecutor(16) as pool:
        list(pool.map(own, range(200)))


def test_threads_get_their_own_mentions(service):
    def own(i):
        text = f"{'x ' * i}anticold"
        asked = [{"start": 2 * i + 4, "end": 2 * i + 8}, {"start": 2 * i, "end": 2 * i + 8}]
        (found,) = link(service, {"text": text, "mentions": asked})
        assert [(each["start"], each["text"]) for each in found["mentions"]] == [
            (2 * i, "anticold"),
            (2 * i + 4, "cold"),
        ]
        assert found["mentions"][1]["kb_id"] == "D2"

    with ThreadPoolExecutor(16) as pool:
        list(pool.map(own, range(100)))


def test_error_of_one_request_leaves_the_others_unaffected(service, held):
    first = ask(service, TEXT)
    held.begun.wait(10)
    futures = [ask(service, text) for text in (TEXT, "a bad cold", TEXT)]
    held.set()
    assert first.result(30) == futures[0].result(30) == futures[2].result(30)
    with pytest.raises(WorkerFailed, match="SystemExit: bad"):
        futures[1].result(30)
    # Not even that ends the service.
    assert service.is_alive() and link(service, TEXT)


def test_requests_beyond_the_limit_are_refused(linker, make_service, held):
    service = make_service(linker, waiting=2)
    futures = [ask(service, TEXT) for _ in range(2)]
    # One that is given up still waits, as its text does.
    futures.pop().cancel()
    with pytest.raises(ServiceBusy):
        ask(service, TEXT)
    held.set()
    assert futures[0].result(30).documents == 1
    # There is room again.
    while True:
        try:
            assert link(service, TEXT)
            break
        except ServiceBusy:
            time.sleep(0.01)
    service.close()
    with pytest.raises(ServiceBusy):
        ask(service, TEXT)


def test_timed_out_requests_are_not_linked(linker, make_service, held):
    service = make_service(linker, seconds=0.2)
    first = ask(service, TEXT)
    held.begun.wait(10)
    late = [
        ask(service, TEXT),
        service.ask("correct", {"text": TEXT, "start": 9, "end": 13, "right": ["D3"]}),
    ]
    time.sleep(0.3)
    held.set()
    # Nor what was worked on, and took too long.
    for future in (first, *late):
        with pytest.raises(RequestTimeout):
            future.result(30)
    assert service.corrections()["total"] == len(linker.in_force) == 0


def test_requests_before_closing_are_answered(linker, make_service, held):
    service = make_service(linker)
    futures = [ask(service, TEXT) for _ in range(20)]
    threading.Timer(0.1, held.set).start()
    service.close()
    assert {future.result(0).mentions for future in futures} == {2}


def test_worker_that_ended_is_replaced(linker, make_service, held, monkeypatch):
    service = make_service(linker)
    answer = worker_module._answer
    monkeypatch.setattr(worker_module, "_answer", lambda *_: (_ for _ in ()).throw(EOFError()))
    lost, waiting = ask(service, TEXT), ask(service, TEXT)
    with pytest.raises(WorkerLost):
        lost.result(30)
    monkeypatch.setattr(worker_module, "_answer", answer)
    held.set()
    with suppress(WorkerLost):
        waiting.result(30)
    assert link(service, TEXT) and service.answering() == 1


def test_service_ends_if_its_worker_cannot_be_replaced(linker, make_service):
    reasons = queue.Queue()
    service = make_service(linker, ended=reasons.put)
    # The worker of the next start ends before it says that it is there.
    linker.about = lambda: (_ for _ in ()).throw(EOFError())
    linker.link = lambda documents: service._threads[0]._worker.kill()
    futures = [ask(service, "x" * service_module.LARGE_BYTES) for _ in range(2)]
    assert reasons.get(timeout=30) == "left" and not service.is_alive()
    for future in futures:
        with pytest.raises(WorkerLost):
            future.result(30)
    with pytest.raises(ServiceBusy):
        ask(service, TEXT)


def test_work_that_takes_too_long_is_ended(saved, make_service):
    """Its worker is replaced, the other answers meanwhile, and what has not begun is done."""
    linkers = [CorrectedLinker(spacy.load(saved)) for _ in range(2)]
    begun, never = threading.Semaphore(0), threading.Event()
    for linker in linkers:

        def held_link(documents, linker=linker, link=linker.link):
            if "hang" in documents[0].text:
                begun.release()
                never.wait(60)
            return link(documents)

        linker.link = held_link
    service = make_service(*linkers, seconds=1.0)
    start = time.monotonic()
    # Large, so that one worker is left for short ones.
    hangs = [ask(service, "hang " * service_module.LARGE_BYTES) for _ in range(2)]
    assert begun.acquire(timeout=10)
    for _ in range(5):
        assert link(service, TEXT)
    assert time.monotonic() - start < 1.0
    for hang in hangs:
        with pytest.raises(RequestTimeout):
            hang.result(10)
    assert time.monotonic() - start < 5.0 and link(service, TEXT)
    never.set()


@pytest.mark.parametrize("n", [2, 3])
def test_short_request_does_not_wait_for_long_ones(saved, make_service, n):
    """However many long ones wait, one worker takes none of them."""
    linkers = [CorrectedLinker(spacy.load(saved)) for _ in range(n)]
    begun, done = threading.Semaphore(0), threading.Event()
    at_work, most, counting = 0, 0, threading.Lock()
    for linker in linkers:

        def slow_link(documents, link=linker.link):
            nonlocal at_work, most
            if len(documents[0].text) < service_module.LARGE_BYTES:
                return link(documents)
            with counting:
                at_work += 1
                most = max(most, at_work)
            begun.release()
            done.wait(60)
            with counting:
                at_work -= 1
            return link(documents)

        linker.link = slow_link
    service = make_service(*linkers)
    long = [ask(service, "long " * service_module.LARGE_BYTES) for _ in range(2 * n)]
    for _ in range(n - 1):
        assert begun.acquire(timeout=30)
    for _ in range(5):
        start = time.monotonic()
        assert link(service, TEXT)
        assert time.monotonic() - start < 5.0
    assert at_work == n - 1 and not any(future.done() for future in long)
    done.set()
    assert [future.result(60).documents for future in long] == [1] * 2 * n and most == n - 1


def test_hanging_service_is_reported_as_unhealthy(linker, make_service, held, monkeypatch):
    monkeypatch.setattr(service_module, "SILENT_SECONDS", 0.1)
    service = make_service(linker, seconds=2.0)
    hang = ask(service, TEXT)
    held.begun.wait(10)
    time.sleep(0.15)
    assert service.answering() == 0 and not service.is_alive()
    held.set()
    hang.result(10)
    assert service.is_alive()


def test_closing_does_not_wait_beyond_the_grace_period(linker, make_service, held):
    service = make_service(linker, grace=0.2)
    futures = [ask(service, TEXT) for _ in range(3)]
    held.begun.wait(10)
    start = time.monotonic()
    service.close()
    assert time.monotonic() - start < 5.0
    for future in futures:
        with pytest.raises(WorkerLost):
            future.result(0)
    held.set()


def everywhere(service, linkers):
    """Return each linker's answer for the text."""
    documents = [Document(TEXT)]
    # Each follows before it does what is asked next.
    assert link(service, TEXT)
    end = time.monotonic() + 30
    ids = [each.id for each in service._in_force()]
    while any(each.in_force != ids for each in linkers):
        assert time.monotonic() < end
        time.sleep(0.01)
    return [each.link(documents) for each in linkers]


def test_correction_counts_for_every_worker(saved, make_service):
    log = CorrectionLog()
    log.add(log.new(text="MS was used.", start=0, end=2, right=("C1",)))
    linkers = [CorrectedLinker(spacy.load(saved)) for _ in range(3)]
    service = make_service(*linkers, log=log)
    made = service.ask("correct", {"text": TEXT, "start": 9, "end": 13, "right": ["D3"]}).result(30)
    linked = everywhere(service, linkers)
    assert linked[0][0]["mentions"][0]["kb_id"] == "D3" and linked[0] == linked[1] == linked[2]
    service.ask("undo", {"id_": json.loads(made.content)["id"]}).result(30)
    undone = everywhere(service, linkers)
    assert undone[0] != linked[0] and undone[0] == undone[1] == undone[2]
    with pytest.raises(KeyError):
        service.ask("undo", {"id_": "none"}).result(30)


def test_worker_that_missed_a_correction_is_replaced(saved, make_service):
    """One that fails is replaced, and the next one follows; as does one whose worker was lost."""
    linkers = [CorrectedLinker(spacy.load(saved)) for _ in range(2)]
    service = make_service(*linkers)
    add, failed = linkers[1].add, threading.Event()

    def fail(correction):
        linkers[1].add = add
        failed.set()
        raise MemoryError

    linkers[1].add = fail
    service.ask("correct", {"text": TEXT, "start": 9, "end": 13, "right": ["D3"]}).result(30)
    assert failed.wait(30)
    first, second = everywhere(service, linkers)
    assert first == second and first[0]["mentions"][0]["kb_id"] == "D3"


def test_work_is_spread_over_the_workers(saved, make_service):
    linkers = [CorrectedLinker(spacy.load(saved)) for _ in range(2)]
    service, ids = make_service(*linkers), set()
    started = threading.Barrier(2, timeout=30)
    for linker in linkers:

        def link(documents, linker=linker):
            ids.add(id(linker))
            started.wait()
            return []

        linker.link = link
    for future in [service.ask("link", b"[]") for _ in range(2)]:
        future.result(30)
    assert len(ids) == 2


def test_free_worker_leaves_part_of_the_queue_to_a_busy_one(saved, make_service):
    """Else the other has nothing left, and the same work is done in batches of all and of one in
    turn."""
    linkers = [CorrectedLinker(spacy.load(saved)) for _ in range(2)]
    service = make_service(*linkers)
    taken: queue.Queue[tuple[int, threading.Event]] = queue.Queue()
    for linker in linkers:

        def link(documents):
            go_on = threading.Event()
            taken.put((len(documents), go_on))
            go_on.wait(30)
            return [{"mentions": []} for _ in documents]

        linker.link = link
    futures = [ask(service, TEXT) for _ in range(2)]
    ends = [taken.get(timeout=30) for _ in range(2)]
    futures += [ask(service, TEXT) for _ in range(7)]
    for _, go_on in ends[1:]:
        go_on.set()
    n, go_on = taken.get(timeout=30)
    # Of eight that are not answered.
    assert n == 4
    for each in (go_on, ends[0][1]):
        each.set()
    while not all(future.done() for future in futures):
        with suppress(queue.Empty):
            taken.get(timeout=0.1)[1].set()
    assert all(future.result().documents == 1 for future in futures)


def test_large_request_does_not_block_its_sender(service, held):
    """More than a connection holds: who asks would wait for it."""
    first = ask(service, TEXT)
    held.begun.wait(10)
    start = time.monotonic()
    large = ask(service, "x" * 900_000)
    assert time.monotonic() - start < 5
    held.set()
    assert first.result(30).documents == large.result(60).documents == 1


def test_texts_do_not_accumulate_in_memory(linker, make_service, monkeypatch):
    monkeypatch.setattr(worker_module, "DOCS_PER_ZONE", 3)
    monkeypatch.setattr(worker_module, "WARMUP_CHARS", 1)
    service = make_service(linker)
    link(service, TEXT)
    before = len(linker.nlp.vocab.strings)
    for turn in range(4):
        link(service, " ".join(f"word{turn}x{i}" for i in range(500)))
    service.close()
    assert len(linker.nlp.vocab.strings) < before + 20
