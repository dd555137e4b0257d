"""`krissel encoder`: the transformer of a trained pipeline, for other configs to start from."""

from pathlib import Path

import typer

from .app import coded_errors, krissel


@krissel.command("encoder")
def encoder_cli(
    pipeline: Path = typer.Argument(..., help="A trained pipeline whose linker has a transformer"),
    output: Path = typer.Argument(..., help="Directory to write: config, tokenizer and model.safetensors"),
    name: str = typer.Option("krissel_linker", help="Name of the linker in the pipeline"),
) -> None:
    """Write the encoder of mentions or names as a transformer: give its directory as --paths.encoder."""
    from ..pipeline.encoder import export_encoder

    with coded_errors():
        export_encoder(pipeline, output, name=name)
    typer.echo(f"Encoder written to {output}")
