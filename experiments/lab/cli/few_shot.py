"""`krissel few-shot`: what a few gold mentions an entity add."""

from pathlib import Path
from typing import List

import typer

from ..app import lab


@lab.command("few-shot")
def few_shot_cli(
    pipeline: Path = typer.Argument(..., help="A pipeline with a knowledge base"),
    gold: Path = typer.Argument(..., help="Gold corpus to evaluate on: .spacy, PubTator or BioC"),
    examples: Path = typer.Option(..., help="Gold corpus whose mentions become prototypes"),
    ontology: Path = typer.Option(..., help="Ontology store: primary ids"),
    shots: str = typer.Option("0,1,2,4,8,all", help="Mentions an entity"),
    seed: List[int] = typer.Option([0, 1, 2], min=0, help="Of a draw; may be repeated"),
    exact: bool = typer.Option(True, "--exact/--own-index", help="Search exactly: no index is made anew for each draw"),
    linker: str = typer.Option("krissel_linker", help="Name of the linker in the pipeline"),
    output: Path = typer.Option(Path("metrics"), "--output", "-o", help="Folder for the .json and .md table"),
    name: str = typer.Option("few-shot", help="Name of the table"),
    gpu_id: int = typer.Option(-1, "--gpu-id", "-g", min=-1, help="GPU, or -1 for the CPU"),
) -> None:
    """Strict accuracy with n gold mentions an entity as prototypes, without training (KRISSBERT §3.7)."""
    from spacy_krissel.evaluation.tables import check_report
    from spacy_krissel.pipeline.pipeline_io import choose_gpu, load_pipeline

    from ..few_shot import few_shot, few_shot_table, save_few_shot

    choose_gpu(gpu_id)
    numbers = [int(each) if each.isdigit() else each for each in map(str.strip, shots.split(","))]
    index = {f"components.{linker}.generate_empty_kb.index": {"@misc": "spacy-krissel.ExactIndex.v1"}}
    check_report(output, name)
    nlp = load_pipeline(pipeline, index if exact else None)
    rows = few_shot(nlp, examples, gold, ontology, shots=numbers, seeds=seed, name=linker)
    save_few_shot(rows, output, name)
    typer.echo(few_shot_table(rows))
    typer.echo(f"Table: {output / name}.json, .md")
