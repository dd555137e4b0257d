"""Names by the hashes of their words."""

from collections import defaultdict
from itertools import islice
from typing import TYPE_CHECKING, Dict, Iterable, List, NamedTuple, Tuple

import numpy as np

from .search_names import AMBIGUOUS
from .text_forms import Forms, SpanHashes, Words, fold_case, word_form

if TYPE_CHECKING:
    import pyarrow as pa

# What the filter says of a hash: a name has it, or the beginning of one, up to the end of a word.
NAME = 1
BEGINNING = 2
# Of what is known of an entry, above its row: whether the next one has the same hash, whether it is exact, and from
# which bit on stands its place among those with a check, counted from 1.
MORE, EXACT, SPECIAL = np.uint64(1 << 32), np.uint64(1 << 33), 34
# Names that are hashed together.
BLOCK = 1 << 15
# Bytes of the filter for each hash in it, at least: of other hashes, one in so many passes.
SPARSITY = 6


class FormedName(NamedTuple):
    """text: the name as the ontology has it. plain: as it would stand in a text's plain form. row: its entity.

    exact: it is to be found as it stands, and not in any case.
    """

    text: str
    plain: str
    row: int
    exact: bool


class Found(NamedTuple):
    """Names in a text: columns of one length, by start; of those that begin at one place the longest.

    entry: the name's place in the table. row, exact: of the name.
    """

    start: np.ndarray
    end: np.ndarray
    entry: np.ndarray
    row: np.ndarray
    exact: np.ndarray

    def take(self, which: np.ndarray) -> "Found":
        return Found(*(column[which] for column in self))


