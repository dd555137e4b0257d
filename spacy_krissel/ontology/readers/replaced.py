"""Obsolete ids and the entities that replace them."""

import warnings
from array import array
from collections import defaultdict
from collections.abc import Iterable, Sequence
from itertools import chain
from pathlib import Path

from ...errors import KrisselWarning, Warnings
from ..entity import spellings
from .records import MAX_EXAMPLES, unique


class Replaced:
    """The obsolete ids of a file, which become alternative ids of the entities that replace them.

    An obsolete id leads to all its stated replacements. If there are none, or they lead to no
    entity, it leads to its id for consideration, but only if there is exactly one: only a person
    can choose among several. The target may in turn be obsolete, in any number of steps, an
    alternative id of an entity, or in another spelling than in the file (`ids.spellings`).

    All ids are added before the first entity is made.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        # Ids that lead to each id.
        self._older: dict[str, list[str]] = defaultdict(list)
        # Stated targets of obsolete ids: replacements, and ids for consideration.
        self._stated: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {}
        # Hashes of the ids of entities, since a file may have millions.
        self._present = array("q")
        self._linked = False
        self._found: set[str] = set()

    def add(
        self,
        id_: str,
        replaced_by: Iterable[str],
        consider: Iterable[str],
        alt_ids: Iterable[str] = (),
    ) -> None:
        """Add an obsolete id, and its former alternative ids."""
        newer, candidates = unique(replaced_by, without=id_), unique(consider, without=id_)
        if id_ and (newer or candidates):
            self._stated[id_] = newer, candidates
            self._older[id_] += alt_ids

    def add_older(self, id_: str, older: Iterable[str]) -> None:
        """Add the ids that another id, obsolete or not, replaces."""
        self._older[id_] += older

    def add_present(self, ids: Iterable[str]) -> None:
        """Add the id of an entity, and its alternative ids."""
        self._present.extend(map(hash, ids))

    def _link(self) -> None:
        """Link each obsolete id to its replacements."""
        spelt = {
            text: spellings(text) for stated in self._stated.values() for text in chain(*stated)
        }
        wanted = {hash(each): each for each in chain(self._stated, *spelt.values())}
        present = {wanted[each] for each in self._present if each in wanted}
        known = {*present, *self._stated, *chain(*self._older.values())}
        resolved = {
            text: next((each for each in found if each in known), text)
            for text, found in spelt.items()
        }
        single = {
            id_: resolved[each[0]] for id_, (_, each) in self._stated.items() if len(each) == 1
        }
        for id_, (newer, _) in self._stated.items():
            for each in [resolved[text] for text in newer] or (
                [single[id_]] if id_ in single else []
            ):
                self._older[each].append(id_)
        reached = self._leading_to(present)
        moved = dict.fromkeys(
            id_ for id_, each in single.items() if id_ not in reached and each in reached
        )
        for each in {resolved[text] for id_ in moved for text in self._stated[id_][0]}:
            self._older[each] = [id_ for id_ in self._older[each] if id_ not in moved]
        for id_ in moved:
            self._older[single[id_]].append(id_)

    def _leading_to(self, ids: Iterable[str]) -> dict[str, None]:
        """Return the ids, followed by all ids that they replace, directly or indirectly."""
        found = dict.fromkeys(ids)
        waiting = [*found]
        while waiting:
            older = [each for each in self._older.get(waiting.pop(), ()) if each not in found]
            found.update(dict.fromkeys(older))
            waiting += older
        return found

    def alt_ids(self, id_: str, own: Sequence[str] = ()) -> tuple[str, ...]:
        """Return the alternative ids of an entity: its own, and all ids that lead to one of its
        ids.
        """
        if not self._linked:
            self._link()
            self._linked = True
        found = self._leading_to((id_, *own))
        self._found.update(found)
        return unique(found, without=id_)

    def finish(self) -> None:
        """Warn KW108 about obsolete ids that lead to no entity, after the last entity."""
        lost = [id_ for id_ in self._stated if id_ not in self._found]
        if lost:
            examples = "; ".join(
                f"{id_} ({_in_words(*self._stated[id_])})" for id_ in lost[:MAX_EXAMPLES]
            )
            message = Warnings.KW108.format(count=len(lost), path=self._path, examples=examples)
            warnings.warn(message, KrisselWarning, stacklevel=5)


def _in_words(newer: Sequence[str], candidates: Sequence[str]) -> str:
    parts = [f"replaced by {', '.join(newer)}"] if newer else []
    return ", ".join(parts + ([f"consider {' or '.join(candidates)}"] if candidates else []))
