"""Decision which mentions are linked, by the scores and the confidence of candidates."""

import numpy as np

from ...kb.search_result import SearchResult
from ..settings import LinkerSettings


def without_link(result: SearchResult, settings: LinkerSettings) -> np.ndarray:
    """Return which mentions are not linked to their best candidate (q,)."""
    best = result.entities[:, 0]
    nil: np.ndarray = best < 0
    if settings.threshold is not None:
        # In float64, as the threshold is: float32 may round a threshold between two scores down.
        nil |= result.scores[:, 0].astype(np.float64) < settings.threshold
    if result.confidence is not None:
        nil |= result.confidence[:, 0].astype(np.float64) < settings.min_confidence
    if result.verdicts is not None:
        nil &= (result.verdicts < 0) | (best < 0)
    return nil
