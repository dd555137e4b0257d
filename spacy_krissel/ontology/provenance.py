"""Provenance of a store: its source files with their hashes, versions and licences."""

import re
from collections.abc import Callable, Mapping
from html import unescape
from pathlib import Path
from re import Pattern
from typing import Any

from ..util.hashing import sha256_file
from ..util.manifest import MANIFEST, read_manifest
from .readers import READERS, detect_format
from .readers.records import JSON_TEXT, FileHead, json_text
from .store import KIND, VERSION, StoreSchema

# Patterns for version and licence in the first lines of a file.
STATED: dict[str, tuple[Pattern[str], Pattern[str]]] = {
    "obo": (
        re.compile(r"^data-version:\s*(\S.*)$", re.MULTILINE),
        # A property of the ontology, or a remark.
        re.compile(
            (
                r"^(?:property_value:\s*\S*licen[cs]e\s+\"?|"
                r"remark:\s*(?=.*licen[cs]e))(.+?)\"?(?:\s+xsd:\S+)?\s*$"
            ),
            re.MULTILINE | re.IGNORECASE,
        ),
    ),
    "owl": (
        re.compile(r"<owl:versionInfo[^>]*>\s*([^<]+)"),
        re.compile(r"<\w+:licen[cs]e(?:\s+rdf:resource=\"|[^>]*>)\s*([^\"<]+)"),
    ),
    "fhir": (
        re.compile(r'"version"\s*:\s*"([^"]+)"'),
        re.compile(rf'"copyright"\s*:\s*"({JSON_TEXT})"'),
    ),
    # This format states no licence.
    "icd10cm": (re.compile(r"<version>\s*([^<]+)"), re.compile("(?!)")),
}
# Converters of the stated texts to plain text.
UNESCAPED: dict[str, Callable[[str], str]] = {
    "owl": unescape,
    "fhir": json_text,
}
# Concepts of FHIR have statements as well.
CONCEPTS = re.compile(r'"concept"\s*:')


def provenance(
    path: str | Path,
    format: str,
    *,
    version: str | None = None,
    licence: str | None = None,
    options: Mapping[str, Any] | None = None,
) -> list[dict[str, Any]]:
    """Describe the provenance of an ontology file or folder, or of a store: one object per source.

    "source": the name of the file or folder. "format". "files": bytes and SHA-256 of each file that
    is read with these `options` of the reader. "version", "licence": as stated by the files, else
    as given here; absent if unknown. Formats with several vocabularies have "vocabularies" as well
    (`readers.umls.umls_release`). A store has the provenance of its sources.

    Raises KrisselError K101, K102 and K104 as `read_ontology` does.
    """
    path = Path(path)
    if (path / MANIFEST).is_file():
        earlier = read_manifest(path, KIND, VERSION, verify=False, schema=StoreSchema)["info"].get(
            "provenance", []
        )
        return [dict(each) for each in earlier]
    format = detect_format(path, options or {}) if format == "auto" else format
    reader = READERS[format]
    files = reader.files(path, **(options or {}))
    found: dict[str, Any] = {"source": path.name, "format": format}
    found["files"] = {
        file_.name: {"bytes": file_.stat().st_size, "sha256": sha256_file(file_)} for file_ in files
    }
    stated = {**_stated(path, format), **reader.states(path)}
    given = {"version": version, "licence": licence}
    return [{**found, **{name: value for name, value in given.items() if value}, **stated}]


def _stated(path: Path, format: str) -> dict[str, Any]:
    if format not in STATED:
        return {}
    text = FileHead(path).text
    if format == "fhir":
        text = CONCEPTS.split(text, maxsplit=1)[0]
    found = zip(
        ("version", "licence"), (pattern.search(text) for pattern in STATED[format]), strict=True
    )
    plain = UNESCAPED.get(format, str)
    return {name: plain(match[1]).strip() for name, match in found if match}
