"""`krissel ontology`: ontology files to an ontology store."""

import json
from pathlib import Path
from typing import Any, Dict, List, Optional, Tuple

import typer

from .app import krissel

Row = Tuple[str, ...]
CASES = {"preferred": "preferred name", "other": "other name", "cross_species": "cross-species"}


@krissel.command("ontology")
def ontology_cli(
    sources: List[Path] = typer.Argument(
        ..., help="Ontology files (formats: see --format), UMLS's META folder, or stores; .gz too"
    ),
    output: Path = typer.Option(..., "--output", "-o", help="Directory of the store"),
    format: str = typer.Option(
        "auto",
        help="Format of the sources: auto, medic, obo, jsonl, mesh, mesh-tree, phrases, zeshel, gene-info, taxonomy, "
        "cellosaurus, cellosaurus-tsv, ctd, umls, obographs, mesh-xml",
    ),
    species: List[str] = typer.Option(
        [], help="NCBI Gene: keep this species (a tax id), or those of gnormplus or nlm-gene; may be repeated"
    ),
    umls_source: List[str] = typer.Option([], help="UMLS: atoms of this source (SNOMEDCT_US); may be repeated"),
    umls_term_type: List[str] = typer.Option([], help="UMLS: atoms of this term type (PT); may be repeated"),
    umls_type: List[str] = typer.Option(
        [], help="UMLS: concepts of this semantic type or below, by id, name or tree number; may be repeated"
    ),
    umls_language: List[str] = typer.Option([], help="UMLS: atoms in this language, ENG by default; may be repeated"),
    umls_suppressed: bool = typer.Option(False, "--umls-suppressed", help="UMLS: suppressible and obsolete atoms too"),
    umls_type_ids: bool = typer.Option(False, "--umls-type-ids", help="UMLS: types by id (T047), not by name"),
    umls_relation: List[str] = typer.Option(
        [], help="UMLS: concepts related so (RL, SY) are cross-references; may be repeated"
    ),
    merge: bool = typer.Option(
        False, "--merge", help="Of several sources, what speaks of one concept is one entity, named by the first source"
    ),
    version: Optional[str] = typer.Option(None, help="Version of the sources, where they do not say it themselves"),
    licence: Optional[str] = typer.Option(None, help="Licence of the sources, where they do not say it themselves"),
    enrich: List[Path] = typer.Option([], help="Ontology files or stores to take definitions and tree numbers from"),
    enrich_names: bool = typer.Option(False, "--enrich-names", help="Take names too, where an id is shared"),
    tree: List[str] = typer.Option([], help="Keep entities with a tree number that begins so (D); may be repeated"),
    tree_types: bool = typer.Option(
        False, "--tree-types", help="The names of the tops of its trees are an entity's types"
    ),
    disambiguate: Optional[str] = typer.Option(
        None,
        help="Expand names that several entities share, by the preferred name, or by the shortest or longest other one",
    ),
    taxonomy: Optional[Path] = typer.Option(None, help="Store of a taxonomy that names the entities' species"),
    homonyms: Optional[Path] = typer.Option(None, help="Report the names that several entities share (JSON)"),
) -> None:
    """Read ontology files into a columnar store that is opened without being read."""
    from ..ontology.build import build_ontology
    from ..ontology.enrich import DEFAULT_FIELDS
    from ..ontology.homonyms.shared_names import homonym_report
    from ..ontology.store import KIND, OntologyStore
    from ..util.atomic import check_file, write_text
    from ..util.manifest import check_replaceable

    if taxonomy and homonyms is None and disambiguate is None:
        raise typer.BadParameter("expected --disambiguate or --homonyms as well", param_hint="--taxonomy")
    fields = (*DEFAULT_FIELDS, "aliases") if enrich_names else DEFAULT_FIELDS
    asked: Dict[str, Any] = {
        "species": species,
        "vocabularies": umls_source,
        "term_types": umls_term_type,
        "semantic_types": umls_type,
        "languages": umls_language,
        "suppressed": umls_suppressed,
        "type_ids": umls_type_ids,
        "relations": umls_relation,
    }
    options = {name: value for name, value in asked.items() if value}
    report: Dict[str, Any] = {}
    check_replaceable(output, KIND)
    if homonyms is not None:
        check_file(homonyms)
    taxa = OntologyStore(taxonomy) if taxonomy else None

    def inspect(store: OntologyStore, key: str = "read") -> None:
        if homonyms is not None:
            report[key] = homonym_report(store, taxa)

    store = build_ontology(
        sources,
        output,
        format=format,
        enrich_from=enrich,
        fields=fields,
        trees=tree,
        tree_types=tree_types,
        disambiguate=disambiguate,
        taxonomy=taxa,
        inspect=inspect,
        merge_sources=merge,
        version=version,
        licence=licence,
        progress=True,
        **options,
    )
    inspect(store, "read" if disambiguate is None else "result")
    manifest = store.manifest
    typer.echo(
        f"{manifest['entities']} entities, {manifest['names']} names ({manifest['shared_names']} shared) in {output}"
    )
    if merge:
        merged = manifest["info"]["merged"]
        typer.echo(f"{merged['merged']:,} of {merged['seen']:,} entities became part of another")
    if disambiguate is not None:
        report["disambiguated"] = manifest["info"]["disambiguated"]
        typer.echo(_summary(report["disambiguated"]))
    if homonyms is not None:
        write_text(homonyms, json.dumps(report, indent=2, ensure_ascii=False) + "\n")
        typer.echo(_table(report) + f"\n\nReport: {homonyms}")


def _summary(figures: Dict[str, Any]) -> str:
    rate = figures["success_rate"]
    if rate is None:
        return "No homonyms to disambiguate"
    return (
        f"{rate:.2%} of {figures['before']['homonyms']:,} homonyms disambiguated, {figures['failures']:,} names still "
        f"shared; {figures['second_choices']:,} second choices, {figures['unchanged']:,} names unchanged"
    )


def _table(report: Dict[str, Any]) -> str:
    """BELHD's Table 2, of the store as it was read and as it is."""
    from ..evaluation.tables import markdown_table

    columns = [report[key] for key in ("read", "result") if key in report]
    rows: List[Row] = [("homonyms", *(key for key in ("read", "result") if key in report))]
    rows += [(key, *(f"{column[key]:,}" for column in columns)) for key in ("entities", "names", "homonyms")]
    rows.append(("names that are homonyms", *(_of(column["pairs"], column["names"]) for column in columns)))
    rows += [(f"– {title}", *(f"{column[key]:,}" for column in columns)) for key, title in CASES.items()]
    return markdown_table(rows)


def _of(part: int, whole: int) -> str:
    return f"{part:,} of {whole:,} ({part / max(whole, 1):.2%})"
