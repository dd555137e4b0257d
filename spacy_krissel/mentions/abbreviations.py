"""Abbreviations: definitions of short forms in a text, and their expansion in mentions."""

import re
import textwrap
import warnings
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from spacy.tokens import Doc, Span, Token

from ..errors import KrisselWarning, Warnings
from ..views import doc_text
from .alignment import (
    BRITISH_E,
    GROUP_END,
    LETTERED,
    NUMBERS,
    OUTSIDE,
    PLURAL,
    SMALL_WORDS,
    Alignment,
    best_alignment,
    fold_letters,
    letters_of,
    word_before,
)
from .short_forms import (
    PlainView,
    any_word_starts_with,
    first_letters,
    fold_short,
    key_of,
    keyed_runs,
    plain_view,
)

# Bounds of a short form, in characters and words. Single letters have rules of their own.
MIN_CHARS, MAX_CHARS, MAX_WORDS = 2, 14, 2
# Alignments with a lower pseudo-precision define nothing.
MIN_PRECISION = 0.8
# Maximum length of a bracket's content, and of the text before a bracket that is searched for a
# long form: the bound keeps the time linear whatever the text.
WINDOW = 256
# Length of the text before a bracket in which a short form stands, with white space and quotes.
REACH = 2 * MAX_CHARS
# Maximum number of offsets at which the long form in "SF (long form, …)" may end.
MAX_ENDS = 8
# Maximum length of a title, in characters.
MAX_TITLE = 300
# Maximum number of genera per species name. The bound keeps the time linear.
MAX_GENERA = 8
BRACKET = re.compile(r"[()\[\]{}]")
OPENING = {")": "(", "]": "[", "}": "{"}
# Separators within a bracket: "A-T; MIM 208900", "DMD/BMD", "adenomatous polyposis coli or APC",
# "HGF [SF]".
PARTS = re.compile(r"[;,:]\s+|/|\s(?:or|and)\s|\s(?=[(\[])|\s(?=\d+[.,]\d)")
ENDS = re.compile(r"[;,:.]\s|\s(?:or|and|in|on)\s|\s[(\[–-]")
# What may precede a short form: "hereafter referred to as".
REFERRING = ("hereafter", "hereinafter", "henceforth", "abbreviated", "from now on", "a.k.a.")
REFERRED = (
    rf"(?:(?:{'|'.join(map(re.escape, REFERRING))}|aka|short for|stands for|standing for|"
    r"abbreviation|abbr\.?|abbrev\.?|designated|denoted|referred to|termed|called|known|also|or|"
    r"i\.\s?e\.|further|as|to|by|here|the(?=\s[\"'“‘„‹«]))[,:]?\s{1,4}){1,6}"
)
# No ASCII text without any of these defines a short form.
DEFINING = (*OPENING.values(), *REFERRING)
LEAD = re.compile(REFERRED, re.IGNORECASE)
TRAIL = re.compile(
    r",?\s+(?:hereafter|hereinafter|henceforth|from now on|for short|in short)$", re.IGNORECASE
)
LEAD_STARTS, TRAIL_ENDS = frozenset("abcdfhikorstABCDFHIKORST"), frozenset("hnrtHNRT")
# Without a bracket: "chronic fatigue syndrome, hereafter CFS".
WITHOUT_BRACKET = re.compile(
    rf"(?<![\s,]),?\s{{1,4}}(?={'|'.join(map(re.escape, REFERRING))}){REFERRED}[\"'“‘„‹«]?"
    r"((?=[^\W_])[^\s,;:()\[\]\"”’]{1,13}[^\s.,;:()\[\]\"”’›»“])"
)
# "(P)" and "(P, 40 mg)"; LETTER finds the letter elsewhere, as a word. "A" may be the article; "I",
# "V" and "X" are Roman numerals.
SINGLE = re.compile(r"\s*([B-HJ-UWYZ])\s*[,;)\]]")
LETTER = re.compile(r"(?<![\w(\[.-])[B-HJ-UWYZ](?![\w)\].-])")
LAST_WORD = re.compile(r"(?<![^\W_])([^\W\d_]{3,})\s$")
# A sentence end, roughly. A line that continues in lower case is a wrapped line.
SENTENCE_END = re.compile(
    r"[.!?;\n](?:(?<=\n)\s*(?:\n|(?=[^\sa-z]))"
    r"|(?<!\be\.g\.)(?<!\bi\.e\.)(?<!\b(?:vs|cf|Dr|St)\.)[\"”’')\]]?\s+(?=[A-Z\d(\[]))"
)
# "(II)", a stage or an item number; "mM", "kDa", "10 mg".
ROMAN = re.compile(r"[IVX]+")
UNIT = re.compile(
    r"[fpnuµμmcdk](?:[MVWJLAN]|Da|Hz|Pa|Gy|Bq|Ci|eV)|[MGT](?:Hz|Pa|Da|Bq|eV)|mmHg"
    r"|\d[\d().-]* .*"
)
NO_SHORT_FORM = re.compile(r"[=<>%;,±]|:\s+\d|\s(?:[(\[]|\d+[.,]\d)")
# "(Fig. 1)", "(Secs. 3 and 4)", "(App. A)"
LOCATOR = re.compile(
    r"(?:[Ff]ig(?:ure)?|[Tt]ab(?:le)?|[Ss]ect?(?:ion)?|[Rr]ef(?:erence)?|[Ee]qn?|[Aa]pp(?:endix)?"
    r"|[Ss]upp?l?|[Cc]h(?:ap(?:ter)?)?|[Vv]ol|[Nn]os?|[Bb]ox|[Pp]p?|[Ss]ch(?:eme)?|[Ll]it|[Ee]x"
    r"|FIG|TAB|SEC|REF|EQ|APP|SUPPL|VOL)s?(?:\.\s*|\s+)[(\[]?(?:[A-Z]?\d|[IVX]+\b|[A-Z]\b)"
)
# "(Tim, 2004)", "(POM 2012)", "(Smith et al., 1999)"; and "(CR, Wilmington, MA)".
CITATION = re.compile(
    r"[^\W\d_][^\s,;:]*(?:\s(?:et al|and|&)[^;,:]{0,20})?,?\s+(?:19|20)\d\d[a-z]?"
)
ADDRESS = re.compile(
    r"[^,;:]+,\s+[A-Z][a-z]+(?:[\s-][A-Z][a-z]+)*,\s+(?:[A-Z]{2}|USA|UK|[A-Z][a-z]+)(?:,\s+[\w. "
    r"]+)?"
)
# "yes or no (Y/N)" lists values.
VALUES = re.compile(
    r"(?:yes|no|males?|females?|present|absent|positive|negative|true|false|wom[ae]n|m[ae]n|left|"
    r"right|day|night|or|and|\W+)+",
    re.IGNORECASE,
)
# Prefixes of a long form's first word, joined without a space: "4,4'-", "N-", "alpha-1-".
LOCANT = re.compile(
    r"(?:[^\w\s]|[\d_]|(?<![^\W\d_])"
    r"(?:[^\W\d_]|[Aa]lpha|[Bb]eta|[Gg]amma|[Dd]elta|[Oo]mega|cis|trans|tert|sec)"
    r"(?![^\W\d_]))+[-‐‑–][(\[]?"
)
# "E. coli", "Ch. velia", "D.melanogaster", "S. FAECIUM"; and the genus in full with its species.
SHORT_GENUS = re.compile(
    r"([A-Z](?<![^\W_][A-Z])[a-z]{0,2})\.\s?"
    r"([a-z][a-z-]*[a-z]|[A-Z]{2,})(?![^\W_])"
)
BINOMIAL = re.compile(r"([A-Z](?<![^\W_][A-Z])[a-z]+)\s+([a-z][a-z-]*[a-z])(?![^\W_])")
# "SLE, …", "SLE: …", "SLE = …" in a bracket, and the separator before the next item.
LISTED = re.compile(r"[\"'“‘„‹«]?([^\W_][^\s,;:=]{1,13}?)[\"'”’“›»]?(\s*=\s*|:\s+|,)\s*(?=[^\W_])")
NEXT_LISTED = re.compile(r";\s+|,\s+(?=[^\s,;:=]{2,14}(?:\s*=|:\s))")
OTHER_SHORT = re.compile(r"[A-Z\d][^\s,;]*[A-Z\d]")
LIST_EDGES = " \t\r\n,;"
WORD_START = re.compile(r"(?<![^\W_])[^\W_]")
NOT_WITHIN_WORD = re.compile(r"(?<![^\W_]).", re.DOTALL)
EDGES = " \t\r\n\"'`‘’“”«»„‚‹›‟"


