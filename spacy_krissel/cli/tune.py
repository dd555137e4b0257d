"""`krissel tune`: the index of a knowledge base, chosen by what is measured of it."""

import json
from dataclasses import asdict
from pathlib import Path
from typing import List, Optional

import typer

from .app import command_line, krissel


@krissel.command("tune")
def tune_cli(
    path: Path = typer.Argument(..., help="A knowledge base, or a pipeline that has one"),
    output: Optional[Path] = typer.Option(None, "--output", "-o", help="Save it here; default: where it is"),
    queries: Optional[Path] = typer.Option(
        None, help="Docs (.spacy) whose mentions are searched for, with a pipeline; default: vectors near prototypes"
    ),
    n_queries: int = typer.Option(1000, min=1, help="So many queries, drawn by seed"),
    recall: float = typer.Option(
        0.99, min=0, max=1, help="Share of queries whose first answer is to be that of the exact index"
    ),
    k: int = typer.Option(16, min=1, help="Entities searched for"),
    index: List[str] = typer.Option([], help="Try this type alone: ivf, ivf_sq8, ivf_pq or hnsw; may be repeated"),
    seconds: float = typer.Option(0.0, min=0, help="Begin nothing new after so many seconds (0: try all)"),
    memory: float = typer.Option(0.0, min=0, help="GiB that an index may hold (0: any)"),
    dry_run: bool = typer.Option(False, help="Measure and save nothing"),
    metrics: Optional[Path] = typer.Option(None, help="Write all figures to this .json file"),
    name: str = typer.Option("krissel_linker", help="Name of the linker in the pipeline"),
    seed: int = typer.Option(0, min=0),
) -> None:
    """Measure indexes against the exact one, and give the knowledge base the fastest that finds enough.

    Times are of one core; indexes are built on all cores. Vectors are never all in memory.
    """
    from ..commands.tune_pipeline import tune_index
    from ..kb.build.tune import BUILT, tuning_lines
    from ..util.atomic import check_file, write_text

    if metrics is not None:
        check_file(metrics)
    tuning = tune_index(
        path,
        output,
        queries=queries,
        n_queries=n_queries,
        seed=seed,
        name=name,
        dry_run=dry_run,
        recall=recall,
        k=k,
        types=index or tuple(BUILT),
        seconds=seconds,
        memory=memory * 2**30,
        progress=True,
    )
    if metrics is not None:
        content = {"command": command_line(), "chosen": asdict(tuning.chosen), **asdict(tuning)}
        write_text(metrics, json.dumps(content, indent=2) + "\n")
    for line in tuning_lines(tuning):
        typer.echo(line)
    typer.echo("Nothing was saved" if dry_run else f"Saved: {output or path}")
