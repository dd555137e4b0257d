"""SNOMED CT's Release Format 2: concepts, descriptions, definitions, is-a relationships and
language reference sets of a snapshot.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ...errors import Errors, KrisselError, wrong_setting
from ..entity import Entity
from .records import JSON_TEXT, json_text, open_records, table_rows, unique

# Possible folders of a release's tables, from the folder Terminology to the one above the release.
FOLDERS = ("", "Terminology/", "*/Terminology/", "*/*/Terminology/")
INFORMATION = "release_package_information.json"
# Files of a beta release begin with an x.
CONCEPTS = "*sct2_Concept_*Snapshot_*.txt"
RELATIONSHIPS = "*sct2_Relationship_*Snapshot_*.txt"
DESCRIPTIONS = "*sct2_Description_*Snapshot-{}_*.txt"
DEFINITIONS = "*sct2_TextDefinition_*Snapshot-{}_*.txt"
PREFERENCES = "*der2_cRefset_Language*Snapshot-{}_*.txt"
FULLY_SPECIFIED, DEFINITION, IS_A = "900000000000003001", "900000000000550004", "116680003"
PREFERRED, US_ENGLISH, ENGLISH = "900000000000548007", "900000000000509007", "en"
_TAGGED = re.compile(r"(.*\S)\s*\(([^()]+)\)")
_VERSION = re.compile(r"Snapshot_(\w+)\.")
_LICENCE = re.compile(rf'"licen[cs]eStatement"\s*:\s*"({JSON_TEXT})"')


@dataclass(slots=True)
class Concept:
    """Parts of a concept. preferred, full: its preferred and fully specified names. others: its
    other names.
    """

    preferred: str = ""
    full: str = ""
    definition: str = ""
    others: list[str] = field(default_factory=list)
    parents: list[str] = field(default_factory=list)


def read_snomed(
    path: str | Path, *, language: str = ENGLISH, refset: str = US_ENGLISH
) -> Iterator[Entity]:
    """Read the active concepts of SNOMED CT with their active descriptions.

    All are held in memory, 0.9 kB per concept with three names and two parents: 300 MiB for
    360,000.

    The name is the synonym that the language reference set prefers, else the fully specified name,
    else the first synonym. The fully specified name loses its semantic tag ("disorder"), which is
    the type. Parents come from active is-a relationships. Ids are bare numbers; the number with
    `SNOMEDCT:` is an alternative id. A concept without a name in the language is left out.

    path: a release, its folder Snapshot or Terminology, or the folder above it; files plain or as
        `.gz`. Full and Delta are not read.
    language: of descriptions and definitions (`Snapshot-en`).
    refset: id of the language reference set. US English; British English is 900000000000508004.

    Raises KrisselError K006 (no such reference set), K101 (no file of a table, or several).
    """
    concepts_file, descriptions, relationships, preferences, *definitions = snomed_files(
        path, language=language
    )
    concepts = {id_: Concept() for (id_,) in _active(concepts_file, "id")}
    levels = _active(preferences, "referencedComponentId", "acceptabilityId", "refsetId")
    preferred = {id_ for id_, level, set_ in levels if set_ == refset and level == PREFERRED}
    if not preferred:
        expected = f"a language reference set with preferred descriptions in '{preferences.name}'"
        raise wrong_setting("refset", refset, expected)
    for file_ in (descriptions, *definitions):
        for id_, key, code, kind, term in _active(
            file_, "id", "conceptId", "languageCode", "typeId", "term"
        ):
            concept = concepts.get(key)
            if concept is None or code != language:
                continue
            if kind == FULLY_SPECIFIED:
                concept.full = concept.full if concept.full and id_ not in preferred else term
            elif kind == DEFINITION:
                concept.definition = (
                    concept.definition if concept.definition and id_ not in preferred else term
                )
            elif id_ in preferred:
                concept.preferred = term
            else:
                concept.others.append(term)
    del preferred
    for key, parent, kind in _active(relationships, "sourceId", "destinationId", "typeId"):
        if kind == IS_A and key in concepts:
            concepts[key].parents.append(parent)
    for key, concept in concepts.items():
        tagged = _TAGGED.fullmatch(concept.full)
        full, types = (tagged[1], (tagged[2],)) if tagged else (concept.full, ())
        names = unique([concept.preferred, full, *concept.others])
        if names:
            yield Entity(
                id=key,
                name=names[0],
                aliases=names[1:],
                types=types,
                definition=concept.definition,
                source="SNOMED CT",
                alt_ids=(f"SNOMEDCT:{key}",),
                parents=unique(concept.parents),
            )


def holds_snomed(folder: Path) -> bool:
    """Return whether it is a folder of SNOMED CT, with any kind of release."""
    return any(True for prefix in FOLDERS for _ in folder.glob(f"{prefix}*sct2_Concept_*.txt*"))


def snomed_files(path: str | Path, *, language: str = ENGLISH, **options: Any) -> list[Path]:
    """Return the files of concepts, descriptions, relationships and preferences, and of definitions
    if there are any.
    """
    concepts = _files(Path(path).absolute(), CONCEPTS, *FOLDERS)
    folder = concepts[0].parent
    return [
        *concepts,
        *_files(folder, DESCRIPTIONS.format(language)),
        *_files(folder, RELATIONSHIPS),
        *_files(folder.parent / "Refset" / "Language", PREFERENCES.format(language)),
        *_files(folder, DEFINITIONS.format(language), needed=False),
    ]


def snomed_release(path: Path) -> dict[str, Any]:
    """Return the version from the name of the concepts' file (INT_20260101), and the licence stated
    by the release.
    """
    (concepts,) = _files(path.absolute(), CONCEPTS, *FOLDERS)
    information = concepts.parents[2] / INFORMATION
    text = information.read_text(encoding="utf8", errors="replace") if information.is_file() else ""
    found = {"version": _VERSION.search(concepts.name), "licence": _LICENCE.search(text)}
    return {name: json_text(match[1]) for name, match in found.items() if match}


def _files(folder: Path, pattern: str, *folders: str, needed: bool = True) -> list[Path]:
    """Return the file with this name in one of the folders, plain or gzipped; empty if it is
    missing and not needed.

    Raises KrisselError K101 for none or several.
    """
    every = [
        file_
        for prefix in folders or ("",)
        for end in ("", ".gz")
        for file_ in folder.glob(prefix + pattern + end)
    ]
    if len(every) > 1 or (needed and not every):
        expected = (
            f"one file of SNOMED CT's snapshot (Full and Delta are not read), not {len(every)}"
        )
        raise KrisselError(Errors.K101.format(path=folder / pattern, expected=expected))
    return every


def _active(path: Path, *columns: str) -> Iterator[tuple[str, ...]]:
    """Yield the cells of these columns in active rows."""
    with open_records(
        path, "snomed", f"a table of SNOMED CT with the columns active, {', '.join(columns)}"
    ) as records:
        for active, *cells in table_rows(records, ("active", *columns)):
            if active == "1":
                yield tuple(cells)
        # National editions have tables without rows.
        records.good += records.line == 1