class Definition(NamedTuple):
    """A short form and its long form: `text[start:end]` and `text[long_start:long_end]`.

    The short form is in plain characters (`plain_view`). If no text was read, all offsets are 0.
    """

    short: str
    long: str
    start: int = 0
    end: int = 0
    long_start: int = 0
    long_end: int = 0


# One (offset, long form) per definition of a short form; it applies from the offset on.
Entries = list[tuple[int, str]]


def definitions(text: str, mentions: Iterable[str] | None = None) -> list[Definition]:
    """Return the definitions in `text`, in order of the short forms.

    Reads "long form (SF)", "SF (long form)" and "long form, abbreviated as SF". The words of the
    long form must give all letters and digits of the short form, by a strategy that rarely succeeds
    by chance (`best_alignment`, `MIN_PRECISION`). Both must be in one sentence. Lower-case words,
    units, and strings with "=", "<", ">" or "%" are no short forms. A single capital is a short
    form only if the text uses it as a word. Time is linear in the text.

    Invisible characters and full-width forms are normalized in the short form (`plain_view`). The
    long form and the offsets refer to `text` itself.

    mentions: the texts to expand. Brackets that define no short form in them are skipped. None: all
        definitions are returned.
    """
    if text.isascii() and not any(map(text.__contains__, DEFINING)):
        return []
    needed = None if mentions is None else first_letters(mentions)
    if needed is not None and not needed:
        return []
    plain = plain_view(text)
    found = _definitions(plain.text, needed)
    if plain.text is text:
        return found
    return [_in_text(pair, text, plain) for pair in found]


