"""`krissel psytar-names`: an ontology of PsyTAR's concepts, by the names that are at hand."""

from pathlib import Path
from typing import List, Optional, Tuple

import typer

from ..app import lab


@lab.command("psytar-names")
def psytar_names_cli(
    workbook: Path = typer.Argument(..., help="PsyTAR's workbook (.xlsx)"),
    output: Path = typer.Option(..., "--output", "-o", help="The .jsonl file to write, for `krissel ontology`"),
    train: Optional[Path] = typer.Option(None, help="train.spacy of `krissel text-split`: its phrases become names"),
    hpo: Optional[Path] = typer.Option(None, help="HPO (.obo, .gz too): names of terms with a CUI among their xrefs"),
    lay: Optional[Path] = typer.Option(None, help="HPO's table of lay synonyms"),
    phrases: bool = typer.Option(True, help="Take the training phrases as names"),
) -> None:
    """Collect the names of PsyTAR's concepts: UMLS's and SNOMED CT's of the workbook, HPO's, and training phrases."""
    from spacy_krissel.evaluation.tables import markdown_table

    from ..data.psytar_names import psytar_names

    report = psytar_names(workbook, output, train=train, hpo=hpo, lay=lay, phrases=phrases)
    added = ", ".join(f"{number:,} of {source}" for source, number in report["added"].items())
    typer.echo(f"{report['entities']:,} entities, {report['in_hpo']:,} of them in HPO; names: {added}")
    typer.echo(f"{report['shared_names']:,} names are shared by several entities\n")
    rows: List[Tuple[str, ...]] = [("entities", "all", "1 name", "2 names", "3 or more", "names an entity")]
    for part in ("seen", "unseen"):
        figures = report[part]
        mean = "–" if figures["names"] is None else f"{figures['names']:.1f}"
        rows.append((part, *(f"{figures[key]:,}" for key in ("entities", "1", "2", "3+")), mean))
    typer.echo(markdown_table(rows))
    typer.echo(f"\nOntology: {output}")
