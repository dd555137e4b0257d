"""One pipeline for many threads: each gets its own answer, and a correction counts, no longer and no less."""

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
import spacy

from spacy_krissel.errors import KrisselError
from spacy_krissel.serving import service as service_module
from spacy_krissel.serving.corrections import CorrectionLog
from spacy_krissel.serving.service import Busy, Document, LinkService, Mention

TEXT = "He had a cold, and MS."
COLD = {"text": TEXT, "start": 9, "end": 13}


@pytest.fixture
def service(nlp):
    service = LinkService(nlp)
    yield service
    service.close()


def link(service, *documents):
    return service.link([Document(each) if isinstance(each, str) else each for each in documents]).result(30)


def answer(service):
    """All that is said of the text, scores included."""
    return link(service, TEXT)


def test_an_answer_is_not_the_pipelines(service, saved):
    doc = spacy.load(saved)(TEXT)
    (found,) = link(service, TEXT)
    assert [(each["start"], each["end"], each["kb_id"]) for each in found["mentions"]] == [
        (ent.start_char, ent.end_char, ent.kb_id_) for ent in doc.ents
    ]
    assert [each["candidates"] for each in found["mentions"]] == [ent._.krissel_candidates for ent in doc.ents]
    assert "text" not in found


def test_mentions_that_are_given_are_looked_for(service):
    given = Document(TEXT, "a", (Mention(9, 12, "Y"), Mention(3, 6)))
    (found,) = link(service, given)
    # Whole tokens, in the order of the text.
    assert found["id"] == "a"
    assert [(each["text"], each["label"]) for each in found["mentions"]] == [("had", "MENTION"), ("cold", "Y")]
    assert link(service, Document(TEXT, mentions=()))[0]["mentions"] == []


@pytest.mark.parametrize(
    "mentions, problem",
    [
        ([Mention(-1, 2)], "outside"),
        ([Mention(2, 2)], "outside"),
        ([Mention(0, 99)], "outside"),
        ([Mention(9, 11), Mention(11, 13)], "the same words"),
    ],
)
def test_a_mention_that_is_none_is_linked(service, mentions, problem):
    with pytest.raises(KrisselError, match=rf"K682.*Document 1 \('b'\).*{problem}"):
        link(service, Document(TEXT), Document(TEXT, "b", tuple(mentions)))
    assert link(service, TEXT)


def test_a_text_without_mentions_is_silently_left_unlinked(nlp):
    nlp.remove_pipe("entity_ruler")
    service = LinkService(nlp)
    with pytest.raises(KrisselError, match=r"K682.*no component"):
        link(service, Document(TEXT))
    assert link(service, Document(TEXT, mentions=(Mention(9, 13),)))[0]["mentions"][0]["kb_id"] == "D2"
    service.close()


def test_threads_get_each_others_answers(service):
    def ask(i):
        texts = [f"{'x ' * i}cold {i}", f"{'y ' * i}MS"]
        found = link(service, *(Document(text, f"{i}/{n}") for n, text in enumerate(texts)))
        assert [each["id"] for each in found] == [f"{i}/0", f"{i}/1"]
        assert [each["mentions"][0]["start"] for each in found] == [2 * i, 2 * i]

    with ThreadPoolExecutor(16) as pool:
        list(pool.map(ask, range(200)))


def test_the_error_of_one_request_is_that_of_others(service):
    held = threading.Event()
    pipe = service.linker
    original = type(pipe).predict

    def predict(docs):
        held.wait(10)
        if any("bad" in doc.text for doc in docs):
            raise SystemExit("bad")
        return original(pipe, docs)

    pipe.predict = predict
    futures = [service.link([Document(text)]) for text in (TEXT, "a bad cold", TEXT)]
    held.set()
    assert futures[0].result(30) == futures[2].result(30)
    with pytest.raises(SystemExit, match="bad"):
        futures[1].result(30)
    # Not even that ends the service.
    assert service.is_alive() and link(service, TEXT)


def test_more_requests_wait_than_may(nlp):
    service = LinkService(nlp, waiting=2)
    held = threading.Event()
    original = service._linked
    begun = threading.Event()
    service._linked = lambda documents: begun.set() or held.wait(10) and original(documents)
    futures = [service.link([Document(TEXT)])]
    begun.wait(10)
    futures += [service.link([Document(TEXT)]) for _ in range(2)]
    # One that is given up still waits, as its text does.
    futures.pop().cancel()
    with pytest.raises(Busy):
        service.link([Document(TEXT)])
    held.set()
    assert [len(future.result(30)) for future in futures] == [1, 1]
    # There is room again.
    assert link(service, TEXT)
    service.close()
    with pytest.raises(Busy):
        service.link([Document(TEXT)])


