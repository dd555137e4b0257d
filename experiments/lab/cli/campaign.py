"""Commands of the campaign: its archive, its run on a machine with a card, and what comes home."""

from pathlib import Path

import typer

from ..app import lab


@lab.command("campaign-pack")
def campaign_pack_cli(
    ontology: Path = typer.Argument(..., help="Ontology store that is trained on"),
    mentions: Path = typer.Argument(..., help="Mention shards, mined by it"),
    output: Path = typer.Option(..., "--output", "-o", help="The .tar.xz archive to write"),
    store: list[Path] = typer.Option(
        [], help="Ontology store that is linked to and not trained on; may be repeated"
    ),
    gold: list[Path] = typer.Option(
        [], exists=True, help="Gold mentions (.spacy); may be repeated"
    ),
    encoder: str = typer.Option(
        ..., help="A transformer: its folder, or the name of a package with a folder model/"
    ),
    cap: int = typer.Option(8, min=1, help="Mentions per entity, at most"),
    context_chars: int = typer.Option(
        128, min=1, help="Characters of context on each side of a mention, at most"
    ),
    max_mib: float = typer.Option(40.0, min=0, help="MiB of the archive, at most"),
    seed: int = typer.Option(0, min=0, help="Seed of the order of an entity's mentions"),
) -> None:
    """Pack the data of a run, all that a machine without a network needs, as one archive."""
    from ..campaign.archive import MEBIBYTE, find_encoder, pack

    manifest = pack(
        ontology,
        mentions,
        store,
        gold,
        find_encoder(encoder),
        output,
        cap=cap,
        context_chars=context_chars,
        max_mib=max_mib,
        seed=seed,
    )
    counts = manifest["counts"]
    names, mined = counts[ontology.name], counts["mentions"]
    typer.echo(
        f"{names['entities']:,} entities, {names['names']:,} names, {mined['mentions']:,} mentions"
    )
    typer.echo(f"{output}: {output.stat().st_size / MEBIBYTE:.1f} MiB")


@lab.command("campaign-unpack")
def campaign_unpack_cli(
    archive: Path = typer.Argument(..., exists=True, help="What `campaign-pack` wrote"),
    output: Path = typer.Option(..., "--output", "-o", help="Folder to write, which is replaced"),
) -> None:
    """Unpack the data of a run: ontology stores, mention shards, gold mentions and a
    transformer."""
    from ..campaign.archive import unpack

    typer.echo(f"{len(unpack(archive, output)['files'])} files of {archive} in {output}")


@lab.command("campaign-run")
def campaign_run_cli(
    archive: Path = typer.Argument(..., exists=True, help="What `campaign-pack` wrote"),
    stages: Path = typer.Option(..., exists=True, help="The table of stages (.yml)"),
    work: Path = typer.Option(..., help="Folder for data, pipelines and reports, gigabytes"),
    output: Path = typer.Option(
        ..., "--output", "-o", help="Folder for what comes home: weights, metrics, the log"
    ),
    seconds: float = typer.Option(400.0, min=0, help="For all stages"),
    set_: list[str] = typer.Option(
        [], "--set", help="name=value of a variable of the table; may be repeated"
    ),
    index_device: str = typer.Option("cpu", help="Of the index: cpu, cuda:0 or cuda:all"),
    gpu_id: int = typer.Option(-1, "--gpu-id", "-g", min=-1, help="GPU, or -1 for the CPU"),
) -> None:
    """Train, link, evaluate and package by the product's own commands, each stage under its own
    limit."""
    from ..campaign.run import given_values, run_stages
    from ..campaign.stages import read_stages

    changed = dict(each.partition("=")[::2] for each in set_)
    table = read_stages(stages, changed)
    table.variables["gpu"] = f"--gpu-id {gpu_id}"
    table.variables["index"] = "" if index_device == "cpu" else f"--index-device {index_device}"
    values = given_values(archive, work, output)
    for report in run_stages(table, values, work, seconds=seconds, gpu_id=gpu_id, collected=output):
        typer.echo(
            f"{report['stage']}: {report['status']} in {report['seconds']:.1f} s "
            f"{report.get('reason', '')}"
        )


@lab.command("campaign-collect")
def campaign_collect_cli(
    pipeline: Path = typer.Argument(..., help="A trained pipeline without a knowledge base"),
    output: Path = typer.Option(
        ..., "--output", "-o", help="Folder of the parts, whose other files stay"
    ),
    part_bytes: int = typer.Option(15_900_000, min=1, help="Bytes of a part, at most"),
) -> None:
    """Write the weights of a pipeline in parts: float16, and 8 bits for an encoder of
    references."""
    from ..campaign.parts import write_parts

    parts = write_parts(pipeline, output, part_bytes=part_bytes)["parts"]
    typer.echo(
        f"{len(parts)} parts, {sum(part['bytes'] for part in parts) / 1e6:.1f} MB in {output}"
    )


@lab.command("campaign-assemble")
def campaign_assemble_cli(
    parts: Path = typer.Argument(..., help="Folder that `campaign-collect` wrote"),
    output: Path = typer.Option(..., "--output", "-o", help="Folder of the pipeline to write"),
) -> None:
    """Put a pipeline together again from its parts."""
    from ..campaign.parts import assemble_parts

    assemble_parts(parts, output)
    typer.echo(f"Pipeline written to {output}")
