"""`krissel text-split`: training and test sets of texts and entities, some of them unseen."""

from pathlib import Path
from typing import Any, Dict, List, Tuple

import typer

from ..app import lab

Row = Tuple[str, ...]
PARTS = {"train": "training", "test_seen": "test, seen", "test_unseen": "test, unseen"}


@lab.command("text-split")
def text_split_cli(
    inputs: List[Path] = typer.Argument(..., help="Docs with text-level labels or gold mentions (.spacy)"),
    output: Path = typer.Option(..., "--output", "-o", help="Folder for train.spacy, test.spacy and a report"),
    unit: str = typer.Option("doc", help="What a text is: doc, sentence or line"),
    unseen: float = typer.Option(0.1, min=0, max=1, help="Share of the entities that training never sees"),
    test: float = typer.Option(0.1, min=0, max=1, help="Share of each seen entity's texts in the test set"),
    min_train: int = typer.Option(5, min=0, help="Texts that training keeps of each seen entity first"),
    seed: int = typer.Option(0, min=0),
    lang: str = typer.Option("en", help="Language of the training set's tokenizer"),
) -> None:
    """Build the training and test sets of OSLAT: 10 % of the entities unseen, and no span in the training set."""
    from spacy_krissel.evaluation.tables import markdown_table

    from ..data.text_split import text_split

    report = text_split(inputs, output, unit=unit, unseen=unseen, test=test, min_train=min_train, seed=seed, lang=lang)
    typer.echo(f"{report['pairs']:,} pairs of {report['texts']:,} texts and {report['entities']:,} entities\n")
    typer.echo(markdown_table(_bin_rows(report)) + "\n")
    typer.echo(markdown_table(_part_rows(report)))
    typer.echo(f"\nSplit: {output}/train.spacy, test.spacy, report.json")


def _bin_rows(report: Dict[str, Any]) -> List[Row]:
    rows: List[Row] = [("frequency", "texts", "entities", "unseen")]
    for name, figures in report["bins"].items():
        texts = f"{figures['fewest_texts']:,}–{figures['most_texts']:,}"
        rows.append((name, texts, f"{figures['entities']:,}", f"{figures['unseen']:,}"))
    return rows


def _part_rows(report: Dict[str, Any]) -> List[Row]:
    """The paper's Table 2."""
    from spacy_krissel.evaluation.tables import percent

    rows: List[Row] = [("part", "texts", "entities", "pairs", "with spans", "disjoint", "disjoint %")]
    for key, title in PARTS.items():
        figures = report[key]
        numbers = (f"{figures[name]:,}" for name in ("texts", "entities", "pairs", "with_spans", "disjoint"))
        rows.append((title, *numbers, percent(figures["disjoint_share"])))
    return rows
