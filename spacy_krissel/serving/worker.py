"""Worker process that loads a pipeline and answers batches of requests until it is killed or its
connection is closed."""

import ctypes
import gc
import json
import multiprocessing
import multiprocessing.connection
import os
import signal
import sys
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, NamedTuple

from ..pipeline.pipeline_io import choose_gpu, load_pipeline
from . import agents
from .bounds import Bounds
from .corrected import LABEL, CorrectedLinker, Document, Mention
from .corrections import Correction
from .messages import Message, receive, send
from .tokens import n_cut
from .tool_requests import PredictionIn, TasksIn
from .tools import Suggestions, Tasks

# Number of documents per memory zone, after which the vocabulary is reset, and of characters read
# before the first zone, whose words stay cached.
DOCS_PER_ZONE, WARMUP_CHARS = 1_000, 1_000_000
# Linux only: a signal when the parent ends, delivered even while C code runs.
PR_SET_PDEATHSIG = 1


def answer_requests(connection: Connection, linker: CorrectedLinker) -> None:
    """Answer batches of requests until the connection is closed. Failures are answered too, and do
    not end the loop.

    Each request has one answer, in any order, with its number.
    """
    with suppress(EOFError, OSError):
        send(connection, Message.of(linker.about()))
        chars = 0
        while chars < WARMUP_CHARS:
            # The tokenizer caches words only outside of memory zones, and is several times
            # slower without its cache.
            chars += sum(len(document.text) for document in _answer_batch(connection, linker))
        while True:
            # What later texts add to the vocabulary is freed with the zone.
            with linker.nlp.memory_zone():
                n = 0
                while n < DOCS_PER_ZONE:
                    n += len(_answer_batch(connection, linker))


def run(
    connection: Connection,
    pipeline: str | Path,
    name: str,
    gpu_id: int,
    index_device: str | None,
    bounds: Bounds,
    vectors: Path | None,
) -> None:
    _end_with_parent()
    # These signals are for the parent, which closes the connection when all requests are answered.
    for each in (signal.SIGINT, signal.SIGTERM):
        signal.signal(each, signal.SIG_IGN)
    try:
        # Here, not in the parent: the GPU is chosen per process.
        choose_gpu(gpu_id, silent=True)
        nlp = load_pipeline(pipeline, index_device=index_device)
        linker = CorrectedLinker(nlp, name=name, bounds=bounds, vectors=vectors)
        # Else who asks first waits for what is compiled: seconds, where no earlier process kept it.
        with nlp.memory_zone():
            linker.link([Document("cold", mentions=(Mention(0, 4),))])
    except Exception as error:
        send(connection, Message.of_error(error))
        return
    # Loaded objects stay: exclude them from garbage collection.
    gc.collect()
    gc.freeze()
    answer_requests(connection, linker)


def _end_with_parent() -> None:
    """End this process when its parent ends, even while it works."""
    parent = multiprocessing.parent_process()
    assert parent is not None
    if sys.platform == "linux":
        # No thread runs while the tokenizer does. The parent's thread that started this process
        # counts as the parent.
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    sentinel = parent.sentinel

    def wait() -> None:
        multiprocessing.connection.wait([sentinel])
        os._exit(1)

    threading.Thread(target=wait, daemon=True).start()


class _Request(NamedTuple):
    number: int
    do: str
    values: Any


def _answer_batch(connection: Connection, linker: CorrectedLinker) -> list[Document]:
    """Answer the next batch. RETURNS: the documents that were linked."""
    requests = []
    for head, content in receive(connection):
        values = json.loads(content)
        if head["do"] == "link":
            values = [_document(each) for each in values]
        requests.append(_Request(head["number"], head["do"], values))
    _answer(connection, linker, requests)
    return [document for request in requests if request.do == "link" for document in request.values]


def _document(given: dict[str, Any]) -> Document:
    mentions = given.get("mentions")
    if mentions is not None:
        mentions = tuple(
            Mention(each["start"], each["end"], each.get("label") or LABEL) for each in mentions
        )
    return Document(given["text"], given.get("id", ""), mentions)


