"""From ontology files to an ontology store, and a report of its homonyms."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import wasabi

from ..errors import Errors, KrisselError
from ..evaluation.tables import markdown_table
from ..ontology.build import build_ontology, open_ontology
from ..ontology.enrich import DEFAULT_FIELDS
from ..ontology.homonyms.shared_names import homonym_report
from ..ontology.readers.table import TABLE_OPTIONS, read_table
from ..ontology.store import KIND, OntologyStore
from ..ontology.vocabularies.cache import cache_folder, fetch, whole
from ..ontology.vocabularies.known import VOCABULARIES
from ..util.atomic import check_file, write_text
from ..util.manifest import check_replaceable
from ..util.outputs import writes
from ..util.settings import passes_on

CASES = {"preferred": "preferred name", "other": "other name", "cross_species": "cross-species"}


@writes("homonyms")
@passes_on(read_table, *TABLE_OPTIONS)
@passes_on(
    build_ontology,
    "format",
    "language",
    "translations",
    "below",
    "not_below",
    "tree_types",
    "species_words",
    "prefix",
    "disambiguate",
)
@passes_on(build_ontology, "version", "licence")
def ontology(
    sources: list[Path],
    output: Path,
    *,
    species: Sequence[str] = (),
    common_names: bool = False,
    umls_source: Sequence[str] = (),
    umls_term_type: Sequence[str] = (),
    umls_type: Sequence[str] = (),
    umls_language: Sequence[str] = (),
    umls_suppressed: bool = False,
    umls_type_ids: bool = False,
    umls_relation: Sequence[str] = (),
    umls_code: Sequence[str] = (),
    umls_tradenames: bool = False,
    umls_parents: bool = False,
    umls_preset: str = "",
    omop_vocabulary: Sequence[str] = (),
    omop_domain: Sequence[str] = (),
    omop_standard: bool = False,
    omop_parents: bool = False,
    snomed_refset: str = "",
    merge: bool = False,
    enrich: Sequence[Path] = (),
    enrich_names: bool = False,
    tree: Sequence[str] = (),
    taxonomy: Path | None = None,
    homonyms: Path | None = None,
    progress: bool = False,
    **settings: Any,
) -> tuple[OntologyStore, dict[str, Any]]:
    """Read ontology files into a store for the other commands.

    sources: Ontology files or folders (formats: see --format), stores, or names of vocabularies (krissel vocabularies);
        .gz too
    output: Directory of the store
    format: Format of the sources: auto, medic, obo, jsonl, mesh, mesh-tree, phrases, zeshel,
        gene-info, taxonomy, cellosaurus, cellosaurus-tsv, ctd, umls, snomed, rxnorm, omop,
        obographs, mesh-xml, table, medcat, ssslm, babelon, owl, skos, fhir, icd10cm
    species: NCBI Gene: keep this species (a tax id), or those of gnormplus or nlm-gene
    common_names: Taxonomy: GenBank's common name (human) is the name of a taxon that has one
    umls_source: UMLS and RxNorm: atoms of this source (SNOMEDCT_US)
    umls_term_type: UMLS and RxNorm: atoms of this term type (PT)
    umls_type: UMLS: concepts of this semantic type or below, by id, name or tree number
    umls_language: UMLS: atoms in this language; default: ENG
    umls_suppressed: UMLS: suppressible and obsolete atoms too
    umls_type_ids: UMLS: types by id (T047), not by name
    umls_relation: UMLS: concepts with this relation (RL, SY) are cross-references
    umls_code: UMLS: ids of this source (MSH, OMIM) are alternative ids, so that gold ids of it are found
    umls_tradenames: UMLS: trade names of a drug are its names too
    umls_parents: UMLS: keep the parents of concepts (MRREL's PAR)
    umls_preset: UMLS: release, types, sources and atoms of 2017AA (all), st21pv (MedMentions' subset) or sapbert
    snomed_refset: SNOMED CT: the language reference set that names are preferred in; default: US English
    omop_vocabulary: OMOP: concepts of this vocabulary (SNOMED)
    omop_domain: OMOP: concepts of this domain (Condition)
    omop_standard: OMOP: standard concepts only
    omop_parents: OMOP: keep the parents of concepts (CONCEPT_RELATIONSHIP.csv's "Is a")
    merge: Merge the entities of several sources that are one concept, which is named by the first source
    enrich: Ontology file or store to take definitions and tree numbers from
    enrich_names: Take names too, where an id is shared
    below: Keep this entity (HP:0000118) and those below it, by parents or tree numbers
    not_below: Leave out this entity and those below it
    tree: Keep entities with a tree number that begins with this (D)
    tree_types: The types of an entity are the names of the roots of its trees
    species_words: Words that texts use for a species are names of it too (patients, mice)
    prefix: Put this before ids of all sources that have none (NCBIGene), which those of another store may be equal to
    disambiguate: Expand names that several entities share by the preferred name, or by the "shortest" or "longest"
        other name
    taxonomy: Store of a taxonomy with the names of the entities' species
    homonyms: Report the names that several entities share to this .json file

    RETURNS: the store, and the report of homonyms. Raises as `build_ontology` does.
    """
    if taxonomy and homonyms is None and settings.get("disambiguate") is None:
        expected = "--disambiguate or --homonyms as well"
        raise KrisselError(Errors.K006.format(setting="taxonomy", found=str(taxonomy), expected=expected))
    asked: dict[str, Any] = {
        "species": species,
        "common_names": common_names,
        "vocabularies": [*umls_source, *omop_vocabulary],
        "term_types": umls_term_type,
        "semantic_types": umls_type,
        "languages": umls_language,
        "suppressed": umls_suppressed,
        "type_ids": umls_type_ids,
        "relations": umls_relation,
        "codes": umls_code,
        "tradenames": umls_tradenames,
        "parents": umls_parents or omop_parents,
        "preset": umls_preset,
        "domains": omop_domain,
        "standard": omop_standard,
        "refset": snomed_refset,
    }
    check_replaceable(output, KIND)
    if homonyms is not None:
        check_file(homonyms)
    taxa = open_ontology(taxonomy, progress=progress) if taxonomy else None
    report: dict[str, Any] = {}

    def inspect(store: OntologyStore, key: str = "read") -> None:
        if homonyms is not None:
            report[key] = homonym_report(store, taxa)

    store = build_ontology(
        [*sources],
        output,
        enrich_from=[*enrich],
        fields=[*DEFAULT_FIELDS, "aliases"] if enrich_names else [*DEFAULT_FIELDS],
        trees=[*tree],
        taxonomy=taxa,
        inspect=inspect,
        merge_sources=merge,
        progress=progress,
        **{name: value for name, value in asked.items() if value},
        **settings,
    )
    disambiguated = store.manifest["info"].get("disambiguated") if settings.get("disambiguate") else None
    inspect(store, "result" if disambiguated else "read")
    if disambiguated:
        report["disambiguated"] = disambiguated
    if homonyms is not None:
        write_text(homonyms, json.dumps(report, indent=2, ensure_ascii=False) + "\n")
    return store, report


def show_ontology(found: tuple[OntologyStore, dict[str, Any]], output: Path, merge: bool, homonyms: Path | None) -> str:
    store, report = found
    manifest = store.manifest
    lines = [
        f"{manifest['entities']} entities, {manifest['names']} names ({manifest['shared_names']} shared) in {output}"
    ]
    if merge:
        merged = manifest["info"]["merged"]
        lines.append(f"{merged['merged']:,} of {merged['seen']:,} entities became part of another")
    if counts := report.get("disambiguated"):
        lines.append("No homonyms to disambiguate")
        if counts["success_rate"] is not None:
            lines[-1] = (
                f"{counts['success_rate']:.2%} of {counts['before']['homonyms']:,} homonyms disambiguated, "
                f"{counts['failures']:,} names still shared; {counts['second_choices']:,} second choices, "
                f"{counts['unchanged']:,} names unchanged"
            )
    if homonyms is not None:
        lines.append(f"{_table(report)}\n\nReport: {homonyms}")
    return "\n".join(lines)


def _table(report: dict[str, Any]) -> str:
    """BELHD's Table 2, of the store as it was read and as it is."""
    keys = [key for key in ("read", "result") if key in report]
    columns = [report[key] for key in keys]
    rows: list[tuple[str, ...]] = [("homonyms", *keys)]
    rows += [(key, *(f"{column[key]:,}" for column in columns)) for key in ("entities", "names", "homonyms")]
    rows.append(("names that are homonyms", *(_of(column["pairs"], column["names"]) for column in columns)))
    rows += [(f"– {title}", *(f"{column[key]:,}" for column in columns)) for key, title in CASES.items()]
    return markdown_table(rows)


def _of(part: int, whole: int) -> str:
    return f"{part:,} of {whole:,} ({part / max(whole, 1):.2%})"


def vocabularies(*, download: Sequence[str] = (), progress: bool = False) -> dict[str, Any]:
    """List the vocabularies that are known by name.

    `build` and `ontology` take these names in place of a file, and download what is not in the cache.

    download: Download the latest release of this one into the cache

    RETURNS: the record of each in the cache, else None. Raises KrisselError K006 (an unknown name), and as `fetch`.
    """
    names = [name.lower() for name in download]
    for name in names:
        if name not in VOCABULARIES:
            raise KrisselError(Errors.K006.format(setting="download", found=name, expected=", ".join(VOCABULARIES)))
    for name in names:
        fetch(name, refresh=True, progress=progress)
    return {name: whole(cache_folder() / name) for name in names or VOCABULARIES}


def show_vocabularies(found: dict[str, Any]) -> str:
    rows = []
    for name, record in found.items():
        known = VOCABULARIES[name]
        cached = record.get("downloaded", "by hand")[:10] if record else known.command and "needs a login"
        rows.append((name, known.title, known.size, cached, known.licence))
    header = ("name", "vocabulary", "about", "in the cache", "licence")
    return f"{wasabi.table(rows, header=header, max_col=60)}\nCache: {cache_folder()}"
