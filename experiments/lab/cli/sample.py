"""`krissel sample`: mined mentions for reading."""

from pathlib import Path
from typing import Optional

import typer

from ..app import lab


@lab.command("sample")
def sample_cli(
    mentions: Path = typer.Argument(..., help="Mention shards"),
    n: int = typer.Option(50, "-n", min=1, help="How many"),
    seed: int = typer.Option(0, min=0),
    format: str = typer.Option("text", help="text, tsv or markdown (with a column for the verdict)"),
    ontology: Optional[Path] = typer.Option(None, help="Ontology store, to print preferred names"),
) -> None:
    """Draw mined mentions to judge by eye how many are right, as the paper estimated its 85 % (§3.1)."""
    from spacy_krissel.mining.shards import MentionShards
    from spacy_krissel.ontology.store import OntologyStore

    from ..data.mention_sample import format_mentions, sample_mentions

    drawn = sample_mentions(MentionShards(mentions), n, seed)
    store = None if ontology is None else OntologyStore(ontology)
    names = None if store is None else {mention.entity: store.get(mention.entity).name for mention in drawn}
    typer.echo(format_mentions(drawn, format, names=names))  # type: ignore[arg-type]
