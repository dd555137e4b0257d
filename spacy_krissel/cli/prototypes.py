"""`krissel prototypes`: the full knowledge base of a trained pipeline."""

from pathlib import Path
from typing import Any, Dict, List, Optional

import typer

from .app import krissel


@krissel.command("prototypes", context_settings={"allow_extra_args": True, "ignore_unknown_options": True})
def prototypes_cli(
    ctx: typer.Context,
    pipeline: Path = typer.Argument(..., help="A trained pipeline"),
    output: Path = typer.Argument(..., help="Where to save the pipeline with its knowledge base"),
    ontology: Optional[Path] = typer.Option(None, help="Ontology store; without it, --gold is added to the pipeline's"),
    mentions: Optional[Path] = typer.Option(None, help="Mention shards; without them, names alone"),
    mentions_per_entity: int = typer.Option(16, min=0, help="Mined mentions an entity at most"),
    contexts_per_shared_name: int = typer.Option(
        8,
        min=0,
        help="Contexts of an entity in which a name it shares with others becomes a prototype; 0: the bare name",
    ),
    names: bool = typer.Option(True, help="Use the ontology's names as prototypes"),
    aliases: bool = typer.Option(True, help="All names, not the preferred ones alone"),
    class_names: bool = typer.Option(
        True, help="Name classes by words that the names of the entities below them share (needs tree numbers)"
    ),
    use_references: bool = typer.Option(
        True, "--references/--no-references", help="Add the entities' references, where the encoder has them (§3.5)"
    ),
    reference_prototypes: bool = typer.Option(False, help="References are prototypes by themselves too"),
    gold: List[Path] = typer.Option([], help="Gold mentions (.spacy) as prototypes too; may be repeated"),
    gold_per_entity: int = typer.Option(
        0, min=0, help="So many gold mentions an entity of each file, drawn by seed (0: all)"
    ),
    gold_weight: Optional[float] = typer.Option(
        None, min=0, help="Multiply the scores of gold prototypes; default: 1.05"
    ),
    max_entities: int = typer.Option(0, min=0, help="So many entities only (0: all)"),
    index: str = typer.Option("", help="exact, flat, hnsw, ivf, ivf_sq8, ivf_pq, milvus; default: as the config says"),
    kb_path: Optional[Path] = typer.Option(None, help="Save the knowledge base here and let the pipeline point to it"),
    name: str = typer.Option("krissel_linker", help="Name of the linker in the pipeline"),
    seed: int = typer.Option(0, min=0),
    gpu_id: int = typer.Option(-1, "--gpu-id", "-g", min=-1, help="GPU to encode on, or -1 for the CPU"),
    n_process: int = typer.Option(1, min=1, help="Processes that encode, on the GPUs from --gpu-id on, or on the CPU"),
    ray: bool = typer.Option(False, "--ray", help="Encode by Ray on this machine, or on a cluster; -g 0: on its GPUs"),
    ray_address: str = typer.Option("", help="Of a Ray cluster, as host:port, or auto; the files must be on all of it"),
    restart: bool = typer.Option(False, "--restart", help="Drop what an interrupted run left"),
) -> None:
    """Encode names, mined mentions (KRISSBERT §3.4) and gold mentions (§3.7) into a knowledge base.

    Further options override the pipeline's config: --components.krissel_linker.threshold 0.6
    """
    from spacy.cli._util import parse_config_overrides

    from ..commands.build_prototypes import prototypes
    from ..index.kinds import named_index
    from ..pipeline.pipeline_io import choose_gpu

    overrides = parse_config_overrides(list(ctx.args))
    choose_gpu(gpu_id)
    # Where nothing reads them, what was typed is passed on to be refused.
    gold_settings = {
        setting: value
        for setting, option, value in (
            ("per_entity", "gold_per_entity", gold_per_entity),
            ("weight", "gold_weight", gold_weight),
        )
        if _is_typed(ctx, option)
    }
    if gold:
        gold_settings["seed"] = seed
    settings: Dict[str, Any] = {
        "mentions_per_entity": mentions_per_entity,
        "contexts_per_shared_name": contexts_per_shared_name,
        "names": names,
        "aliases": aliases,
        "class_names": class_names,
        "use_references": use_references,
        "reference_prototypes": reference_prototypes,
        "max_entities": max_entities,
    }
    if ontology is None:
        settings = {key: value for key, value in settings.items() if _is_typed(ctx, key)}
    else:
        settings["seed"] = seed
    described = prototypes(
        pipeline,
        output,
        ontology,
        mentions,
        gold=gold,
        gold_settings=gold_settings,
        kb_path=kb_path,
        overrides=overrides,
        name=name,
        index=named_index(index) if index else None,
        n_process=n_process,
        gpu_id=gpu_id,
        ray=ray_address or ("local" if ray else None),
        restart=restart,
        **settings,
    )
    for key, value in described.items():
        typer.echo(f"{key}: {value}")


def _is_typed(ctx: typer.Context, option: str) -> bool:
    source = ctx.get_parameter_source(option)
    return source is not None and source.name != "DEFAULT"
