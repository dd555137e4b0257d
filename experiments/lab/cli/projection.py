"""`krissel projection`: names in two dimensions, before and after training."""

from pathlib import Path
from typing import List

import typer

from ..app import lab


@lab.command("projection")
def projection_cli(
    pipelines: List[Path] = typer.Argument(..., help="Pipelines with a linker, such as an untrained and a trained one"),
    ontology: Path = typer.Option(..., help="Ontology store that the names are of"),
    output: Path = typer.Option(..., "--output", "-o", help="The .svg file to draw"),
    entities: int = typer.Option(12, min=2, help="Entities, drawn by seed"),
    names: int = typer.Option(12, min=2, help="Names of each"),
    seed: int = typer.Option(0, min=0),
    linker: str = typer.Option("krissel_linker", help="Name of the linker in the pipelines"),
    gpu_id: int = typer.Option(-1, "--gpu-id", "-g", min=-1, help="GPU, or -1 for the CPU"),
) -> None:
    """Draw names as each pipeline's encoder sees them, coloured by entity (SapBERT, Figure 1)."""
    from spacy_krissel.evaluation.tables import markdown_table, percent
    from spacy_krissel.ontology.store import OntologyStore
    from spacy_krissel.pipeline.pipeline_io import choose_gpu, find_linker, load_pipeline
    from spacy_krissel.util.atomic import check_file
    from spacy_krissel.views import name_view

    from ..errors import Errors, KrisselError
    from ..projection import choose_names, draw_projections, project

    if output.suffix != ".svg":
        raise KrisselError(Errors.K006.format(setting="output", found=str(output), expected="a path ending in .svg"))
    check_file(output)
    choose_gpu(gpu_id)
    found, owners, titles = choose_names(OntologyStore(ontology), n_entities=entities, n_names=names, seed=seed)
    projections = {}
    for path in pipelines:
        encoder = find_linker(load_pipeline(path), linker)
        projections[str(path)] = project(encoder.encode([name_view(name) for name in found]), owners, seed=seed)
    drawn = draw_projections(projections, owners, titles, output)
    rows = [("pipeline", "silhouette", "nearest name is of the same entity")]
    rows += [(title, f"{each.silhouette:.2f}", percent(each.neighbours)) for title, each in projections.items()]
    typer.echo(markdown_table(rows))
    for file in drawn:
        typer.echo(f"Drawn: {file}")
