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
    return _BRITISH.sub(_replaced, text) if any(hint in lower for hint in _HINTS) else text


def _replaced(match: "re.Match[str]") -> str:
    part = match[0]
    plain = _AMERICAN[(match.lastindex or 0) - 1]
    if part.isupper():
        return plain.upper()
    return plain.capitalize() if part[0].isupper() else plain
