"""Texts in plain letters, with the offsets of these in the original."""

import re
from typing import NamedTuple

import numpy as np

from ..util.plain_text import ACCENTS, plain_letter

_NOT_ASCII = re.compile("[^\x00-\x7f]+")


class PlainLetters(NamedTuple):
    """A text in plain letters, and the offsets in the original of each of its characters.

    starts, ends: (len(text),); None for an original that is plain.
    """

    text: str
    starts: np.ndarray | None
    ends: np.ndarray | None


def plain_letters(text: str) -> PlainLetters:
    """Return a text with plain letters in their case, and where they stand in the original.

    Letters are those of `plain_text`, character by character; what is no letter or digit stays, but for
    invisible characters and accents. An accent belongs to the letter before it.
    """
    if text.isascii():
        return PlainLetters(text, None, None)
    others = [(offset, char) for run in _NOT_ASCII.finditer(text) for offset, char in enumerate(run[0], run.start())]
    letters = [_LETTERS[ord(char)] for _, char in others]
    lengths = np.ones(len(text), dtype=np.int64)
    lengths[[offset for offset, _ in others]] = [len(letter) for letter in letters]
    ends = np.arange(1, len(text) + 1)
    for offset, char in reversed(others):
        if offset and ACCENTS.match(char):
            ends[offset - 1] = ends[offset]
    starts = np.repeat(np.arange(len(text)), lengths)
    return PlainLetters(_NOT_ASCII.sub(lambda run: run[0].translate(_LETTERS), text), starts, ends[starts])


class _Letters(dict[int, str]):
    """Plain letters by code point."""

    def __missing__(self, code: int) -> str:
        self[code] = plain_letter(chr(code))
        return self[code]


_LETTERS = _Letters()
