"""How much two names have in common, letter by letter."""

import re
from functools import lru_cache
from typing import FrozenSet, List, Sequence

LENGTH = 3
_BREAKS = re.compile(r"[\W_]+")


def dice(mention: str, names: Sequence[str]) -> List[float]:
    """The Dice coefficient of the character trigrams of `mention` with those of each name: 1 for equal ones, up to
    case and punctuation, 0 for names that share nothing."""
    own = _ngrams(mention)
    shares = []
    for name in names:
        other = _ngrams(name)
        shares.append(2 * len(own & other) / max(1, len(own) + len(other)))
    return shares


@lru_cache(maxsize=100_000)
def _ngrams(text: str) -> FrozenSet[str]:
    # Of each word with a space on either side, so that the words' order does not count: "Neoplasms, Breast".
    words = [f" {word} " for word in _BREAKS.sub(" ", text.lower()).split()]
    return frozenset(word[i : i + LENGTH] for word in words for i in range(len(word) - LENGTH + 1))
