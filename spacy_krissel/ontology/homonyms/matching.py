"""Giving each of several seekers something that it wishes for, each thing to one of them."""

from collections import deque
from typing import Dict, Optional, Sequence, Set


def assign(wishes: Sequence[Sequence[str]], owners: Optional[Dict[str, int]] = None) -> Dict[str, int]:
    """A largest assignment of things to seekers (maximum bipartite matching by shortest augmenting paths).

    wishes: for each seeker what it may get, the most wanted first. In their order, seekers get the first thing that is
        free; where none is, the fewest others move on to a thing that is.
    owners: an assignment to extend: whoever has something in it will have something.
    RETURNS: thing → its seeker's number. A seeker without anything is in no such assignment that is larger.
    """
    owners = dict(owners or {})
    has = {seeker: thing for thing, seeker in owners.items()}
    # No way leads from what a seeker searched in vain to anything free, then or later.
    dead: Set[str] = set()
    for seeker in range(len(wishes)):
        if seeker in has:
            continue
        asked_by: Dict[str, int] = {}
        queue = deque([seeker])
        free: Optional[str] = None
        while queue and free is None:
            asker = queue.popleft()
            for thing in wishes[asker]:
                if thing not in asked_by and thing not in dead:
                    asked_by[thing] = asker
                    if thing not in owners:
                        free = thing
                        break
                    queue.append(owners[thing])
        if free is None:
            dead.update(asked_by)
        while free is not None:
            # What the asker had goes to whoever asked for that, up to the seeker, who had nothing.
            asker = asked_by[free]
            owners[free] = asker
            has[asker], free = free, has.get(asker)
    return owners
