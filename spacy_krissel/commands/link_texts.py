"""Linking of texts or docs with a pipeline, and output of the links."""

import os
import re
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import wasabi
from spacy.language import Language
from spacy.tokens import Doc

from ..corpora.doc_bins import read_doc_bins
from ..corpora.text_stream import SUFFIXES, Text, read_texts, text_files
from ..errors import Errors, KrisselError, KrisselWarning, Warnings, wrong_setting
from ..mentions.annotations import spans_of
from ..mentions.gold_mentions import ID_KEY
from ..pipeline.pipeline_io import find_linker, load_pipeline, mention_setters, within_max_length
from ..pipeline.settings import LINKER
from ..render.formats import WRITERS, writer_of
from ..render.links import link_rows
from ..util.atomic import atomic_file, check_file
from ..util.outputs import writes
from ..util.progress import progress_bar, reading_bar, size_of
from ..util.settings import OneOf, PositiveInt, checked, describe_type

COLUMNS_SHOWN = ("mention", "id", "name", "match", "score", "confidence", "alternatives")
Output = Annotated[str | Path, OneOf(lambda: WRITERS, is_ending=True)]


@writes("output")
@checked
def link(
    pipeline: str | Path,
    texts: str | os.PathLike[str],
    output: Output | None = None,
    *,
    name: str = LINKER,
    index_device: str | None = None,
    batch_size: PositiveInt = 128,
    progress: bool = False,
) -> tuple[int, int] | list[dict[str, str]]:
    """Link the mentions of a text, texts or docs.

    pipeline: A pipeline with a linker, and with a component that finds mentions
    texts: A text in quotes; or a file: docs with mentions (.spacy), or text: JSONL, PubTator,
        plain, .gz
    output: The file to write, in the format that its name ends in, such as .tsv for "krissel
        correct"; without it, the links of a text are printed
    name: Name of the linker in the pipeline
    index_device: Device of the index: cpu, cuda:0 or cuda:all; default: the pipeline's setting
    batch_size: Number of docs per batch

    A doc of a .spacy file keeps its mentions: components that set mentions do not run. A text
    longer than `nlp.max_length` is left out. RETURNS: the numbers of docs and of mentions, or the
    `link_rows` of a printed text.

    Raises KrisselError K006 (output, batch size), K026 (output), K611, K610, K676 (pipeline), K603
    (no knowledge base), K247 (dkpro-cassis, for `.xmi.zip`), and those of the readers. Warns KW620
    (texts left out), KW621 (no mention anywhere).
    """
    # A word with a dot or slash is a file name, existing or not.
    named = str(texts).endswith((".spacy", *SUFFIXES)) or re.fullmatch(r"\S*[./\\]\S*", str(texts))
    is_file = bool(named) or not isinstance(texts, str) or os.path.exists(texts)
    source = Path(texts) if is_file else str(texts)
    if output is None and is_file and not os.path.exists(texts):
        wanted = "a file that is there, or a text of several words"
        raise wrong_setting("texts", str(texts), wanted)
    if output is None and is_file:
        raise wrong_setting("output", None, describe_type(Output))
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
    return docs.n_docs, docs.n_mentions


class LinkedDocs:
    """The docs of a text, of a file of texts or of a .spacy file, linked during iteration.

    key: their mentions are `doc.spans[key]`, for "" `doc.ents`. n_docs, n_mentions: counts so far.

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
        nlp = load_pipeline(pipeline, index_device=index_device)
        self.key = find_linker(nlp, name).cfg["spans_key"]
        if name not in nlp.pipe_names:
            nlp.enable_pipe(name)
        self._where = f"doc.spans['{self.key}']" if self.key else "doc.ents"
        # A component without `assigns` may set mentions too.
        setters = mention_setters(nlp) or [
            pipe for pipe in nlp.pipe_names if not nlp.get_pipe_meta(pipe).assigns
        ]
        if is_text and not setters:
            raise KrisselError(
                Errors.K676.format(found=", ".join(nlp.pipe_names), where=self._where)
            )
        self.n_docs = self.n_mentions = 0
        self._nlp, self._read = nlp, (source, batch_size, progress)

    def __iter__(self) -> Iterator[Doc]:
        for doc in _linked(self._nlp, *self._read):
            self.n_docs += 1
            self.n_mentions += len(spans_of(doc, self.key))
            yield doc
        if self.n_docs and not self.n_mentions:
            found = ", ".join(self._nlp.pipe_names)
            message = Warnings.KW621.format(n_docs=self.n_docs, where=self._where, found=found)
            warnings.warn(message, KrisselWarning, stacklevel=2)


def show_link(found: tuple[int, int] | list[dict[str, str]], output: Path | None) -> str:
    if isinstance(found, list):
        cells = [
            [" | ".join(row[column].split(" | ")[:2]) for column in COLUMNS_SHOWN] for row in found
        ]
        return str(wasabi.table(cells, header=COLUMNS_SHOWN, max_col=100))
    return f"{found[1]} mentions of {found[0]} docs linked in {output}"


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
