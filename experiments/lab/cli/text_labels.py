"""`psytar`: PsyTAR's workbook as texts with entities."""

from pathlib import Path

import typer

from ..app import lab


@lab.command("psytar")
def psytar_cli(
    source: Path = typer.Argument(..., help="PsyTAR's workbook (.xlsx)"),
    output: Path = typer.Option(..., "--output", "-o", help="The .spacy file to write"),
) -> None:
    """Convert PsyTAR's sentences to docs with document-level entity labels, its phrases aligned to them."""
    from ..data.psytar import convert_psytar

    report = convert_psytar(source, output, progress=True)
    for name, count in report.to_dict()["counts"].items():
        typer.echo(f"{name}: {count}")
