"""Linking of texts or docs with a pipeline, and output of the links."""

import os
import re
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Literal

import wasabi
from spacy.language import Language
from spacy.tokens import Doc

from ..corpora.doc_bins import read_doc_bins
from ..corpora.text_stream import SUFFIXES, Text, read_texts, text_files
from ..errors import KrisselWarning, Warnings, wrong_setting
from ..mentions.annotations import NIL, spans_of
from ..mentions.gold_mentions import ID_KEY
from ..pipeline.pipeline_io import mention_setters, within_max_length
from ..pipeline.settings import LINKER
from ..render.formats import WRITERS, writer_of
from ..render.formats.corpus_rows import ROW_WRITERS, Rows
from ..render.links import link_rows
from ..util.atomic import atomic_file, check_file
from ..util.outputs import writes
from ..util.progress import progress_bar, reading_bar, size_of
from ..util.settings import OneOf, PositiveInt, checked, describe_type
from .corpus_parts import PART_CHARS
from .linking_workers import LinkingSettings, no_setter, open_linker

COLUMNS_SHOWN = ("mention", "id", "name", "match", "score", "confidence", "alternatives")
Output = Annotated[str | Path, OneOf(lambda: WRITERS, is_ending=True)]
# Settings of a linked corpus, with their defaults.
OF_CORPUS = {"rows": "mention", "candidates": False, "n_process": 1, "ray": None, "restart": False}


class LinkCounts(tuple[int, int]):
    """Numbers of docs and of their mentions. linked: those with an entity; the others are NIL."""

    linked: int

    @classmethod
    def of(cls, docs: int, mentions: int, linked: int) -> "LinkCounts":
        counts = cls((docs, mentions))
        counts.linked = linked
        return counts


@writes("output", parts="format")
@checked
def link(
    pipeline: str | Path,
    texts: str | os.PathLike[str],
    output: Output | Path | None = None,
    *,
    name: str = LINKER,
    index_device: str | None = None,
    batch_size: PositiveInt = 128,
    format: Literal["parquet", "jsonl"] | None = None,
    rows: Literal["mention", "document"] = "mention",
    candidates: bool = False,
    n_process: PositiveInt = 1,
    ray: str | None = None,
    restart: bool = False,
    progress: bool = False,
    part_chars: PositiveInt = PART_CHARS,
) -> LinkCounts | list[dict[str, str]]:
    """Link the mentions of a text, texts or docs.

    pipeline: A pipeline with a linker, and with a component that finds mentions
    texts: A text of several words, in quotes; or a file: docs with mentions (.spacy), or text:
        JSONL, Parquet, PubMed's or BioC's XML, PubTator, plain, .gz; or a folder of them; with
        --format also a glob pattern in quotes
    output: The file to write, in the format that its name ends in, such as .tsv for "krissel
        correct"; without it, the links of a text are printed. With --format a folder
    name: Name of the linker in the pipeline
    index_device: Device of the index: cpu, cuda:0 or cuda:all; default: the pipeline's setting
    batch_size: Number of docs per batch
    format: Write a folder of parts in this format, with a manifest. A run that was interrupted
        resumes when it is started again
    rows: Rows of the parts: one per mention, or one per document with its text and its mentions
    candidates: Write the candidates of each mention into the parts
    n_process: Processes that link, each with one thread; the parts are the same for any number
    ray: Link by Ray: "local" on this machine, or the address of a cluster, as host:port, or auto;
        the files must be on all of its machines
    restart: Discard the parts of an earlier run. Otherwise a run with the same settings, pipeline
        and texts resumes it, and one with others is refused
    part_chars: Characters of the texts of a part

    A doc of a .spacy file keeps its mentions: components that set mentions do not run. A text
    longer than `nlp.max_length` is left out. RETURNS: the numbers of docs and of mentions, and as
    `linked` of those with an entity, or the `link_rows` of a printed text.

    With --format, a damaged file is used up to the damage and named in the manifest. A worker that
    is lost costs its part alone and is replaced (docs/link-a-corpus.md).

    Raises KrisselError K006 (output, batch size), K026 (output), K611, K610, K676 (pipeline), K603
    (no knowledge base), K247 (dkpro-cassis, for `.xmi.zip`), and those of the readers. A corpus
    adds K005 (output is something else), K023 to K025, K029 (Ray), K045 (another run writes there),
    K646 (a worker is lost repeatedly), K647 (a run with other input is there), K648 (no file can be
    read). Warns KW620 (texts left out), KW621 (no mention anywhere), KW235 (damaged files).
    """
    given = dict(zip(OF_CORPUS, (rows, candidates, n_process, ray, restart), strict=True))
    if format is not None:
        # It imports torch's loaders.
        from .link_corpus import link_corpus

        settings = LinkingSettings(
            pipeline=str(pipeline),
            name=name,
            batch_size=batch_size,
            format=format,
            rows=Rows(rows, candidates),
            part_chars=part_chars,
            index_device=index_device,
        )
        counts = link_corpus(
            settings,
            os.fspath(texts),
            output,
            n_process=n_process,
            ray=ray,
            restart=restart,
            progress=progress,
        )
        return LinkCounts.of(counts["docs"], counts["mentions"], counts["linked"])
    for setting, default in OF_CORPUS.items():
        if given[setting] != default:
            raise wrong_setting(setting, given[setting], f"{default!r}, without `format`")
    if output is not None and not os.fspath(output).endswith(tuple(WRITERS)):
        expected = f"{describe_type(Output)}; or a folder, with --format {' or '.join(ROW_WRITERS)}"
        raise wrong_setting("output", output, expected)
    # A word with a dot or slash is a file name, existing or not.
    named = str(texts).endswith((".spacy", *SUFFIXES)) or re.fullmatch(r"\S*[./\\]\S*", str(texts))
    is_file = bool(named) or not isinstance(texts, str) or os.path.exists(texts)
    source = Path(texts) if is_file else str(texts)
    if output is None and is_file and not os.path.exists(texts):
        wanted = "a file that is there, or a text of several words"
        raise wrong_setting("texts", texts, wanted)
    if output is None and is_file:
        expected = f"{describe_type(Output)}, for the links of a file (--output links.tsv)"
        raise wrong_setting("output", None, expected)
    write = None if output is None else writer_of(output)
    if output is not None:
        check_file(Path(output))
    docs = LinkedDocs(
        pipeline,
        source,
        name=name,
        index_device=index_device,
        batch_size=batch_size,
        progress=progress,
    )
    if output is None or write is None:
        return [row for doc in docs for row in link_rows(doc, docs.key)]
    with atomic_file(Path(output)) as temporary, temporary.open("wb") as file_:
        write(docs, docs.key, file_)
    return LinkCounts.of(docs.n_docs, docs.n_mentions, docs.n_linked)


