"""`krissel extract`: the entities that texts speak of, and their tokens."""

from pathlib import Path
from typing import List, Optional

import typer

from .app import krissel


@krissel.command("extract")
def extract_cli(
    pipeline: Path = typer.Argument(..., help="A pipeline with a span extractor and its knowledge base"),
    texts: List[str] = typer.Argument(..., help="A text, or several in quotes"),
    output: Optional[Path] = typer.Option(
        None, "--output", "-o", help="Draw them to this .html file, or one text to this .svg file"
    ),
    name: str = typer.Option("krissel_span_extractor", help="Name of the extractor in the pipeline"),
    gpu_id: int = typer.Option(-1, "--gpu-id", "-g", min=-1, help="GPU, or -1 for the CPU"),
) -> None:
    """Find the entities that texts speak of, most probable first, each with the pieces of text that say so."""
    from ..errors import Errors, KrisselError
    from ..pipeline.pipeline_io import choose_gpu, find_kb_pipe, load_pipeline, of_length
    from ..render.page import save_rendering
    from ..util.atomic import check_file

    choose_gpu(gpu_id)
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
        typer.echo(doc.text)
        for entity in doc._.krissel_entities:
            pieces = " … ".join(doc[start:end].text for start, end in entity["pieces"])
            typer.echo(f"  {entity['score']:.2f}  {entity['id']}  {entity['name']}: {pieces or '(no tokens)'}")
        if not doc._.krissel_entities:
            typer.echo("  nothing found")
            doc.spans.setdefault(key, [])
    if output is not None and docs:
        save_rendering(docs[0] if output.suffix == ".svg" else docs, key, output)
        typer.echo(f"Drawn: {output}")
