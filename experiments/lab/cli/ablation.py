"""`krissel ablation`: systems that differ in one thing, trained and measured for one table."""

from pathlib import Path
from typing import List

import typer

from ..app import lab


@lab.command("ablation", context_settings={"allow_extra_args": True, "ignore_unknown_options": True})
def ablation_cli(
    ctx: typer.Context,
    config: Path = typer.Argument(..., help="The ablation file, such as configs/ablation-small.yml"),
    output: Path = typer.Option(..., "--output", "-o", help="Folder of the rows, the table and the plots"),
    row: List[str] = typer.Option([], help="Run and show this row, and what it needs, alone; may be repeated"),
    gpu_id: int = typer.Option(-1, "--gpu-id", "-g", min=-1, help="GPU, or -1 for the CPU"),
) -> None:
    """Train and evaluate each row (KRISSBERT, Table 7) and draw the curves (Figure 2).

    An interrupted run goes on where it stopped: what a row has trained or measured is not made again. Further options
    override the file: --sets.ncbi.gold dev.spacy
    """
    from spacy.cli._util import parse_config_overrides
    from wasabi import msg

    from spacy_krissel.pipeline.pipeline_io import choose_gpu
    from spacy_krissel.util.atomic import check_folder

    from ..ablation.runner import AblationRun
    from ..ablation.settings import read_ablation
    from ..ablation.table import ablation_table

    check_folder(output)
    ablation = read_ablation(config, parse_config_overrides(list(ctx.args)))
    choose_gpu(gpu_id)
    found = AblationRun(ablation, output, gpu_id=gpu_id, say=msg.divider)(row)
    typer.echo(ablation_table(found))
    typer.echo(f"Table and curves: {output}/ablation.md, ablation.json")
