"""Order of a re-ranked list of candidates, with NIL as a further candidate (PEL §2, the fourth
strategy)."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from ...kb.ties import TIE
from ...mentions.annotations import SpanLink
from ...mentions.gold_ids import NIL


def reorder(candidates: Sequence[dict[str, Any]], ties: Sequence[str], corrections: np.ndarray) -> SpanLink:
    """Add corrections to the scores of the first candidates, and sort by the sums.

    candidates: best first, at least one; their dicts are not changed.
    ties: ids that the linker could not disambiguate; those that still share the best score stay
        tied.
    corrections: (k,) in the unit of the scores. Candidates after the first k keep their order and
        follow the others; their scores are lowered to the lowest of the others' if higher.

    Candidates with equal sums keep their order, so that corrections of zero change nothing. No
    candidate keeps its confidence, which applied to the linker's scores.
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
    """Return the corrections of the candidates (k,) minus that of NIL, the last of (k + 1,).
    NIL's own score then stays constant, and one threshold on the final scores decides.
    """
    return corrections[:-1] - corrections[-1]


def apply_nil(link: SpanLink, nil_score: float) -> SpanLink:
    """Return the link, or NIL if its best candidate scores less than NIL. Candidates stay in either
    case."""
    return link._replace(kb_id=NIL) if link.candidates[0]["score"] < nil_score else link
