"""What one request may cost."""

from typing import NamedTuple

from ..errors import Errors, KrisselError

MAX_DOCUMENTS, MAX_CHARS, MAX_MENTIONS, MAX_ANSWER = 100, 500_000, 5_000, 20_000_000
# Entities that a search finds, by default and at most.
FOUND, MOST_FOUND = 10, 100
# How an error names a limit, and the setting of `krissel serve`.
NAMES = {
    "documents": ("documents", "--max-documents"),
    "chars": ("characters", "--max-chars"),
    "mentions": ("mentions", "--max-mentions"),
    "answer": ("bytes in its answer", "--max-answer"),
}


class Bounds(NamedTuple):
    """Limits of a request: documents, characters of all texts, mentions, and bytes of its answer."""

    documents: int = MAX_DOCUMENTS
    chars: int = MAX_CHARS
    mentions: int = MAX_MENTIONS
    answer: int = MAX_ANSWER

    def check(self, **found: int) -> None:
        """Raise KrisselError K692 where a request has more of something than it may."""
        for key, n in found.items():
            limit = getattr(self, key)
            if n > limit:
                what, setting = NAMES[key]
                raise KrisselError(Errors.K692.format(n=n, what=what, limit=limit, setting=setting))
