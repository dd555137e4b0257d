"""Obsolete ids, and the entities that they lead to."""

import warnings
from collections import defaultdict
from collections.abc import Iterable, Sequence
from pathlib import Path

from ...errors import KrisselWarning, Warnings
from .records import PLACES_SHOWN, unique


class Replaced:
    """The obsolete ids of a file, which become alternative ids of the entities that replace them.

    An obsolete id leads to all ids that it states as its replacements. Without any, it leads to the
    one that it states for consideration, but not to one of several: which of these is meant, only a
    person can say. What it leads to may be obsolete as well, in any number of steps, or the
    alternative id of an entity.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._older: dict[str, list[str]] = defaultdict(list)
        # Of ids that state a replacement, what they state, in words.
        self._stated: dict[str, str] = {}
        self._found: set[str] = set()

    def add(self, id_: str, replaced_by: Iterable[str], consider: Iterable[str], alt_ids: Iterable[str] = ()) -> None:
        """Add an obsolete id, and the alternative ids that it had."""
        newer, candidates = unique(replaced_by, without=id_), unique(consider, without=id_)
        if not id_ or not (newer or candidates):
            return
        self._stated[id_] = f"replaced by {', '.join(newer)}" if newer else f"consider {' or '.join(candidates)}"
        self._older[id_] += alt_ids
        for each in newer or (candidates if len(candidates) == 1 else ()):
            self._older[each].append(id_)

    def add_older(self, id_: str, older: Iterable[str]) -> None:
        """Add the ids that another, obsolete or not, states that it replaces."""
        self._older[id_] += older

    def alt_ids(self, id_: str, own: Sequence[str] = ()) -> tuple[str, ...]:
        """The alternative ids of an entity: its own, and all ids that lead to it or to one of
        these."""
        found = dict.fromkeys((id_, *own))
        waiting = [*found]
        while waiting:
            older = [each for each in self._older.get(waiting.pop(), ()) if each not in found]
            found.update(dict.fromkeys(older))
            waiting += older
        self._found.update(found)
        return unique(found, without=id_)

    def finish(self) -> None:
        """Warn of obsolete ids that lead to no entity, after the last entity (KW108)."""
        lost = [id_ for id_ in self._stated if id_ not in self._found]
        if lost:
            places = "; ".join(f"{id_} ({self._stated[id_]})" for id_ in lost[:PLACES_SHOWN])
            message = Warnings.KW108.format(count=len(lost), path=self._path, places=places)
            warnings.warn(message, KrisselWarning, stacklevel=5)