def _answer(connection: Connection, linker: CorrectedLinker, batch: Sequence[_Request]) -> None:
    """Send the answers of a batch. If it fails, answer each request separately: an error of one
    does not affect others."""
    try:
        if batch[0].do == "link":
            linked = iter(
                linker.link([document for request in batch for document in request.values])
            )
            found: list[dict[str, Any]] = [
                {"documents": [next(linked) for _ in r.values]} for r in batch
            ]
            for each, request in zip(found, batch, strict=True):
                each["counts"] = _counts(each["documents"], request.values)
        else:
            found = [_DO[batch[0].do](linker, **batch[0].values)]
        answers = []
        for each, request in zip(found, batch, strict=True):
            head = {"number": request.number, "counts": each.pop("counts", {})}
            answers.append(
                Message(head, each["content"]) if "content" in each else Message.of(each, **head)
            )
        if batch[0].do in BOUNDED:
            linker.bounds.check(answer=max(len(answer.content) for answer in answers))
    except BaseException as error:
        if len(batch) == 1:
            send(connection, Message.of_error(error, number=batch[0].number))
        else:
            for request in batch:
                _answer(connection, linker, [request])
        return
    send(connection, *answers)


def _counts(linked: Sequence[dict[str, Any]], documents: Sequence[Document]) -> dict[str, int]:
    """Return the counts of an `Answer`."""
    mentions = sum(len(document["mentions"]) for document in linked)
    return {
        "documents": len(linked),
        "mentions": mentions,
        "cut": sum(n_cut(each.text) for each in documents),
    }


def _suggest(linker: CorrectedLinker, asked: dict[str, Any], as_addresses: bool) -> dict[str, Any]:
    suggestions = Suggestions(PredictionIn.model_validate(asked))
    (document,) = map(_document, suggestions.documents())
    linker.bounds.check(chars=len(document.text))
    linked = linker.link([document])
    return {
        "document": suggestions.answer(linked, as_addresses=as_addresses),
        "counts": _counts(linked, [document]),
    }


def _follow(
    linker: CorrectedLinker, corrections: list[dict[str, Any]], **which: bool
) -> dict[str, Any]:
    # All objects made here stay, and garbage collections would take as long as the rest.
    gc.disable()
    try:
        linker.follow([Correction.from_data(each) for each in corrections], **which)
        gc.freeze()
    finally:
        gc.enable()
    return {}


def _predict(linker: CorrectedLinker, asked: dict[str, Any]) -> dict[str, Any]:
    tasks = Tasks(TasksIn.model_validate(asked))
    linker.bounds.check(documents=len(tasks.texts), chars=sum(map(len, tasks.texts)))
    documents = [Document(text) for text in tasks.texts]
    linked = linker.link(documents)
    return {**tasks.answer(linked), "counts": _counts(linked, documents)}


def _export(
    linker: CorrectedLinker, documents: list[dict[str, Any]], **settings: Any
) -> dict[str, Any]:
    given = [*map(_document, documents)]
    content, mentions = linker.export(given, **settings)
    cut = sum(n_cut(each.text) for each in given)
    return {
        "content": content,
        "counts": {"documents": len(given), "mentions": mentions, "cut": cut},
    }


# Operations whose answers grow with the request.
BOUNDED = ("link", "suggest", "predict", "export", "annotate")
_DO: dict[str, Callable[..., dict[str, Any]]] = {
    "suggest": _suggest,
    "predict": _predict,
    "check": lambda linker, correction: linker.checked(Correction.from_data(correction)).data(),
    "add": lambda linker, correction: linker.add(Correction.from_data(correction)) or {},
    "remove": lambda linker, id_: linker.remove(id_) or {},
    "follow": lambda linker, **values: _follow(linker, **values),
    "export": _export,
    "entity": lambda linker, **values: linker.entity(**values),
    "search": lambda linker, **values: {"entities": linker.search(**values)},
    "annotate": agents.annotate,
    "candidates": agents.candidates,
    "verify": agents.verify,
    "describe": agents.entity,
    "relatives": agents.RELATIVES,
    "warm": lambda linker: agents.warm(linker, agents.RELATIVES),
}
