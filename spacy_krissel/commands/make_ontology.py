"""Conversion of ontology files to an ontology store, with a report of homonyms."""

import json
from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from pathlib import Path
from typing import Any

import wasabi

from ..errors import wrong_setting
from ..evaluation.tables import markdown_table
from ..ontology.build import build_ontology, open_ontology
from ..ontology.enrich import DEFAULT_FIELDS
from ..ontology.readers import Format
from ..ontology.readers.table import read_table as read_table
from ..ontology.shared_names import Order, homonym_report
from ..ontology.store import KIND, OntologyStore
from ..ontology.vocabularies import VOCABULARIES
from ..ontology.vocabularies.cache import fetch, verified_record
from ..util.atomic import check_file, write_text
from ..util.cache import cache_folder
from ..util.manifest import check_replaceable
from ..util.outputs import writes
from ..util.settings import checked, explicit_settings, takes

CASES = {"preferred": "preferred name", "other": "other name", "cross_species": "cross-species"}


@dataclass(frozen=True, kw_only=True)
class OntologySettings:
    """Settings of `build_ontology` that `build` and `ontology` expose.

    format: see `build_ontology`
    language, translations, version, licence: see `build_ontology`
    below: Keep this entity (HP:0000118) and its descendants, by parents or tree numbers
    not_below: Leave out this entity and its descendants
    trees: Keep entities with this prefix of a tree number (D)
    species_words: Add words that texts use for a species to its names (patients, mice), and take
        them from other taxa
    id_column, name_column, synonym_column, definition_column, type_column: see `read_table`
    parent_column, separator: see `read_table`
    """

    format: Format = "auto"
    language: str = ""
    translations: Sequence[str | Path] = ()
    below: Sequence[str] = ()
    not_below: Sequence[str] = ()
    trees: Sequence[str] = ()
    species_words: bool = False
    version: str | None = None
    licence: str | None = None
    id_column: str = ""
    name_column: str = ""
    synonym_column: str = ""
    definition_column: str = ""
    type_column: str = ""
    parent_column: str = ""
    separator: str | None = None


@checked
@dataclass(frozen=True)
class StoreSettings(OntologySettings):
    """Settings of `ontology`.

    sources: Ontology files or folders (formats: see --format), stores, or names of vocabularies
        (krissel vocabularies); .gz too
    output: Directory of the store
    species: NCBI Gene: keep this species (a tax id), or those of gnormplus or nlm-gene
    common_names: Taxonomy: name taxa by GenBank's common name (human), if they have one
    umls_source: UMLS and RxNorm: atoms of this source (SNOMEDCT_US)
    umls_term_type: UMLS and RxNorm: atoms of this term type (PT)
    umls_type: UMLS: concepts of this semantic type or below, by id, name or tree number
    umls_language: UMLS: atoms in this language; default: ENG
    umls_suppressed: UMLS: include suppressible and obsolete atoms
    umls_type_ids: UMLS: types by id (T047), not by name
    umls_relation: UMLS: use concepts with this relation (RL, SY) as cross-references
    umls_code: UMLS: use ids of this source (MSH, OMIM) as alternative ids, so that its gold ids
        resolve
    umls_tradenames: UMLS: add trade names to the names of a drug
    umls_parents: UMLS: keep the parents of concepts (MRREL's PAR)
    umls_preset: UMLS: release, types, sources and atoms of 2017AA (all), st21pv (MedMentions'
        subset) or sapbert
    omop_vocabulary: OMOP: concepts of this vocabulary (SNOMED)
    omop_domain: OMOP: concepts of this domain (Condition)
    omop_standard: OMOP: standard concepts only
    omop_parents: OMOP: keep the parents of concepts (CONCEPT_RELATIONSHIP.csv's "Is a")
    snomed_refset: SNOMED CT: language reference set of preferred names; default: US English
    merge: Merge entities of several sources that are one concept, named as in the first source
    enrich: Ontology file or store to take definitions and tree numbers from
    enrich_names: Take names too, for shared ids
    tree_types: Use the names of the roots of an entity's trees as its types
    prefix: Add this prefix to all ids without one (NCBIGene), which may equal ids of another store
    disambiguate: Expand names that several entities share by the preferred name, or by the
        "shortest" or "longest" other name
    taxonomy: Store of a taxonomy with the names of the entities' species
    homonyms: Write a report of the names that several entities share to this .json file
    """

    sources: Sequence[str | Path]
    output: Path
    _: KW_ONLY
    species: Sequence[str] = ()
    common_names: bool = False
    umls_source: Sequence[str] = ()
    umls_term_type: Sequence[str] = ()
    umls_type: Sequence[str] = ()
    umls_language: Sequence[str] = ()
    umls_suppressed: bool = False
    umls_type_ids: bool = False
    umls_relation: Sequence[str] = ()
    umls_code: Sequence[str] = ()
    umls_tradenames: bool = False
    umls_parents: bool = False
    umls_preset: str = ""
    omop_vocabulary: Sequence[str] = ()
    omop_domain: Sequence[str] = ()
    omop_standard: bool = False
    omop_parents: bool = False
    snomed_refset: str = ""
    merge: bool = False
    enrich: Sequence[Path] = ()
    enrich_names: bool = False
    tree_types: bool = False
    prefix: str = ""
    disambiguate: Order | None = None
    taxonomy: Path | None = None
    homonyms: Path | None = None
    progress: bool = False

    def of_readers(self) -> dict[str, Any]:
        """Return options of the readers of some formats, under the readers' names."""
        asked: dict[str, Any] = {
            "species": self.species,
            "common_names": self.common_names,
            "vocabularies": [*self.umls_source, *self.omop_vocabulary],
            "term_types": self.umls_term_type,
            "semantic_types": self.umls_type,
            "languages": self.umls_language,
            "suppressed": self.umls_suppressed,
            "type_ids": self.umls_type_ids,
            "relations": self.umls_relation,
            "codes": self.umls_code,
            "tradenames": self.umls_tradenames,
            "parents": self.umls_parents or self.omop_parents,
            "preset": self.umls_preset,
            "domains": self.omop_domain,
            "standard": self.omop_standard,
            "refset": self.snomed_refset,
        }
        return {name: value for name, value in asked.items() if value}


