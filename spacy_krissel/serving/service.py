"""One pipeline for many requests: what waits is linked together, and a correction counts from the next request on."""

import queue
import threading
import warnings
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import asdict, replace
from functools import partial
from itertools import pairwise
from typing import Any, NamedTuple

from spacy.language import Language
from spacy.tokens import Doc

from ..errors import Errors, KrisselError, KrisselWarning, Warnings
from ..kb.prototype_kb import PrototypeKB
from ..mentions.gold_mentions import ID_KEY
from ..ontology.ids import entity_url
from ..pipeline.linker.component import KrisselLinker
from ..pipeline.pipeline_io import find_linker, mention_setters
from ..pipeline.settings import LINKER
from ..render.links import doc_to_dict
from .corrections import Correction, CorrectionLog, last_words

# Documents of different requests that are linked in one batch; requests that may wait, by default.
TOGETHER, WAITING = 64, 256
# Of a request, by default: documents, characters of all its texts, and seconds until it is given up.
MOST_DOCUMENTS, MOST_CHARS, SECONDS = 100, 1_000_000, 30
# Documents after which the vocabulary is as it was.
RENEWED = 1_000
# Of mentions that are given without one: spaCy has none without.
LABEL = "MENTION"
# Entities that a search finds, by default and at most.
FOUND, MOST_FOUND = 10, 100


class Busy(Exception):
    """Too many requests wait, or the service ends."""


class Mention(NamedTuple):
    """Characters `start` to `end` of a text."""

    start: int
    end: int
    label: str = LABEL


class Document(NamedTuple):
    """A text to link. mentions: None lets the pipeline find them."""

    text: str
    id: str = ""
    mentions: tuple[Mention, ...] | None = None


class _Work(NamedTuple):
    """Documents to link, or something else to do between two batches."""

    future: "Future[Any]"
    documents: Sequence[Document] = ()
    task: Callable[[], Any] | None = None


