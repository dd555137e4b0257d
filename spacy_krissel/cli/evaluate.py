"""`krissel evaluate`: how well a pipeline links a gold corpus."""

from pathlib import Path
from typing import List, Optional

import typer

from .app import command_line, krissel


@krissel.command("evaluate")
def evaluate_cli(
    pipeline: Path = typer.Argument(..., help="A pipeline with a knowledge base"),
    gold: Path = typer.Argument(..., help="Gold corpus: .spacy, PubTator or BioC"),
    ontology: Path = typer.Option(..., help="Ontology store: primary ids, slices and baselines"),
    output: Path = typer.Option(Path("metrics"), "--output", "-o", help="Folder for the .json, .md and .html report"),
    name: str = typer.Option("evaluation", help="Name of the report"),
    predicted: bool = typer.Option(False, "--predicted", help="Link the pipeline's own mentions, not the gold ones"),
    spans_key: str = typer.Option("", help="Gold mentions are in doc.spans[spans_key]"),
    label: List[str] = typer.Option([], help="Count gold mentions of this label only; may be repeated"),
    baselines: bool = typer.Option(True, help="Exact match and TF-IDF in the same table"),
    compare: List[str] = typer.Option([], help="name=path of another system's .links.jsonl; may be repeated"),
    train: List[Path] = typer.Option([], help="Gold corpus that was trained on, for seen and unseen; may be repeated"),
    gold_nil: bool = typer.Option(False, "--gold-nil", help="Count gold mentions without a concept as NIL"),
    seed: int = typer.Option(0, min=0, help="Of the bootstrap"),
    gpu_id: int = typer.Option(-1, "--gpu-id", "-g", min=-1, help="GPU, or -1 for the CPU"),
) -> None:
    """Evaluate linking: strict and lenient accuracy, recall at k, slices, intervals, baselines, errors."""
    from ..evaluation.evaluate import evaluate
    from ..evaluation.tables import check_report
    from ..pipeline.pipeline_io import choose_gpu, load_pipeline

    compared = _compared(compare)
    check_report(output, name)
    choose_gpu(gpu_id)
    report = evaluate(
        load_pipeline(pipeline),
        gold,
        ontology,
        output,
        name=name,
        mentions="predicted" if predicted else "gold",
        spans_key=spans_key,
        labels=label or None,
        baselines=baselines,
        compare=compared,
        train=train,
        gold_nil=gold_nil,
        seed=seed,
        command=command_line(),
    )
    typer.echo(report.to_table())
    typer.echo(f"Report: {output / name}.json, .md, .html")


def _compared(pairs: List[str]) -> Optional[dict]:
    compared = {}
    for pair in pairs:
        name, _, path = pair.partition("=")
        if not path:
            raise typer.BadParameter(f"expected name=path, found {pair!r}", param_hint="--compare")
        compared[name] = path
    return compared or None
