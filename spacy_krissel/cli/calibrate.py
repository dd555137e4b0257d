"""`krissel calibrate`: the threshold below which a linker says NIL, fitted to a development set."""

import json
from pathlib import Path
from typing import List, Optional

import typer

from .app import command_line, krissel


@krissel.command("calibrate")
def calibrate_cli(
    pipeline: Path = typer.Argument(..., help="A pipeline with a knowledge base"),
    gold: Path = typer.Argument(..., help="Gold corpus with NIL mentions, kept for this: .spacy, PubTator or BioC"),
    output: Path = typer.Option(..., "--output", "-o", help="Where to save the pipeline with its threshold"),
    precision: Optional[float] = typer.Option(
        None, min=0, max=1, help="Precision of NIL to keep, 0 to 1, at the best recall; default: the best F1"
    ),
    linker: str = typer.Option("krissel_linker", help="Name of the linker in the pipeline"),
    spans_key: str = typer.Option("", help="Gold mentions are in doc.spans[spans_key]"),
    label: List[str] = typer.Option([], help="Gold mentions of this label only; may be repeated"),
    held_out: float = typer.Option(
        0.0,
        min=0,
        max=1,
        help="Of a corpus that was trained on, the documents that this dev_share kept to develop on (0: all)",
    ),
    seed: int = typer.Option(0, min=0, help="Of that training"),
    metrics: Optional[Path] = typer.Option(None, help="Write the figures and the curve to this .json file"),
    gpu_id: int = typer.Option(-1, "--gpu-id", "-g", min=-1, help="GPU, or -1 for the CPU"),
) -> None:
    """Fit the threshold for NIL to gold mentions without an entity (PEL, §5.3), and save the pipeline with it.

    The threshold is put to the linker's own scores; a re-ranker behind it leaves NIL as it is. Calibrate last: another
    encoder, knowledge base or weight of the spelling gives other scores.
    """
    from ..evaluation.calibrate import calibrate
    from ..evaluation.tables import nil_line, strict_line
    from ..pipeline.pipeline_io import check_place, choose_gpu, load_pipeline, save_pipeline
    from ..util.atomic import check_file, write_text

    choose_gpu(gpu_id)
    # Before minutes of encoding.
    check_place(output)
    if metrics is not None:
        check_file(metrics)
    nlp = load_pipeline(pipeline)
    found = calibrate(
        nlp,
        gold,
        precision=precision,
        name=linker,
        spans_key=spans_key,
        labels=label or None,
        held_out=held_out,
        seed=seed,
    )
    save_pipeline(nlp, output, name=linker)
    if metrics is not None:
        curve = {name: values.tolist() for name, values in found.curve._asdict().items()}
        content = {"command": command_line(), **found.data, "curve": curve}
        write_text(metrics, json.dumps(content, indent=2) + "\n")
    data = found.data
    rerankers = "".join(f", before {name}" for name in data["rerankers"])
    typer.echo(f"Threshold: {found.threshold:.6g} on the scores of {linker}{rerankers}")
    typer.echo(f"Fitted to {data['n']:,} mentions, {data['n_nil']:,} of them NIL; figures on others tend to be lower")
    for when, threshold in (("before", found.threshold_before), ("after", found.threshold)):
        title = f"{when} ({'no threshold' if threshold is None else format(threshold, '.6g')})"
        typer.echo(f"{title}\n  NIL     {nil_line(data[when])}\n  strict  {strict_line(data[when])}")
    typer.echo(f"Pipeline: {output}")
    if metrics is not None:
        typer.echo(f"Written: {metrics}")
