"""`lab affected-mentions`: how many gold mentions homonyms affect."""

from pathlib import Path
from typing import List

import typer

from ..app import lab


@lab.command("affected-mentions")
def affected_mentions_cli(
    ontology: Path = typer.Argument(..., help="Ontology store"),
    gold: List[Path] = typer.Argument(..., exists=True, help="Gold mentions (.spacy)"),
) -> None:
    """Count the gold mentions that a linker by names could only guess (BELHD, Table 1)."""
    from spacy_krissel.evaluation.tables import markdown_table, percent
    from spacy_krissel.ontology.store import OntologyStore

    from ..data.affected_mentions import affected_mentions

    store = OntologyStore(ontology)
    rows = [("corpus", "mentions", "affected", "affected %", "unknown id")]
    for path in gold:
        found = affected_mentions(path, store)
        part = percent(found.affected / max(found.mentions, 1))
        rows.append((str(path), f"{found.mentions:,}", f"{found.affected:,}", part, f"{found.unknown:,}"))
    typer.echo(markdown_table(rows))
