"""Key of a mention in its sentence: the same in every text that has the sentence."""

import re
import unicodedata

from ..util.folding import visible_text
from ..util.hashing import stable_hash
from ..views import MINED_CHARS, View, mention_view

# End of a sentence: its punctuation, with quotes and brackets, before white space. What follows is
# not in lower case: "E. coli" is no end.
_SENTENCE_END = re.compile(r"[.!?][.!?\"'’”)\]]*(?=\s+[^\sa-z])")
# Characters of the sentence, other than white space, that count on each side of the mention: half
# of those that a stored view has, in case many of these are white space.
KEY_CHARS = MINED_CHARS // 2


def sentence_key(view: View) -> int:
    """Return a 64-bit key of the view's mention in its sentence (`sentence_of`), signed."""
    return stable_hash(*sentence_of(view)) - 2**63


def mention_key(text: str, start: int, end: int) -> int:
    """Return the `sentence_key` of `text[start:end]`."""
    return sentence_key(mention_view(text, start, end, MINED_CHARS))


def sentence_of(view: View) -> tuple[str, str, str]:
    """Return the sentence left of the mention, the mention, and the sentence to its right.

    White space and invisible characters are removed, and `KEY_CHARS` characters of each side are
    kept. So a view with `MINED_CHARS` characters of context, one from a table on one line, and the
    text itself give the same.
    """
    left, mention, right = _normalized(view)
    before = left + mention
    start = max((end for end in _ends(before) if end <= len(left)), default=0)
    after = mention + right
    end = min((end for end in _ends(after) if end >= len(mention)), default=len(after))
    sides = left[start:], mention, after[len(mention) : end]
    first, middle, last = ("".join(side.split()) for side in sides)
    return first[-KEY_CHARS:], middle, last[:KEY_CHARS]


def _normalized(view: View) -> tuple[str, str, str]:
    """Return the texts of a view without invisible characters, composed (NFC), with the white space
    around the mention next to it."""
    left, mention, right = (
        text if text.isascii() else unicodedata.normalize("NFC", visible_text(text))
        for text in view[:3]
    )
    whole = mention.strip()
    start = mention.find(whole)
    return left + mention[:start], whole, mention[start + len(whole) :] + right


def _ends(text: str) -> list[int]:
    return [match.end() for match in _SENTENCE_END.finditer(text)]
