"""`krissel out-of-kb`: entities taken out of the ontology, and their gold mentions made NIL."""

from pathlib import Path
from typing import Any, Dict, List, Optional, Tuple

import typer

from ..app import lab

Row = Tuple[str, ...]


@lab.command("out-of-kb")
def out_of_kb_cli(
    ontology: Path = typer.Argument(..., help="Ontology store"),
    gold: List[str] = typer.Option(..., help="name=path of a split's .spacy file, such as train=train.spacy; repeated"),
    output: Path = typer.Option(..., "--output", "-o", help="Folder for the reduced store, the splits and the report"),
    type: List[str] = typer.Option([], help="Remove entities of this semantic type, by name or id; may be repeated"),
    tree: List[str] = typer.Option([], help="Remove entities with a tree number in this sub-tree; may be repeated"),
    preset: Optional[str] = typer.Option(None, help="Remove a named set of types: pel (the paper's 11) or st21pv"),
    spans_key: str = typer.Option("", help="Gold mentions to count are in doc.spans[spans_key]"),
) -> None:
    """Build a benchmark for mentions without an entity, as PEL does (appendix D).

    An entity that is in a removed sub-tree and elsewhere, too, is removed. A composite mention becomes NIL when none of
    its known ids is left.
    """
    from spacy_krissel.corpora.semantic_types import preset_types
    from spacy_krissel.evaluation.tables import markdown_table

    from ..data.out_of_kb import out_of_kb

    splits = _splits(gold)
    types = [*(preset_types(preset) if preset else ()), *type]
    report = out_of_kb(ontology, splits, output, types=types, trees=tree, spans_key=spans_key, progress=True)
    removed = report["removed"]
    typer.echo(f"{removed['entities']} of {removed['of']} entities removed\n")
    typer.echo(markdown_table(_split_rows(report)) + "\n")
    typer.echo(markdown_table(_reference_rows(report)))
    typer.echo(f"\nBenchmark: {output}/ontology, {', '.join(f'{name}.spacy' for name in splits)}, report.json")


def _splits(pairs: List[str]) -> Dict[str, str]:
    splits: Dict[str, str] = {}
    for pair in pairs:
        name, _, path = pair.partition("=")
        if not path or name in splits:
            raise typer.BadParameter(f"expected name=path, each name once, found {pair!r}", param_hint="--gold")
        splits[name] = path
    return splits


def _split_rows(report: Dict[str, Any]) -> List[Row]:
    """PEL's Table 7, with the same of all mentions beside it."""
    from spacy_krissel.evaluation.tables import percent

    shares = ("entities_seen", "mentions_seen", "forms_seen", "mentions_of_seen_forms")
    names = (key.replace("_", " ") + " %" for key in shares)
    rows: List[Row] = [("split", "of", "mentions", "entities", *names)]
    for split, figures in report["splits"].items():
        for kind, title in (("nil", "NIL"), ("all", "all")):
            part = figures[kind]
            counts = (f"{part['mentions']:,}", f"{part['entities']:,}")
            rows.append((split, title, *counts, *(percent(part[key]) for key in shares)))
    return rows


def _reference_rows(report: Dict[str, Any]) -> List[Row]:
    means = ("names", "name_words", "name_characters", "definition_words", "definition_characters")
    rows: List[Row] = [("references", "entities", *(key.replace("_", " ") for key in means))]
    for place, parts in report["references"].items():
        for kind, figures in parts.items():
            values = ("–" if figures[key] is None else f"{figures[key]:.1f}" for key in means)
            rows.append((f"{kind} ({place})", f"{figures['entities']:,}", *values))
    return rows
