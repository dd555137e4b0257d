"""Percentile bootstrap intervals of ratios over documents, since mentions of one document are not
independent."""

from collections.abc import Sequence

import numpy as np

RESAMPLES = 1000
# Low and high bound.
Interval = list[float] | None
Values = Sequence[float] | np.ndarray


class Bootstrap:
    """Resamples of documents, drawn once for all measures of a report, so that differences are
    paired.

    docs: (n,) the document of each mention; arrays passed to the methods are parallel to it.
    """

    def __init__(
        self, docs: Sequence[str], *, resamples: int = RESAMPLES, seed: int = 0, level: float = 0.95
    ) -> None:
        names, self._doc_of = np.unique(
            np.asarray(docs, dtype=object).astype(str), return_inverse=True
        )
        self._n_docs = max(len(names), 1)
        self._tail = 100 * (1 - level) / 2
        # (resamples, documents): number of times each document was drawn.
        rng = np.random.default_rng(seed)
        uniform = np.full(self._n_docs, 1 / self._n_docs)
        self._draws = rng.multinomial(self._n_docs, uniform, size=resamples).astype(np.float32)

    def interval(self, numerators: Values, denominators: Values) -> Interval:
        """Return the interval of sum(numerators) / sum(denominators), or None if no resample has a
        denominator."""
        top, bottom = self.sums(numerators), self.sums(denominators)
        return self.percentiles(top[bottom > 0] / bottom[bottom > 0])

    def difference(self, ours: Values, theirs: Values, denominators: Values) -> Interval:
        """Return the paired interval of (sum(ours) - sum(theirs)) / sum(denominators)."""
        return self.interval(
            np.asarray(ours, dtype=float) - np.asarray(theirs, dtype=float), denominators
        )

    def counts(self) -> np.ndarray:
        """Return the count of each mention in each resample (resamples, n)."""
        return self._draws[:, self._doc_of]

    def percentiles(self, values: np.ndarray) -> Interval:
        """Return the interval of a measure computed on each resample (r,); None without any."""
        if not len(values):
            return None
        return np.percentile(values, [self._tail, 100 - self._tail]).tolist()

    def sums(self, values: Values) -> np.ndarray:
        """Return the sum of the mentions' values in each resample (resamples,)."""
        weights = np.asarray(values, dtype=float)
        return self._draws @ np.bincount(self._doc_of, weights=weights, minlength=self._n_docs)