def test_a_correction_does_not_count_or_is_not_undone_exactly(service):
    before = answer(service)
    assert before[0]["mentions"][0]["kb_id"] == "D2"
    made = service.correct(**COLD, right=("D3",), linked="D2", author="Ada").result(30)
    corrected = answer(service)
    assert corrected[0]["mentions"][0]["kb_id"] == "D3"
    assert "⟦cold⟧" in corrected[0]["mentions"][0]["candidates"][0]["evidence"]
    # Another one in between, and both are taken back in another order.
    other = service.correct(text="MS was used.", start=0, end=2, right=("C1",)).result(30)
    assert service.undo(made.id).result(30) == made
    with pytest.raises(KeyError):
        service.undo(made.id).result(30)
    service.undo(other.id).result(30)
    assert answer(service) == before
    assert service.log.in_force == []


def test_what_is_in_force_depends_on_what_was_taken_back(service, saved):
    first = service.correct(**COLD, right=("D3",)).result(30)
    service.correct(text="MS was used.", start=0, end=2, right=("C1",)).result(30)
    service.undo(first.id).result(30)
    fresh = LinkService(spacy.load(saved))
    fresh.correct(text="MS was used.", start=0, end=2, right=("C1",)).result(30)
    assert answer(service) == answer(fresh)
    fresh.close()


def test_a_correction_is_lost_by_a_restart(nlp, saved, tmp_path):
    path = tmp_path / "corrections.jsonl"
    service = LinkService(nlp, CorrectionLog(path))
    service.correct(**COLD, right=("D3",)).result(30)
    service.correct(**COLD, right=()).result(30)
    corrected = answer(service)
    service.close()
    again = LinkService(spacy.load(saved), CorrectionLog(path))
    assert answer(again) == corrected and len(again.log.in_force) == 2
    again.close()


def test_a_mistake_cannot_be_corrected(service):
    before = answer(service)
    for right, linked in ((("D3",), "D3"), (("D0",), "D0"), ((), "D2")):
        service.correct(**COLD, right=right).result(30)
        assert answer(service)[0]["mentions"][0]["kb_id"] == linked
    assert answer(service) == before


@pytest.mark.filterwarnings("ignore:.*KW682")
def test_an_entity_that_is_no_more_keeps_the_service_from_starting(nlp, tmp_path):
    log = CorrectionLog(tmp_path / "corrections.jsonl")
    log.add(log.new(**COLD, right=("D9",)))
    log.add(log.new(text="MS was used.", start=0, end=2, right=("C1",)))
    service = LinkService(nlp, log)
    assert answer(service)[0]["mentions"][0]["kb_id"] == "D2"
    service.undo(log.in_force[0].id).result(30)
    assert len(log.in_force) == 1
    service.close()


def test_texts_stay_in_the_memory(nlp, monkeypatch):
    monkeypatch.setattr(service_module, "RENEWED", 3)
    service = LinkService(nlp)
    before = len(nlp.vocab.strings)
    for turn in range(4):
        link(service, " ".join(f"word{turn}x{i}" for i in range(500)))
    service.close()
    assert len(nlp.vocab.strings) < before + 20


@pytest.mark.parametrize(
    "values", [{"end": 9}, {"start": -1}, {"end": 99}, {"start": 8, "end": 9}, {"right": ("D3", "D99")}]
)
def test_a_correction_that_is_none_is_kept(service, values):
    with pytest.raises(KrisselError, match="K682"):
        service.correct(**{**COLD, "right": ("D3",), **values})
    assert service.log.in_force == []


def test_an_entity_is_not_found(service):
    assert [each["id"] for each in service.search("cold injuries")][0] == "D3"
    # By its id, and before others.
    assert service.search("D1")[0] == {"id": "D1", "name": "multiple sclerosis", "types": ["Disease"]}
    assert service.search("☃") == service.search(" ") == []
    assert service.entity("D2")["parents"] == ("D0",)
    with pytest.raises(KrisselError, match="K525"):
        service.entity("D99")