def _in_text(pair: Definition, text: str, plain: PlainView) -> Definition:
    """Return a definition found in the plain text with the offsets and the long form of `text`."""
    start, end = plain.span(pair.start, pair.end)
    long_start, long_end = plain.span(pair.long_start, pair.long_end)
    return Definition(pair.short, text[long_start:long_end], start, end, long_start, long_end)


def _definitions(text: str, needed: set[tuple[str, str]] | None) -> list[Definition]:
    found: list[Definition] = []
    single = []
    firsts = None if needed is None else {first for first, _ in needed}
    for start, end, around in _brackets(text):
        if end - start > WINDOW:
            continue
        # The bracket's words, and the word before it. Most contain none of the needed letters.
        near = text[max(0, start - REACH) : end]
        if firsts is not None and firsts.isdisjoint(near) and near.isascii():
            continue
        # Most contents without letters are numbers.
        content = text[start:end]
        if content.lower() == content.upper():
            continue
        if letter := SINGLE.match(text, start + 1):
            if needed is None or (letter[1], "") in needed:
                single.append(start)
        elif needed is None or any_word_starts_with(needed, near):
            found += _in_bracket(text, start, end, max(around + 1, start - WINDOW))
    if single:
        found += _single_letters(text, single)
    if any(word in text for word in REFERRING):
        for match in WITHOUT_BRACKET.finditer(text):
            last, short = match.start(), _trim(text, *match.span(1))
            if is_short_form(text[slice(*short)]):
                pair = _forward(text, max(0, last - WINDOW), last, short)
                found += [pair] if pair is not None else []
    found.sort(key=lambda pair: pair.start)
    return found


def find_definitions(text: str, mentions: Iterable[str] | None = None) -> dict[str, str]:
    """Return short form → long form as defined in `text`, shortened genera included.

    The first definition of a short form wins (`definitions`, `find_genera`). Time is linear in the
    text.

    mentions: as in `definitions`. Genera are skipped if no mention contains a full stop.
    """
    forms: dict[str, str] = {}
    for pair in text_definitions(text, mentions):
        forms.setdefault(pair.short, pair.long)
    return forms


def text_definitions(text: str, mentions: Iterable[str] | None) -> list[Definition]:
    """Return the definitions in `text`, and its shortened genera. mentions: as in
    `find_definitions`."""
    mentions = None if mentions is None else set(mentions)
    found = definitions(text, mentions)
    if mentions is None or "." in " ".join(mentions):
        found += [Definition(*genus) for genus in find_genera(text).items()]
    return found


def find_genera(text: str) -> dict[str, str]:
    """Return each species with a shortened genus in `text` → the species with its full genus.

    Example: "E. coli" → "Escherichia coli". If several genera match, the first wins. Time is linear
    in the text.
    """
    text = plain_view(text).text
    shortened = list(SHORT_GENUS.finditer(text))
    if not shortened:
        return {}
    genera: dict[str, list[str]] = {}
    for genus, species in BINOMIAL.findall(text):
        known = genera.setdefault(species, [])
        if genus not in known and len(known) < MAX_GENERA:
            known.append(genus)
    found: dict[str, str] = {}
    for match in shortened:
        short, species = match[1], match[2].lower()
        for genus in genera.get(species, ()):
            if len(genus) > len(short) and genus.startswith(short):
                found.setdefault(match[0], f"{genus} {species}")
                break
    return found


