"""`krissel encoder`: the transformer of a trained pipeline, for other configs to start from."""

from pathlib import Path
from typing import Optional

import typer

from .app import krissel


@krissel.command("encoder")
def encoder_cli(
    pipeline: Path = typer.Argument(..., help="A trained pipeline whose linker has a transformer"),
    output: Path = typer.Argument(..., help="Directory to write: config, tokenizer and model.safetensors"),
    average_with: Optional[str] = typer.Option(None, help="Average the weights with those of this transformer"),
    share: Optional[float] = typer.Option(
        None, min=0, max=1, help="Share of the trained weights in the average; 0.5 unless given"
    ),
    name: str = typer.Option("krissel_linker", help="Name of the linker in the pipeline"),
) -> None:
    """Write the encoder of mentions or names as a transformer: give its directory as --paths.encoder.

    Averaged with the transformer that it was trained from, it keeps more of what that one knew.
    """
    from ..commands.export_encoder import export_encoder

    if share is not None and average_with is None:
        raise typer.BadParameter("--share is of an average: give --average-with, too")
    export_encoder(pipeline, output, name=name, average=average_with, share=0.5 if share is None else share)
    typer.echo(f"Encoder written to {output}")
