"""`krissel text-labels`: texts with the entities they speak of, to .spacy files."""

from pathlib import Path

import typer

from .app import krissel


@krissel.command("text-labels")
def text_labels_cli(
    source: Path = typer.Argument(..., help="JSON lines of texts and entities (.gz too)"),
    output: Path = typer.Option(..., "--output", "-o", help="The .spacy file to write"),
    lang: str = typer.Option("en", help="Language of the tokenizer"),
) -> None:
    """Convert texts to docs with text-level labels, and with the mentions' places where these are known.

    A line of JSON is {"id", "text", "entities": [{"id", "spans": [[start, end], …]}, …]}.
    """
    from ..corpora.convert import convert

    report = convert(source, output, format="text-labels", lang=lang, progress=True)
    for name, count in report.to_dict()["counts"].items():
        typer.echo(f"{name}: {count}")
