"""One pipeline for many requests, in a process of its own: what waits is linked together."""

import gc
import json
import multiprocessing
import queue
import signal
import threading
import time
import traceback
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, NamedTuple

from ..errors import KrisselError
from ..pipeline.pipeline_io import choose_gpu, load_pipeline
from ..pipeline.settings import LINKER
from ..views import evidence, mention_view
from .corrected import LABEL, CorrectedLinker, Document, Mention
from .corrections import Correction, CorrectionLog

# Documents of different requests that are linked in one batch; requests that may wait, by default.
TOGETHER, WAITING = 64, 256
# Of a request, by default: documents, characters of all its texts, and seconds until it is given up.
MOST_DOCUMENTS, MOST_CHARS, SECONDS = 100, 1_000_000, 30
# Documents after which the vocabulary is as it was; characters of the first ones, whose words it keeps.
RENEWED, KEPT = 1_000, 1_000_000
# Characters of the context that a correction is listed with.
NEAR = 60


# What changes links.
CHANGES = ("correct", "undo")


class Busy(Exception):
    """Too many requests wait, or the service ends."""


class Lost(Exception):
    """The linker ended before it answered; what was to be changed may be."""


class Failed(Exception):
    """What the linker raised of itself, with where."""


class Answer(NamedTuple):
    """content: JSON. documents, mentions: how many were linked."""

    content: bytes
    documents: int = 0
    mentions: int = 0


class _Request(NamedTuple):
    """until: of `time.monotonic`, which is one for all processes; later nobody waits for the answer."""

    number: int
    do: str
    until: float
    values: Any


class LinkService:
    """Asks linkers, each on the other side of a connection that `answer_requests` serves, from any thread.

    connections: the first linker keeps the corrections, and the others follow it. waiting: requests that may wait for
    their answer. seconds: after which a request is given up. ended: called where a linker ends before `close`.
    """

    def __init__(
        self,
        connections: Sequence[Connection],
        *,
        waiting: int = WAITING,
        seconds: float = SECONDS,
        ended: Callable[[], Any] = lambda: None,
    ) -> None:
        """Waits until they are there. Raises Lost where one has ended, and KrisselError or Failed for what did it."""
        self._seconds = seconds
        self._places = threading.Semaphore(waiting)
        self._linkers = [_Linker(connection, ended) for connection in connections]
        self.about: dict[str, Any] = self._linkers[0].about
        # One after the other, so that all linkers have them in the same order.
        self._changes = ThreadPoolExecutor(1)
        self._follow()

    def ask(self, do: str, values: Any) -> "Future[Answer]":
        """do: a method of `CorrectedLinker`, or "corrections". values: its keywords; for "link", JSON in bytes: a list
        of `{"text": …, "id": …, "mentions": [{"start": …, "end": …, "label": …}]}`.

        Raises Busy. The future raises what the method does, where that is no KrisselError or KeyError, Failed; or Lost.
        """
        content = values if isinstance(values, bytes) else json.dumps(values).encode()
        until = time.monotonic() + self._seconds
        if not self._places.acquire(blocking=False):
            raise Busy
        release = self._places.release
        try:
            if do in CHANGES:
                future = self._changes.submit(self._change, do, content, until)
                future.add_done_callback(lambda _: release())
                return future
            linker = min(self._linkers, key=_Linker.waiting) if do == "link" else self._linkers[0]
            return linker.ask(do, content, until, release)
        except (Busy, RuntimeError):
            release()
            raise Busy from None

    def is_alive(self) -> bool:
        """Whether it links."""
        return all(linker.is_open for linker in self._linkers)

    def close(self) -> None:
        """What was asked is answered; new requests are refused."""
        self._changes.shutdown()
        for linker in self._linkers:
            linker.close()

    def _change(self, do: str, content: bytes, until: float) -> Answer:
        answer = self._linkers[0].ask(do, content, until).result()
        self._follow()
        return answer

    def _follow(self) -> None:
        """Let the others have the corrections of the first."""
        first, *others = self._linkers
        if others:
            kept = first.ask("kept", b"{}").result().content
            asked = [(other, other.ask("follow", kept)) for other in others]
            for other, future in asked:
                try:
                    future.result()
                except Exception:
                    # It would link otherwise than the first.
                    other.give_up()