def with_variants(pairs: Sequence[Definition]) -> list[Definition]:
    """Return the definitions, plus the short forms that they imply and that nothing else defines.

    "MSC" implies its plural "MSCs", and "CSCs" its singular, with the same long form. The part of a
    short form after its last hyphen is implied with its part of the long form: "drug-induced acute
    liver failure (DI-ALF)" implies ALF.
    """
    implied = []
    for pair in pairs:
        singular = PLURAL.sub("", pair.short)
        if singular != pair.short:
            implied.append(pair._replace(short=singular))
        elif PLURAL.search(pair.short + "s"):
            implied.append(pair._replace(short=pair.short + "s"))
        end = pair.short.rpartition("-")[2]
        # Require capitals, so that no ordinary word matches: "IFN-gamma".
        if end != pair.short and sum(map(str.isupper, end)) >= MIN_CHARS:
            alignment = _accepted(end, best_alignment(end, pair.long))
            if alignment is not None:
                long = pair.long[alignment.start :]
                implied.append(pair._replace(short=end, long=long))
    known = {name for pair in pairs for name in (pair.short, key_of(pair.short))}
    implied = [
        pair for pair in implied if known.isdisjoint((pair.short, key_of(pair.short) or None))
    ]
    return [*pairs, *implied]


def title_end(text: str) -> int:
    """Return the end of the title of `text`: its first line, or its only line's first sentence.

    Return 0 if the title would exceed `MAX_TITLE` characters.
    """
    start = len(text) - len(text.lstrip())
    line = text.find("\n", start, start + MAX_TITLE)
    if line >= 0:
        return line
    sentence = SENTENCE_END.search(text, start, start + MAX_TITLE)
    return sentence.start() if sentence else len(text) if len(text) <= start + MAX_TITLE else 0


def is_short_form(text: str) -> bool:
    """Return whether `text` looks like a short form: one or two words, a capital or a digit."""
    if not (MIN_CHARS <= len(text) <= MAX_CHARS and text[0].isalnum()):
        return False
    if text.isalpha() and text.isupper():
        return True
    if UNIT.fullmatch(text) or NO_SHORT_FORM.search(text) or not _is_whole(text):
        return False
    if (" " in text or "." in text) and LOCATOR.match(text):
        return False
    if text == text.lower():
        return text.isalnum() and text[0].isalpha() and not text.isalpha()
    words = [word if word.isupper() else word.lower() for word in text.split()]
    if len(words) > MAX_WORDS or any(word in SMALL_WORDS or word in OUTSIDE for word in words):
        return False
    return any(map(str.isalpha, text))


def _brackets(text: str) -> Iterator[tuple[int, int, int]]:
    """Yield the offsets of each matching pair of brackets, and of the open one around it or -1."""
    open_: list[int] = []
    for match in BRACKET.finditer(text):
        start, char = match.start(), match[0]
        if char in "([{":
            open_.append(start)
        # The closing bracket of a list marker, "1)", has no opening one.
        elif open_ and text[open_[-1]] == OPENING[char]:
            yield open_.pop(), start, open_[-1] if open_ else -1


def _is_whole(text: str) -> bool:
    """Return whether all brackets of `text` match."""
    brackets = BRACKET.findall(text)
    return not brackets or len(brackets) == 2 * sum(1 for _ in _brackets(text))


def _last_word(text: str, first: int, end: int) -> str:
    """Return the last word of `text[first:end]`, up to the maximum length of a short form."""
    return "".join(text[max(first, end - REACH) : end].rsplit(None, 1)[-1:])


def _single_letters(text: str, starts: Sequence[int]) -> list[Definition]:
    """Return the definitions "progesterone (P)" at the brackets that begin at `starts`."""
    used = set(LETTER.findall(text))
    found = []
    for start in starts:
        short = SINGLE.match(text, start + 1)
        word = LAST_WORD.search(text, max(0, start - WINDOW), start)
        if short is None or word is None or short[1] not in used or word[1] in OUTSIDE:
            continue
        if fold_letters(word[1][0]) == fold_letters(short[1]) and word[1][1:].islower():
            found.append(Definition(short[1], word[1], *short.span(1), *word.span(1)))
    return found


