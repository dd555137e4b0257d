"""A list of candidates in its new order."""

from typing import Any, Dict, List, Sequence

import numpy as np

from ...kb.ranking import TIE
from ...mentions.annotations import SpanLink


def reorder(candidates: Sequence[Dict[str, Any]], ties: Sequence[str], corrections: np.ndarray) -> SpanLink:
    """Add corrections to the scores of the first candidates, and sort by the sums.

    candidates: best first, at least one; their dicts are not changed.
    ties: ids that the linker could not tell apart at the top; those that still share the best score stay tied.
    corrections: (k,) in the unit of the scores. Candidates beyond k stay behind the others in their order, with the
        lowest of the others' scores where theirs is higher.

    Candidates with equal sums keep their order, so that corrections of zero change nothing.
    """
    k = len(corrections)
    scores = [candidate["score"] + float(change) for candidate, change in zip(candidates, corrections)]
    order = sorted(range(k), key=lambda i: -scores[i])
    new: List[Dict[str, Any]] = [{**candidates[i], "score": scores[i]} for i in order]
    lowest = new[-1]["score"]
    new += [{**candidate, "score": min(candidate["score"], lowest)} for candidate in candidates[k:]]
    best = new[0]["score"]
    at_top = {candidate["id"] for candidate in new if best - candidate["score"] <= TIE * max(1.0, abs(best))}
    left = [id_ for id_ in ties if id_ in at_top] if new[0]["id"] in ties else []
    return SpanLink(new[0]["id"], new, left if len(left) > 1 else [])