class _Linker:
    """One connection, and what was asked by it."""

    def __init__(self, connection: Connection, ended: Callable[[], Any]) -> None:
        self._connection, self._ended = connection, ended
        try:
            head, content = _read(connection.recv_bytes())
        except EOFError:
            raise Lost from None
        if "error" in head:
            raise _error(head)
        self.about: dict[str, Any] = json.loads(content)
        self._asked: dict[int, tuple[Future[Answer], Callable[[], Any]]] = {}
        self._out: queue.Queue[bytes] = queue.Queue()
        self._lock = threading.Lock()
        self._numbers = 0
        self.is_open = True
        self._threads = [threading.Thread(target=each, daemon=True) for each in (self._write, self._read)]
        for thread in self._threads:
            thread.start()

    def waiting(self) -> int:
        return len(self._asked)

    def ask(
        self, do: str, content: bytes, until: float = float("inf"), done: Callable[[], Any] = lambda: None
    ) -> "Future[Answer]":
        """done: called when there is an answer, also for one that was given up. Raises Busy."""
        future: Future[Answer] = Future()
        with self._lock:
            if not self.is_open:
                raise Busy
            self._numbers += 1
            self._asked[self._numbers] = future, done
            self._out.put(json.dumps({"number": self._numbers, "do": do, "until": until}).encode() + b"\n" + content)
        return future

    def give_up(self) -> None:
        """Ask no more, as if it had ended."""
        with self._lock:
            was_open, self.is_open = self.is_open, False
        if was_open:
            self._ended()

    def close(self) -> None:
        """A second call does nothing."""
        with self._lock:
            was_open, self.is_open = self.is_open, False
            self._out.put(_END)
        if was_open:
            for thread in self._threads:
                thread.join()
        self._connection.close()

    def _write(self) -> None:
        # The other side reads nothing while it links: who asks must not wait for that.
        message = b""
        with suppress(OSError):
            while message != _END:
                message = self._out.get()
                self._connection.send_bytes(message)

    def _read(self) -> None:
        with suppress(EOFError, OSError):
            while True:
                head, content = _read(self._connection.recv_bytes())
                with self._lock:
                    future, done = self._asked.pop(head["number"])
                done()
                # Unless it was given up.
                if not future.set_running_or_notify_cancel():
                    continue
                if "error" in head:
                    future.set_exception(_error(head))
                else:
                    future.set_result(Answer(content, head["documents"], head["mentions"]))
        with self._lock:
            was_open, self.is_open = self.is_open, False
            lost, self._asked = [*self._asked.values()], {}
            self._out.put(_END)
        for future, done in lost:
            done()
            if future.set_running_or_notify_cancel():
                future.set_exception(Lost())
        if was_open:
            self._ended()


class LinkProcess:
    """A process that loads a pipeline and links. Its side of the connection is `connection`."""

    def __init__(
        self,
        pipeline: str | Path,
        corrections: Path | None = None,
        *,
        name: str = LINKER,
        gpu_id: int = -1,
        index_device: str | None = None,
    ) -> None:
        # Spawned: a fork would have the locks of other threads.
        context = multiprocessing.get_context("spawn")
        self.connection, theirs = context.Pipe()
        settings = (theirs, pipeline, corrections, name, gpu_id, index_device)
        self.process = context.Process(target=_run, args=settings, name="krissel-link", daemon=True)
        self.process.start()
        theirs.close()


def answer_requests(connection: Connection, linker: CorrectedLinker) -> None:
    """Do what `LinkService` asks for, until it closes or is no more. A failure is answered, and ends nothing."""
    with suppress(EOFError, OSError):
        _send(connection, {}, linker.about())
        chars, is_open = 0, True
        while is_open and chars < KEPT:
            # The tokenizer remembers words outside of memory zones alone, and takes five times as long without.
            documents, is_open = _do_all(connection, linker)
            chars += sum(len(document.text) for document in documents)
        while is_open:
            # What the vocabulary learns of further texts goes with them.
            with linker.nlp.memory_zone():
                n = 0
                while is_open and n < RENEWED:
                    documents, is_open = _do_all(connection, linker)
                    n += len(documents)


# Asks for nothing more. Other messages have two lines.
_END = b"end"


def _run(
    connection: Connection,
    pipeline: str | Path,
    corrections: Path | None,
    name: str,
    gpu_id: int,
    index_device: str | None,
) -> None:
    # These are for who asks, and they close the connection when all is answered.
    for each in (signal.SIGINT, signal.SIGTERM):
        signal.signal(each, signal.SIG_IGN)
    try:
        # Before what takes longer.
        log = CorrectionLog(corrections)
        # Here, and not by who starts the process: a chosen GPU is one of this process alone.
        choose_gpu(gpu_id, silent=True)
        linker = CorrectedLinker(load_pipeline(pipeline, index_device=index_device), log, name=name)
    except Exception as error:
        _send_error(connection, {}, error)
        return
    # What was loaded stays, and no collection has to go through it.
    gc.collect()
    gc.freeze()
    answer_requests(connection, linker)
    log.close()


