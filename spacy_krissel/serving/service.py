"""Dispatch of many requests to few workers: waiting requests are batched, and work that takes too
long is ended."""

import json
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from concurrent.futures import TimeoutError as LateFuture
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from ..errors import KrisselError
from ..views import evidence, mention_view
from .corrections import Correction, CorrectionLog
from .messages import Message, encoded, receive, send
from .processes import Worker
from .tool_requests import InvalidRequest

# Maximum number of documents in a batch of several requests, and default number of requests that
# may wait.
BATCH_DOCUMENTS, MAX_WAITING = 64, 256
# Size in bytes from which a request is linked alone. One of several workers is reserved for shorter
# ones.
LARGE_BYTES = 20_000
# Default timeout of a request, and time for pending requests when the service closes, in seconds.
TIMEOUT_SECONDS, GRACE_SECONDS = 30, 5
# Seconds on the same requests after which a worker counts as not answering.
SILENT_SECONDS = 5.0
# Seconds between checks that an idle worker is alive.
POLL_SECONDS = 1.0
# Number of corrections listed at once, and sent to a new worker per message.
MAX_LISTED, CORRECTIONS_PER_MESSAGE = 1_000, 2_000
# Number of characters of context in the list of corrections.
CONTEXT_CHARS = 60

# Requests that change links.
CHANGES = ("correct", "undo")
# Updates that these send to each worker.
UPDATES = ("add", "remove")


class ServiceBusy(Exception):
    """Too many requests wait, or the service ends."""


class RequestTimeout(Exception):
    """The request timed out; a change may still be applied."""


class WorkerLost(Exception):
    """The worker ended before it answered; a change may have been applied."""


class WorkerFailed(Exception):
    """An unexpected error of the worker, with its traceback."""


class Answer(NamedTuple):
    """An answer.

    content: JSON. documents, mentions: number linked. cut: number of words that were cut before
        tokenization.
    """

    content: bytes
    documents: int = 0
    mentions: int = 0
    cut: int = 0


@dataclass(eq=False)
class _Request:
    """A request to a worker.

    until: deadline by `time.monotonic`, after which nobody waits. documents: number to link.
    """

    do: str
    content: bytes
    until: float
    documents: int = 1
    future: "Future[Answer]" = field(default_factory=Future)
    done: Callable[[], Any] = lambda: None

    @property
    def is_large(self) -> bool:
        return len(self.content) >= LARGE_BYTES

    def fail(self, error: Exception) -> None:
        self.done()
        if self.future.running() or self.future.set_running_or_notify_cancel():
            self.future.set_exception(error)


