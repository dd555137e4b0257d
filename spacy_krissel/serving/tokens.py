"""Tokenize any text in linear time."""

import re

from spacy.language import Language
from spacy.tokenizer import Tokenizer
from spacy.tokens import Doc

# Length of the longest word that spaCy tokenizes whole.
MAX_WORD = 128
# Number of words in the tokenizer's cache. 600 abstracts have 18,000 words and fill spaCy's default
# of 10,000; with all cached, tokenization takes a quarter of the time.
CACHED_WORDS = 50_000
# Parts of a longer word: letters and digits, or a few other characters.
_PIECES = re.compile(r"[^\W_]+|(?:[^\w\s]|_){1,16}")
_LONG = re.compile(rf"\S{{{MAX_WORD + 1},}}")


def remember_words(nlp: Language) -> None:
    """Set the cache of spaCy's tokenizer to `CACHED_WORDS` words."""
    if isinstance(nlp.tokenizer, Tokenizer):
        nlp.tokenizer.max_cache_size = max(nlp.tokenizer.max_cache_size, CACHED_WORDS)


def n_cut(text: str) -> int:
    """Return the number of words of the text that `tokenized` cuts."""
    return sum(len(_PIECES.findall(word)) > 1 for word in _LONG.findall(text))


def tokenized(nlp: Language, text: str) -> Doc:
    """Return `nlp.make_doc`, in time linear in the length of `text`.

    spaCy strips brackets, quotes and symbols from the ends of a word one by one, and scans the
    whole word each time: 8,000 brackets take 7 seconds. A word of more than `MAX_WORD` characters
    is therefore cut between letters and other characters, and after every 16 of the latter, and its
    parts are tokenized separately. Offsets do not change.

    Raises ValueError for a text that is longer than `nlp.max_length` (spaCy's E088).
    """
    if not (long := [*_LONG.finditer(text)]) or len(text) > nlp.max_length:
        return nlp.make_doc(text)
    words: list[str] = []
    spaces: list[bool] = []

    def add(part: str) -> None:
        if part:
            doc = nlp.tokenizer(part)
            words.extend(token.text for token in doc)
            spaces.extend(bool(token.whitespace_) for token in doc)

    at = 0
    for match in long:
        # A space after a word belongs to its last token, so the text in between does not start with
        # a space.
        add(text[at : match.start()])
        for piece in _PIECES.finditer(match[0]):
            add(piece[0])
        at = match.end()
        if text[at : at + 1] == " ":
            spaces[-1] = True
            at += 1
    add(text[at:])
    return Doc(nlp.vocab, words, spaces)
