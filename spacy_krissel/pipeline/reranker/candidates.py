"""A re-ranked list of candidates: its new order, and NIL as one more candidate (PEL §2, the fourth strategy)."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from ...kb.ties import TIE
from ...mentions.annotations import SpanLink
from ...mentions.gold_ids import NIL


def reorder(candidates: Sequence[dict[str, Any]], ties: Sequence[str], corrections: np.ndarray) -> SpanLink:
    """Add corrections to the scores of the first candidates, and sort by the sums.

    candidates: best first, at least one; their dicts are not changed.
    ties: ids that the linker could not tell apart at the top; those that still share the best score stay tied.
    corrections: (k,) in the unit of the scores. Candidates beyond k stay behind the others in their order, with the
        lowest of the others' scores where theirs is higher.

    Candidates with equal sums keep their order, so that corrections of zero change nothing. None keeps its confidence,
    which was that of the linker's scores.
    """
    k = len(corrections)
    scores = [candidate["score"] + float(change) for candidate, change in zip(candidates[:k], corrections, strict=True)]
    order = sorted(range(k), key=lambda i: -scores[i])
    kept = [{key: value for key, value in each.items() if key != "confidence"} for each in candidates]
    new: list[dict[str, Any]] = [{**kept[i], "score": scores[i]} for i in order]
    lowest = new[-1]["score"]
    new += [{**candidate, "score": min(candidate["score"], lowest)} for candidate in kept[k:]]
    best = new[0]["score"]
    at_top = {candidate["id"] for candidate in new if best - candidate["score"] <= TIE * max(1.0, abs(best))}
    left = [id_ for id_ in ties if id_ in at_top] if new[0]["id"] in ties else []
    return SpanLink(new[0]["id"], new, left if len(left) > 1 else [])


def relative_to_nil(corrections: np.ndarray) -> np.ndarray:
    """The corrections of the candidates (k,) against that of NIL, the last of (k + 1,): so NIL's own score stays where
    it is, and one threshold on the final scores says what is NIL."""
    return corrections[:-1] - corrections[-1]


def decided(link: SpanLink, nil_score: float) -> SpanLink:
    """The link, or NIL where its best candidate scores less than NIL does. Candidates stay in either case."""
    return link._replace(kb_id=NIL) if link.candidates[0]["score"] < nil_score else link
