"""Conversion of text to plain letters."""

import re
import unicodedata

# Invisible characters: soft hyphens, zero-width spaces and joiners, direction marks, byte order
# marks, variation selectors, fillers. Unicode calls them default ignorable.
_INVISIBLE = (
    "\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u202a-\u202e"
    "\u2060-\u206f\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufffb\U000e0000-\U000e0fff"
)
INVISIBLE_CHARS = re.compile(f"[{_INVISIBLE}]+")
# Combining marks of the Latin and Greek scripts. In other scripts they distinguish letters:
# Cyrillic й is not и.
_MARKS = "\u0300-\u036f\u1ab0-\u1aff\u1dc0-\u1dff\u20d0-\u20ff"
ACCENTS = re.compile(f"(?<![\u0400-\u052f])[{_MARKS}]+")
# Normalising a run of marks takes time quadratic in its length. No real letter has so many marks.
_MANY_MARKS = re.compile(
    f"([{_MARKS}\u0591-\u05c7\u0610-\u061a\u064b-\u065f]{{16}})[{_MARKS}\u0591-\u05c7\u0610-\u061a\u064b-\u065f]+"
)
# Symbols that look like Greek letters.
_LOOK_GREEK = str.maketrans("∆∑∏∂⍺⍵ꞵɸꭓꞷ", "δσπδαωβφχω")
# ß stands for β at the beginning of a word or before a digit.
_SHARP_S = re.compile(r"(?<![^\W_])ß|ß(?=\d)")
# Letters that decomposition does not make plain.
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


def visible_text(text: str) -> str:
    """Remove invisible characters, and limit the number of marks per letter."""
    return _MANY_MARKS.sub(r"\1", INVISIBLE_CHARS.sub("", text))


def plain_text(text: str) -> str:
    """Convert a text to plain letters: no accents, ligatures or invisible characters, and Greek
    letters as their names.

    ASCII text stays unchanged. Other text becomes lower case.
    """
    if text.isascii():
        return text
    lower = _SHARP_S.sub("β", visible_text(text).lower().translate(_LOOK_GREEK))
    decomposed = unicodedata.normalize("NFKD", lower)
    plain = ACCENTS.sub("", decomposed).translate(_PLAIN)
    return unicodedata.normalize("NFKC", _GREEK_LETTERS.sub(_spelt_out, plain))


def _spelt_out(match: "re.Match[str]") -> str:
    return " ".join(GREEK_NAMES[letter] for letter in match[0])


def plain_letter(char: str) -> str:
    """Convert a character to plain letters, and keep its case. Accents and invisible characters
    become "". Characters other than letters and digits stay unchanged.
    """
    bare = ACCENTS.sub("", unicodedata.normalize("NFKD", INVISIBLE_CHARS.sub("", char).translate(_LOOK_GREEK)))
    plain = unicodedata.normalize("NFKC", "".join(map(_cased, bare)))
    # Fractions contain slashes.
    return plain if not plain or plain.isalnum() else char


def _cased(char: str) -> str:
    lower = char.lower()
    plain = lower.translate(_PLAIN)
    plain = GREEK_NAMES.get(plain, plain)
    if plain == lower:
        return char
    return plain.capitalize() if char != lower else plain
