"""Finder of a vocabulary's names in texts, in all their variants."""

from bisect import bisect_left
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any, Literal, NamedTuple

import numpy as np

from ..lexical.ngrams import canonical_form
from ..mentions.abbreviations import Definition, definitions, find_genera, with_variants
from ..mining.matcher import SHORT_ACRONYM, is_acronym, plain_letters
from ..mining.name_table import is_searched
from ..util.folding import GREEK_NAMES, fold_name
from ..util.memory import Remembered
from .abbreviated import short_forms, windows
from .case import Capitals, has_case, is_lower_case_word
from .coordination import coordinated
from .table import NameBags
from .words import STRICT_CHARS, TextWords, WordReader, separated_stems, stem, stems_of, stops_of

# How a text gives a name, the best first: as written; in another spelling, case or numbering; with
# another form of a word; in another order; with a word that the vocabulary's synonyms show to be
# equal. Two are found by their place: an abbreviation that the text defines, and a part of a
# coordination.
Variant = Literal["name", "spelling", "form", "order", "word", "abbreviation", "coordination"]
VARIANT_MEANINGS: dict[Variant, str] = {
    "name": "is the name, but for case and punctuation",
    "spelling": "differs in accents, Greek letters, numerals, possessives or British spelling",
    "form": "has other forms of the words: singular, plural",
    "order": "has another word order, or lacks of and the: cleft of the palate",
    "word": (
        "has an equal word (renal, kidney), a general word for disease (kidney injury), or is the "
        "adjective of a one-word name in -osis, -esis, -psy or -sion (psychotic)"
    ),
    "abbreviation": "is or contains an abbreviation that the text defines, or has a shortened "
    "genus: E. coli",
    "coordination": "is the distant fragment of a coordination: palate in cleft lip and palate",
}
VARIANTS: tuple[Variant, ...] = ("name", "spelling", "form", "order", "word")
SPELLING, FORM, ORDER, WORD = range(1, len(VARIANTS))
# Texts whose name is remembered. Each keeps strings among those of the documents, whose memory is
# given back in large pieces: 65,536 texts cost a process 75 MiB more than 8,192, and are no faster.
MAX_NAMED = 1 << 13
_GREEK = frozenset(map(stem, GREEK_NAMES.values()))
BRACKETS = (("(", ")"), ("[", "]"), ("{", "}"))


# Start and end in characters.
Fragment = tuple[int, int]
# Start and end of each word in its text, (n,) each.
Offsets = tuple[np.ndarray, np.ndarray]


class Named(NamedTuple):
    """Name that a text gives.

    name: as in the vocabulary; for an added name, the first name of its entity there.
    ids: of the entities that have it. variant: index of `VARIANTS`.
    is_added: it is one of the names that a person added.
    """

    name: str
    ids: tuple[str, ...]
    variant: int
    is_added: bool = False


# Why a text with the words of a name is not found.
Reason = Literal["stopped", "general", "form", "case", "word", "abbreviation", "acronym"]
REASON_MEANINGS: dict[Reason, str] = {
    "stopped": "it is among the `stop_names`",
    "general": "it is a general word, and `general_names` is false",
    "form": "its words, their forms, order or separators differ more than `variants` permits",
    "case": "it has another case",
    "word": "it is a stop word, a number or a letter",
    "acronym": (
        "it is an acronym of up to three letters, this text has no name of its entity that is "
        "longer (give the whole text), and `lone_acronyms` is false"
    ),
    "abbreviation": (
        "the text defines it as an abbreviation of words that are no name, or as part of a "
        "definition (`use_abbreviations`)"
    ),
}


class Refused(NamedTuple):
    """Name of the vocabulary whose words a text has, and why it is not found there."""

    name: str
    reason: Reason


class Match(NamedTuple):
    """A mention found in a text.

    fragments: (start, end) in characters. named: what it is a name of. variant: how. text: its
        words. apart: the fragment of a coordination that stands apart from a whole name.
    """

    fragments: tuple[tuple[int, int], ...]
    named: Named
    variant: Variant
    text: str
    apart: tuple[int, int] | None = None

    @property
    def start(self) -> int:
        return self.fragments[0][0]

    @property
    def end(self) -> int:
        return self.fragments[-1][1]


