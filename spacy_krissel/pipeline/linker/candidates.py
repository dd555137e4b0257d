"""The candidates of mentions, with their confidence."""

from dataclasses import dataclass

import numpy as np

from ...kb.search_result import SearchResult


@dataclass(frozen=True)
class Candidates:
    """The candidates of q mentions, best first.

    confidence: of each (q, k), and by_name: the one by its name alone, as `Confidence` has them; None where they are
    not computed.
    """

    result: SearchResult
    confidence: np.ndarray | None = None
    by_name: np.ndarray | None = None
