"""spaCy's blank pipelines, by the code of their language."""

from typing import TYPE_CHECKING

from ..errors import Errors, KrisselError

if TYPE_CHECKING:
    from spacy.language import Language


def blank_pipeline(lang: str) -> "Language":
    """`spacy.blank(lang)`. Raises KrisselError K006 for a language that spaCy has not."""
    import spacy

    try:
        return spacy.blank(lang)
    except ImportError as error:
        if "E048" not in str(error):
            # Not the language, but something that failed to import on the way to it.
            raise
        expected = "the code of a language that spaCy has, such as 'en'"
        raise KrisselError(Errors.K006.format(setting="lang", found=lang, expected=expected)) from error
