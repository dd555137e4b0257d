"""Bounds on the cost of a request."""

from typing import NamedTuple

from ..errors import Errors, KrisselError

MAX_DOCUMENTS, MAX_CHARS, MAX_MENTIONS, MAX_ANSWER = 100, 500_000, 5_000, 20_000_000
# Number of entities that a search finds, by default and at most.
DEFAULT_FOUND, MAX_FOUND = 10, 100
# Noun of a limit in errors, and its setting of `krissel serve`.
NAMES = {
    "documents": ("documents", "--max-documents"),
    "chars": ("characters", "--max-chars"),
    "mentions": ("mentions", "--max-mentions"),
    "answer": ("bytes in its answer", "--max-answer"),
}


class Bounds(NamedTuple):
    """Limits of a request: documents, characters of all texts, mentions, and bytes of its
    answer."""

    documents: int = MAX_DOCUMENTS
    chars: int = MAX_CHARS
    mentions: int = MAX_MENTIONS
    answer: int = MAX_ANSWER

    def check(self, **found: int) -> None:
        """Raise KrisselError K692 if a request exceeds a limit."""
        for key, n in found.items():
            limit = getattr(self, key)
            if n > limit:
                what, setting = NAMES[key]
                raise KrisselError(Errors.K692.format(n=n, what=what, limit=limit, setting=setting))