class LinkService:
    """Dispatcher of requests, from any thread, to workers, each behind a connection that
    `answer_requests` serves.

    Requests wait in a queue, and a worker gets one batch at a time. A worker that misses the
    deadline of its requests is killed and replaced; so is a worker that ended by itself.

    starts: functions that start a worker each. log: the corrections, which all workers apply.
        waiting: maximum number of waiting requests. seconds: timeout of a request. grace: seconds
        for pending requests in `close`. ended: called with a reason if a worker cannot be replaced.
    """

    def __init__(
        self,
        starts: Sequence[Callable[[], Worker]],
        log: CorrectionLog | None = None,
        *,
        waiting: int = MAX_WAITING,
        seconds: float = TIMEOUT_SECONDS,
        grace: float = GRACE_SECONDS,
        ended: Callable[[str], Any] = lambda _: None,
    ) -> None:
        """Wait until the workers are ready. Raises WorkerLost for one that ended, KrisselError or
        WorkerFailed for its error."""
        self._log = log or CorrectionLog()
        self._seconds, self._grace = seconds, grace
        self._slots = threading.Semaphore(waiting)
        self._queue = _Queue()
        # Sequential, so that all workers get them in the same order.
        self._changes = ThreadPoolExecutor(1)
        self._threads = [
            _WorkerThread(start, self._queue, self._in_force, seconds, ended) for start in starts
        ]
        try:
            self.about: dict[str, Any] = [thread.about.result() for thread in self._threads][0]  # noqa: RUF015 (waits for all)
        except BaseException:
            self._grace = 0
            self.close()
            raise

    def ask(self, do: str, values: Any, *, documents: int = 1) -> "Future[Answer]":
        """Send a request to a worker, or change the corrections.

        do: "correct", "undo", or an operation of `answer_requests`. values: its keywords; for
            "link", JSON in bytes: a list of `{"text": …, "id": …, "mentions": [{"start": …, "end":
            …, "label": …}]}`. documents: their number.

        Raises ServiceBusy. The future raises the worker's KrisselError, KeyError or InvalidRequest,
        WorkerFailed for its other errors, RequestTimeout or WorkerLost.
        """
        content = values if isinstance(values, bytes) else json.dumps(values).encode()
        until = time.monotonic() + self._seconds
        if not self._slots.acquire(blocking=False):
            raise ServiceBusy
        release = self._slots.release
        try:
            if do in CHANGES:
                change: Callable[..., Answer] = self._correct if do == "correct" else self._undo
                future = self._changes.submit(change, until, **values)
                future.add_done_callback(lambda _: release())
                return future
            return self._queue.put(_Request(do, content, until, documents, done=release))
        except (ServiceBusy, RuntimeError):
            release()
            raise ServiceBusy from None

    def corrections(self, k: int = MAX_LISTED, skip: int = 0) -> dict[str, Any]:
        """Return the last `k` active corrections before the last `skip`, oldest first, each without
        most of its text; and the total."""
        in_force = self._in_force()
        end = max(0, len(in_force) - skip)
        return {
            "corrections": [_brief(each) for each in in_force[max(0, end - k) : end]],
            "total": len(in_force),
        }

    def answering(self) -> int:
        """Return the number of workers that answer."""
        return sum(thread.answers() for thread in self._threads)

    def is_alive(self) -> bool:
        """Return whether a worker answers."""
        return self.answering() > 0

    def close(self) -> None:
        """Answer pending requests for `grace` seconds and refuse new ones, then end the workers.

        A second call does nothing.
        """
        end = time.monotonic() + self._grace
        with suppress(RuntimeError, LateFuture):
            # Wait for earlier changes.
            self._changes.submit(lambda: None).result(max(0.0, self._grace))
        self._changes.shutdown(wait=False)
        self._queue.close()
        for thread in self._threads:
            thread.join(max(0.0, end - time.monotonic()))
        for thread in self._threads:
            thread.kill()
        for thread in self._threads:
            thread.join(None)

    def _in_force(self) -> list[Correction]:
        return self._log.in_force

    def _correct(self, until: float, **values: Any) -> Answer:
        """Check a correction with a worker, save it, and apply it to all later requests."""
        correction = self._log.new(**{**values, **_tuples(values)})
        checked = self._queue.put(
            _Request("check", json.dumps({"correction": correction.data()}).encode(), until)
        )
        ids = _tuples(json.loads(checked.result().content))
        correction = replace(correction, right=ids["right"], rejected=ids["rejected"])
        self._log.add(correction)
        self._queue.update("add", {"correction": correction.data()})
        return _answer(_brief(correction))

    def _undo(self, until: float, id_: str, author: str = "") -> Answer:
        if until < time.monotonic():
            raise RequestTimeout
        correction = self._log.undo(id_, author)
        self._queue.update("remove", {"id_": id_})
        return _answer(_brief(correction))


