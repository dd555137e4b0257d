"""Abbreviations: their definitions in a text (Schwartz and Hearst, 2003), and mentions with them expanded."""

import re
import textwrap
import warnings
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from typing import Any

from spacy.tokens import Doc, Span, Token

from ..errors import KrisselWarning, Warnings
from ..views import doc_text

# A short form has so many characters, of which one is a letter, and at most so many words.
SHORTEST, LONGEST, MOST_WORDS = 2, 10, 2
# A long form has at most `min(n + 5, 2 n)` words for a short form of n characters, and stands within so many characters
# before the bracket: the bound keeps the time linear whatever the text.
WINDOW = 256
# Genera with one species' name that are remembered: the bound keeps the time linear.
MOST_GENERA = 8
BRACKETS = re.compile(rf"[(\[]([^()\[\]]{{1,{WINDOW}}})[)\]]")
# For a text without square ones: a quarter of the time.
ROUND_BRACKETS = re.compile(BRACKETS.pattern.replace(r"[(\[]", r"\(", 1))
# A bracket may hold several things: "A-T; MIM 208900", "DMD/BMD", "adenomatous polyposis coli or APC".
PARTS = re.compile(r"[;,:]\s+|/|\s(?:or|and)\s")
# Where a sentence ends, roughly.
SENTENCE_END = re.compile(r"[.!?;]\s+(?=[A-Z\d(])|\n")
WORD = re.compile(r"[^\W_]+")
# "E. coli", "Ch. velia", "D.melanogaster", "S. FAECIUM"; and the genus with its species.
SHORT_GENUS = re.compile(r"(?<![^\W_])([A-Z][a-z]{0,2})\.\s?([a-z][a-z-]*[a-z]|[A-Z]{2,})(?![^\W_])")
BINOMIAL = re.compile(r"(?<![^\W_])([A-Z][a-z]+)\s+([a-z][a-z-]*[a-z])(?![^\W_])")
EDGES = " \t\r\n\"'`‘’“”«»"


def find_definitions(text: str, mentions: Iterable[str] | None = None) -> dict[str, str]:
    """Short form → long form as they stand in `text`, from "long form (SF)" and from "SF (long form)".

    Every letter and digit of the short form is found in the long form, in the same order and whatever its case, and the
    first one begins a word of it; or the short form is made of the initials of the long form's words in another order,
    as DM of "myotonic dystrophy". The first definition of a short form counts. What stands behind the last hyphen of a
    short form is defined too, where nothing else defines it: "drug-induced acute liver failure (DI-ALF)" defines ALF.
    So are shortened genera (`find_genera`). Time is linear in the text.

    mentions: the texts to write out. Brackets that define nothing in them, as most do, are passed over; so are genera
        where these have no full stop. None: all definitions are found.
    """
    found: dict[str, str] = {}
    ends: dict[str, str] = {}
    named = None if mentions is None else "\n".join(set(mentions))
    # Short forms begin with a word. To search all mentions for each would take time with the square of a text's length.
    words = None if named is None else set(WORD.findall(named))
    for match in (BRACKETS if "[" in text else ROUND_BRACKETS).finditer(text):
        before, inside = text[max(0, match.start() - WINDOW) : match.start()], match[1].strip(EDGES)
        if words is not None and not _defines_any(words, before, inside):
            continue
        before = _last_sentence(before)
        for short, long in _definitions(before, inside):
            found.setdefault(short, long)
        end = inside.rpartition("-")[2]
        # Capitals, so that no word behind a hyphen is taken: "(bone-marrow)".
        if end != inside and sum(map(str.isupper, end)) >= SHORTEST:
            long_end = _long_form(end, before)
            if long_end:
                ends.setdefault(end, long_end)
    genera = find_genera(text) if named is None or "." in named else {}
    return {**genera, **ends, **found}


def find_genera(text: str) -> dict[str, str]:
    """Species with a shortened genus, as they stand in `text` → with the genus in full: "E. coli" where the text has
    "Escherichia coli". Of several genera, the first counts. Time is linear in the text."""
    shortened = list(SHORT_GENUS.finditer(text))
    if not shortened:
        return {}
    genera: dict[str, list[str]] = {}
    for genus, species in BINOMIAL.findall(text):
        known = genera.setdefault(species, [])
        if genus not in known and len(known) < MOST_GENERA:
            known.append(genus)
    found: dict[str, str] = {}
    for match in shortened:
        short, species = match[1], match[2].lower()
        for genus in genera.get(species, ()):
            if len(genus) > len(short) and genus.startswith(short):
                found.setdefault(match[0], f"{genus} {species}")
                break
    return found


def _defines_any(words: set[str], before: str, inside: str) -> bool:
    """Whether a bracket with `inside` it, behind `before`, may define a short form that begins with one of `words`."""
    if not words.isdisjoint(WORD.findall(inside)):
        return True
    last = before.rsplit(None, 1)[-1:]
    return bool(last) and not words.isdisjoint(WORD.findall(last[0]))


