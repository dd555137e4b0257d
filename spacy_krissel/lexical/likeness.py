"""Likeness of a text to the names of a vocabulary, by its n-grams and words."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from .groups import distinct
from .ngrams import Counted, Grams, hashed

if TYPE_CHECKING:
    from scipy.sparse import csr_matrix

# Buckets that 3-grams and words are hashed into. With 2^18 the area under the ROC curve on BC5CDR's
# training split is the same to two digits.
N_BUCKETS = 2**16
# An odd number mixes the low bits of a key into all of its bits.
MIX = np.uint64(0x9E3779B97F4A7C15)
# Inverse regularisation strength of the regression.
STRENGTH = 2.0


@dataclass(frozen=True, eq=False)
class Likeness:
    """Log-odds that a text is a name of a vocabulary, and not another phrase of biomedical text.

    A logistic regression over the character 3-grams and the words of the canonical form, hashed
    into buckets. Only the order and spread of its values count: `Confidence` weights them.

    weights: of each bucket (N_BUCKETS,) float16. bias: added to the sum.
    """

    weights: np.ndarray
    bias: float

    @classmethod
    def fit(cls, names: Sequence[str], phrases: Sequence[str]) -> "Likeness":
        """Fit it to names and to phrases that are none, both in canonical form.

        Classes count equally, whatever their size. With no name or no phrase all values are 0.
        """
        return cls.of(features(names), features(phrases))

    @classmethod
    def of(cls, names: "csr_matrix", phrases: "csr_matrix") -> "Likeness":
        """Fit it to their `features`."""
        if not names.shape[0] or not phrases.shape[0]:
            return cls(np.zeros(N_BUCKETS, dtype=np.float16), 0.0)
        from scipy.sparse import vstack
        from sklearn.linear_model import LogisticRegression

        is_name = np.repeat([1, 0], [names.shape[0], phrases.shape[0]])
        # liblinear draws at random in what order it visits coordinates.
        model = LogisticRegression(
            C=STRENGTH, class_weight="balanced", solver="liblinear", max_iter=200, random_state=0
        ).fit(vstack([names, phrases], format="csr"), is_name)
        return cls(model.coef_[0].astype(np.float16), float(np.float32(model.intercept_[0])))

    def __call__(self, canonical: Sequence[str], grams: Counted | None = None) -> np.ndarray:
        """Return the log-odds of texts in canonical form: (n,) float32. grams: of the texts, if
        they are known."""
        owners, buckets, counts = _counted(canonical, grams)
        lengths = np.bincount(owners, counts * counts, len(canonical))
        sums = np.bincount(owners, counts * self.weights[buckets], len(canonical))
        return (sums / np.sqrt(np.maximum(lengths, 1)) + self.bias).astype(np.float32)

    def to_bytes(self) -> bytes:
        return np.float32(self.bias).tobytes() + self.weights.astype("<f2").tobytes()

    @classmethod
    def from_bytes(cls, data: bytes) -> "Likeness":
        """Raises ValueError for data of another length."""
        if len(data) != 4 + 2 * N_BUCKETS:
            raise ValueError(f"it has {len(data)} bytes, not {4 + 2 * N_BUCKETS}")
        bias = float(np.frombuffer(data, dtype="<f4", count=1)[0])
        return cls(np.frombuffer(data, dtype="<f2", offset=4), bias)


def features(canonical: Sequence[str]) -> "csr_matrix":
    """Return the bucket counts of each text, of unit length: (n, N_BUCKETS)."""
    from scipy.sparse import csr_matrix

    owners, buckets, counts = _counted(canonical, None)
    lengths = np.sqrt(np.bincount(owners, counts * counts, len(canonical)))
    return csr_matrix(
        (counts / lengths[owners], (owners, buckets)), shape=(len(canonical), N_BUCKETS)
    )


def _counted(
    canonical: Sequence[str], grams: Counted | None
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the distinct n-grams and words of the texts: index of the text, bucket, count."""
    owners, keys, counts = Grams.of(canonical).counted() if grams is None else grams
    words = [text.split() for text in canonical]
    owner = np.repeat(np.arange(len(canonical)), [len(each) for each in words])
    different, index = distinct([word for each in words for word in each])
    found = hashed(different)[index] if different else np.zeros(0, dtype=np.int64)
    keys = np.concatenate([keys, found]).astype(np.uint64)
    buckets = ((keys * MIX) >> np.uint64(48)).astype(np.int64)
    return (
        np.concatenate([owners, owner]),
        buckets,
        np.concatenate([counts, np.ones(len(owner), dtype=np.int64)]).astype(np.float64),
    )
