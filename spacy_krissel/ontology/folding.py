"""Forms in which names are compared: folded, and with American spelling."""

import re
import unicodedata

# `\w` is what `str.isalnum` accepts, and the underscore.
_BREAKS = re.compile(r"[\W_]+")


def fold_name(text: str) -> str:
    """Compatibility-normalise (NFKC) and lower-case; every run of other characters than letters and digits becomes one
    space.

    A name of symbols alone keeps them: `fold_name("±") == "±"`. Folding a folded name changes nothing.
    """
    if text.isascii():
        lower = text.lower()
    else:
        # Lower-casing can leave pairs that compose (J + caron has no capital of its own), hence the second round.
        lower = unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", text).lower())
    return _BREAKS.sub(" ", lower).strip() or lower.strip()


# Greek letters, by the Latin ones that stand for them, and their names.
_LETTERS = str.maketrans("αβγδεζθκλσω", "abgdezqklsw")
_GREEK = {
    "alpha": "a", "beta": "b", "gamma": "g", "delta": "d", "epsilon": "e", "zeta": "z", "theta": "q", "kappa": "k",
    "lambda": "l", "sigma": "s", "omega": "w",
}  # fmt: skip
_GREEK_NAME = re.compile("|".join(_GREEK))
_ROMAN = {"ii": "2", "iii": "3", "iv": "4", "v": "5", "vi": "6", "vii": "7", "viii": "8", "ix": "9", "x": "10"}
# What a name is of, which one text says and another does not.
_KINDS = {"gene", "genes", "mrna", "protein", "proteins"}
# miR-9-3 is not miR-93.
_NUMBERS = re.compile(r"(\d) (?=\d)")


def spelling(text: str) -> str:
    """What the spellings of one name have in common: its letters and digits, folded, without what stands between them.

    Greek letters are equal to their names and to the Latin letters that stand for them, Roman numerals behind a word to
    numbers, and "gene", "mRNA" and "protein" say nothing: "IL-2" and "IL2"; "TGF-β1", "TGFbeta 1" and "TGFB1"; "caspase
    III" and "caspase-3 protein". Two numbers stay two. "" where nothing is a letter or a digit.
    """
    words = fold_name(text).split()
    if not words or not words[0][0].isalnum():
        return ""
    said = [word for word in words if word not in _KINDS]
    # Of "protein C", C is not the whole name.
    words = said if len(said) > 1 or sum(map(len, said)) > 1 else words
    joined = " ".join(words[:1] + [_ROMAN.get(word, word) for word in words[1:]]).translate(_LETTERS)
    joined = _NUMBERS.sub(r"\1.", joined).replace(" ", "")
    return _GREEK_NAME.sub(lambda match: _GREEK[match[0]], joined)


# Parts of words, lower-case, and how MeSH spells them. Look-behinds leave alone what is American already, such as
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
    r"caesarea": "cesarea",
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
# One of these stands in every part: most texts have none, which is seen ten times as fast.
_HINTS = ("ae", "oe", "our", "tre", "fibre", "grey", "sulph", "leuco", "alumini", "isation", "ageing")


def american(text: str) -> str:
    """`text` with British spellings as American ones: "Haemolytic anaemia" → "Hemolytic anemia".

    A part of a word keeps the case of its first letter, and of all where it is in capitals.
    """
    lower = text.lower()
    for hint in _HINTS:
        if hint in lower:
            return _BRITISH.sub(_replaced, text)
    return text


def _replaced(match: "re.Match[str]") -> str:
    part = match[0]
    plain = _AMERICAN[(match.lastindex or 0) - 1]
    if part.isupper():
        return plain.upper()
    return plain.capitalize() if part[0].isupper() else plain
