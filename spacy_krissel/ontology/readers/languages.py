"""Language of names, for formats that state one for each text."""

import warnings
from collections import Counter
from collections.abc import Collection
from pathlib import Path

from ...errors import KrisselWarning, Warnings
from .records import MAX_EXAMPLES

ENGLISH = "en"


def is_language(found: str, wanted: str) -> bool:
    """Return whether a language is the wanted one: `en-GB` counts as `en`, and `en` as `en-GB`."""
    found, wanted = (each.lower().replace("_", "-") for each in (found, wanted))
    return (
        found == wanted
        or found.startswith(f"{wanted}-")
        or (found != "" and wanted.startswith(f"{found}-"))
    )


class Languages:
    """Chooses a language for the names of each entity of a file.

    An entity without a label in the wanted language is named by a label without a language, else in
    English, else in another language, and is counted. If English is wanted, a text without a
    language counts as English.
    """

    def __init__(self, path: Path, wanted: str) -> None:
        self._path, self._wanted = path, wanted
        self._untagged = wanted if is_language(ENGLISH, wanted) else ""
        self._others: Counter[str] = Counter()
        self._ids: list[str] = []

    def key(self, stated: str) -> str:
        """Return one key per language: the wanted one for all its variants, "" for none."""
        return self._wanted if is_language(stated, self._wanted) else stated or self._untagged

    def order(self, id_: str, labelled: Collection[str]) -> list[str]:
        """Return the languages for the names of an entity, preferred first.

        labelled: the languages of its labels, by their keys.
        """
        if self._wanted in labelled:
            return [self._wanted, ""]
        # Texts may come in arbitrary order.
        other = min(labelled, key=lambda each: (each != "", not is_language(each, ENGLISH), each))
        self._others[other or "none stated"] += 1
        self._ids += [id_] if len(self._ids) < MAX_EXAMPLES else []
        return [*dict.fromkeys((other, self._wanted, ""))]

    def finish(self) -> None:
        """Warn KW109 about entities named in another language, after the last entity."""
        if self._others:
            found = ", ".join(
                f"{language} ({count})" for language, count in self._others.most_common()
            )
            message = Warnings.KW109.format(
                count=self._others.total(),
                path=self._path,
                language=self._wanted,
                found=found,
                ids=", ".join(self._ids),
            )
            warnings.warn(message, KrisselWarning, stacklevel=5)
