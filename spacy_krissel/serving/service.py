"""Many requests for few workers: what waits is linked together, and work that takes too long is ended."""

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
from .tool_requests import Wrong

# Documents of different requests that are linked in one batch; requests that may wait, by default.
TOGETHER, WAITING = 64, 256
# Bytes from which a request is linked alone, and leaves a worker to shorter ones where there are several.
LARGE = 20_000
# By default: seconds until a request is given up, and of those that are worked on when the service is to end.
SECONDS, GRACE = 30, 5
# Seconds after which a worker that still works on the same requests does not answer.
SILENT = 5.0
# Seconds until it is noticed that a worker ended that had nothing to do.
NOTICED = 1.0
# Corrections that are listed at once, and that a new worker is told at a time.
LISTED, FOLLOWED = 1_000, 2_000
# Characters of the context that a correction is listed with.
NEAR = 60

# What changes links.
CHANGES = ("correct", "undo")
# And what each worker does then.
UPDATES = ("add", "remove")


class Busy(Exception):
    """Too many requests wait, or the service ends."""


class Late(Exception):
    """The request took too long; what was to be changed may be."""


class Lost(Exception):
    """The worker ended before it answered; what was to be changed may be."""


class Failed(Exception):
    """What the worker raised of itself, with where."""


class Answer(NamedTuple):
    """content: JSON. documents, mentions: how many were linked. cut: words that were cut before they were tokenized."""

    content: bytes
    documents: int = 0
    mentions: int = 0
    cut: int = 0


@dataclass(eq=False)
class _Request:
    """until: of `time.monotonic`; later nobody waits for the answer. documents: to link."""

    do: str
    content: bytes
    until: float
    documents: int = 1
    future: "Future[Answer]" = field(default_factory=Future)
    done: Callable[[], Any] = lambda: None

    @property
    def is_large(self) -> bool:
        return len(self.content) >= LARGE

    def fail(self, error: Exception) -> None:
        self.done()
        if self.future.running() or self.future.set_running_or_notify_cancel():
            self.future.set_exception(error)


class LinkService:
    """Hands requests to workers, each on the other side of a connection that `answer_requests` serves, from any thread.

    Requests wait here, and a worker gets one batch at a time. One that does not answer until nobody waits for it any
    more is killed, and another is started in its place; so is one for a worker that ended by itself.

    starts: each starts a worker. log: the corrections, which all workers follow. waiting: requests that may wait for
    their answer. seconds: after which a request is given up. grace: seconds for what was asked before `close`. ended:
    called with a reason where no worker can take the place of another.
    """

    def __init__(
        self,
        starts: Sequence[Callable[[], Worker]],
        log: CorrectionLog | None = None,
        *,
        waiting: int = WAITING,
        seconds: float = SECONDS,
        grace: float = GRACE,
        ended: Callable[[str], Any] = lambda _: None,
    ) -> None:
        """Wait until the workers are there. Raises Lost for one that ended, KrisselError or Failed for what did it."""
        self._log = log or CorrectionLog()
        self._seconds, self._grace = seconds, grace
        self._places = threading.Semaphore(waiting)
        self._queue = _Queue()
        # One after the other, so that all workers have them in the same order.
        self._changes = ThreadPoolExecutor(1)
        self._keepers = [_Keeper(start, self._queue, self._in_force, seconds, ended) for start in starts]
        try:
            self.about: dict[str, Any] = [keeper.about.result() for keeper in self._keepers][0]  # noqa: RUF015 (waits for all)
        except BaseException:
            self._grace = 0
            self.close()
            raise

    def ask(self, do: str, values: Any, *, documents: int = 1) -> "Future[Answer]":
        """Ask a worker, or change the corrections.

        do: "correct", "undo", or what `answer_requests` does. values: its keywords; for "link", JSON in bytes: a list
        of `{"text": …, "id": …, "mentions": [{"start": …, "end": …, "label": …}]}`. documents: how many these are.

        Raises Busy. The future raises what the worker does, where that is no KrisselError, KeyError or Wrong, Failed;
        or Late or Lost.
        """
        content = values if isinstance(values, bytes) else json.dumps(values).encode()
        until = time.monotonic() + self._seconds
        if not self._places.acquire(blocking=False):
            raise Busy
        release = self._places.release
        try:
            if do in CHANGES:
                change: Callable[..., Answer] = self._correct if do == "correct" else self._undo
                future = self._changes.submit(change, until, **values)
                future.add_done_callback(lambda _: release())
                return future
            return self._queue.put(_Request(do, content, until, documents, done=release))
        except (Busy, RuntimeError):
            release()
            raise Busy from None

    def corrections(self, k: int = LISTED, skip: int = 0) -> dict[str, Any]:
        """The last `k` in force before the last `skip`, oldest first, each without most of its text; and the total."""
        in_force = self._in_force()
        end = max(0, len(in_force) - skip)
        return {"corrections": [_brief(each) for each in in_force[max(0, end - k) : end]], "total": len(in_force)}

    def answering(self) -> int:
        """Number of workers that answer."""
        return sum(keeper.answers() for keeper in self._keepers)

    def is_alive(self) -> bool:
        """Whether a worker answers."""
        return self.answering() > 0

    def close(self) -> None:
        """Answer what was asked, for `grace` seconds, and refuse new requests; then end the workers, whatever they do.

        A second call does nothing more.
        """
        end = time.monotonic() + self._grace
        with suppress(RuntimeError, LateFuture):
            # Those that were asked before.
            self._changes.submit(lambda: None).result(max(0.0, self._grace))
        self._changes.shutdown(wait=False)
        self._queue.close()
        for keeper in self._keepers:
            keeper.join(max(0.0, end - time.monotonic()))
        for keeper in self._keepers:
            keeper.kill()
        for keeper in self._keepers:
            keeper.join(None)

    def _in_force(self) -> list[Correction]:
        return self._log.in_force

    def _correct(self, until: float, **values: Any) -> Answer:
        """Checked by a worker, kept, and then in force for what is asked from now on."""
        correction = self._log.new(**{**values, "right": tuple(values["right"])})
        checked = self._queue.put(_Request("check", json.dumps({"correction": correction.data()}).encode(), until))
        right = json.loads(checked.result().content)["right"]
        correction = replace(correction, right=tuple(right))
        self._log.add(correction)
        self._queue.update("add", {"correction": correction.data()})
        return _answer(_brief(correction))

    def _undo(self, until: float, id_: str, author: str = "") -> Answer:
        if until < time.monotonic():
            raise Late
        correction = self._log.undo(id_, author)
        self._queue.update("remove", {"id_": id_})
        return _answer(_brief(correction))