def _in_bracket(text: str, start: int, end: int, first: int) -> list[Definition]:
    """Return the definitions in the bracket `text[start:end]`, given the text from `first` on."""
    inside = _trim(text, start + 1, end)
    content = text[inside[0] : inside[1]]
    if not content or _is_reference(content):
        return []
    found: list[Definition] = []
    # A short form needs a capital or a digit. "5-HT(1A)" defines none either.
    may_hold = content != content.lower() or content.isalnum()
    apart = not text[start - 1 : start].isalnum()
    if may_hold and (apart or (content.isalpha() and content.isupper())):
        short = is_short_form(content)
        pair = _forward(text, first, start, inside) if short else None
        if pair is not None:
            return [pair]
        if not short or "/" in content:
            found = _in_parts(text, start, inside, first)
    if not found and content:
        pair = _backward(text, first, start, *inside)
        if pair is not None:
            found.append(pair)
    if not found and may_hold and LISTED.match(content):
        found = _listed(text, *inside)
    return found


def _listed(text: str, start: int, end: int) -> list[Definition]:
    """Return the definitions in "(SLE: systemic lupus erythematosus; RA = arthritis)"."""
    found = []
    firsts = [start, *(match.end() for match in NEXT_LISTED.finditer(text, start, end))]
    for index, first in enumerate(firsts):
        match = LISTED.match(text, first, end)
        if match is not None and (not index or match[2] != ","):
            last = firsts[index + 1] if index + 1 < len(firsts) else end
            while last > match.end() and text[last - 1] in LIST_EDGES:
                last -= 1
            long_start, last = _trim(text, match.end(), last)
            # Skip lists of other short forms: "(CD206, CD200R)".
            if last > long_start and not OTHER_SHORT.search(text, long_start, last):
                pair = _backward(text, first, match.end(1), long_start, last)
                found += [pair] if pair is not None else []
    return found


def _is_reference(content: str) -> bool:
    """Return whether a bracket's content is a locator, a citation or an address."""
    if content[-1].isdigit() or content[-2:-1].isdigit():
        return CITATION.fullmatch(content) is not None or LOCATOR.match(content) is not None
    if content[0].isupper() and "," in content and ADDRESS.fullmatch(content):
        return True
    return "." in content[:8] and LOCATOR.match(content) is not None


def _in_parts(text: str, start: int, inside: tuple[int, int], first: int) -> list[Definition]:
    """Return the definitions among the parts of a bracket's content.

    Each part is aligned with the part before it, else with the text from `first` to the bracket at
    `start`.
    """
    found = []
    edges = [edge for match in PARTS.finditer(text, *inside) for edge in match.span()]
    edges = [inside[0], *edges, inside[1]]
    earlier: tuple[int, int] | None = None
    for index in range(0, len(edges), 2):
        part = _trim(text, edges[index], edges[index + 1])
        if not is_short_form(text[part[0] : part[1]]):
            earlier = earlier or part
            continue
        pair = _forward(text, *earlier, part) if earlier is not None else None
        earlier = None
        measured = (
            text[part[1] : part[1] + 1].isspace() and text[part[1] + 1 : part[1] + 2].isdigit()
        )
        pair = pair or _forward(text, first, start, part, strict=index > 0, close=measured)
        if pair is not None:
            found.append(pair)
    return found


def _trim(text: str, start: int, end: int) -> tuple[int, int]:
    """Return the offsets of `text[start:end]` without surrounding quotes, "hereafter" and the
    like.
    """
    while start < end and text[start] in EDGES:
        start += 1
    while start < end and text[end - 1] in EDGES:
        end -= 1
    # One character decides for most texts. "OR 1.2" is not the word "or".
    if end - start > 4 and text[start] in LEAD_STARTS and not text[start : start + 2].isupper():
        if lead := LEAD.match(text, start, end):
            return _trim(text, lead.end(), end)
    if (
        end - start > 8
        and text[end - 1] in TRAIL_ENDS
        and (trail := TRAIL.search(text, start, end))
    ):
        return _trim(text, start, trail.start())
    # Drop a sentence's full stop, but not that of "E.C.".
    if start < end and text[end - 1] == "." and text.find(".", start, end) == end - 1:
        end -= 1
    return start, end


