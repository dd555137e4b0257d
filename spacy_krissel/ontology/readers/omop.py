"""OMOP's standardised vocabularies as shipped by ATHENA: CONCEPT.csv and related files,
tab-separated and unquoted.
"""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from ..entity import Entity, canonical_id
from .records import find_file, open_records, required_file, table_rows, unique

CONCEPTS, SYNONYMS = "CONCEPT.csv", "CONCEPT_SYNONYM.csv"
RELATIONS, VOCABULARIES = "CONCEPT_RELATIONSHIP.csv", "VOCABULARY.csv"
COLUMNS = {
    CONCEPTS: (
        "concept_id concept_name domain_id vocabulary_id concept_code standard_concept "
        "invalid_reason"
    ),
    SYNONYMS: "concept_id concept_synonym_name language_concept_id",
    RELATIONS: "concept_id_1 concept_id_2 relationship_id invalid_reason",
    VOCABULARIES: "vocabulary_id vocabulary_version",
}
MAY_BE_BLANK = ("domain_id", "standard_concept", "invalid_reason", "vocabulary_version")
STANDARD, ENGLISH, IS_A = "S", "4180186", "Is a"
# The vocabulary whose version is that of the whole.
WHOLE = "None"
# Prefixes that other readers use for ids of a vocabulary.
PREFIXES = {"SNOMED": "SNOMEDCT", "RxNorm": "RXNORM"}


def read_omop(
    path: str | Path,
    *,
    vocabularies: Sequence[str] = (),
    domains: Sequence[str] = (),
    standard: bool = False,
    parents: bool = False,
) -> Iterator[Entity]:
    """Read the valid concepts of OMOP's vocabularies, with their English synonyms.

    Ids are OMOP's (`concept_id`); the code in the vocabulary is an xref (`SNOMEDCT:22298006`), and
    the domain is the type. Concepts are held in memory, 0.4 kB per concept with a synonym, 0.7 kB
    with a parent: 0.8 and 1.3 GiB for 2 million.

    path: the folder of the files, each of them plain or as `.gz`.
    vocabularies, domains: read only their concepts, by id (SNOMED; Condition).
    standard: read only standard concepts.
    parents: keep the "Is a" parents of concepts, from CONCEPT_RELATIONSHIP.csv.

    Raises KrisselError K101 (no such file).
    """
    folder = Path(path)
    # Name, type and xref of each concept between tabs, followed by its synonyms.
    concepts: dict[str, list[str]] = {}
    for id_, name, domain, vocabulary, code, level, invalid in _rows(folder, CONCEPTS):
        if (
            not invalid
            and (not standard or level == STANDARD)
            and (not vocabularies or vocabulary in vocabularies)
            and (not domains or domain in domains)
        ):
            xref = canonical_id(f"{PREFIXES.get(vocabulary, vocabulary)}:{code}")
            concepts[id_] = [f"{name}\t{domain}\t{xref}"]
    for id_, synonym, language in _rows(folder, SYNONYMS):
        if language == ENGLISH and id_ in concepts:
            concepts[id_].append(synonym)
    above: dict[str, list[str]] = defaultdict(list)
    if parents:
        for id_, parent, relation, invalid in _rows(folder, RELATIONS):
            if relation == IS_A and not invalid and id_ in concepts and id_ != parent:
                above[id_].append(parent)
    for id_, (first, *synonyms) in concepts.items():
        name, domain, xref = first.split("\t")
        yield Entity(
            id=id_,
            name=name,
            aliases=unique(synonyms, without=name),
            types=unique([domain]),
            xrefs=(xref,),
            source="OMOP",
            parents=unique(above.get(id_, ())),
        )


def holds_omop(folder: Path) -> bool:
    """Return whether a folder holds OMOP's vocabularies."""
    return find_file(folder, CONCEPTS) is not None


def omop_files(path: Path, *, parents: bool = False, **options: Any) -> list[Path]:
    """Return the files at `path` that are read."""
    needed = (CONCEPTS, SYNONYMS, RELATIONS) if parents else (CONCEPTS, SYNONYMS)
    return [
        *(required_file(path, name, "OMOP") for name in needed),
        *filter(None, [find_file(path, VOCABULARIES)]),
    ]


def omop_release(path: Path) -> dict[str, Any]:
    """Return the version of the whole and of each vocabulary, as stated by VOCABULARY.csv."""
    if find_file(path, VOCABULARIES) is None:
        return {}
    found = {
        vocabulary: {"version": version}
        for vocabulary, version in _rows(path, VOCABULARIES)
        if version
    }
    return {**found.pop(WHOLE, {}), "vocabularies": found}


def _rows(folder: Path, name: str) -> Iterator[tuple[str, ...]]:
    columns = COLUMNS[name].split()
    filled = [column for column in columns if column not in MAY_BE_BLANK]
    expected = f"OMOP's {name}, with tabs between the columns {', '.join(columns)}"
    with open_records(required_file(folder, name, "OMOP"), "omop", expected) as records:
        yield from table_rows(records, columns, filled)
        # Some vocabularies have no synonyms.
        records.good += records.line == 1