class _Queue:
    """Queue of requests in order, and pending updates of each worker, which it applies first."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._waiting: deque[_Request] = deque()
        # Per worker.
        self._updates: list[deque[_Request]] = []
        # Number of requests in progress, large ones among them, and ready workers.
        self._working = self._large = self._ready = 0
        self._is_open = True

    def follower(self) -> "deque[_Request]":
        """Return the queue of updates for a new worker."""
        with self._changed:
            self._updates.append(deque())
            return self._updates[-1]

    def enter(self) -> None:
        """Count a ready worker."""
        with self._changed:
            self._ready += 1
            self._changed.notify_all()

    def exit(self) -> None:
        """Remove a worker from the count; another may replace it."""
        with self._changed:
            self._ready -= 1

    def put(self, request: _Request) -> "Future[Answer]":
        """Append a request. Raises ServiceBusy."""
        with self._changed:
            if not self._is_open:
                raise ServiceBusy
            self._waiting.append(request)
            self._changed.notify_all()
        return request.future

    def update(self, do: str, values: dict[str, Any]) -> None:
        """Make each worker apply this before later requests."""
        content = json.dumps(values).encode()
        with self._changed:
            for updates in self._updates:
                updates.append(_Request(do, content, float("inf")))
            self._changed.notify_all()

    def take(self, updates: "deque[_Request]", worker: Worker) -> list[_Request]:
        """Wait for a worker's next batch. RETURNS: nothing if the queue is closed and empty. Raises
        EOFError if the worker ended."""
        with self._changed:
            while True:
                if updates:
                    update = updates.popleft()
                    update.future.set_running_or_notify_cancel()
                    return [update]
                if batch := self._batch():
                    self._working += len(batch)
                    self._large += batch[0].is_large
                    return batch
                if not self._is_open and not self._waiting:
                    return []
                self._changed.wait(POLL_SECONDS)
                # An idle worker sends nothing unless it ends.
                if worker.connection.poll():
                    raise EOFError

    def done(self, batch: Sequence[_Request]) -> None:
        """Mark a batch of `take` as answered."""
        with self._changed:
            if batch[0].do not in UPDATES:
                self._working -= len(batch)
                self._large -= batch[0].is_large
            self._changed.notify_all()

    def restart(
        self, updates: "deque[_Request]", in_force: Callable[[], list[Correction]]
    ) -> list[Correction]:
        """Return the corrections that a new worker applies first."""
        with self._changed:
            updates.clear()
            return in_force()

    def close(self) -> None:
        with self._changed:
            self._is_open = False
            self._changed.notify_all()

    def leave(self, updates: "deque[_Request]") -> None:
        """Remove a worker; after the last one, requests are no longer answered."""
        with self._changed:
            self._updates = [each for each in self._updates if each is not updates]
            dropped = [] if self._updates else [*self._waiting]
            if not self._updates:
                self._is_open = False
                self._waiting.clear()
        for request in dropped:
            request.fail(WorkerLost())

    def _batch(self) -> list[_Request]:
        """Return the requests of the next batch, and drop those past their deadline."""
        batch: list[_Request] = []
        left: deque[_Request] = deque()
        now, is_only = time.monotonic(), len(self._updates) == 1
        has_room = self._large < (1 if is_only else self._ready - 1)
        # Each worker gets its part of all pending requests.
        n = -(-(len(self._waiting) + self._working) // max(1, self._ready))
        while self._waiting and len(batch) < n:
            request = self._waiting.popleft()
            if request.until < now:
                request.fail(RequestTimeout())
                continue
            if request.is_large and not has_room:
                # One worker is reserved for shorter ones.
                left.append(request)
                continue
            is_alone = bool(batch) and (request.is_large or request.do != "link")
            if is_alone or sum(each.documents for each in batch) >= BATCH_DOCUMENTS:
                left.append(request)
                break
            if not request.future.set_running_or_notify_cancel():
                request.done()
                continue
            batch.append(request)
            if request.is_large or request.do != "link":
                break
        self._waiting.extendleft(reversed(left))
        return batch


class _WorkerThread:
    """A thread that owns a worker, sends it batches, and replaces it."""

    def __init__(
        self,
        start: Callable[[], Worker],
        queue: _Queue,
        in_force: Callable[[], list[Correction]],
        seconds: float,
        ended: Callable[[str], Any],
    ) -> None:
        self.about: Future[dict[str, Any]] = Future()
        self._start, self._queue, self._in_force = start, queue, in_force
        self._seconds, self._ended = seconds, ended
        self._updates = queue.follower()
        self._lock = threading.Lock()
        self._worker: Worker | None = None
        self._is_closed = self._is_open = False
        # Start of the batch in progress.
        self._since = float("inf")
        # Linux ends a worker with the thread that started it: this thread lives as long as the
        # service.
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def answers(self) -> bool:
        return self._is_open and time.monotonic() - self._since < SILENT_SECONDS

    def join(self, seconds: float | None) -> None:
        self._thread.join(seconds)

    def kill(self) -> None:
        """End the worker, and start no other."""
        with self._lock:
            self._is_closed = True
            if self._worker is not None:
                self._worker.kill()

    def _run(self) -> None:
        problem: BaseException | None = None
        how = "not started"
        while True:
            try:
                worker = self._started()
                if worker is None:
                    break
            except BaseException as error:
                problem = error
                break
            try:
                self._begin(worker)
                self._is_open = True
                self._queue.enter()
                while batch := self._queue.take(self._updates, worker):
                    self._do(worker, batch)
                self._is_closed = True
            except (EOFError, OSError):
                # If it never answered, a replacement would end as well.
                problem = None if self._is_open else WorkerLost()
            except BaseException as error:
                problem = error
            if self._is_open:
                self._is_open = False
                self._queue.exit()
            how = self._left(worker)
            if self._is_closed or problem is not None:
                break
        if isinstance(problem, WorkerLost):
            problem = WorkerLost(how)
        if not self.about.done():
            self.about.set_exception(problem or WorkerLost(how))
        elif not self._is_closed and problem is not None:
            self._ended(str(problem))
        self._queue.leave(self._updates)

    def _started(self) -> Worker | None:
        with self._lock:
            if not self._is_closed:
                self._worker = self._start()
            return None if self._is_closed else self._worker

    def _left(self, worker: Worker) -> str:
        with self._lock:
            self._worker = None
        return worker.leave()

    def _begin(self, worker: Worker) -> None:
        """Wait until the worker is loaded, and send it the corrections."""
        about = _received(worker).content
        in_force = self._queue.restart(self._updates, self._in_force)
        for start in range(0, len(in_force), CORRECTIONS_PER_MESSAGE):
            part = [each.data() for each in in_force[start : start + CORRECTIONS_PER_MESSAGE]]
            which = {
                "is_first": not start,
                "is_last": start + CORRECTIONS_PER_MESSAGE >= len(in_force),
            }
            message = Message.of({"corrections": part, **which}, number=0, do="follow")
            # Encoded while the worker applies the previous part.
            if start:
                _received(worker)
            send(worker.connection, message)
        if in_force:
            _received(worker)
        if not self.about.done():
            self.about.set_result(json.loads(about))

    def _do(self, worker: Worker, batch: list[_Request]) -> None:
        """Send a batch and receive its answers. Raises EOFError or OSError if the worker ends, or
        is killed after its deadline."""
        now = self._since = time.monotonic()
        end = max(each.until for each in batch)
        end = min(end, now + self._seconds)
        asked = dict(enumerate(batch))
        error: Exception = WorkerLost()
        try:
            messages = (
                Message({"number": n, "do": each.do}, each.content) for n, each in asked.items()
            )
            send(worker.connection, *messages)
            while asked:
                if not worker.connection.poll(max(0.0, end - time.monotonic())):
                    error = RequestTimeout()
                    worker.kill()
                    raise EOFError
                for head, content in receive(worker.connection):
                    request = asked.pop(head["number"])
                    request.done()
                    if "error" not in head:
                        request.future.set_result(Answer(content, **head["counts"]))
                        continue
                    request.future.set_exception(_error(head))
                    if request.do in UPDATES:
                        # Its links would differ from the other workers'.
                        worker.kill()
                        raise EOFError
        finally:
            self._since = float("inf")
            self._queue.done(batch)
            for request in asked.values():
                request.fail(error)


def _received(worker: Worker) -> Message:
    """Return a message of a worker. Raises EOFError, or the error that the worker reports."""
    (message,) = receive(worker.connection)
    if "error" in message.head:
        raise _error(message.head)
    return message


def _error(head: dict[str, Any]) -> Exception:
    kinds: dict[str, type[Exception]] = {
        "KrisselError": KrisselError,
        "KeyError": KeyError,
        "InvalidRequest": InvalidRequest,
    }
    return kinds.get(head["error"], WorkerFailed)(head["text"])


def _tuples(values: dict[str, Any]) -> dict[str, tuple[str, ...]]:
    return {name: tuple(values.get(name, ())) for name in ("right", "rejected")}


def _answer(content: dict[str, Any]) -> Answer:
    return Answer(encoded(content))


def _brief(correction: Correction) -> dict[str, Any]:
    """Return the correction without most of its text, which may be long."""
    data = correction.data()
    view = mention_view(data.pop("text"), correction.start, correction.end, CONTEXT_CHARS)
    return {**data, "mention": correction.mention, "context": evidence(view)}