class NameFinder:
    """Finds the names of tables in texts.

    tables: of names. added: further names that are found even as a general word, a short acronym or
        a stop word, and win over the same name in a table. worst: the last of `VARIANTS` that is
        found. common: stems that are no name if they are all of a text. stopped: texts that are no
        name. nested: also names inside others; else the longest from the left. use_abbreviations: a
        short form that the text defines is a name of what its long form names, and no other name.
        lone_acronyms: short acronyms are names without a longer name of their entity in the text,
        too.
    """

    def __init__(
        self,
        *tables: NameBags,
        added: NameBags | None = None,
        worst: Variant = "word",
        common: Collection[str] = (),
        stopped: Collection[str] = (),
        nested: bool = False,
        use_abbreviations: bool = True,
        lone_acronyms: bool = False,
    ) -> None:
        self._tables = tables if added is None else (added, *tables)
        self._added, self._common, self._nested = added, frozenset(common), nested
        # An added name says what its entity is, and not how that is called.
        self._called: dict[str, list[str]] = {}
        if added is not None:
            ids = added.ids.column("id").to_pylist()
            for each in tables:
                self._called.update(each.names_by_id(ids))
        self._stopped = frozenset(map(canonical_form, stopped))
        self._worst = VARIANTS.index(worst)
        self._use_abbreviations, self._lone_acronyms = use_abbreviations, lone_acronyms
        self._reader = WordReader()
        self._named: Remembered[tuple[str, int, int, bool], Named | Refused] = Remembered(MAX_NAMED)

    def __getstate__(self) -> dict[str, Any]:
        # Without what was read, which another thread may change meanwhile.
        return {**vars(self), "_reader": WordReader(), "_named": Remembered(MAX_NAMED)}

    def find(self, texts: Sequence[str]) -> list[list[Match]]:
        """Return the matches in each text, from left to right."""
        return self._find(texts)

    def explain(self, text: str) -> tuple[list[Match], dict[Fragment, Refused]]:
        """Return the matches in a text, and the longest parts between them that have the words of
        a name but are not found."""
        refused: list[tuple[Fragment, Refused]] = []
        (found,) = self._find([text], refused)
        taken = [fragment for match in found for fragment in match.fragments]
        kept: dict[Fragment, Refused] = {}
        for (start, end), each in sorted(refused, key=lambda each: (each[0][0], -each[0][1])):
            if all(end <= first or start >= last for first, last in taken):
                kept[start, end] = each
                taken.append((start, end))
        return found, kept

    def _find(
        self, texts: Sequence[str], refused: list[tuple[Fragment, Refused]] | None = None
    ) -> list[list[Match]]:
        """Return the matches in each text, and append to `refused` the names that are not found."""
        plain = [plain_letters(text) for text in texts]
        words = self._reader.read([each.text for each in plain])
        starts, ends = words.start.copy(), words.end.copy()
        edges = np.searchsorted(words.text, np.arange(len(texts) + 1)).tolist()
        for number, each in enumerate(plain):
            if each.starts is not None and each.ends is not None:
                here = slice(edges[number], edges[number + 1])
                starts[here], ends[here] = each.starts[starts[here]], each.ends[ends[here] - 1]
        hits: list[list[Hit]] = [[] for _ in texts]
        capitals = [Capitals(text) for text in texts]
        for table in range(len(self._tables)):
            for text, hit in self._hits(texts, words, (starts, ends), capitals, table, refused):
                hits[text].append(hit)
        for own in hits if self._added is not None else ():
            # Of names with the same words, `_longest` keeps the first.
            own.sort(key=Hit.rank)
        defined = [_Defined.of(text) if self._use_abbreviations else None for text in texts]
        around = self._around(texts, defined, words, (starts, ends), capitals)
        return [
            self._matches(
                text, own, words, (starts, ends), defined[number], around.get(number, []), refused
            )
            for number, (text, own) in enumerate(zip(texts, hits, strict=True))
        ]

    def _around(
        self,
        texts: Sequence[str],
        defined: "Sequence[_Defined | None]",
        words: TextWords,
        offsets: Offsets,
        capitals: Sequence[Capitals],
    ) -> dict[int, list[Match]]:
        """Return the names that contain an abbreviation, by the index of their text."""
        found: dict[int, list[Match]] = {}
        pairs = {number: own.pairs for number, own in enumerate(defined) if own and own.pairs}
        if not pairs:
            return found
        known = np.logical_or.reduce([table.known(words) for table in self._tables])
        around = windows(texts, pairs, words, offsets, known)
        if around is None:
            return found
        for number, table in enumerate(self._tables):
            runs = table.find(around.words)
            for first, last, bag in zip(*(column.tolist() for column in runs), strict=True):
                if (each := around.around(first, last)) is None:
                    continue
                reading, start, end = each
                text, own = texts[reading.number], capitals[reading.number]
                written = reading.written(text, start, end)
                named = self._name_at(written, number, bag, own, start, end)
                is_stopped = canonical_form(text[start:end]) in self._stopped
                if isinstance(named, Named) and not is_stopped:
                    match = Match(((start, end),), named, "abbreviation", text[start:end])
                    found.setdefault(reading.number, []).append(match)
        return found

    def _hits(
        self,
        texts: Sequence[str],
        words: TextWords,
        offsets: Offsets,
        capitals: Sequence[Capitals],
        table: int,
        refused: list[tuple[Fragment, Refused]] | None,
    ) -> "Iterator[tuple[int, Hit]]":
        """Yield the names of a table with the index of the text that each is in."""
        runs = self._tables[table].find(words)
        starts, ends = offsets[0][runs.first], offsets[1][runs.last]
        columns = words.text[runs.first], runs.first, runs.last, starts, ends, runs.bag
        for text, first, last, start, end, bag in zip(
            *(column.tolist() for column in columns), strict=True
        ):
            start, end = _with_brackets(texts[text], start, end)
            surface = texts[text][start:end]
            named = self._name_at(surface, table, bag, capitals[text], start, end)
            if isinstance(named, Named):
                yield text, Hit(first, last, start, end, named)
            elif refused is not None:
                refused.append(((start, end), named))

    def _matches(
        self,
        text: str,
        hits: "list[Hit]",
        words: TextWords,
        offsets: Offsets,
        defined: "_Defined | None",
        around: list[Match],
        refused: list[tuple[Fragment, Refused]] | None,
    ) -> list[Match]:
        found = [
            Match(
                ((hit.start, hit.end),),
                hit.named,
                VARIANTS[hit.named.variant],
                text[hit.start : hit.end],
            )
            for hit in hits
        ]
        steps: list[tuple[Reason, list[Match]]] = []
        if defined is not None:
            steps.append(("abbreviation", found))
            short = self._meant_by_added(found, defined)
            found = _with_abbreviations(text, found, defined, around, self._stopped, short)
        if not self._lone_acronyms:
            steps.append(("acronym", found))
            found = _supported(found)
        if refused is not None:
            # Of several reasons, `explain` keeps the first: the last step that a match reached.
            for reason, before in reversed(steps):
                refused += [
                    (each.fragments[0], Refused(each.named.name, reason)) for each in before
                ]
        found = _longest(found, nested=self._nested)
        whole = {each.fragments[0] for each in found}
        hits = [hit for hit in hits if (hit.start, hit.end) in whole]

        def name_of(indices: list[int]) -> Named | None:
            keys = words.key[[at for at in indices if not words.skipped[at]]]
            surface = " ".join(text[offsets[0][at] : offsets[1][at]] for at in indices)
            for number, table in enumerate(self._tables):
                if len(keys) and (bag := table.bag_of(keys)) >= 0:
                    named = self._name(surface, number, bag)
                    if isinstance(named, Named):
                        return named
            return None

        for part in coordinated(hits, words, offsets, name_of):
            first, last = sorted([part.apart, part.rest])
            both = f"{text[slice(*first)]} {text[slice(*last)]}"
            found.append(Match((first, last), part.named, "coordination", both, part.apart))
        return sorted(found, key=lambda each: each.fragments)

    def _meant_by_added(self, found: list[Match], defined: "_Defined") -> dict[str, Named]:
        """Return what added names mean that the text defines as words of a name of their entity:
        VHL, added to "von Hippel-Lindau disease", where it is short for "von Hippel-Lindau"."""
        meant: dict[str, Named] = {}
        added = {each.text: each.named for each in found if each.named.is_added}
        for pair in defined.pairs if added else ():
            if (named := added.get(pair.short)) is None:
                continue
            long = {*stems_of(pair.long)}
            if long and any(
                long <= {*stems_of(name)} for id_ in named.ids for name in self._called.get(id_, ())
            ):
                meant.setdefault(pair.short, named)
        return meant

    def _name_at(
        self, surface: str, table: int, bag: int, capitals: Capitals, start: int, end: int
    ) -> Named | Refused:
        """Return what a text at these offsets is a name of, or why of nothing."""
        named = self._name(surface, table, bag)
        # A name in the same case is better.
        if isinstance(named, Refused) and not surface.islower() and capitals.is_free(start, end):
            named = self._name(surface, table, bag, True)
        return named

    def _name(self, surface: str, table: int, bag: int, is_free: bool = False) -> Named | Refused:
        """Return what a text with the words of this bag is a name of, or why of nothing. is_free:
        its case may differ from the name's."""
        key = surface, table, bag, is_free
        try:
            return self._named[key]
        except KeyError:
            named = self._named[key] = self._read(surface, self._tables[table], bag, is_free)
            return named

    def _read(self, surface: str, table: NameBags, bag: int, is_free: bool) -> Named | Refused:
        folded, canonical, stems = fold_name(surface), canonical_form(surface), stems_of(surface)
        is_added, whole = table is self._added, " ".join(stems)
        is_numbered = bool(stems) and stems[0].isdigit()
        is_word = not is_added and surface.islower() and is_lower_case_word(surface)
        # A Greek letter is no more of a name than a Latin one.
        is_general = whole in self._common or whole in _GREEK
        # Words on both sides of a comma or a slash are one name only as written, or in its plural.
        stops = stops_of(surface)
        is_strict = bool(stops or STRICT_CHARS.search(surface))
        separated = separated_stems(surface) if is_strict else []
        worst = min(FORM, self._worst) if is_strict else self._worst
        best, found = len(VARIANTS), ""
        entities: list[int] = []
        refused = Refused("", "form")
        for name, entity, is_substituted in table.names_of(bag):
            if fold_name(name) == folded:
                variant = 0
            elif canonical_form(name) == canonical:
                variant = SPELLING
            elif is_substituted:
                variant = WORD
            else:
                variant = FORM if stems_of(name) == stems else ORDER
            if variant > best:
                continue
            reason: Reason | None = None
            if canonical in self._stopped:
                reason = "stopped"
            elif is_general and not is_added:
                reason = "general"
            elif (
                variant > worst
                or (stops and stops_of(name) != stops)
                or (is_strict and variant == FORM and separated_stems(name) != separated)
                # "4 lung tumors" are not "lung tumor 4".
                or (variant >= ORDER and is_numbered and stems_of(name)[:1] != stems[:1])
            ):
                reason = "form"
            elif not has_case(name, surface, is_free=is_free) or (
                is_word and not name.islower() and " " not in name and table.is_proper
            ):
                reason = "case"
            elif not (is_added or is_searched(name)):
                reason = "word"
            if reason is not None:
                refused = refused if refused.name else Refused(name, reason)
                continue
            if variant < best:
                best, entities, found = variant, [], name
            entities.append(entity)
        ids = dict.fromkeys(map(table.id_of, entities))
        if not ids:
            return refused
        if is_added:
            found = self._called.get(next(iter(ids)), [found])[0]
        return Named(found, tuple(ids), best, is_added)


