"""Run a pipeline over text or docs and write what it linked."""

import json
import warnings
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from spacy.language import Language
from spacy.tokens import Doc, DocBin

from ..corpora.doc_bins import read_doc_bins
from ..corpora.text_stream import read_texts, text_files
from ..errors import Errors, KrisselError, KrisselWarning, Warnings
from ..mentions.annotations import spans_of
from ..mentions.gold_mentions import ID_KEY
from ..pipeline.pipeline_io import find_linker, load_pipeline, mention_setters, of_length
from ..util.atomic import atomic_file, check_file
from ..util.progress import progress_bar
from ..util.settings import PositiveInt, checked


@checked
def link(
    pipeline: str | Path,
    texts: str | Path,
    output: str | Path,
    *,
    name: str = "krissel_linker",
    batch_size: PositiveInt = 128,
    progress: bool = False,
) -> tuple[int, int]:
    """Link the mentions of docs or texts; write one JSON object per doc, or docs with kb_id_ set.

    pipeline: A pipeline with a linker, and with a component that finds mentions
    texts: Docs with mentions (.spacy), or text: JSONL, plain, .gz
    output: The .jsonl or .spacy file to write
    name: Name of the linker in the pipeline
    batch_size: Number of docs per batch

    A doc of a .spacy file keeps its mentions: all components run on it but those that would set others. A text longer
    than `nlp.max_length` is left out. The output is written atomically. RETURNS: the numbers of docs and of mentions.

    Raises KrisselError K006 (output, batch size), K026 (output), K611, K610, K676 (pipeline), K603 (no knowledge base),
    and what the readers raise. Warns KW620 (texts left out), KW621 (no mention anywhere).
    """
    texts, output = Path(texts), Path(output)
    if output.suffix not in (".jsonl", ".spacy"):
        raise KrisselError(
            Errors.K006.format(setting="output", found=str(output), expected="a path ending in .jsonl or .spacy")
        )
    check_file(output)
    if texts.suffix != ".spacy":
        text_files(texts)
    nlp = load_pipeline(pipeline)
    key = find_linker(nlp, name).cfg["spans_key"]
    if name not in nlp.pipe_names:
        nlp.enable_pipe(name)
    where = f"doc.spans['{key}']" if key else "doc.ents"
    if texts.suffix != ".spacy":
        _check_finds_mentions(nlp, where)
    writer = _write_jsonl if output.suffix == ".jsonl" else _write_spacy
    counts = [0, 0]
    docs = progress_bar(_linked(nlp, texts, batch_size), show=progress, desc="Linking", unit=" docs")
    with atomic_file(output) as temporary:
        writer(_counted(docs, key, counts), temporary, key)
    n_docs, n_mentions = counts
    if n_docs and not n_mentions:
        message = Warnings.KW621.format(n_docs=n_docs, where=where, found=", ".join(nlp.pipe_names))
        warnings.warn(message, KrisselWarning, stacklevel=2)
    return n_docs, n_mentions


def show_link(found: tuple[int, int], output: Path) -> str:
    n_docs, n_mentions = found
    return f"{n_mentions} mentions of {n_docs} docs linked in {output}"


def _check_finds_mentions(nlp: Language, where: str) -> None:
    # What a component of somebody's own sets is not known where it does not say it.
    unknown = [name for name in nlp.pipe_names if not nlp.get_pipe_meta(name).assigns]
    if not mention_setters(nlp) and not unknown:
        raise KrisselError(Errors.K676.format(found=", ".join(nlp.pipe_names), where=where))


def _linked(nlp: Language, texts: Path, batch_size: int) -> Iterator[Doc]:
    if texts.suffix == ".spacy":
        docs = read_doc_bins(texts, nlp.vocab)
        with nlp.select_pipes(disable=mention_setters(nlp)):
            yield from nlp.pipe(docs, batch_size=batch_size)
        return
    read = of_length(nlp, read_texts(texts), lambda text: (text.text, text.id))
    stream = ((text.text, text.id) for text in read)
    for doc, id_ in nlp.pipe(stream, as_tuples=True, batch_size=batch_size):
        doc.user_data[ID_KEY] = id_
        yield doc


def _counted(docs: Iterable[Doc], key: str, counts: list) -> Iterator[Doc]:
    for doc in docs:
        counts[0] += 1
        counts[1] += len(spans_of(doc, key))
        yield doc


def _write_jsonl(docs: Iterable[Doc], path: Path, key: str) -> None:
    with path.open("w", encoding="utf8") as file_:
        for doc in docs:
            file_.write(json.dumps(doc_to_dict(doc, key), ensure_ascii=False) + "\n")


def _write_spacy(docs: Iterable[Doc], path: Path, key: str) -> None:
    path.write_bytes(DocBin(docs=docs, store_user_data=True).to_bytes())


def doc_to_dict(doc: Doc, spans_key: str = "") -> dict[str, Any]:
    """A linked doc as JSON: its id and text, and each mention with its link and candidates."""
    mentions = [
        {
            "start": span.start_char,
            "end": span.end_char,
            "text": span.text,
            "label": span.label_,
            "kb_id": span.kb_id_,
            "candidates": span._.krissel_candidates,
        }
        for span in spans_of(doc, spans_key)
    ]
    return {"id": doc.user_data.get(ID_KEY, ""), "text": doc.text, "mentions": mentions}
