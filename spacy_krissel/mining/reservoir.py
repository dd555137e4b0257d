"""A capped uniform sample of each entity's mentions that does not depend on the order in which they come.

Every mention has a priority, a 64-bit hash of the seed, its document, place and entity; of each entity the mentions
of lowest priority are kept ("bottom-k" sampling). As with a classical reservoir each mention of an entity has the same
chance, but which ones are kept depends on the mentions alone: not on the order of the texts, the number of processes,
or where a run was interrupted. And samples merge: the sample of a whole is in the union of its parts' samples.
"""

import heapq
from hashlib import blake2b
from typing import Dict, Generic, Iterator, List, Optional, Tuple, TypeVar

Item = TypeVar("Item")


def priority(seed: int, doc: str, start: int, entity: str) -> int:
    """The mention's priority, uniform in [0, 2^64); the lowest are kept."""
    digest = blake2b(f"{seed}\0{doc}\0{start}\0{entity}".encode(), digest_size=8).digest()
    return int.from_bytes(digest, "big")


class Reservoir(Generic[Item]):
    """For each key (the row of an entity) the `cap` items of lowest priority; all of them if `cap` is None."""

    def __init__(self, cap: Optional[int]) -> None:
        self.cap = cap
        self._heaps: Dict[int, List[Tuple[int, int, Item]]] = {}
        self._offered = 0

    def offer(self, key: int, priority: int, item: Item) -> bool:
        """Whether the item is among the lowest of its key so far; it may be pushed out again later."""
        heap = self._heaps.setdefault(key, [])
        self._offered += 1
        # Highest priority on top; equal ones, should there ever be any, by order of arrival, never by the items.
        entry = (-priority, -self._offered, item)
        if self.cap is None or len(heap) < self.cap:
            heapq.heappush(heap, entry)
        elif entry > heap[0]:
            heapq.heapreplace(heap, entry)
        else:
            return False
        return True

    def __iter__(self) -> Iterator[Tuple[int, int, Item]]:
        """Keys in order, and of each key `(key, priority, item)` from the lowest priority up."""
        for key in sorted(self._heaps):
            for negative, _, item in sorted(self._heaps[key], key=lambda entry: entry[:2], reverse=True):
                yield key, -negative, item
