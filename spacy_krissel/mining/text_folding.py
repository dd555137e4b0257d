"""One text in the three forms that matching needs, all of the same length, so that offsets hold in each of them."""

import re
from typing import Match, NamedTuple

# Typographic twins that a publisher's typesetting swaps freely; each stands for one character.
_TWINS = {
    **dict.fromkeys("\u2010\u2011\u2012\u2013\u2212", "-"),
    **dict.fromkeys("\u2018\u2019\u02bc", "'"),
    "\u00b5": "\u03bc",
}
_NOT_PLAIN = re.compile("[^\\S ]|[" + "".join(_TWINS) + "]")
# A combining mark belongs to the letter before it: a word does not end between the two.
_NOT_WORD = re.compile("[^\\w \u0300-\u036f]|_")
_ASCII_SPACES = {code: " " for code in range(128) if chr(code).isspace()}
_ASCII_NOT_WORD = {code: " " for code in range(128) if not chr(code).isalnum()}


class Forms(NamedTuple):
    """A text's forms for matching; each has as many characters as the text.

    plain: white space as a space, dashes, apostrophes and the micro sign in one shape; case as it stood.
    key: `plain`, case folded when asked for.
    words: `key` with everything but letters, digits and combining marks as a space, and one space more at both ends.
    """

    plain: str
    key: str
    words: str


def forms(text: str, fold: bool) -> Forms:
    plain = plain_form(text)
    key = fold_case(plain) if fold else plain
    return Forms(plain, key, f" {word_form(key)} ")


def plain_form(text: str) -> str:
    if text.isascii():
        return text.translate(_ASCII_SPACES)
    return _NOT_PLAIN.sub(_plain_char, text)


def word_form(key: str) -> str:
    """`key` with everything but letters, digits and combining marks as a space."""
    # `translate` is some twenty times faster than the expression, but only for ASCII.
    return key.translate(_ASCII_NOT_WORD) if key.isascii() else _NOT_WORD.sub(" ", key)


def fold_case(text: str) -> str:
    """Lower-case `text` character by character; its length never changes.

    The few characters whose lower case is longer (`İ`) stay as they are; both sigmas become one, since which of them
    `str.lower` takes depends on the letters around it.
    """
    lower = text.lower()
    if text.isascii():
        return lower
    if len(lower) != len(text):
        lower = "".join(low if len(low := char.lower()) == 1 else char for char in text)
    return lower.replace("ς", "σ")


def _plain_char(match: Match[str]) -> str:
    return _TWINS.get(match.group(), " ")
