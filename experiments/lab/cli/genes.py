"""Commands for genes."""

from pathlib import Path

import typer

from ..app import lab


@lab.command("fit-species")
def fit_species_cli(
    ontology: Path = typer.Argument(..., help="Ontology store of genes"),
    mentions: Path = typer.Argument(..., help="Mentions mined with it"),
    text: Path = typer.Argument(..., help="The texts that they were mined in"),
) -> None:
    """Fit what species words say of a gene's species to mentions of names that one gene alone
    has."""
    from ..fit_species import fit_species

    weights, n = fit_species(ontology, mentions, text)
    typer.echo(f"{n:,} mentions: {weights}")


@lab.command("gene-baselines")
def gene_baselines_cli(
    links: Path = typer.Argument(..., help="A report's .links.jsonl, for its mentions"),
    gold: Path = typer.Argument(..., help="The gold corpus that was evaluated"),
    ontology: Path = typer.Option(..., help="Ontology store of genes"),
    seed: int = typer.Option(0, min=0, help="Of the bootstrap"),
) -> None:
    """Accuracy of a report's links, and of exact match and TF-IDF that take human first or the
    document's species, with the difference and its 95 % interval over documents."""
    import spacy

    from spacy_krissel.evaluation.gold import read_gold
    from spacy_krissel.evaluation.metrics import compare, measure
    from spacy_krissel.evaluation.records import read_records
    from spacy_krissel.evaluation.tables import markdown_table
    from spacy_krissel.ontology.store import OntologyStore

    from ..gene_baselines import gene_baselines

    records, store = read_records(links), OntologyStore(ontology)
    rows = [("baseline", "strict", "lenient", "the pipeline is better by")]
    found = {
        "the pipeline": records,
        **gene_baselines(records, read_gold(gold, spacy.blank("en")), store),
    }
    for title, row in found.items():
        measured = measure(row, store, resamples=0)
        better = compare(records, row, name=title, seed=seed)
        low, high = (100 * each for each in better["interval"])
        difference = (
            "" if row is records else f"{100 * better['strict']:+.1f} ({low:+.1f} to {high:+.1f})"
        )
        rows.append(
            (
                title,
                f"{100 * measured['strict']:.1f}",
                f"{100 * measured['lenient']:.1f}",
                difference,
            )
        )
    typer.echo(markdown_table(rows))