class Hit(NamedTuple):
    """A run of words that is a name: its first and last word, and its offsets in the text."""

    first: int
    last: int
    start: int
    end: int
    named: Named

    def rank(self) -> tuple[int, int, int, bool]:
        return self.first, self.last, self.named.variant, not self.named.is_added


def _with_brackets(text: str, start: int, end: int) -> tuple[int, int]:
    """Return the offsets of a name with the brackets next to it that its own brackets need."""
    own = text[start:end]
    for opening, closing in BRACKETS:
        missing = own.count(opening) - own.count(closing)
        if missing > 0 and text.startswith(closing, end):
            end += 1
        elif missing < 0 and text.endswith(opening, 0, start):
            start -= 1
    return start, end


class _Defined(NamedTuple):
    """The abbreviations that a text defines, with those that they imply, and its shortened
    genera."""

    pairs: list[Definition]
    genera: dict[str, str]

    @classmethod
    def of(cls, text: str) -> "_Defined | None":
        """Return what a text defines; None for nothing."""
        pairs, genera = with_variants(definitions(text)), find_genera(text)
        return cls(pairs, genera) if pairs or genera else None


def _with_abbreviations(
    text: str,
    found: list[Match],
    defined: _Defined,
    around: Sequence[Match],
    stopped: Collection[str],
    added: Mapping[str, Named],
) -> list[Match]:
    """Return the matches with the short forms that the text defines: each is a name of what its
    long form names, else what was added for it, or of nothing.

    around: names that contain a short form. They are left out where the text is a name as it is, or
        where a part names their entity.
    """
    pairs, genera = defined
    ending: dict[int, list[Match]] = {}
    for each in found:
        ending.setdefault(each.end, []).append(each)
    meant: dict[str, Named | None] = {}
    for pair in pairs:
        whole = [each for each in ending.get(pair.long_end, ()) if each.start <= pair.long_start]
        if meant.get(pair.short) is None:
            nearest = max(whole, key=lambda each: each.start, default=None)
            meant[pair.short] = None if nearest is None else nearest.named
    by_text = {text[each.start : each.end].lower(): each.named for each in found}
    for short, long in genera.items():
        if (named := by_text.get(long.lower())) is not None:
            meant.setdefault(short, named)
    # A name is not both forms of a definition: "Alzheimer disease (AD)".
    both = {min(pair.start, pair.long_start): max(pair.end, pair.long_end) for pair in pairs}
    meant |= {short: added.get(short) for short, named in meant.items() if named is None}
    starts = sorted(both)
    kept = [
        each
        for each in found
        if text[each.start : each.end] not in meant
        and not any(
            both[start] <= each.end
            for start in starts[bisect_left(starts, each.start) : bisect_left(starts, each.end)]
        )
    ]
    for start, end in short_forms(text, meant):
        named = meant[text[start:end]]
        if named is not None and canonical_form(text[start:end]) not in stopped:
            kept.append(Match(((start, end),), named, "abbreviation", text[start:end]))
    if around:
        by_start = sorted((each.start, each.end, each.named.ids) for each in kept)
        kept += [each for each in around if not _is_named(each, by_start)]
    return kept


