"""Abbreviations of a doc, and mentions with them written out."""

import re
from typing import Dict

from spacy.tokens import Doc

from ..views import doc_text
from .definitions import find_definitions


def long_forms(doc: Doc) -> Dict[str, str]:
    """Short form → long form: from `doc._.abbreviations` when a component set it, else as the doc's text defines them.

    Reads both outputs of scispaCy's `abbreviation_detector`: spans with `span._.long_form`, and dictionaries
    (`make_serializable`).
    """
    given = doc._.abbreviations if Doc.has_extension("abbreviations") else None
    if not given:
        return find_definitions(doc_text(doc))
    forms: Dict[str, str] = {}
    for short in given:
        if isinstance(short, dict):
            forms[short["short_text"]] = short["long_text"]
        else:
            forms[short.text] = short._.long_form.text
    return forms


def write_out(mention: str, forms: Dict[str, str]) -> str:
    """The mention, with each short form that stands in it as a word replaced by its long form.

    Behind its own long form a short form in brackets is left out: "ataxia-telangiectasia (A-T)" becomes
    "ataxia-telangiectasia", not the same twice.
    """
    if mention in forms:
        return forms[mention]
    shorts = [short for short in forms if short in mention]
    if not shorts:
        return mention
    for short in shorts:
        without = re.sub(rf"\s*[(\[]\s*{re.escape(short)}\s*[)\]]", "", mention)
        if without != mention and forms[short].lower() in without.lower():
            mention = without
    # The longest first, so that of "PLL" and "T-PLL" the latter is seen where it stands; in one pass, so that nothing
    # is written out within a long form.
    alternatives = "|".join(re.escape(short) for short in sorted(shorts, key=len, reverse=True))
    return re.sub(rf"(?<![^\W_])(?:{alternatives})(?![^\W_])", lambda match: forms[match[0]], mention)
