"""Texts in plain letters."""

import re
import unicodedata

# Characters that nobody sees: soft hyphens, zero-width spaces and joiners, marks of direction, byte
# order marks, variation selectors, fillers. Unicode calls them default ignorable.
_INVISIBLE = (
    "\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u202a-\u202e"
    "\u2060-\u206f\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufffb\U000e0000-\U000e0fff"
)
UNSEEN = re.compile(f"[{_INVISIBLE}]+")
# Marks of the Latin and Greek scripts. Those of others are letters: Cyrillic й is no и.
_MARKS = "\u0300-\u036f\u1ab0-\u1aff\u1dc0-\u1dff\u20d0-\u20ff"
ACCENTS = re.compile(f"(?<![\u0400-\u052f])[{_MARKS}]+")
# To normalise a run of marks takes the square of its length. No letter has so many.
_MANY_MARKS = re.compile(
    f"([{_MARKS}\u0591-\u05c7\u0610-\u061a\u064b-\u065f]{{16}})[{_MARKS}\u0591-\u05c7\u0610-\u061a\u064b-\u065f]+"
)
# Symbols in place of Greek letters that they look like.
_LOOK_GREEK = str.maketrans("∆∑∏∂⍺⍵ꞵɸꭓꞷ", "δσπδαωβφχω")
# So is ß at the beginning of a word or before a digit.
_SHARP_S = re.compile(r"(?<![^\W_])ß|ß(?=\d)")
# Letters that no decomposition makes plain.
_PLAIN = str.maketrans(
    {
        "ß": "ss", "æ": "ae", "œ": "oe", "ø": "o", "đ": "d", "ð": "d", "þ": "th", "ł": "l", "ħ": "h",
        "ŧ": "t", "ı": "i", "ĸ": "k", "ŋ": "ng", "ȷ": "j", "ɑ": "α", "ɛ": "ε", "ɣ": "γ",
    }
)  # fmt: skip
GREEK_NAMES = {
    "α": "alpha", "β": "beta", "γ": "gamma", "δ": "delta", "ε": "epsilon", "ζ": "zeta", "η": "eta",
    "θ": "theta", "ι": "iota", "κ": "kappa", "λ": "lambda", "μ": "mu", "ν": "nu", "ξ": "xi",
    "ο": "omicron", "π": "pi", "ρ": "rho", "σ": "sigma", "ς": "sigma", "τ": "tau", "υ": "upsilon",
    "φ": "phi", "χ": "chi", "ψ": "psi", "ω": "omega",
}  # fmt: skip
# Names of Greek letters, and the Latin letters that stand for them.
LATIN_FOR_GREEK = {
    "alpha": "a", "beta": "b", "gamma": "g", "delta": "d", "epsilon": "e", "zeta": "z", "theta": "q",
    "kappa": "k", "lambda": "l", "sigma": "s", "omega": "w",
}  # fmt: skip
# Longer runs are words of the Greek language.
_GREEK_LETTERS = re.compile("(?<![α-ω])[α-ω]{1,2}(?![α-ω])")


def seen(text: str) -> str:
    """Return a text without characters that nobody sees, and with a bounded number of marks per letter."""
    return _MANY_MARKS.sub(r"\1", UNSEEN.sub("", text))


def plain_text(text: str) -> str:
    """Return a text with plain letters: no accents, ligatures or invisible characters, and Greek
    letters by their names. Text that is not ASCII becomes lower case, ASCII stays unchanged."""
    if text.isascii():
        return text
    lower = _SHARP_S.sub("β", seen(text).lower().translate(_LOOK_GREEK))
    decomposed = unicodedata.normalize("NFKD", lower)
    plain = ACCENTS.sub("", decomposed).translate(_PLAIN)
    return unicodedata.normalize("NFKC", _GREEK_LETTERS.sub(_spelt_out, plain))


def _spelt_out(match: "re.Match[str]") -> str:
    return " ".join(GREEK_NAMES[letter] for letter in match[0])


def plain_letter(char: str) -> str:
    """Return a character in plain letters, in its case: "" for accents and invisible characters, and what is
    no letter or digit as it is."""
    bare = ACCENTS.sub("", unicodedata.normalize("NFKD", UNSEEN.sub("", char).translate(_LOOK_GREEK)))
    plain = unicodedata.normalize("NFKC", "".join(map(_cased, bare)))
    # Fractions have slashes.
    return plain if not plain or plain.isalnum() else char


def _cased(char: str) -> str:
    lower = char.lower()
    plain = lower.translate(_PLAIN)
    plain = GREEK_NAMES.get(plain, plain)
    if plain == lower:
        return char
    return plain.capitalize() if char != lower else plain
