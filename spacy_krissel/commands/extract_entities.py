"""Extraction of the entities of texts without mentions, and drawings of the tokens that refer to
them."""

from pathlib import Path

from spacy.tokens import Doc

from ..errors import wrong_setting
from ..pipeline.pipeline_io import find_kb_pipe, load_pipeline, within_max_length
from ..render.svg import render_page, render_svg
from ..util.atomic import check_file, write_text
from ..util.outputs import writes


@writes("output")
def extract(
    pipeline: Path,
    texts: list[str],
    *,
    output: Path | None = None,
    name: str = "krissel_span_extractor",
) -> list[Doc]:
    """Find entities in texts without mentions, and draw them.

    pipeline: A pipeline with a span extractor and its knowledge base
    texts: A text, or several in quotes
    output: Draw the entities to this .html file, or those of one text to this .svg file
    name: Name of the extractor in the pipeline

    Raises KrisselError K006 and K026 (output), K610, K611 (pipeline).
    """
    if output is not None:
        if not (output.suffix == ".html" or (output.suffix == ".svg" and len(texts) == 1)):
            expected = "a path that ends in .html, or in .svg for one text"
            raise wrong_setting("output", output, expected)
        check_file(output)
    nlp = load_pipeline(pipeline)
    key = find_kb_pipe(nlp, name).cfg["spans_key"]
    numbered = ((text, f"text {number}") for number, text in enumerate(texts, 1))
    docs = list(nlp.pipe(text for text, _ in within_max_length(nlp, numbered, lambda pair: pair)))
    for doc in docs:
        doc.spans.setdefault(key, [])
    if output is not None and docs:
        is_page = output.suffix == ".html"
        write_text(
            output,
            render_page(docs, key, title=output.stem) if is_page else render_svg(docs[0], key),
        )
    return docs


def show_extract(docs: list[Doc], output: Path | None) -> str:
    lines = []
    for doc in docs:
        found = []
        for entity in doc._.krissel_entities:
            fragments = " … ".join(doc[start:end].text for start, end in entity["fragments"])
            found.append(
                f"  {entity['score']:.2f}  {entity['id']}  {entity['name']}: "
                f"{fragments or '(no tokens)'}"
            )
        lines += [doc.text, *(found or ["  nothing found"])]
    if output is not None and docs:
        lines.append(f"Drawn: {output}")
    return "\n".join(lines)
