"""Long forms of abbreviations, as scispaCy's `abbreviation_detector` leaves them on a doc."""

from typing import Dict

from spacy.tokens import Doc


def long_forms(doc: Doc) -> Dict[str, str]:
    """Short form → long form, from `doc._.abbreviations` when a component set it; empty otherwise.

    Reads both of the detector's outputs: spans with `span._.long_form`, and dictionaries (`make_serializable`).
    """
    if not Doc.has_extension("abbreviations"):
        return {}
    forms: Dict[str, str] = {}
    for short in doc._.abbreviations or ():
        if isinstance(short, dict):
            forms[short["short_text"]] = short["long_text"]
        else:
            forms[short.text] = short._.long_form.text
    return forms
