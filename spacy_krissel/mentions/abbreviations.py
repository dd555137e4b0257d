"""Abbreviations of a doc, and mentions with them written out."""

import re
import textwrap
import warnings
from typing import Any, Dict, Optional, Tuple

from spacy.tokens import Doc, Span, Token

from ..errors import KrisselWarning, Warnings
from ..views import doc_text
from .definitions import find_definitions


def long_forms(doc: Doc) -> Dict[str, str]:
    """Short form → long form: from `doc._.abbreviations` when a component set it, else as the doc's text defines them.

    Reads both outputs of scispaCy's `abbreviation_detector`: spans with `span._.long_form`, and dictionaries
    (`make_serializable`). The name is common: what another component left there in another form is left out, with a
    warning, KW613; where nothing else is there, the text's definitions count.
    """
    given = doc._.abbreviations if Doc.has_extension("abbreviations") else None
    # Neither a text nor a mapping of its own is a list of anything.
    entries = list(given) if isinstance(given, (list, tuple)) else [given] if given else []
    pairs = [_pair(entry) for entry in entries]
    forms = dict(pair for pair in pairs if pair is not None)
    if None in pairs:
        first = repr(entries[pairs.index(None)])
        message = Warnings.KW613.format(count=pairs.count(None), total=len(pairs), first=textwrap.shorten(first, 80))
        warnings.warn(message, KrisselWarning, stacklevel=2)
    return forms or find_definitions(doc_text(doc))


def _pair(entry: Any) -> Optional[Tuple[str, str]]:
    """Short form and long form, of what scispaCy writes; None for anything else."""
    if isinstance(entry, dict):
        short, long = entry.get("short_text"), entry.get("long_text")
    elif isinstance(entry, (Span, Token)) and entry.has_extension("long_form"):
        short, long = entry.text, getattr(entry._.long_form, "text", entry._.long_form)
    else:
        return None
    return (short, long) if isinstance(short, str) and isinstance(long, str) and short and long else None


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
