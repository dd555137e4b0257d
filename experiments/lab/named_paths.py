"""Options of the form name=path."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from spacy_krissel.errors import wrong_setting

PathLike = str | Path


def named_paths(
    setting: str, given: Mapping[str, PathLike] | Sequence[str]
) -> Mapping[str, PathLike]:
    """Return paths by name. Raises KrisselError K006 for a text other than name=path, and for a
    repeated name."""
    if isinstance(given, Mapping):
        return given
    found: dict[str, PathLike] = {}
    for name, path in name_path_pairs(setting, given):
        if name in found:
            raise wrong_setting(setting, f"{name}={path}", "name=path, each name once")
        found[name] = path
    return found


def name_path_pairs(setting: str, given: Sequence[str]) -> list[tuple[str, str]]:
    """Return names and paths. Raises KrisselError K006 for a text other than name=path."""
    pairs = []
    for each in given:
        name, _, path = each.partition("=")
        if not (name and path):
            raise wrong_setting(setting, each, "name=path")
        pairs.append((name, path))
    return pairs