def _forward(
    text: str,
    first: int,
    last: int,
    short_form: tuple[int, int],
    *,
    strict: bool = False,
    close: bool = False,
) -> Definition | None:
    """Return the definition of a short form whose long form ends `text[first:last]`.

    short_form: its start and end. strict: its letters must be the initials of the last words.
        close: every word of the long form must give a letter.
    """
    start, end = short_form
    short = text[start:end]
    while last > first and text[last - 1] in EDGES:
        last -= 1
    alignment = best_alignment(short, text[first:last])
    if alignment is not None and SENTENCE_END.search(text, first + alignment.start, last):
        for match in SENTENCE_END.finditer(text, first, last):
            first = match.end()
        alignment = best_alignment(short, text[first:last])
    if alignment is None or alignment.strategy.startswith("trailing"):
        # The long form may end in a bracket: "hepatocyte growth factor (scatter factor) (HGF)".
        pairs = _brackets(text[first:last]) if text[last - 1 : last] in (")", "]") else ()
        bracket = next((first + start for start, end, _ in pairs if first + end == last - 1), first)
        if bracket > first and text[bracket - 1].isspace():
            return _forward(text, first, bracket, short_form, strict=strict, close=close)
    alignment = _accepted(short, alignment, strict=strict)
    if alignment is None or (close and alignment.strategy.startswith(("skipped", "trailing"))):
        return None
    long_start = first + alignment.start
    if alignment.start and not text[long_start - 1].isspace():
        joined = max(text.rfind(space, first, long_start) for space in " \t\n\xa0") + 1 or first
        if LOCANT.fullmatch(text, joined, long_start) and _is_whole(text[joined:last]):
            long_start = joined
    elif not alignment.start and first and text[first - 1].isalnum():
        # The window begins within a word.
        return None
    elif text[long_start].isdigit():
        # "type 2 diabetes mellitus (DM2)"
        before = word_before(text[first:long_start], alignment.start)
        if before.lower() in LETTERED and text[:long_start].endswith(before + " "):
            long_start -= len(before) + 1
    return _definition(text, start, end, long_start, last)


def _backward(
    text: str,
    first: int,
    last: int,
    long_start: int,
    long_end: int,
) -> Definition | None:
    """Return the definition of the last word of `text[first:last]`.

    Its long form begins `text[long_start:long_end]`, which is also its maximum extent.
    """
    short = _last_word(text, first, last).strip(EDGES)
    if (short.islower() and short.isascii()) or not is_short_form(short):
        return None
    if sum(not char.islower() or not char.isascii() for char in short) < MIN_CHARS:
        return None
    # "DIDS (4,4'-diisothiocyano…)"
    locant = LOCANT.match(text, long_start, long_end)
    firsts = [long_start, locant.end()] if locant and locant.end() < long_end else [long_start]
    letters = {letters_of(group)[:1] for group in GROUP_END.split(short)}
    if text[long_start : long_start + 6].lower().startswith(BRITISH_E):
        letters |= {"o", "a", "œ", "æ"} if "e" in letters else set()
    firsts = [first for first in firsts if fold_letters(text[first]) in letters]
    if not firsts and letters.isdisjoint(NUMBERS):
        return None
    start = text.rindex(short, 0, last)
    if start < first or (start and text[start - 1].isalnum()):
        return None
    ends = [match.start() for match in ENDS.finditer(text, long_start, long_end)][:MAX_ENDS]
    ends = [long_end, *reversed(ends)]
    for end in ends:
        stop = end
        while text[stop - 1] in EDGES:
            stop -= 1
        for first in firsts or [long_start]:
            alignment = _accepted(short, best_alignment(short, text[first:stop], whole=True))
            if alignment is None:
                continue
            # The words after the last letter may belong to the next phrase; only the first end
            # allows them.
            if end == ends[-1] or not alignment.strategy.startswith("trailing"):
                pair = _definition(text, start, start + len(short), long_start, stop)
                if pair is not None:
                    return pair
    return None


def _accepted(short: str, alignment: Alignment | None, *, strict: bool = False) -> Alignment | None:
    """Return the alignment if it defines `short`, else None.

    A short form that looks like a Roman numeral, a word or a name, "(II)", "(Fever)", "(Smith,
    1999)", must be the initials of all words. `strict` demands the same of any short form.
    """
    if alignment is None or alignment.precision < MIN_PRECISION:
        return None
    doubtful = ROMAN.fullmatch(short) or (len(short) > 3 and short.isalpha() and short.istitle())
    if (strict or doubtful) and (alignment.strategy != "initials" or alignment.small):
        return None
    return alignment


def _definition(
    text: str,
    start: int,
    end: int,
    long_start: int,
    long_end: int,
) -> Definition | None:
    """Return the definition at these offsets, or None if its long form is not a valid one."""
    short, long = text[start:end], text[long_start:long_end]
    # "Dexamethasone (Dex)" is valid; "SLE patients (SLE)" and "QT (QTc time)" are not.
    begins = long.startswith(short) and not (short.istitle() and long[len(short) :][:1].islower())
    if len(long) <= len(short) or begins or short in long.split():
        return None
    if not _is_whole(long) or ("/" in short and VALUES.fullmatch(long)):
        return None
    return Definition(short, long, start, end, long_start, long_end)


