"""`krissel ontology`: ontology files to an ontology store."""

from pathlib import Path
from typing import Any, Dict, List

import typer

from .app import coded_errors, krissel


@krissel.command("ontology")
def ontology_cli(
    sources: List[Path] = typer.Argument(..., help="Ontology files (formats: see --format) or stores; .gz too"),
    output: Path = typer.Option(..., "--output", "-o", help="Directory of the store"),
    format: str = typer.Option(
        "auto",
        help="Format of the sources: auto, medic, obo, jsonl, mesh, mesh-tree, phrases, zeshel, gene-info, taxonomy, "
        "cellosaurus, cellosaurus-tsv, ctd",
    ),
    species: List[str] = typer.Option(
        [], help="NCBI Gene: keep this species (a tax id), or those of gnormplus or nlm-gene; may be repeated"
    ),
    enrich: List[Path] = typer.Option([], help="Ontology files or stores to take definitions and tree numbers from"),
    enrich_names: bool = typer.Option(False, "--enrich-names", help="Take names too, where an id is shared"),
    tree: List[str] = typer.Option([], help="Keep entities with a tree number that begins so (D); may be repeated"),
    tree_types: bool = typer.Option(
        False, "--tree-types", help="The names of the tops of its trees are an entity's types"
    ),
    homonyms: bool = typer.Option(False, "--homonyms", help="Print the names that several entities share"),
) -> None:
    """Read ontology files into a columnar store that is opened without being read."""
    from ..ontology.build import build_ontology
    from ..ontology.enrich import DEFAULT_FIELDS

    fields = (*DEFAULT_FIELDS, "aliases") if enrich_names else DEFAULT_FIELDS
    options: Dict[str, Any] = {"species": species} if species else {}
    with coded_errors():
        store = build_ontology(
            sources,
            output,
            format=format,
            enrich_from=enrich,
            fields=fields,
            trees=tree,
            tree_types=tree_types,
            progress=True,
            **options,
        )
    manifest = store.manifest
    typer.echo(
        f"{manifest['entities']} entities, {manifest['names']} names ({manifest['shared_names']} shared) in {output}"
    )
    if homonyms:
        for name, ids in store.shared_names():
            typer.echo(f"{name}\t{' '.join(ids)}")
