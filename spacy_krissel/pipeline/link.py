"""Run a pipeline over text or docs and write what it linked."""

import json
import os
from pathlib import Path
from typing import Any, Dict, Iterable, Iterator, Tuple

import spacy
from spacy.language import Language
from spacy.tokens import Doc, DocBin
from tqdm import tqdm

from ..corpora.docs import ID_KEY
from ..corpora.texts import read_texts
from ..errors import Errors, KrisselError
from .annotations import spans_of
from .prototypes import find_linker


def link(
    pipeline: Path,
    texts: Path,
    output: Path,
    *,
    name: str = "krissel_linker",
    batch_size: int = 128,
    progress: bool = False,
) -> Tuple[int, int]:
    """Link `texts` (a .spacy file, or anything `read_texts` takes) and write `output` (.jsonl or .spacy) when all is done.

    A doc of a .spacy file keeps its entities: only the linker runs on it. RETURNS: the numbers of docs and of mentions.
    """
    texts, output = Path(texts), Path(output)
    if output.suffix not in (".jsonl", ".spacy"):
        raise KrisselError(
            Errors.K006.format(setting="output", found=str(output), expected="a path ending in .jsonl or .spacy")
        )
    nlp = spacy.load(pipeline)
    key = find_linker(nlp, name).cfg["spans_key"]
    n_docs = n_mentions = 0
    output.parent.mkdir(parents=True, exist_ok=True)
    temporary = output.with_name(f".{output.name}.tmp")
    writer = _write_jsonl if output.suffix == ".jsonl" else _write_spacy
    counts = [0, 0]
    docs = tqdm(_linked(nlp, texts, name, batch_size), desc="Linking", unit=" docs", disable=not progress)
    writer(_counted(docs, key, counts), temporary, key)
    os.replace(temporary, output)
    n_docs, n_mentions = counts
    return n_docs, n_mentions


def _linked(nlp: Language, texts: Path, name: str, batch_size: int) -> Iterator[Doc]:
    if texts.suffix == ".spacy":
        docs = DocBin().from_disk(texts).get_docs(nlp.vocab)
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