class NameTable:
    """Finds names in a text from word to word: from each word on, as long as some name goes on like this.

    A filter of one byte a place says, from the hash of a stretch of the text, whether it may be a name or the beginning
    of one; most stretches cost one look at one byte. What may be a name is looked up by its hash in a table of all of
    them. Of 10^7 names and the 10^11 stretches of all of PubMed, two that differ agree in these 64 bits with a
    probability of one in twenty: one wrong mention among a billion.

    The hash is of a name from its first letter or digit to its last, its case folded. Of a name that has more, or that
    is to be found in its own case, the hash of all of it is compared as well. A name without letters and digits is not
    found.

    names: of those that are the same in what is compared, the first is kept, with `AMBIGUOUS` for a row when they are
        of several entities. fold: case is ignored, but where a name is `exact`.
    short: a name of up to so many characters, but an exact one, is not found with a capital behind its first letter.
    """

    def __init__(self, names: Iterable[FormedName], fold: bool, short: int = 0) -> None:
        self._fold = fold
        self._short = short
        self._n_read = 0
        columns = self._hashed(names)
        self._make_filter(columns["hash"], columns.pop("beginning"))
        # Of one hash, those to be found as they stand come first; of the same names, the first in `names`.
        order = np.lexsort((columns["check"], ~columns["exact"], columns["hash"]))
        columns = {name: columns.pop(name)[order] for name in list(columns)}
        first = _first_of_same(columns["hash"], columns["check"], columns["exact"])
        starts = np.flatnonzero(first)
        row = columns.pop("row")
        if len(row):
            alike = np.minimum.reduceat(row, starts) == np.maximum.reduceat(row, starts)
            row = np.where(alike, row[starts], AMBIGUOUS).astype(np.int32)
        columns = {name: columns.pop(name)[starts] for name in list(columns)}
        hashes = columns["hash"]
        self._n_names = len(hashes)
        special = np.flatnonzero(columns["exact"] | (columns["before"] > 0) | (columns["after"] > 0))
        self._before, self._after, self._checks = (columns[name][special] for name in ("before", "after", "check"))
        about = row.view(np.uint32).astype(np.uint64)
        about |= np.append(hashes[1:] == hashes[:-1], False)[: len(hashes)].astype(np.uint64) * MORE
        about |= columns["exact"].astype(np.uint64) * EXACT
        about[special] |= np.arange(1, len(special) + 1, dtype=np.uint64) << SPECIAL
        # In the order of their hashes, each at the place that the first bits of its hash say or the next one that is
        # free; nothing is above all. What is looked at together stands together.
        bits = len(self).bit_length() + 1
        self._place_shift = np.uint64(64 - bits)
        numbers = np.arange(len(self))
        places = np.maximum.accumulate((hashes >> self._place_shift).astype(np.int64) - numbers) + numbers
        n_places = max(1 << bits, places.max(initial=0) + 1) + 1
        self._entries = np.full((n_places, 2), np.iinfo(np.uint64).max)
        self._entries[places, 0], self._entries[places, 1] = hashes, about
        self._number = np.zeros(n_places, dtype=np.uint32)
        self._number[places] = columns["number"]

    def __len__(self) -> int:
        return self._n_names

    def names(self, entries: np.ndarray) -> "pa.LargeStringArray":
        """The names as the ontology has them."""
        return self._names.take(self._number[entries])

    def rows(self, entries: np.ndarray) -> np.ndarray:
        """The entities' rows, or `AMBIGUOUS`: (n,) → (n,) int32."""
        return _rows(self._entries[entries, 1])

    def find(self, forms: Forms) -> Found:
        """The longest names in a text from each place on, between other than letters and digits; they may overlap.

        forms: `words` without the spaces at both ends.
        """
        words = Words(forms.words)
        stretches = SpanHashes(forms.plain if self._fold else forms.key, forms.key)
        # What begins with a word: the longest so far, which is the last that was found.
        longest = _Longest(words.starts)
        # What begins with punctuation.
        before: List[_Candidates] = []
        # The words that some name may go on from, and by how many words it has done so.
        alive = np.arange(len(words.starts))
        n_further = 0
        while len(alive):
            start, end = words.starts[alive], words.ends[alive + n_further]
            hashes = stretches.hashes(start, end)
            marks = self._filter[hashes >> self._filter_shift]
            named = np.flatnonzero(marks & NAME)
            place, entry, about = self._look_up(hashes[named])
            place = named[place]
            candidates = _Candidates(alive[place], start[place], end[place], entry, about)
            special = about >= 1 << SPECIAL
            if special.any():
                whole = self._whole(candidates.take(np.flatnonzero(special)), words, stretches)
                candidates = candidates.take(np.flatnonzero(~special))
                longest.add(self._in_case(candidates, stretches))
                at_word = whole.start == words.starts[whole.word]
                longest.add(whole.take(np.flatnonzero(at_word)))
                before.append(whole.take(np.flatnonzero(~at_word)))
            else:
                longest.add(self._in_case(candidates, stretches))
            n_further += 1
            alive = alive[np.flatnonzero(marks & BEGINNING)]
            alive = alive[: np.searchsorted(alive, len(words.starts) - n_further)]
        return longest.found(before)

    def _look_up(self, hashes: np.ndarray) -> Tuple[np.ndarray, np.ndarray, np.ndarray]:
        """The entries that have these hashes: the place of the hash, the entry, what is known of it, (m,) each."""
        entry = (hashes >> self._place_shift).astype(np.int64)
        found = np.take(self._entries, entry, axis=0)
        behind = np.flatnonzero(found[:, 0] < hashes)
        while len(behind):
            entry[behind] += 1
            found[behind] = self._entries[entry[behind]]
            behind = behind[found[behind, 0] < hashes[behind]]
        place = np.flatnonzero(found[:, 0] == hashes)
        entry, about = entry[place], found[place, 1]
        parts = [(place, entry, about)]
        while len(more := np.flatnonzero(about & MORE)):
            place, entry = place[more], entry[more] + 1
            about = self._entries[entry, 1]
            parts.append((place, entry, about))
        return tuple(map(np.concatenate, zip(*parts, strict=True)))  # type: ignore[return-value]

    def _whole(self, candidates: "_Candidates", words: Words, stretches: SpanHashes) -> "_Candidates":
        """Of names that are more than their hash, those that are there with all they are: by end, the exact ones last.

        Start and end are those of all of the name.
        """
        which = (candidates.about >> np.uint64(SPECIAL)).astype(np.int64) - 1
        start, end = candidates.start - self._before[which], candidates.end + self._after[which]
        inside = np.flatnonzero((start >= 0) & (end <= len(stretches)))
        # With the punctuation at its edge, a name may begin or end next to a letter.
        inside = inside[~(words.inside(start[inside] - 1) | words.inside(end[inside]))]
        candidates = candidates._replace(start=start, end=end).take(inside)
        exact = candidates.about & EXACT != 0
        hashes = stretches.hashes(candidates.start, candidates.end)
        hashes[exact] = stretches.plain_hashes(candidates.start[exact], candidates.end[exact])
        equal = hashes == self._checks[which[inside]]
        exact = np.flatnonzero(equal & exact)
        folded = self._in_case(candidates.take(np.flatnonzero(equal & (candidates.about & EXACT == 0))), stretches)
        both = _Candidates(*map(np.concatenate, zip(folded, candidates.take(exact), strict=True)))
        return both.take(np.argsort(both.end, kind="stable"))

    def _in_case(self, candidates: "_Candidates", stretches: SpanHashes) -> "_Candidates":
        """Without the short names in capitals: the first letter may stand in one, the others not."""
        short = np.flatnonzero(candidates.end - candidates.start <= self._short)
        raised = short[stretches.has_capital(candidates.start[short] + 1, candidates.end[short])]
        return candidates.take(np.delete(np.arange(len(candidates.word)), raised)) if len(raised) else candidates

    def _hashed(self, names: Iterable[FormedName]) -> Dict[str, np.ndarray]:
        """The names' columns in the order of `names`, and the hashes of their beginnings (`beginning`)."""
        import pyarrow as pa

        blocks: Dict[str, List[np.ndarray]] = defaultdict(list)
        texts: List[pa.LargeStringArray] = []
        rest = iter(names)
        while (block := list(islice(rest, BLOCK))) or not texts:
            texts.append(self._hash_block(block, blocks))
        self._names = pa.concat_arrays(texts)
        return {column: np.concatenate(blocks.pop(column)) for column in list(blocks)}

    def _hash_block(self, names: List[FormedName], blocks: Dict[str, List[np.ndarray]]) -> "pa.LargeStringArray":
        import pyarrow as pa

        # Two spaces stand in no name: none goes on into the next.
        plain = "".join(f" {name.plain} " for name in names)
        key = fold_case(plain) if self._fold else plain
        words = Words(word_form(key))
        lengths = np.fromiter((len(name.plain) for name in names), dtype=np.int64, count=len(names))
        ends = np.cumsum(lengths + 2) - 1
        starts = ends - lengths
        name_of = np.searchsorted(ends, words.starts)  # by word
        is_first = _first_of_same(name_of)
        is_last = _first_of_same(name_of[::-1])[::-1]
        first, name = words.starts[is_first], name_of[is_first]
        stretches = SpanHashes(plain, key)
        hashes = stretches.hashes(first[np.cumsum(is_first) - 1], words.ends)
        exact = np.fromiter((self._fold and name.exact for name in names), dtype=bool, count=len(names))[name]
        before, after = first - starts[name], ends[name] - words.ends[is_last]
        start, end = starts[name], ends[name]
        checks = np.where(exact, stretches.plain_hashes(start, end), stretches.hashes(start, end))
        # Of other names the first hash is of all of it.
        checks[~(exact | (before > 0) | (after > 0))] = 0
        columns = {
            "hash": hashes[is_last],
            "beginning": np.unique(hashes[~is_last]),
            "check": checks,
            "number": (name + self._n_read).astype(np.uint32),
            "row": np.fromiter((name.row for name in names), dtype=np.int32, count=len(names))[name],
            "exact": exact,
            "before": before.astype(np.int32),
            "after": after.astype(np.int32),
        }
        for column, values in columns.items():
            blocks[column].append(values)
        self._n_read += len(names)
        return pa.array([name.text for name in names], type=pa.large_string())

    def _make_filter(self, names: np.ndarray, beginnings: np.ndarray) -> None:
        bits = max(10, (SPARSITY * (len(names) + len(beginnings))).bit_length())
        self._filter_shift = np.uint64(64 - bits)
        self._filter = np.zeros(1 << bits, dtype=np.uint8)
        self._filter[beginnings >> self._filter_shift] = BEGINNING
        self._filter[names >> self._filter_shift] |= NAME