class LinkedDocs:
    """The docs of a text, of a file of texts or of a .spacy file, linked during iteration.

    key: their mentions are `doc.spans[key]`, for "" `doc.ents`. n_docs, n_mentions and n_linked:
        counts so far.

    Raises KrisselError K611, K610, K676 (pipeline), and those of the readers. Warns, after the last
    doc, KW620 (texts left out), KW621 (no mention anywhere).
    """

    def __init__(
        self,
        pipeline: str | Path,
        source: Path | str,
        *,
        name: str,
        batch_size: int,
        progress: bool,
        index_device: str | None = None,
    ) -> None:
        is_text = not isinstance(source, Path) or source.suffix != ".spacy"
        if is_text and isinstance(source, Path):
            text_files(source)
        nlp, self.key, self._where, setters = open_linker(pipeline, name, index_device)
        if is_text and not setters:
            raise no_setter(nlp, self._where)
        self.n_docs = self.n_mentions = self.n_linked = 0
        self._nlp, self._read = nlp, (source, batch_size, progress)

    def __iter__(self) -> Iterator[Doc]:
        for doc in _linked(self._nlp, *self._read):
            self.n_docs += 1
            spans = spans_of(doc, self.key)
            self.n_mentions += len(spans)
            self.n_linked += sum(span.kb_id_ not in ("", NIL) for span in spans)
            yield doc
        if self.n_docs and not self.n_mentions:
            found = ", ".join(self._nlp.pipe_names)
            message = Warnings.KW621.format(n_docs=self.n_docs, where=self._where, found=found)
            warnings.warn(message, KrisselWarning, stacklevel=2)


def show_link(found: LinkCounts | list[dict[str, str]], output: Path | None) -> str:
    if isinstance(found, list):
        cells = [
            [" | ".join(row[column].split(" | ")[:2]) for column in COLUMNS_SHOWN] for row in found
        ]
        return str(wasabi.table(cells, header=COLUMNS_SHOWN, max_col=100))
    n_docs, n_mentions = found
    return (
        f"{n_mentions:,} mentions of {n_docs:,} docs in {output}: {found.linked:,} linked, "
        f"{n_mentions - found.linked:,} NIL"
    )


def _linked(nlp: Language, source: Path | str, batch_size: int, progress: bool) -> Iterator[Doc]:
    if isinstance(source, Path) and source.suffix == ".spacy":
        # Read twice, since docs may not fit into memory.
        total = sum(1 for _ in read_doc_bins(source, nlp.vocab)) if progress else None
        with nlp.select_pipes(disable=mention_setters(nlp)):
            linked = nlp.pipe(read_doc_bins(source, nlp.vocab), batch_size=batch_size)
            yield from progress_bar(
                linked, show=progress, total=total, desc="Linking", unit=" docs"
            )
        return
    texts = [Text("", source, "", 1)] if isinstance(source, str) else read_texts(source)
    read = within_max_length(nlp, texts, lambda text: (text.text, text.id))
    stream = ((text.text, text.id) for text in read)
    piped = nlp.pipe(stream, as_tuples=True, batch_size=batch_size)
    files, show = ([], False) if isinstance(source, str) else ([source], progress)
    for doc, id_ in reading_bar(piped, size_of(files), show=show, unit=" docs", desc="Linking"):
        doc.user_data[ID_KEY] = id_
        yield doc