@writes("homonyms")
@takes(StoreSettings)
def ontology(asked: StoreSettings) -> tuple[OntologyStore, dict[str, Any]]:
    """Read ontology files into a store for the other commands.

    RETURNS: the store, and the report of homonyms. Raises as `build_ontology` does.
    """
    if asked.taxonomy and asked.homonyms is None and asked.disambiguate is None:
        raise wrong_setting("taxonomy", asked.taxonomy, "--disambiguate or --homonyms as well")
    check_replaceable(asked.output, KIND)
    if asked.homonyms is not None:
        check_file(asked.homonyms)
    taxa = open_ontology(asked.taxonomy, progress=asked.progress) if asked.taxonomy else None
    report: dict[str, Any] = {}

    def inspect(store: OntologyStore, key: str = "read") -> None:
        if asked.homonyms is not None:
            report[key] = homonym_report(store, taxa)

    store = build_ontology(
        [*asked.sources],
        asked.output,
        enrich_from=[*asked.enrich],
        fields=[*DEFAULT_FIELDS, *(["aliases"] if asked.enrich_names else [])],
        tree_types=asked.tree_types,
        prefix=asked.prefix,
        disambiguate=asked.disambiguate,
        taxonomy=taxa,
        inspect=inspect,
        merge_sources=asked.merge,
        progress=asked.progress,
        **asked.of_readers(),
        **explicit_settings(asked, OntologySettings),
    )
    disambiguated = store.manifest["info"].get("disambiguated") if asked.disambiguate else None
    inspect(store, "result" if disambiguated else "read")
    if disambiguated:
        report["disambiguated"] = disambiguated
    if asked.homonyms is not None:
        write_text(asked.homonyms, json.dumps(report, indent=2, ensure_ascii=False) + "\n")
    return store, report


def show_ontology(
    found: tuple[OntologyStore, dict[str, Any]], output: Path, merge: bool, homonyms: Path | None
) -> str:
    store, report = found
    manifest = store.manifest
    lines = [
        (
            f"{manifest['entities']} entities, {manifest['names']} names "
            f"({manifest['shared_names']} shared) in {output}"
        )
    ]
    if merge:
        merged = manifest["info"]["merged"]
        lines.append(f"{merged['merged']:,} of {merged['seen']:,} entities became part of another")
    if counts := report.get("disambiguated"):
        lines.append("No homonyms to disambiguate")
        if counts["success_rate"] is not None:
            lines[-1] = (
                f"{counts['success_rate']:.2%} of {counts['before']['homonyms']:,} homonyms "
                f"disambiguated, {counts['failures']:,} names still shared; "
                f"{counts['second_choices']:,} second choices, {counts['unchanged']:,} names "
                "unchanged"
            )
    if homonyms is not None:
        lines.append(f"{_table(report)}\n\nReport: {homonyms}")
    return "\n".join(lines)


def _table(report: dict[str, Any]) -> str:
    """Return BELHD's Table 2, of the store before and after disambiguation."""
    keys = [key for key in ("read", "result") if key in report]
    columns = [report[key] for key in keys]
    rows: list[tuple[str, ...]] = [("homonyms", *keys)]
    rows += [
        (key, *(f"{column[key]:,}" for column in columns))
        for key in ("entities", "names", "homonyms")
    ]
    rows.append(
        ("names that are homonyms", *(_of(column["pairs"], column["names"]) for column in columns))
    )
    rows += [
        (f"– {title}", *(f"{column[key]:,}" for column in columns)) for key, title in CASES.items()
    ]
    return markdown_table(rows)


def _of(part: int, whole: int) -> str:
    return f"{part:,} of {whole:,} ({part / max(whole, 1):.2%})"


def vocabularies(*, download: Sequence[str] = (), progress: bool = False) -> dict[str, Any]:
    """List the vocabularies that are known by name.

    `build` and `ontology` accept these names instead of a file, and download what is not in the
    cache.

    download: Download the latest release of this vocabulary into the cache

    RETURNS: the record of each in the cache, else None. Raises KrisselError K006 (an unknown name),
    and those of `fetch`.
    """
    names = [name.lower() for name in download]
    for name in names:
        if name not in VOCABULARIES:
            raise wrong_setting("download", name, ", ".join(VOCABULARIES))
    for name in names:
        fetch(name, refresh=True, progress=progress)
    return {name: verified_record(cache_folder() / name) for name in names or VOCABULARIES}


def show_vocabularies(found: dict[str, Any]) -> str:
    rows = []
    for name, record in found.items():
        known = VOCABULARIES[name]
        cached = (
            record.get("downloaded", "by hand")[:10]
            if record
            else known.command and "needs a login"
        )
        rows.append((name, known.title, known.size, cached, known.licence))
    header = ("name", "vocabulary", "about", "in the cache", "licence")
    return f"{wasabi.table(rows, header=header, max_col=60)}\nCache: {cache_folder()}"
