"""Entities in texts without mentions, and the tokens that say so."""

from pathlib import Path

from spacy.tokens import Doc

from ..errors import Errors, KrisselError
from ..pipeline.pipeline_io import find_kb_pipe, load_pipeline, of_length
from ..render.page import save_rendering
from ..util.atomic import check_file


def extract(
    pipeline: Path, texts: list[str], *, output: Path | None = None, name: str = "krissel_span_extractor"
) -> list[Doc]:
    """Find the entities in texts, most probable first, each with the fragments of the text that say so.

    pipeline: A pipeline with a span extractor and its knowledge base
    texts: A text, or several in quotes
    output: Draw the entities to this .html file, or those of one text to this .svg file
    name: Name of the extractor in the pipeline

    Raises KrisselError K006 and K026 (output), K610, K611 (pipeline).
    """
    # Before anything is loaded.
    if output is not None and not (output.suffix == ".html" or (output.suffix == ".svg" and len(texts) == 1)):
        expected = "a path that ends in .html, or in .svg for one text"
        raise KrisselError(Errors.K006.format(setting="output", found=str(output), expected=expected))
    if output is not None:
        check_file(output)
    nlp = load_pipeline(pipeline)
    key = find_kb_pipe(nlp, name).cfg["spans_key"]
    numbered = ((text, f"text {number}") for number, text in enumerate(texts, 1))
    docs = list(nlp.pipe(text for text, _ in of_length(nlp, numbered, lambda pair: pair)))
    for doc in docs:
        doc.spans.setdefault(key, [])
    if output is not None and docs:
        save_rendering(docs[0] if output.suffix == ".svg" else docs, key, output)
    return docs


def show_extract(docs: list[Doc], output: Path | None) -> str:
    lines = []
    for doc in docs:
        lines.append(doc.text)
        for entity in doc._.krissel_entities:
            fragments = " … ".join(doc[start:end].text for start, end in entity["pieces"])
            lines.append(f"  {entity['score']:.2f}  {entity['id']}  {entity['name']}: {fragments or '(no tokens)'}")
        if not doc._.krissel_entities:
            lines.append("  nothing found")
    return "\n".join([*lines, *([f"Drawn: {output}"] if output is not None and docs else [])])
