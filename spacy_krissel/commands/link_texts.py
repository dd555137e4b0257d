"""Run a pipeline over text or docs and write what it linked."""

import json
import warnings
from collections.abc import Iterator
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
from ..pipeline.settings import LINKER
from ..util.atomic import atomic_file, check_file
from ..util.progress import progress_bar, reading_bar, size_of
from ..util.settings import PositiveInt, checked


@checked
def link(
    pipeline: str | Path,
    texts: str | Path,
    output: str | Path,
    *,
    name: str = LINKER,
    batch_size: PositiveInt = 128,
    progress: bool = False,
) -> tuple[int, int]:
    """Link the mentions of texts or docs.

    pipeline: A pipeline with a linker, and with a component that finds mentions
    texts: Docs with mentions (.spacy), or text: JSONL, plain, .gz
    output: The .jsonl (an object per doc) or .spacy file to write
    name: Name of the linker in the pipeline
    batch_size: Number of docs per batch

    A doc of a .spacy file keeps its mentions: components that would set others do not run on it. A text longer than
    `nlp.max_length` is left out. The output is written atomically. RETURNS: the numbers of docs and of mentions.

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
    # A component without `assigns` may set mentions too.
    setters = mention_setters(nlp) or [pipe for pipe in nlp.pipe_names if not nlp.get_pipe_meta(pipe).assigns]
    if texts.suffix != ".spacy" and not setters:
        raise KrisselError(Errors.K676.format(found=", ".join(nlp.pipe_names), where=where))
    n_docs = n_mentions = 0
    packed = DocBin(store_user_data=True)
    with atomic_file(output) as temporary, temporary.open("wb") as file_:
        for doc in _linked(nlp, texts, batch_size, progress):
            n_docs += 1
            n_mentions += len(spans_of(doc, key))
            if output.suffix == ".spacy":
                packed.add(doc)
            else:
                line = json.dumps(doc_to_dict(doc, key), ensure_ascii=False) + "\n"
                file_.write(line.encode())
        if output.suffix == ".spacy":
            file_.write(packed.to_bytes())
    if n_docs and not n_mentions:
        message = Warnings.KW621.format(n_docs=n_docs, where=where, found=", ".join(nlp.pipe_names))
        warnings.warn(message, KrisselWarning, stacklevel=2)
    return n_docs, n_mentions


def show_link(found: tuple[int, int], output: Path) -> str:
    n_docs, n_mentions = found
    return f"{n_mentions} mentions of {n_docs} docs linked in {output}"


def _linked(nlp: Language, texts: Path, batch_size: int, progress: bool) -> Iterator[Doc]:
    if texts.suffix == ".spacy":
        docs = list(read_doc_bins(texts, nlp.vocab))
        with nlp.select_pipes(disable=mention_setters(nlp)):
            linked = nlp.pipe(docs, batch_size=batch_size)
            yield from progress_bar(linked, show=progress, total=len(docs), desc="Linking", unit=" docs")
        return
    read = of_length(nlp, read_texts(texts), lambda text: (text.text, text.id))
    stream = ((text.text, text.id) for text in read)
    piped = nlp.pipe(stream, as_tuples=True, batch_size=batch_size)
    for doc, id_ in reading_bar(piped, size_of([texts]), show=progress, unit=" docs", desc="Linking"):
        doc.user_data[ID_KEY] = id_
        yield doc


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
