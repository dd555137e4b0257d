"""`krissel mine`: unlabelled text to shards of self-supervised mentions."""

from pathlib import Path
from typing import List

import typer

from .app import krissel


@krissel.command("mine")
def mine_cli(
    ontology: Path = typer.Argument(..., help="Ontology store"),
    texts: List[Path] = typer.Argument(
        ..., help="JSONL, plain text, PubMed's XML (these with .gz, too), Parquet, .tar.gz of text; or folders of them"
    ),
    output: Path = typer.Option(..., "--output", "-o", help="Directory of the shards"),
    case: str = typer.Option("smart", help="preserve, fold, or smart (fold, but acronyms as they are written)"),
    aliases: bool = typer.Option(True, help="Search all names, not the preferred ones alone"),
    cap: int = typer.Option(32, min=0, help="At most so many mentions an entity, drawn by seed; 0 keeps all"),
    seed: int = typer.Option(0, min=0),
    n_process: int = typer.Option(
        1, min=1, help="Processes that read and match; the shards are the same for any number"
    ),
    ray: bool = typer.Option(False, "--ray", help="Read and match by Ray on this machine, or on a cluster"),
    ray_address: str = typer.Option("", help="Of a Ray cluster, as host:port, or auto; the files must be on all of it"),
    restart: bool = typer.Option(False, "--restart", help="Drop what an interrupted run left"),
) -> None:
    """Find the ontology's unambiguous names in text (KRISSBERT §3.1). An interrupted run goes on where it stopped."""
    from ..mining.mine import mine
    from ..mining.shards import KIND
    from ..ontology.store import OntologyStore
    from ..util.manifest import check_replaceable

    # Before the ontology is read.
    check_replaceable(output, KIND)
    report = mine(
        OntologyStore(ontology),
        texts,
        output,
        case=case,  # type: ignore[arg-type]
        cap=cap or None,
        seed=seed,
        n_process=n_process,
        aliases=aliases,
        restart=restart,
        ray=ray_address or ("local" if ray else None),
        progress=True,
    )
    counts = report.manifest["counts"]
    typer.echo(
        f"{counts['mentions']} mentions of {counts['entities']} entities (of {counts['mentions_found']} found) in "
        f"{counts['texts']} texts; {report.mb_per_second:.1f} MB/s"
    )