class LinkService:
    """Links documents of many threads by one pipeline, in a thread of its own.

    nlp: the pipeline; nobody else changes it meanwhile. log: where corrections are kept; those in it are in force.
    waiting: requests that may wait.

    Raises KrisselError K610 (no linker), K520 (no knowledge base). Warns KW682 of corrections that do not count, as the
    knowledge base does not hold their entities.
    """

    def __init__(
        self,
        nlp: Language,
        log: CorrectionLog | None = None,
        *,
        name: str = LINKER,
        waiting: int = WAITING,
    ) -> None:
        self.nlp = nlp
        self.log = log or CorrectionLog()
        self.linker: KrisselLinker = find_linker(nlp, name)
        self._setters = mention_setters(nlp)
        self.finds_mentions = bool(self._setters)
        self._base = self.linker.kb.snapshot()
        self._queue: queue.Queue[_Work | None] = queue.Queue()
        self._waiting = threading.Semaphore(waiting)
        self._closed = self._ended = False
        self._lock = threading.Lock()
        if self.log.in_force:
            self.linker.set_kb(self._corrected(self.log.in_force))
        self._thread = threading.Thread(target=self._run, name="krissel-link", daemon=True)
        self._thread.start()

    @property
    def kb(self) -> PrototypeKB:
        return self.linker.kb

    def link(self, documents: Sequence[Document]) -> "Future[list[dict[str, Any]]]":
        """Each document as `doc_to_dict` has it, without its text.

        Raises Busy. The future raises KrisselError K682 for a mention that is not in its text, that overlaps another,
        or that nothing would find, and for a text longer than the pipeline takes.
        """
        return self._put(_Work(Future(), documents))

    def correct(self, **values: Any) -> "Future[Correction]":
        """Put a correction (`Correction`) in force, and keep it. Raises Busy; K682 for no mention, or an unknown id."""
        correction = self.log.new(**values)
        if not 0 <= correction.start < correction.end <= len(correction.text) or not correction.mention.strip():
            raise KrisselError(Errors.K682.format(what="The mention", problem="has no place in the text"))
        ids = [self.kb.resolve(id_) for id_ in correction.right]
        if None in ids:
            unknown = correction.right[ids.index(None)]
            raise KrisselError(Errors.K682.format(what=f"'{unknown[:80]}'", problem="is no id of the knowledge base"))
        correction = replace(correction, right=tuple(dict.fromkeys(map(str, ids))))

        def task() -> Correction:
            kb = self._corrected([*self.log.in_force, correction])
            self.log.add(correction)
            self.linker.set_kb(kb)
            return correction

        return self._put(_Work(Future(), task=task))

    def undo(self, id_: str, author: str = "") -> "Future[Correction]":
        """Take a correction back: links are as if it had never been. Raises Busy; the future KeyError for none."""

        def task() -> Correction:
            left = [each for each in self.log.in_force if each.id != id_]
            if len(left) == len(self.log.in_force):
                raise KeyError(id_)
            # Before it is written: what fails leaves all as it was.
            kb = self._corrected(left)
            undone = self.log.undo(id_, author)
            self.linker.set_kb(kb)
            return undone

        return self._put(_Work(Future(), task=task))

    def entity(self, id_: str) -> dict[str, Any]:
        """What the knowledge base holds of an entity. Raises KrisselError K525."""
        entity = self.kb[id_]
        return {**asdict(entity), "url": entity_url(entity.id)}

    def search(self, text: str, k: int = FOUND) -> list[dict[str, Any]]:
        """Entities with a similar name, best first: "id", "name", "types"; the one with that id before all."""
        kb, k = self.kb, min(max(k, 1), MOST_FOUND)
        index = kb.prototypes.lexical_index
        vectors = index.vectors([text])
        rows = index.search(vectors, k)[0]
        rows = rows[rows >= 0]
        similar = index.similarity(vectors, rows * 0, rows)
        ids = [kb.entity_ids[int(row)] for _, row in sorted(zip(-similar, rows.tolist(), strict=True))]
        exact = kb.resolve(text.strip()) if text.strip() else None
        ids = list(dict.fromkeys([*([exact] if exact else []), *ids]))[:k]
        return [{"id": entity.id, "name": entity.name, "types": [*entity.types]} for entity in map(kb.__getitem__, ids)]

    def is_alive(self) -> bool:
        """Whether it links."""
        return not self._closed and self._thread.is_alive()

    def close(self) -> None:
        """End what has begun to wait, and then the thread; new requests are refused."""
        with self._lock:
            if self._closed:
                return
            self._closed = True
            self._queue.put(None)
        self._thread.join()
        self.log.close()

    def _put(self, work: _Work) -> "Future[Any]":
        with self._lock:
            if self._closed or not self._waiting.acquire(blocking=False):
                raise Busy
            self._queue.put(work)
        return work.future

    # Within the thread ---------------------------------------------------------------------------------------------

    def _run(self) -> None:
        while not self._ended:
            # What the vocabulary learns of texts goes with them, now and then: the tokenizer is slow without it.
            with self.nlp.memory_zone():
                n = 0
                while n < RENEWED and not self._ended:
                    n += self._turn()

    def _turn(self) -> int:
        """Do what waits. RETURNS: how many documents that were."""
        waiting = [self._queue.get()]
        with suppress(queue.Empty):
            while True:
                waiting.append(self._queue.get_nowait())
        # They no longer wait. One that was given up still did until now.
        self._waiting.release(len(waiting))
        batch: list[_Work] = []
        for work in waiting:
            is_more = work is not None and work.task is None
            if batch and (not is_more or sum(len(each.documents) for each in batch) >= TOGETHER):
                self._link_all(batch)
                batch = []
            if work is None:
                self._ended = True
            elif work.task is None:
                batch.append(work)
            elif work.future.set_running_or_notify_cancel():
                _settle(work.future, work.task)
        if batch:
            self._link_all(batch)
        return sum(len(work.documents) for work in waiting if work is not None)

    def _link_all(self, batch: list[_Work]) -> None:
        """Link them together, and where that fails each by itself: one request's error is no other's."""
        batch = [work for work in batch if work.future.set_running_or_notify_cancel()]
        try:
            found = iter(self._linked([document for work in batch for document in work.documents]))
        except BaseException as error:
            for work in batch:
                if len(batch) == 1:
                    work.future.set_exception(error)
                else:
                    _settle(work.future, partial(self._linked, work.documents))
            return
        for work in batch:
            work.future.set_result([next(found) for _ in work.documents])

    def _linked(self, documents: Sequence[Document]) -> list[dict[str, Any]]:
        docs = [self._doc(document, number) for number, document in enumerate(documents)]
        given = [document.mentions is not None for document in documents]
        for kind, disabled in ((False, []), (True, self._setters)):
            chosen = [doc for doc, is_given in zip(docs, given, strict=True) if is_given is kind]
            if chosen:
                list(self.nlp.pipe(chosen, disable=disabled))
        found = []
        for doc in docs:
            shown = doc_to_dict(doc, self.linker.cfg["spans_key"])
            del shown["text"]
            found.append(shown)
        return found

    def _doc(self, document: Document, number: int) -> Doc:
        """Raises KrisselError K682."""
        text, mentions, key = document.text, document.mentions, self.linker.cfg["spans_key"]
        problem, spans = None, []
        if len(text) > self.nlp.max_length:
            problem = f"has {len(text):,} characters, and the pipeline takes {self.nlp.max_length:,}"
        elif mentions is None:
            if not self.finds_mentions:
                problem = "has no `mentions`, and no component of the pipeline finds any"
        elif any(not 0 <= mention.start < mention.end <= len(text) for mention in mentions):
            problem = "has a mention outside its text"
        if problem is None:
            doc = self.nlp.make_doc(text)
            # The whole tokens of each.
            found = (doc.char_span(*each, alignment_mode="expand") for each in mentions or ())
            spans = sorted((span for span in found if span is not None), key=lambda span: (span.start, span.end))
            if not key and any(before.end > after.start for before, after in pairwise(spans)):
                problem = "has mentions of the same words"
        if problem is not None:
            what = f"Document {number}" + (f" ('{document.id[:40]}')" if document.id else "")
            raise KrisselError(Errors.K682.format(what=what, problem=problem))
        doc.user_data[ID_KEY] = document.id
        if key and mentions is not None:
            doc.spans[key] = spans
        elif mentions is not None:
            doc.set_ents(spans)
        return doc

    def _corrected(self, corrections: Sequence[Correction]) -> PrototypeKB:
        """The knowledge base that was loaded, with what these say in the end, whatever was in force before."""
        kb = self._base.snapshot()
        kb.attach_encoder(self.linker.encode)
        prototypes, unknown = [], []
        for correction in last_words(corrections):
            ids = [kb.resolve(id_) for id_ in correction.right]
            if None in ids:
                unknown.append(correction.right[ids.index(None)])
            else:
                prototypes += replace(correction, right=tuple(map(str, ids))).prototypes()
        if unknown:
            message = Warnings.KW682.format(n=len(unknown), total=len(corrections), first=unknown[0][:80])
            warnings.warn(message, KrisselWarning, stacklevel=3)
        if prototypes:
            kb.add_gold_prototypes(prototypes)
        return kb


def _settle(future: "Future[Any]", task: Callable[[], Any]) -> None:
    """Whatever a component raises, the thread goes on."""
    try:
        future.set_result(task())
    except BaseException as error:
        future.set_exception(error)
