"""`krissel link`: run a pipeline over text and write its links."""

from pathlib import Path

import typer

from .app import krissel


@krissel.command("link")
def link_cli(
    pipeline: Path = typer.Argument(..., help="A pipeline with a linker, and with a component that finds mentions"),
    texts: Path = typer.Argument(..., help="Docs with mentions (.spacy), or text: JSONL, plain, .gz"),
    output: Path = typer.Option(..., "--output", "-o", help="The .jsonl or .spacy file to write"),
    name: str = typer.Option("krissel_linker", help="Name of the linker in the pipeline"),
    batch_size: int = typer.Option(128, min=1, help="Docs at once"),
    gpu_id: int = typer.Option(-1, "--gpu-id", "-g", min=-1, help="GPU, or -1 for the CPU"),
) -> None:
    """Link the mentions of docs or texts; one JSON object a doc, or docs with kb_id_ set."""
    from ..commands.link_texts import link
    from ..pipeline.pipeline_io import choose_gpu

    choose_gpu(gpu_id)
    n_docs, n_mentions = link(pipeline, texts, output, name=name, batch_size=batch_size, progress=True)
    typer.echo(f"{n_mentions} mentions of {n_docs} docs linked in {output}")
