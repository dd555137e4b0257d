"""`krissel train`: `spacy train`, in several processes under a launcher."""

from pathlib import Path
from typing import Optional

import typer

from .app import krissel


@krissel.command("train", context_settings={"allow_extra_args": True, "ignore_unknown_options": True})
def train_cli(
    ctx: typer.Context,
    config: Path = typer.Argument(..., help="A training config, such as configs/transformer.cfg", exists=True),
    output: Optional[Path] = typer.Option(None, "--output", "-o", help="Folder of model-best and model-last"),
    code: Optional[Path] = typer.Option(None, "--code", "-c", help="Python file with registered functions"),
    gpu_id: int = typer.Option(
        -1,
        "--gpu-id",
        "-g",
        min=-1,
        help="GPU, or -1 for the CPU; of several processes the first one's, the next has the next",
    ),
    timeout: float = typer.Option(60.0, help="Minutes after which a process that waits for the others gives up", min=0),
) -> None:
    """`spacy train`, for several GPUs or machines.

    torchrun --nproc-per-node 4 -m spacy krissel train CONFIG --output OUTPUT --gpu-id 0

    Each batch is divided among the processes, with the gradient that one process would have. Without a launcher this is
    `spacy train`, but for folders that are whole at any moment. Further options override the config:
    --training.max_steps 100
    """
    from spacy.cli._util import import_code, parse_config_overrides

    from ..commands.train_pipeline import train

    import_code(code)
    train(config, output, use_gpu=gpu_id, overrides=parse_config_overrides(list(ctx.args)), timeout=timeout)