def _definitions(before: str, inside: str) -> Iterator[tuple[str, str]]:
    """What a bracket with `inside` it, behind `before`, defines."""
    whole = _long_form(inside, before)
    if whole:
        yield inside, whole
        return
    parts = [part.strip(EDGES) for part in PARTS.split(inside)]
    earlier = ""
    for part in parts:
        long = _long_form(part, earlier) or _long_form(part, before)
        if long:
            yield part, long
        else:
            earlier = part
    # The other way round: the last word before the bracket may be short for what begins in it.
    words = before.split()
    if words:
        short = words[-1].strip(EDGES)
        if parts[0] and _long_form(short, parts[0]) == parts[0]:
            yield short, parts[0]


def is_short_form(text: str) -> bool:
    """Whether `text` looks like an abbreviation: short, few words, with a letter, beginning with a letter or digit."""
    return (
        SHORTEST <= len(text) <= LONGEST
        and len(text.split()) <= MOST_WORDS
        and text[0].isalnum()
        and any(char.isalpha() for char in text)
    )


def _long_form(short: str, before: str) -> str | None:
    """The end of `before` that `short` is short for; None where it is not."""
    if not is_short_form(short):
        return None
    before = before.rstrip()
    chars = [char for char in short.lower() if char.isalnum()]
    for start in (_subsequence(chars, before.lower()), _initials(chars, before.lower())):
        # A few capitals grow in lower case and would move the start; their text is left alone.
        if start is None or len(before.lower()) != len(before):
            continue
        long = before[start:]
        n_words = len(long.split())
        whole = all(long.count(pair[0]) == long.count(pair[1]) for pair in ("()", "[]"))
        if whole and len(long) > len(short) and n_words <= min(len(short) + 5, 2 * len(short)):
            if short not in long.split():
                return long
    return None


def _subsequence(chars: list[str], before: str) -> int | None:
    """Where the shortest end of `before` starts that holds `chars` in order, the first one at the start of a word."""
    place = len(before)
    for char in reversed(chars[1:]):
        place = before.rfind(char, 0, place)
        if place < 0:
            return None
    while (place := before.rfind(chars[0], 0, place)) > 0 and before[place - 1].isalnum():
        pass
    return place if place >= 0 else None


def _initials(chars: list[str], before: str) -> int | None:
    """Where the last `len(chars)` words of `before` start, if `chars` are their initials in any order."""
    words = list(WORD.finditer(before))[-len(chars) :]
    if len(words) < len(chars) or sorted(word[0][0] for word in words) != sorted(chars):
        return None
    return words[0].start()


def _last_sentence(text: str) -> str:
    start = 0
    for match in SENTENCE_END.finditer(text):
        start = match.end()
    return text[start:]


def long_forms(doc: Doc, text: str | None = None, mentions: Iterable[str] | None = None) -> dict[str, str]:
    """Short form → long form: from `doc._.abbreviations` when a component set it, else as the doc's text defines them.

    Reads both outputs of scispaCy's `abbreviation_detector`: spans with `span._.long_form`, and dictionaries
    (`make_serializable`). The name is common: what another component left there in another form is left out, with a
    warning, KW613; where nothing else is there, the text's definitions count. Shortened genera are read from the text
    in any case (`find_genera`).

    text: the doc's, where it is known. mentions: as in `find_definitions`.
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
    text = doc_text(doc) if text is None else text
    return {**find_genera(text), **forms} if forms else find_definitions(text, mentions)


def _pair(entry: Any) -> tuple[str, str] | None:
    """Short form and long form, of what scispaCy writes; None for anything else."""
    if isinstance(entry, dict):
        short, long = entry.get("short_text"), entry.get("long_text")
    elif isinstance(entry, (Span, Token)) and entry.has_extension("long_form"):
        short, long = entry.text, getattr(entry._.long_form, "text", entry._.long_form)
    else:
        return None
    return (short, long) if isinstance(short, str) and isinstance(long, str) and short and long else None


def writer(forms: dict[str, str]) -> Callable[[str], str]:
    """Of a mention: it, with each short form that stands in it as a word replaced by its long form.

    Behind its own long form a short form in brackets is left out: "ataxia-telangiectasia (A-T)" becomes
    "ataxia-telangiectasia", not the same twice.
    """
    # A short form that stands as a word begins with a word of the mention: not all of a long text's are looked for.
    by_word: dict[str, list[tuple[int, str]]] = {}
    for place, short in enumerate(forms):
        word = WORD.search(short)
        by_word.setdefault(word[0] if word else "", []).append((place, short))

    def shorts_in(mention: str) -> list[str]:
        words = dict.fromkeys(["", *WORD.findall(mention)])
        known = sorted(pair for word in words for pair in by_word.get(word, ()))
        return [short for _, short in known if short in mention]

    @cache
    def write_out(mention: str) -> str:
        if mention in forms:
            return forms[mention]
        whole, shorts = mention, shorts_in(mention)
        for short in shorts:
            without = re.sub(rf"\s*[(\[]\s*{re.escape(short)}\s*[)\]]", "", mention)
            if without != mention and forms[short].lower() in without.lower():
                mention = without
        if mention != whole:
            shorts = shorts_in(mention)
        if not shorts:
            return mention
        # The longest first, so that of "PLL" and "T-PLL" the latter is seen where it stands; in one pass, so that
        # nothing is written out within a long form.
        alternatives = "|".join(re.escape(short) for short in sorted(shorts, key=len, reverse=True))
        return re.sub(rf"(?<![^\W_])(?:{alternatives})(?![^\W_])", lambda match: forms[match[0]], mention)

    return write_out
