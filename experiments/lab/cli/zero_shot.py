"""`krissel zero-shot`: a gold corpus in splits that share no entity."""

from pathlib import Path
from typing import List, Optional, Tuple

import typer

from ..app import lab


@lab.command("zero-shot")
def zero_shot_cli(
    gold: List[Path] = typer.Argument(..., help="Gold corpora (.spacy), all of them divided anew"),
    output: Path = typer.Option(..., "--output", "-o", help="Folder for train.spacy, dev.spacy, test.spacy, a report"),
    shares: str = typer.Option("0.8,0.1,0.1", help="Of the documents and of the entities: train,dev,test"),
    seed: int = typer.Option(0, min=0),
    ontology: Optional[Path] = typer.Option(None, help="Ontology store: entities by primary ids"),
    spans_key: str = typer.Option("", help="Gold mentions to count are in doc.spans[spans_key]"),
) -> None:
    """Divide documents and entities: mentions of entities of another split lose their link.

    About the sum of the squared shares of all links is kept: 0.66 with 0.8,0.1,0.1, and 0.34 with 0.4,0.3,0.3.
    """
    from spacy_krissel.evaluation.tables import markdown_table

    from ..data.zero_shot import zero_shot

    report = zero_shot(gold, output, shares=_shares(shares), seed=seed, ontology=ontology, spans_key=spans_key)
    rows: List[Tuple[str, ...]] = [("split", "documents", "links kept", "lost", "NIL", "entities")]
    for split, figures in report["splits"].items():
        rows.append((split, *(f"{figures[key]:,}" for key in ("documents", "kept", "lost", "nil", "entities"))))
    typer.echo(markdown_table(rows))
    if n_duplicates := report["duplicate_documents"]:
        typer.echo(f"{n_duplicates} documents left out, read before")
    typer.echo(f"Splits: {output}")


def _shares(text: str) -> List[float]:
    try:
        return [float(each) for each in text.split(",")]
    except ValueError:
        raise typer.BadParameter(f"expected numbers like 0.8,0.1,0.1, found {text!r}", param_hint="--shares") from None