class _Candidates(NamedTuple):
    """Names that may be in a text: columns of one length.

    word: the word that it begins with. about: what is known of the entry.
    """

    word: np.ndarray
    start: np.ndarray
    end: np.ndarray
    entry: np.ndarray
    about: np.ndarray

    def take(self, which: np.ndarray) -> "_Candidates":
        return _Candidates(*(column[which] for column in self))


class _Longest:
    """The longest name from each word of a text on.

    starts: of the words, (n_words,).
    """

    def __init__(self, starts: np.ndarray) -> None:
        self._starts = starts
        self._ends, self._entries = np.zeros((2, len(starts)), dtype=np.int64)
        self._abouts = np.zeros(len(starts), dtype=np.uint64)

    def add(self, longer: _Candidates) -> None:
        """Names that are longer than what was added before; of those of one word the last counts."""
        self._ends[longer.word] = longer.end
        self._entries[longer.word] = longer.entry
        self._abouts[longer.word] = longer.about

    def found(self, others: List[_Candidates]) -> Found:
        """What was added, with `others` that begin between the words."""
        word = np.flatnonzero(self._ends)
        columns = (self._starts[word], self._ends[word], self._entries[word], self._abouts[word])
        if sum(len(other.word) for other in others):
            parts = [(other.start, other.end, other.entry, other.about) for other in others]
            start, end, entry, about = map(np.concatenate, zip(columns, *parts, strict=True))
            # Of those that begin between two words the longest, and of these an exact one.
            order = np.lexsort((about & EXACT == 0, -end, start))
            order = order[_first_of_same(start[order])]
            columns = (start[order], end[order], entry[order], about[order])
        start, end, entry, about = columns
        return Found(start, end, entry, _rows(about), about & EXACT != 0)


def _rows(about: np.ndarray) -> np.ndarray:
    return about.astype(np.uint32).view(np.int32)


def _first_of_same(*columns: np.ndarray) -> np.ndarray:
    """Whether each row of sorted columns differs from the one before: (n,)."""
    first = np.ones(len(columns[0]), dtype=bool)
    first[1:] = False
    for column in columns:
        first[1:] |= column[1:] != column[:-1]
    return first
