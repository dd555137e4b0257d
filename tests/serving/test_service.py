"""One linker for many threads: each gets its own answer, in time or not at all."""

import json
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest
import spacy

from spacy_krissel.serving import service as service_module
from spacy_krissel.serving.corrected import CorrectedLinker, Document
from spacy_krissel.serving.corrections import CorrectionLog
from spacy_krissel.serving.service import Busy, Failed, Lost

TEXT = "He had a cold, and MS."


def ask(service, *texts):
    content = json.dumps([{"text": each} if isinstance(each, str) else each for each in texts]).encode()
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


def test_threads_get_each_others_answers(service):
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


def test_the_error_of_one_request_is_that_of_others(service, held):
    first = ask(service, TEXT)
    held.begun.wait(10)
    futures = [ask(service, text) for text in (TEXT, "a bad cold", TEXT)]
    held.set()
    assert first.result(30) == futures[0].result(30) == futures[2].result(30)
    with pytest.raises(Failed, match="SystemExit: bad"):
        futures[1].result(30)
    # Not even that ends the service.
    assert service.is_alive() and link(service, TEXT)


def test_more_requests_wait_than_may(linker, make_service, held):
    service = make_service(linker, waiting=2)
    futures = [ask(service, TEXT) for _ in range(2)]
    # One that is given up still waits, as its text does.
    futures.pop().cancel()
    with pytest.raises(Busy):
        ask(service, TEXT)
    held.set()
    assert futures[0].result(30).documents == 1
    # There is room again.
    while True:
        try:
            assert link(service, TEXT)
            break
        except Busy:
            time.sleep(0.01)
    service.close()
    with pytest.raises(Busy):
        ask(service, TEXT)


def test_what_nobody_waits_for_is_linked(linker, make_service, held):
    service = make_service(linker, seconds=0.2)
    first = ask(service, TEXT)
    held.begun.wait(10)
    late = [ask(service, TEXT), service.ask("correct", {"text": TEXT, "start": 9, "end": 13, "right": ["D3"]})]
    time.sleep(0.3)
    held.set()
    assert first.result(30)
    for future in late:
        with pytest.raises(Failed, match="TimeoutError"):
            future.result(30)
    assert linker.log.in_force == []


def test_what_was_asked_before_the_end_has_no_answer(linker, make_service, held):
    service = make_service(linker)
    futures = [ask(service, TEXT) for _ in range(20)]
    threading.Timer(0.1, held.set).start()
    service.close()
    assert {future.result(0).mentions for future in futures} == {2}


def test_who_waits_is_not_told_that_the_linker_ended(linker, make_service, held, monkeypatch):
    ended = threading.Event()
    service = make_service(linker, ended=ended.set)
    monkeypatch.setattr(service_module, "_answer", lambda *_: (_ for _ in ()).throw(EOFError()))
    with pytest.raises(Lost):
        ask(service, TEXT).result(30)
    assert ended.wait(10) and not service.is_alive()


def test_a_correction_counts_for_one_worker_alone(saved, make_service):
    log = CorrectionLog()
    log.add(log.new(text="MS was used.", start=0, end=2, right=("C1",)))
    first, *others = (CorrectedLinker(spacy.load(saved), each) for each in (log, None, None))
    service = make_service(first, *others)
    made = service.ask("correct", {"text": TEXT, "start": 9, "end": 13, "right": ["D3"]}).result(30)
    assert all(each.log.in_force == first.log.in_force for each in others) and len(log.in_force) == 2
    documents = [Document(TEXT)]
    linked = first.link(documents)
    assert linked[0]["mentions"][0]["kb_id"] == "D3" and all(each.link(documents) == linked for each in others)
    service.ask("undo", {"id_": json.loads(made.content)["id"]}).result(30)
    undone = first.link(documents)
    assert undone != linked and all(each.link(documents) == undone for each in others)


def test_a_worker_goes_on_without_a_correction(saved, make_service, monkeypatch):
    first, second = (CorrectedLinker(spacy.load(saved)) for _ in range(2))
    ended = threading.Event()
    service = make_service(first, second, ended=ended.set)
    monkeypatch.setattr(second, "follow", lambda _: (_ for _ in ()).throw(MemoryError()))
    service.ask("correct", {"text": TEXT, "start": 9, "end": 13, "right": ["D3"]}).result(30)
    assert len(first.log.in_force) == 1 and ended.wait(10) and not service.is_alive()


def test_all_is_linked_by_one_worker(saved, make_service):
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


def test_the_linker_reads_while_it_links(service, held):
    """More than a connection holds: who asks would wait for it."""
    first = ask(service, TEXT)
    held.begun.wait(10)
    start = time.monotonic()
    large = ask(service, "x" * 900_000)
    assert time.monotonic() - start < 5
    held.set()
    assert first.result(30).documents == large.result(60).documents == 1


def test_texts_stay_in_the_memory(linker, make_service, monkeypatch):
    monkeypatch.setattr(service_module, "RENEWED", 3)
    monkeypatch.setattr(service_module, "KEPT", 1)
    service = make_service(linker)
    link(service, TEXT)
    before = len(linker.nlp.vocab.strings)
    for turn in range(4):
        link(service, " ".join(f"word{turn}x{i}" for i in range(500)))
    service.close()
    assert len(linker.nlp.vocab.strings) < before + 20