def _is_named(whole: Match, by_start: list[tuple[int, int, tuple[str, ...]]]) -> bool:
    """Return whether the text of a match, or a part of it that names one of its entities, is among
    the matches at `by_start`: start, end and ids of each, ascending."""
    first = bisect_left(by_start, (whole.start, -1, ()))
    last = bisect_left(by_start, (whole.end, -1, ()))
    return any(
        (start, end) == (whole.start, whole.end)
        or (end <= whole.end and not set(ids).isdisjoint(whole.named.ids))
        for start, end, ids in by_start[first:last]
    )


def _supported(found: list[Match]) -> list[Match]:
    """Return the matches without short acronyms whose entity has no longer name in the text."""
    # In the plural, a text has a letter more than its name.
    short = [
        min(len(each.text), max(len(each.text) - 1, len(each.named.name))) <= SHORT_ACRONYM
        and each.variant != "abbreviation"
        and not each.named.is_added
        and is_acronym(each.named.name)
        for each in found
    ]
    if not any(short):
        return found
    longer = {
        id_
        for each, is_short in zip(found, short, strict=True)
        if not is_short
        for id_ in each.named.ids
    }
    return [
        each
        for each, is_short in zip(found, short, strict=True)
        if not is_short or not longer.isdisjoint(each.named.ids)
    ]


def _longest(found: list[Match], nested: bool) -> list[Match]:
    """Return the leftmost longest matches, which do not overlap; with `nested` all that have
    different offsets."""
    found.sort(key=lambda each: (each.start, -each.end, each.variant != "abbreviation"))
    kept: list[Match] = []
    for each in found:
        if not kept or (
            each.fragments != kept[-1].fragments if nested else each.start >= kept[-1].end
        ):
            kept.append(each)
    return kept
