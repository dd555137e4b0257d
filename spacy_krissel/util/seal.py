"""Pipelines as a command wrote them, or as a person changed them: settings, components, texts."""

import hashlib
import json
from pathlib import Path
from typing import Any

import srsly

from .hashing import content_hash

# Files of a saved pipeline other than components, and files that operating systems leave in
# folders.
PIPELINE = {"config.cfg", "meta.json", "tokenizer", "vocab", "LICENSES_SOURCES"}
SYSTEM_FILES = {".DS_Store", "Thumbs.db", "desktop.ini"}
META = "meta.json"
# Texts of meta.json that a person may change; the rest changes by an evaluation.
CARD_TEXTS = ("name", "version", "description", "author", "email", "url", "license")
# What differs although nobody changed it: a vocab grows, and only commands write licences.
OTHERS = (PIPELINE | SYSTEM_FILES) - {"config.cfg", "tokenizer"}
# Keys of meta.json with the hash of a pipeline that a command wrote; "" once a person changed it.
SEAL = ("krissel", "written")


def seal(folder: Path) -> None:
    """Write the hash of a pipeline into its meta.json, unless it is `mark_changed`."""
    if (folder / META).is_file():
        meta = json.loads((folder / META).read_text(encoding="utf8"))
        own = meta.setdefault(SEAL[0], {})
        if own.get(SEAL[1]) != "":
            own[SEAL[1]] = _hash(folder, meta)
            srsly.write_json(folder / META, meta)


def mark_changed(meta: dict[str, Any]) -> None:
    """Mark the meta of a pipeline that a person changed. It stays so when a command saves it."""
    meta.setdefault(SEAL[0], {})[SEAL[1]] = ""


def is_changed(folder: Path) -> bool:
    """Return whether a pipeline differs from what a command wrote; False without a seal."""
    try:
        meta = json.loads((folder / META).read_text(encoding="utf8"))
        written = meta[SEAL[0]][SEAL[1]]
        return bool(written != _hash(folder, meta))
    except PermissionError:
        raise
    except (OSError, ValueError, TypeError, KeyError, RecursionError):
        # It has no seal, or is damaged.
        return False


def _hash(folder: Path, meta: dict[str, Any]) -> str:
    parts = sorted(part.name for part in folder.iterdir() if part.name not in OTHERS)
    hashes = [(part, content_hash(folder / part)) for part in parts]
    texts = [meta.get(name) for name in CARD_TEXTS]
    return hashlib.sha256(json.dumps([texts, hashes]).encode()).hexdigest()
