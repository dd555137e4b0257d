"""Normalised forms for comparing names: folded, canonical, and with American spelling."""

import re
import unicodedata
from collections.abc import Iterator

# `\w` covers what `str.isalnum` accepts, plus the underscore.
_BREAKS = re.compile(r"[\W_]+")
# A byte table does the same for ASCII in less than half the time: lower case, and breaks to spaces.
_LOWER_ASCII = bytes(
    ord(char.lower()) if char.isalnum() else ord(" ") for char in map(chr, range(128))
) + bytes(128)
# Possessives are optional: "Graves's disease", "Alzheimer's disease".
APOSTROPHES = "'’ʼ‘‛′`´＇ꞌ"
_APOSTROPHES = re.compile(f"[{APOSTROPHES}]")
# Tokenizers leave a space before it, and some texts double it.
_POSSESSIVE = re.compile(f"(?<=\\w) ?{_APOSTROPHES.pattern}{{1,2}}[sS](?!\\w)")
ROMAN = {
    "i": "1", "ii": "2", "iii": "3", "iv": "4", "v": "5", "vi": "6", "vii": "7", "viii": "8",
    "ix": "9", "x": "10", "xi": "11", "xii": "12", "xiii": "13", "xiv": "14", "xv": "15",
}  # fmt: skip
# Letters as well as numbers, which only these nouns show to be numbers: chromosome X is not 10.
_LETTERS_TOO = ("i", "v", "x")
NUMBERED = frozenset(
    "type types subtype class grade stage phase factor group category form degree level zone "
    "complex nerve variant".split()
)
_HAS_NUMERAL = re.compile(r"(?<![^ ])([^ ]+) ([ivx]+)(?![^ ])")
# Minimum length of a word before a final "I" that is a number: "neurofibromatosis I", but not
# "group A I".
_LONG_WORD = 5
# Scripts whose vowel signs and points are parts of words.
_SIGNS = re.compile("[\u0591-\u1cff\ua800-\uabff\U00010a00-\U00011fff]")
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
# Normalising a run of marks takes time quadratic in its length. No real letter has this many marks.
_ALL_MARKS = f"[{_MARKS}\u0591-\u05c7\u0610-\u061a\u064b-\u065f]"
_MANY_MARKS = re.compile(f"({_ALL_MARKS}{{16}}){_ALL_MARKS}+")
# Symbols that look like Greek letters.
_LOOK_GREEK = str.maketrans("∆∑∏∂⍺⍵ꞵɸꭓꞷ", "δσπδαωβφχω")
# ß stands for β at the beginning of a word or before a digit.
_SHARP_S = re.compile(r"(?<![^\W_])ß|ß(?=\d)")
# Letters that decomposition does not make plain.
_PLAIN = str.maketrans(
    {
        "ß": "ss", "æ": "ae", "œ": "oe", "ø": "o", "đ": "d", "ð": "d", "þ": "th", "ł": "l",
        "ħ": "h", "ŧ": "t", "ı": "i", "ĸ": "k", "ŋ": "ng", "ȷ": "j", "ɑ": "α", "ɛ": "ε", "ɣ": "γ",
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
    "alpha": "a", "beta": "b", "gamma": "g", "delta": "d", "epsilon": "e", "zeta": "z",
    "theta": "q",
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
    # A modifier letter may stand for a capital, or a letter that looks Greek.
    decomposed = unicodedata.normalize("NFKD", lower).lower()
    plain = ACCENTS.sub("", decomposed).translate(_LOOK_GREEK).translate(_PLAIN)
    return unicodedata.normalize("NFKC", _GREEK_LETTERS.sub(_spelt_out, plain))


def _spelt_out(match: "re.Match[str]") -> str:
    return " ".join(GREEK_NAMES[letter] for letter in match[0])


def plain_letter(char: str) -> str:
    """Convert a character to plain letters, and keep its case. Accents and invisible characters
    become "". Characters other than letters and digits stay unchanged.
    """
    bare = ACCENTS.sub(
        "", unicodedata.normalize("NFKD", INVISIBLE_CHARS.sub("", char).translate(_LOOK_GREEK))
    )
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


def fold_name(text: str) -> str:
    """Normalise (NFKC) and lower-case a text, and remove invisible characters. Every run of
    characters other than letters and digits becomes one space.

    A name of symbols only keeps them: `fold_name("±") == "±"`. Folding is idempotent.
    """
    if text.isascii():
        return (
            b" ".join(text.encode().translate(_LOWER_ASCII).split()).decode()
            or text.lower().strip()
        )
    # Lower-casing can leave pairs that compose (J + caron has no capital form), hence the second
    # round.
    lower = unicodedata.normalize("NFKC", visible_text(text)).lower()
    lower = unicodedata.normalize("NFKC", lower.translate(_LOOK_GREEK))
    if _SIGNS.search(lower):
        kept = [
            char if char.isalnum() or unicodedata.category(char)[0] == "M" else " "
            for char in lower
        ]
        folded = " ".join("".join(kept).split())
        # A sign that is no part of a word is gone, and the other marks follow the other rule.
        if _SIGNS.search(folded):
            return folded
    return _BREAKS.sub(" ", lower).strip() or lower.strip()


def canonical_name(text: str) -> str:
    """Fold a name to the form that its spellings share, word by word.

    Beyond `fold_name`, it has no accents, ligatures and possessive "'s"; Greek letters become their
    names; and Roman numerals after a word become Arabic numbers (I, V and X only after nouns such
    as "type", and a final I after a long word).

    Compare names in this form; of several equal ones, prefer the one that is equal under
    `fold_name`.
    """
    if text.isascii():
        if "'" in text or "`" in text:
            text = _POSSESSIVE.sub("", text)
        folded = fold_name(text)
    else:
        text = visible_text(text)
        if _APOSTROPHES.search(text):
            text = _POSSESSIVE.sub("", text)
        # The name consists of accents.
        folded = fold_name(plain_text(text)) or fold_name(text)
    return _HAS_NUMERAL.sub(_numbered, folded) if _has_numeral(folded) else folded


def is_canonical(written: str, text: str) -> bool:
    """Check cheaply whether `written`, the `fold_name` of `text`, is also its `canonical_name`."""
    return text.isascii() and "'" not in text and "`" not in text and not _has_numeral(written)


def _numbered(match: "re.Match[str]") -> str:
    before, numeral = match[1], match[2]
    is_number = numeral not in _LETTERS_TOO or before in NUMBERED
    if numeral == "i" and match.end() == len(match.string):
        is_number = is_number or (before.isalpha() and len(before) >= _LONG_WORD)
    return f"{before} {ROMAN[numeral]}" if is_number and numeral in ROMAN else match[0]


_NUMERALS = {number: numeral.upper() for numeral, number in ROMAN.items()}
_NUMBER = re.compile(
    rf"(?<=\w )(?:[IVX]+|[ivx]+)(?!\w)|\b(?:{'|'.join(sorted(NUMBERED))}) \d\d?(?!\w)",
    re.IGNORECASE,
)


def spelling_variants(name: str) -> Iterator[str]:
    """Yield variants of a name: without its possessives, and with Roman numerals as numbers or the
    reverse. Each variant has the `canonical_name` of the name.
    """
    bare = _POSSESSIVE.sub("", name) if _APOSTROPHES.search(name) else name
    # "Bright's" alone must not become "bright".
    if bare != name and " " in bare:
        yield bare
    if _NUMBER.search(bare):
        other = _NUMBER.sub(_in_other_numbers, bare)
        if other != bare and canonical_name(other) == canonical_name(name):
            yield other


def _in_other_numbers(match: "re.Match[str]") -> str:
    *before, number = match[0].rsplit(" ", 1)
    return " ".join([*before, ROMAN.get(number.lower()) or _NUMERALS.get(number, number)])


_GREEK_NAME = re.compile("|".join(LATIN_FOR_GREEK))
# A symbol with such names, TGFbeta1 or NFkappaB, but not "alphabet" or "hyperalphalipoproteinemia".
_GREEK_SYMBOL = re.compile(rf"(?:[a-z]{{0,5}}\d*(?:{_GREEK_NAME.pattern}))+[a-z]?\d*[a-z]?")
_MAX_SYMBOL_LENGTH = 24
# Maximum length of a word that forms a symbol with a following Greek letter.
_SHORT_WORD = 4
# Words for the kind of a gene product, which some texts include in the name and others omit.
_KINDS = {"gene", "genes", "mrna", "protein", "proteins"}
_SYMBOL_LETTERS = 5
_WORD = re.compile(r"[^\W_]+")
# Keep the boundary between numbers: miR-9-3 is not miR-93.
_NUMBERS = re.compile(r"(\d) (?=\d)")


def spelling(text: str) -> str:
    """Return the key that all spellings of a name share: its letters and digits without separators.

    In symbols, Greek letters and their names become Latin letters, and "gene", "mRNA" and "protein"
    are dropped: "IL-2" and "IL2"; "TGF-β1", "TGFbeta 1" and "TGFB1"; "caspase-3" and "caspase III
    protein". Numerals are those of `canonical_name`. A space between two numbers counts. "" if no
    character is a letter or digit. British and American spellings differ: normalise names first
    (`to_american`).
    """
    return folded_spelling(fold_name(plain_text(text)), text)


def folded_spelling(folded: str, text: str) -> str:
    """Return the `spelling` of a text that `fold_name` has folded in plain letters."""
    if not folded[:1].isalnum():
        return ""
    has_greek = _GREEK_NAME.search(folded)
    if " " not in folded:
        return _with_short_greek(folded, False) if has_greek else folded
    joined = folded
    words = folded.split()
    if not _KINDS.isdisjoint(words) and any(map(_is_symbol, _WORD.findall(text))):
        said = [word for word in words if word not in _KINDS]
        # In "protein C", C is not the whole name.
        if len(said) > 1 or sum(map(len, said)) > 1:
            joined = " ".join(said)
    if _has_numeral(joined):
        joined = _HAS_NUMERAL.sub(_numbered, joined)
    if has_greek:
        words = joined.split()
        follows = [False, *(word not in NUMBERED and _ends_symbol(word) for word in words)]
        joined = " ".join(map(_with_short_greek, words, follows))
    plain = joined.replace(" ", "")
    return plain if plain.isalpha() else _NUMBERS.sub(r"\1.", joined).replace(" ", "")


def _has_numeral(folded: str) -> bool:
    """Check cheaply whether a folded text may contain a Roman numeral, without a regular expression
    for most texts.
    """
    may_have = " i" in folded or " v" in folded or " x" in folded
    return may_have and _HAS_NUMERAL.search(folded) is not None


def is_capital_symbol(name: str) -> bool:
    """Return whether a name consists of capital letters, apart from words such as "gene", so that
    its lower-case form is no name.
    """
    said = [word for word in _WORD.findall(name) if word.lower() not in _KINDS]
    return bool(said) and all(word.isalpha() and word.isupper() for word in said)


def _is_symbol(word: str) -> bool:
    if word.lower() in _KINDS:
        return False
    return any(map(str.isdigit, word)) or (
        len(word) <= _SYMBOL_LETTERS and sum(map(str.isupper, word)) > 1
    )


def _ends_symbol(word: str) -> bool:
    return len(word) <= _SHORT_WORD or any(map(str.isdigit, word))


def _with_short_greek(word: str, follows_symbol: bool) -> str:
    if len(word) > _MAX_SYMBOL_LENGTH or not _GREEK_SYMBOL.fullmatch(word):
        return word
    others = len(_GREEK_NAME.sub("", word))
    if not follows_symbol and (others < 2 or _GREEK_NAME.match(word)):
        return word
    return _GREEK_NAME.sub(lambda match: LATIN_FOR_GREEK[match[0]], word)


# Parts of words in lower case, and their spelling in MeSH. Look-behinds skip American words such as
# "angioedema" and "gastroesophageal".
_PARTS = {
    r"tumour": "tumor",
    r"haem": "hem",
    r"aemi": "emi",
    r"(?<!angi)(?<!leuk)oedem": "edem",
    r"(?<![^\Wo_])oesoph": "esoph",
    r"(?<![^\Wo_])oestr": "estr",
    r"rrhoe": "rrhe",
    r"pnoe": "pne",
    r"paed": "ped",
    r"foet": "fet",
    r"aesth": "esth",
    r"coeliac": "celiac",
    r"caec": "cec",
    r"faec": "fec",
    r"caes(?=area|ium)": "ces",
    r"(?<=ph|al|ch)aeo": "eo",
    r"coel(?=es?\b)": "cel",
    r"amoeb": "ameb",
    r"gynaec": "gynec",
    r"aetiol": "etiol",
    r"paenia": "penia",
    r"naev": "nev",
    r"manoeuv": "maneuv",
    r"homoeo": "homeo",
    r"sulph": "sulf",
    r"leuco(?=[cdemp])": "leuko",
    r"aluminium": "aluminum",
    r"isation": "ization",
    r"(?<=al|er|gn|il|in|it|on|un)is(?=e[ds]?\b|ing\b)": "iz",
    r"behaviour": "behavior",
    r"colour": "color",
    r"odour": "odor",
    r"labour": "labor",
    r"humour": "humor",
    r"fibre": "fiber",
    r"goitre": "goiter",
    r"centre": "center",
    r"\bageing\b": "aging",
    r"\bgrey\b": "gray",
}
_BRITISH = re.compile("|".join(f"({part})" for part in _PARTS), re.IGNORECASE)
_AMERICAN = list(_PARTS.values())
# Every part contains one of these. Most words contain none, and this check takes a tenth of the
# time.
_HINTS = re.compile(
    "ae|oe|our|tre|fibre|grey|sulph|leuco|alumini|isation|ageing"
    "|(?:al|er|gn|il|in|it|on|un)is(?:e|ing)"
)


def to_american(text: str) -> str:
    """Convert British spellings to American ones: "Haemolytic anaemia" → "Hemolytic anemia".

    A part of a word keeps the case of its first letter, or of all letters if it is in capitals.
    """
    return _BRITISH.sub(_replaced, text) if _HINTS.search(text.lower()) else text


def _replaced(match: "re.Match[str]") -> str:
    part = match[0]
    plain = _AMERICAN[(match.lastindex or 0) - 1]
    if part.isupper():
        return plain.upper()
    return plain.capitalize() if part[0].isupper() else plain
