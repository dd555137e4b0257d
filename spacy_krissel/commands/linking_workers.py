"""A worker that links parts of a corpus."""

import io
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, nullcontext
from itertools import islice
from typing import Any, NamedTuple

from spacy.language import Language
from spacy.tokens import Doc, DocBin

from ..corpora.text_stream import Text
from ..errors import Errors, KrisselError
from ..mentions.annotations import NIL
from ..mentions.gold_mentions import ID_KEY
from ..mining.reading import Unit
from ..pipeline.pipeline_io import (
    MAX_IDS,
    find_linker,
    load_pipeline,
    mention_setters,
    pipeline_hash,
)
from ..render.formats.corpus_rows import ROW_WRITERS, Rows
from ..util.memory import trim_heap
from .corpus_parts import Part, parts_of

# Parts read before the first memory zone: the tokenizer caches words only outside of zones, and is
# several times slower without its cache.
WARMUP_PARTS = 2
# Without a trim, the free memory between what is kept grows by tens of MB per 1,000 docs.
DOCS_PER_TRIM = 500


class LinkingSettings(NamedTuple):
    """Settings that the content of parts depends on, and the device of the index. pipeline_hash: of
    the pipeline's files (`pipeline_io.pipeline_hash`)."""

    pipeline: str
    name: str
    batch_size: int
    format: str
    rows: Rows
    part_chars: int
    index_device: str | None
    pipeline_hash: str = ""


class Request(NamedTuple):
    """A part to link. part: as read by the sender; None: the worker reads the unit."""

    unit: int
    files: Unit
    number: int
    part: Part | None

    @property
    def title(self) -> str:
        return f"part {self.number + 1} of {self.files[0]}"


class Linked(NamedTuple):
    """A linked part: its file's content, and the record of it. content: b"" without a document."""

    content: bytes
    record: dict[str, Any]


def open_linker(
    pipeline: Any, name: str, index_device: str | None
) -> tuple[Language, str, str, list[str]]:
    """Load a pipeline with its linker enabled.

    RETURNS: the pipeline, the key of the spans that it links, "" for `doc.ents`, their name in
        messages, and the components that may set them.

    Raises KrisselError K611, K610.
    """
    nlp = load_pipeline(pipeline, index_device=index_device)
    key = find_linker(nlp, name).cfg["spans_key"]
    if name not in nlp.pipe_names:
        nlp.enable_pipe(name)
    # A component without `assigns` may set mentions too.
    setters = mention_setters(nlp) or [
        pipe for pipe in nlp.pipe_names if not nlp.get_pipe_meta(pipe).assigns
    ]
    return nlp, key, f"doc.spans['{key}']" if key else "doc.ents", setters


def no_setter(nlp: Language, where: str) -> KrisselError:
    return KrisselError(Errors.K676.format(found=", ".join(nlp.pipe_names), where=where))


def start_linking(settings: LinkingSettings) -> "PartLinker":
    """Load the pipeline in a worker."""
    return PartLinker(settings)


class PartLinker:
    """Links the part of a request.

    A part's content depends on its texts alone: they are the only ones in their batches, and all
    is computed by one thread. Raises KrisselError K649 if the pipeline's files changed.
    """

    def __init__(self, settings: LinkingSettings) -> None:
        if pipeline_hash(settings.pipeline) != settings.pipeline_hash:
            raise KrisselError(Errors.K649.format(path=settings.pipeline))
        self._settings = settings
        self._nlp, self._key, self._where, self._setters = open_linker(
            settings.pipeline, settings.name, settings.index_device
        )
        self._n_linked = 0
        # Parts of the unit that is being read, and the place of the next one.
        self._parts: Iterator[Part] = iter(())
        self._next = (-1, 0)

    def __call__(self, request: Request) -> Linked:
        part = self._read(request) if request.part is None else request.part
        record: dict[str, Any] = {
            "is_last": part.is_last,
            "n_read": part.n_read,
            "report": part.report,
            "damaged": part.damaged,
            "docs": 0,
            "mentions": 0,
            "linked": 0,
            "long": 0,
            "long_ids": [],
            "about": {
                "limit": self._nlp.max_length,
                "where": self._where,
                "found": ", ".join(self._nlp.pipe_names),
            },
        }
        content = io.BytesIO()
        if part.n_docs:
            # After the first parts, words of a part are freed with it.
            is_cold = self._n_linked < WARMUP_PARTS
            zone = nullcontext() if is_cold else self._nlp.memory_zone()
            with one_thread(), zone:
                self._write(part, record, content)
            self._n_linked += 1
            trim_heap()
        return Linked(content.getvalue() if record["docs"] else b"", record)

    def _read(self, request: Request) -> Part:
        if self._next != (request.unit, request.number):
            parts = parts_of(request.files, self._settings.part_chars)
            self._parts = islice(parts, request.number, None)
        self._next = (request.unit, request.number + 1)
        return next(self._parts)

    def _write(self, part: Part, record: dict[str, Any], content: io.BytesIO) -> None:
        rows = self._settings.rows
        write = ROW_WRITERS[self._settings.format]
        write(self._rows(self._linked(part, record), record), rows.schema(), content)

    def _rows(self, docs: Iterable[Doc], record: dict[str, Any]) -> Iterator[dict[str, Any]]:
        rows = self._settings.rows
        for number, doc in enumerate(docs, 1):
            if number % DOCS_PER_TRIM == 0:
                trim_heap()
            found = rows.of(doc, self._key)
            mentions = found if rows.per == "mention" else found[0]["mentions"]
            record["docs"] += 1
            record["mentions"] += len(mentions)
            record["linked"] += sum(each["id"] not in ("", NIL) for each in mentions)
            yield from found

    def _linked(self, part: Part, record: dict[str, Any]) -> Iterator[Doc]:
        batch_size = self._settings.batch_size
        if isinstance(part.texts, bytes):
            docs = DocBin().from_bytes(part.texts).get_docs(self._nlp.vocab)
            with self._nlp.select_pipes(disable=mention_setters(self._nlp)):
                yield from self._nlp.pipe(docs, batch_size=batch_size)
            return
        if not self._setters:
            raise no_setter(self._nlp, self._where)
        stream = ((each.text, each.id) for each in self._short(part.texts, record))
        for doc, id_ in self._nlp.pipe(stream, as_tuples=True, batch_size=batch_size):
            doc.user_data[ID_KEY] = id_
            yield doc

    def _short(self, texts: list[Text], record: dict[str, Any]) -> Iterator[Text]:
        for text in texts:
            if len(text.text) <= self._nlp.max_length:
                yield text
            else:
                record["long"] += 1
                record["long_ids"] = [*record["long_ids"], text.id][:MAX_IDS]


@contextmanager
def one_thread() -> Iterator[None]:
    """Compute with one thread in this block: sums of several differ in their last bits."""
    from threadpoolctl import threadpool_limits

    torch: Any = sys.modules.get("torch")
    n_threads = torch.get_num_threads() if torch else 1
    try:
        with threadpool_limits(1):
            if torch:
                torch.set_num_threads(1)
            yield
    finally:
        if torch:
            torch.set_num_threads(n_threads)