def _do_all(connection: Connection, linker: CorrectedLinker) -> tuple[list[Document], bool]:
    """Answers what has come. RETURNS: the documents that were linked; whether more may come."""
    requests, is_open = _received(connection)
    for batch in _batches(requests):
        _answer(connection, linker, batch)
    return [document for request in requests if request.do == "link" for document in request.values], is_open


def _received(connection: Connection) -> tuple[list[_Request], bool]:
    """Waits for a request. RETURNS: all that have come, but for those that were given up; whether more may come."""
    messages = [connection.recv_bytes()]
    while messages[-1] != _END and connection.poll():
        messages.append(connection.recv_bytes())
    is_open = messages[-1] != _END
    requests = []
    for message in messages if is_open else messages[:-1]:
        head, content = _read(message)
        values = json.loads(content)
        if head["do"] == "link":
            values = [_document(each) for each in values]
        requests.append(_Request(head["number"], head["do"], head["until"], values))
    return requests, is_open


def _document(given: dict[str, Any]) -> Document:
    mentions = given.get("mentions")
    if mentions is not None:
        mentions = tuple(Mention(each["start"], each["end"], each.get("label") or LABEL) for each in mentions)
    return Document(given["text"], given.get("id", ""), mentions)


def _batches(requests: Iterable[_Request]) -> Iterable[list[_Request]]:
    """Those that are linked together, in the order in which they came."""
    batch: list[_Request] = []
    for request in requests:
        is_full = sum(len(each.values) for each in batch) >= TOGETHER
        if batch and (request.do != "link" or is_full):
            yield batch
            batch = []
        if request.do == "link":
            batch.append(request)
        else:
            yield [request]
    if batch:
        yield batch


def _answer(connection: Connection, linker: CorrectedLinker, batch: Sequence[_Request]) -> None:
    """The answers of a batch; where that fails, of each request by itself: one's error is no other's."""
    now = time.monotonic()
    late = [request for request in batch if request.until < now]
    for request in late:
        # Whoever asked has gone, and its place is free again.
        _send_error(connection, {"number": request.number}, TimeoutError())
    batch = [request for request in batch if request.until >= now]
    if not batch:
        return
    try:
        if batch[0].do == "link":
            linked = iter(linker.link([document for request in batch for document in request.values]))
            found = [{"documents": [next(linked) for _ in request.values]} for request in batch]
        else:
            found = [_DO[batch[0].do](linker, **batch[0].values)]
    except BaseException as error:
        if len(batch) == 1:
            _send_error(connection, {"number": batch[0].number}, error)
        else:
            for request in batch:
                _answer(connection, linker, [request])
        return
    for request, each in zip(batch, found, strict=True):
        documents = each.get("documents", [])
        counts = {"documents": len(documents), "mentions": sum(len(document["mentions"]) for document in documents)}
        _send(connection, {"number": request.number, **counts}, each)


def _brief(correction: Correction) -> dict[str, Any]:
    """Without most of its text, which may be long."""
    data = correction.data()
    view = mention_view(data.pop("text"), correction.start, correction.end, NEAR)
    return {**data, "mention": correction.mention, "context": evidence(view)}


_DO: dict[str, Callable[..., dict[str, Any]]] = {
    "correct": lambda linker, **values: _brief(linker.correct(**{**values, "right": tuple(values["right"])})),
    "undo": lambda linker, **values: _brief(linker.undo(**values)),
    "corrections": lambda linker: {"corrections": [_brief(each) for each in linker.log.in_force]},
    "kept": lambda linker: {"corrections": [each.data() for each in linker.log.in_force]},
    "follow": lambda linker, corrections: linker.follow([Correction.from_data(each) for each in corrections]) or {},
    "entity": lambda linker, **values: linker.entity(**values),
    "search": lambda linker, **values: {"entities": linker.search(**values)},
}


# Messages: a line of JSON, and what it is about, JSON too. ---------------------------------------------------------


def _send(connection: Connection, head: dict[str, Any], content: Any) -> None:
    # Characters that are none, of a text that was read in halves, become question marks.
    data = json.dumps(content, ensure_ascii=False).encode("utf8", "replace")
    connection.send_bytes(json.dumps(head).encode() + b"\n" + data)


def _send_error(connection: Connection, head: dict[str, Any], error: BaseException) -> None:
    is_known = isinstance(error, (KrisselError, KeyError)) and error.args
    told = str(error.args[0]) if is_known else "".join(traceback.format_exception(error))
    _send(connection, {**head, "error": type(error).__name__, "told": told}, None)


def _read(message: bytes) -> tuple[dict[str, Any], bytes]:
    head, _, content = message.partition(b"\n")
    return json.loads(head), content


def _error(head: dict[str, Any]) -> Exception:
    kinds: dict[str, type[Exception]] = {"KrisselError": KrisselError, "KeyError": KeyError}
    return kinds.get(head["error"], Failed)(head["told"])