def doc_definitions(
    doc: Doc,
    text: str | None = None,
    mentions: Iterable[str] | None = None,
) -> list[Definition]:
    """Return the definitions in `doc._.abbreviations` if a component set it, else those of the
    text.

    Reads both outputs of scispaCy's `abbreviation_detector`: spans with `span._.long_form`, and
    dictionaries (`make_serializable`). Other components may use the same name: entries in another
    form are skipped with warning KW613. If no entry is left, the text's definitions are used.
    Shortened genera are always read from the text (`find_genera`).

    text: the doc's text, if known. mentions: as in `find_definitions`.
    """
    given = doc._.abbreviations if Doc.has_extension("abbreviations") else None
    # A string or a mapping set by another component is not a list of entries.
    entries = list(given) if isinstance(given, (list, tuple)) else [given] if given else []
    text = doc_text(doc) if text is None else text
    pairs = [_pair(entry) for entry in entries]
    if None in pairs:
        first = textwrap.shorten(repr(entries[pairs.index(None)]), 80)
        message = Warnings.KW613.format(count=pairs.count(None), total=len(pairs), first=first)
        warnings.warn(message, KrisselWarning, stacklevel=2)
    forms = dict(filter(None, pairs))
    if not forms:
        return text_definitions(text, mentions)
    return [Definition(*pair) for pair in {**find_genera(text), **forms}.items()]


def _pair(entry: Any) -> tuple[str, str] | None:
    """Return the short form and the long form of a scispaCy entry, or None for anything else."""
    if isinstance(entry, dict):
        short, long = entry.get("short_text"), entry.get("long_text")
    elif isinstance(entry, (Span, Token)) and entry.has_extension("long_form"):
        short, long = entry.text, getattr(entry._.long_form, "text", entry._.long_form)
    else:
        return None
    return (
        (short, long)
        if isinstance(short, str) and isinstance(long, str) and short and long
        else None
    )


def document_expander(text: str, pairs: Sequence[Definition] | None = None) -> Callable[..., str]:
    """Return the `abbreviation_expander` of a text, including implied definitions
    (`with_variants`).

    A short form whose number is missing in its long form is not expanded: "COX-2" would become
    "cyclooxygenase".

    pairs: the definitions; None for those in the text.
    """
    pairs = text_definitions(text, None) if pairs is None else pairs
    kept = [pair for pair in pairs if not _loses_number(pair)]
    return abbreviation_expander(with_variants(kept), title_end(text))


def _loses_number(pair: Definition) -> bool:
    if not any(map(str.isdigit, pair.short)) or not pair.end:
        return False
    alignment = best_alignment(pair.short, pair.long)
    return alignment is not None and alignment.strategy.startswith("numbered")


def abbreviation_expander(  # noqa: C901
    forms: Iterable[Definition] | Mapping[str, str], title: int = 0
) -> Callable[..., str]:
    """Return a function that replaces each short form in a mention, as a word, by its long form.

    `expand(mention, start)` uses the last definition that begins before the mention ends. A mention
    before all definitions is expanded only in the title. Without `start`, the mention's offset in
    the text, the first definition is used.

    Short forms are compared folded (`fold_short`). If no other short form has the same letters and
    digits, other separators and other spellings of Greek letters match, too (`key_of`).

    A short form in brackets after its own long form is dropped: "ataxia-telangiectasia (A-T)"
    becomes "ataxia-telangiectasia". A single letter is expanded only as a whole mention, not in
    "vitamin E". Time is linear in the mention, whatever the number of short forms.

    title: the end of the text's title (`title_end`).
    """
    pairs = [Definition(*pair) for pair in forms.items()] if isinstance(forms, Mapping) else forms
    shorts = _ShortForms(pairs)
    # Cache per mention, since texts repeat mentions.
    known: dict[str, list[tuple[int, list[tuple[int, Entries]]]]] = {}

    def found_in(mention: str) -> list[tuple[int, list[tuple[int, Entries]]]]:
        if mention not in known:
            known[mention] = shorts.found_in(mention)
        return known[mention]

    def long_of(entries: Entries, start: int | None, end: int) -> str | None:
        if start is None:
            return entries[0][1]
        n_before = bisect_left(entries, end, key=lambda entry: entry[0])
        if n_before:
            return entries[n_before - 1][1]
        return entries[0][1] if start < title else None

    def without_brackets(mention: str, start: int | None, end: int) -> str:
        parts, last = [], 0
        for opening, closing, _ in sorted(_brackets(mention)):
            entries = shorts.named(mention[opening + 1 : closing].strip())
            long = long_of(entries, start, end) if entries else None
            if long is None or opening < last:
                continue
            # Search a bounded window, so that the time is linear.
            long, reach = fold_short(long).lower(), WINDOW + len(long)
            before = mention[max(last, opening - reach) : opening].rstrip()
            if long in (before + mention[closing + 1 : closing + 1 + reach]).lower():
                parts.append(mention[last:opening].rstrip())
                last = closing + 1
        return "".join([*parts, mention[last:]])

    def expand(mention: str, start: int | None = None) -> str:
        plain = fold_short(mention)
        whole = shorts.longs.get(plain)
        if whole is None and (shorts.are_absent(plain) or not found_in(plain)):
            return mention
        end = 0 if start is None else start + len(mention)
        long = long_of(whole, start, end) if whole else None
        if long is not None:
            return long
        bare = without_brackets(plain, start, end)
        # Longest first, so that "T-PLL" wins over "PLL". A single pass never expands within a long
        # form.
        parts, last = [], 0
        for begin, ways in found_in(bare):
            for stop, entries in ways if begin >= last else ():
                long = long_of(entries, start, end)
                if long is not None:
                    parts += [bare[last:begin], long]
                    last = stop
                    break
        if not parts:
            return mention if bare == plain else bare
        return "".join([*parts, bare[last:]])

    return expand


