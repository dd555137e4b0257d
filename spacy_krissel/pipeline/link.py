"""Run a pipeline over text or docs and write what it linked."""

import json
import os
from pathlib import Path
from typing import Any, Dict, Iterable, Iterator, Tuple

from spacy.language import Language
from spacy.tokens import Doc, DocBin

from ..corpora.doc_bins import read_doc_bins
from ..corpora.gold_mentions import ID_KEY
from ..corpora.texts import read_texts
from ..errors import Errors, KrisselError
from ..util.progress import progress_bar
from .annotations import spans_of
from .find import find_linker
from .load import load_pipeline


def link(
    pipeline: Path,
    texts: Path,
    output: Path,
    *,
    name: str = "krissel_linker",
    batch_size: int = 128,
    progress: bool = False,
) -> Tuple[int, int]:
    """Link `texts` (a .spacy file, or anything `read_texts` takes) to `output` (.jsonl or .spacy), whole or not at all.

    A doc of a .spacy file keeps its entities: only the linker runs on it. RETURNS: the numbers of docs and of mentions.
    Raises KrisselError K006 (output), K611, K610 (pipeline), K603 (no knowledge base), and what the readers raise.
    """
    texts, output = Path(texts), Path(output)
    if output.suffix not in (".jsonl", ".spacy"):
        raise KrisselError(
            Errors.K006.format(setting="output", found=str(output), expected="a path ending in .jsonl or .spacy")
        )
    nlp = load_pipeline(pipeline)
    key = find_linker(nlp, name).cfg["spans_key"]
    output.parent.mkdir(parents=True, exist_ok=True)
    temporary = output.with_name(f".{output.name}.tmp")
    writer = _write_jsonl if output.suffix == ".jsonl" else _write_spacy
    counts = [0, 0]
    docs = progress_bar(_linked(nlp, texts, name, batch_size), show=progress, desc="Linking", unit=" docs")
    try:
        writer(_counted(docs, key, counts), temporary, key)
        os.replace(temporary, output)
    finally:
        temporary.unlink(missing_ok=True)
    return counts[0], counts[1]


def _linked(nlp: Language, texts: Path, name: str, batch_size: int) -> Iterator[Doc]:
    if texts.suffix == ".spacy":
        docs = read_doc_bins(texts, nlp.vocab)
        disabled = [pipe for pipe in nlp.pipe_names if pipe != name]
        with nlp.select_pipes(disable=disabled):
            yield from nlp.pipe(docs, batch_size=batch_size)
        return
    stream = ((text.text, text.id) for text in read_texts(texts))
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


def doc_to_dict(doc: Doc, spans_key: str = "") -> Dict[str, Any]:
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