class _Queue:
    """Requests that wait, in their order, and what each worker has to follow before the next of them."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._waiting: deque[_Request] = deque()
        # Of each worker.
        self._updates: list[deque[_Request]] = []
        # Requests that are worked on, and large ones of them; workers that are there.
        self._working = self._large = self._ready = 0
        self._is_open = True

    def follower(self) -> "deque[_Request]":
        """RETURNS: what one worker has to follow."""
        with self._changed:
            self._updates.append(deque())
            return self._updates[-1]

    def enter(self) -> None:
        """One worker more is there."""
        with self._changed:
            self._ready += 1
            self._changed.notify_all()

    def exit(self) -> None:
        """One worker less is there; another may take its place."""
        with self._changed:
            self._ready -= 1

    def put(self, request: _Request) -> "Future[Answer]":
        """Raises Busy."""
        with self._changed:
            if not self._is_open:
                raise Busy
            self._waiting.append(request)
            self._changed.notify_all()
        return request.future

    def update(self, do: str, values: dict[str, Any]) -> None:
        """Have each worker do this before what is asked from now on."""
        content = json.dumps(values).encode()
        with self._changed:
            for updates in self._updates:
                updates.append(_Request(do, content, float("inf")))
            self._changed.notify_all()

    def take(self, updates: "deque[_Request]", worker: Worker) -> list[_Request]:
        """Wait for what a worker is to do next. RETURNS: nothing when the queue is closed and empty. Raises EOFError
        where the worker ended."""
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
                self._changed.wait(NOTICED)
                # It says nothing of itself.
                if worker.connection.poll():
                    raise EOFError

    def done(self, batch: Sequence[_Request]) -> None:
        """A batch of `take` is answered."""
        with self._changed:
            if batch[0].do not in UPDATES:
                self._working -= len(batch)
                self._large -= batch[0].is_large
            self._changed.notify_all()

    def restart(self, updates: "deque[_Request]", in_force: Callable[[], list[Correction]]) -> list[Correction]:
        """RETURNS: what a new worker has to follow at first."""
        with self._changed:
            updates.clear()
            return in_force()

    def close(self) -> None:
        with self._changed:
            self._is_open = False
            self._changed.notify_all()

    def leave(self, updates: "deque[_Request]") -> None:
        """One worker less; where it was the last, nothing is answered any more."""
        with self._changed:
            self._updates = [each for each in self._updates if each is not updates]
            dropped = [] if self._updates else [*self._waiting]
            if not self._updates:
                self._is_open = False
                self._waiting.clear()
        for request in dropped:
            request.fail(Lost())

    def _batch(self) -> list[_Request]:
        """Requests that are done together. Those that nobody waits for are dropped."""
        batch: list[_Request] = []
        left: deque[_Request] = deque()
        now, is_only = time.monotonic(), len(self._updates) == 1
        has_room = self._large < (1 if is_only else self._ready - 1)
        # Each worker has its part of all that is waited for.
        n = -(-(len(self._waiting) + self._working) // max(1, self._ready))
        while self._waiting and len(batch) < n:
            request = self._waiting.popleft()
            if request.until < now:
                request.fail(Late())
                continue
            if request.is_large and not has_room:
                # One worker is for shorter ones.
                left.append(request)
                continue
            is_alone = bool(batch) and (request.is_large or request.do != "link")
            if is_alone or sum(each.documents for each in batch) >= TOGETHER:
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


class _Keeper:
    """A thread that has a worker, hands it batches, and replaces it."""

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
        # Of the batch that is worked on.
        self._since = float("inf")
        # Linux ends a worker with the thread that started it: this one lives as long as the service.
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def answers(self) -> bool:
        return self._is_open and time.monotonic() - self._since < SILENT

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
                # Before it answered anything another would end as well.
                problem = None if self._is_open else Lost()
            except BaseException as error:
                problem = error
            if self._is_open:
                self._is_open = False
                self._queue.exit()
            how = self._left(worker)
            if self._is_closed or problem is not None:
                break
        if isinstance(problem, Lost):
            problem = Lost(how)
        if not self.about.done():
            self.about.set_exception(problem or Lost(how))
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
        """Wait until it is loaded, and have it follow the corrections."""
        about = _received(worker).content
        in_force = self._queue.restart(self._updates, self._in_force)
        for start in range(0, len(in_force), FOLLOWED):
            part = [each.data() for each in in_force[start : start + FOLLOWED]]
            which = {"is_first": not start, "is_last": start + FOLLOWED >= len(in_force)}
            message = Message.of({"corrections": part, **which}, number=0, do="follow")
            # Encoded while the worker follows the part before.
            if start:
                _received(worker)
            send(worker.connection, message)
        if in_force:
            _received(worker)
        if not self.about.done():
            self.about.set_result(json.loads(about))

    def _do(self, worker: Worker, batch: list[_Request]) -> None:
        """Have a batch answered. Raises EOFError or OSError where the worker ends, or takes too long and is killed."""
        now = self._since = time.monotonic()
        end = max(each.until for each in batch)
        end = min(end, now + self._seconds)
        asked = dict(enumerate(batch))
        error: Exception = Lost()
        try:
            messages = (Message({"number": n, "do": each.do}, each.content) for n, each in asked.items())
            send(worker.connection, *messages)
            while asked:
                if not worker.connection.poll(max(0.0, end - time.monotonic())):
                    error = Late()
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
                        # It would link otherwise than the others.
                        worker.kill()
                        raise EOFError
        finally:
            self._since = float("inf")
            self._queue.done(batch)
            for request in asked.values():
                request.fail(error)


def _received(worker: Worker) -> Message:
    """Raises EOFError, or what the worker says that it raised."""
    (message,) = receive(worker.connection)
    if "error" in message.head:
        raise _error(message.head)
    return message


def _error(head: dict[str, Any]) -> Exception:
    kinds: dict[str, type[Exception]] = {"KrisselError": KrisselError, "KeyError": KeyError, "Wrong": Wrong}
    return kinds.get(head["error"], Failed)(head["told"])


def _answer(content: dict[str, Any]) -> Answer:
    return Answer(encoded(content))


def _brief(correction: Correction) -> dict[str, Any]:
    """Without most of its text, which may be long."""
    data = correction.data()
    view = mention_view(data.pop("text"), correction.start, correction.end, NEAR)
    return {**data, "mention": correction.mention, "context": evidence(view)}