class _ShortForms:
    """Long forms by short form, and a search for short forms in mentions."""

    def __init__(self, pairs: Iterable[Definition]) -> None:
        # Folded short form → (offset from which a definition applies, long form), in order.
        self.longs: dict[str, Entries] = {}
        self.letters = set()
        for pair in pairs:
            short = fold_short(pair.short)
            if not short:
                continue
            if pair.end and len(short) == 1:
                self.letters.add(short)
            entry = (min(pair.start, pair.long_start), pair.long)
            self.longs.setdefault(short, []).append(entry)
        # First character → the lengths of the short forms, in descending order.
        lengths: dict[str, set[int]] = {}
        by_key: dict[str, list[str]] = {}
        for short, entries in self.longs.items():
            entries.sort(key=lambda entry: entry[0])
            if short in self.letters:
                continue
            lengths.setdefault(short[0], set()).add(len(short))
            if key := key_of(short):
                by_key.setdefault(key, []).append(short)
        self.lengths = {first: sorted(some, reverse=True) for first, some in lengths.items()}
        self.keyed = {
            key: sorted(
                (entry for short in some for entry in self.longs[short]), key=lambda e: e[0]
            )
            for key, some in by_key.items()
            if len(some) == 1 or len({long for short in some for _, long in self.longs[short]}) == 1
        }
        # The first characters of spellings with one of the keys. Theta and omega begin with other
        # characters than their keys.
        self.key_starts = {key[0] for key in self.keyed} | {
            other
            for key in self.keyed
            for letter, other in (("q", "t"), ("Q", "T"), ("w", "o"), ("W", "O"))
            if key[0] == letter
        }
        # Short forms set by other components may begin with any character.
        self.starts = WORD_START if all(map(str.isalnum, lengths)) else NOT_WITHIN_WORD

    def are_absent(self, mention: str) -> bool:
        """Return True if no short form can be in a mention, by its characters alone."""
        return (
            mention.isascii()
            and self.lengths.keys().isdisjoint(mention)
            and self.key_starts.isdisjoint(mention)
        )

    def named(self, short: str) -> "Entries | None":
        """Return the long forms of a folded short form, or None if it is unknown or a single
        letter.
        """
        if short in self.letters or not short:
            return None
        return self.longs.get(short) or self.keyed.get(key_of(short))

    def found_in(self, mention: str) -> "list[tuple[int, list[tuple[int, Entries]]]]":
        """Return the offsets at which short forms begin, each with its possible ends, longest
        first.
        """
        found = []
        for match in self.starts.finditer(mention):
            start = match.start()
            ways = []
            for length in self.lengths.get(mention[start], ()):
                end = start + length
                entries = self.longs.get(mention[start:end])
                if entries and end <= len(mention) and not mention[end : end + 1].isalnum():
                    ways.append((end, entries))
            if self.keyed and (mention[start] in self.key_starts or mention[start] > "\x7f"):
                n_literal = len(ways)
                for end, key in keyed_runs(mention, start):
                    if key in self.keyed:
                        ways.append((end, self.keyed[key]))
                if n_literal < len(ways):
                    ways.sort(key=lambda way: -way[0])
            if ways:
                found.append((start, ways))
        return found
