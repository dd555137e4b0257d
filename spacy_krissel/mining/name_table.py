"""Names by the hashes of their words: a filter and a hash table that search a text in whole-array operations."""

from collections import defaultdict
from collections.abc import Iterable
from itertools import islice
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from .search_names import AMBIGUOUS
from .text_forms import Forms, SpanHashes, Words, fold_case, word_form

if TYPE_CHECKING:
    import pyarrow as pa

# Bits of the filter for a hash: a name has it; the beginning of a name, up to the end of a word, has it.
NAME = 1
BEGINNING = 2
# Bits of an entry above its row: the next one has the same hash; it is exact; from this bit on, its index among the
# entries with a check, counted from 1.
MORE, EXACT, SPECIAL = np.uint64(1 << 32), np.uint64(1 << 33), 34
# Names hashed together.
BLOCK = 1 << 15
# Minimum bytes of the filter per hash in it: about one in this number of other hashes passes.
SPARSITY = 6


class FormedName(NamedTuple):
    """text: the name in the ontology. plain: its plain form (`text_forms`). row: its entity.

    exact: matched in its own case only.
    """

    text: str
    plain: str
    row: int
    exact: bool


class Found(NamedTuple):
    """The longest name from each start in a text: columns of one length, sorted by start.

    entry: index of the name in the table. row, exact: of the name.
    """

    start: np.ndarray
    end: np.ndarray
    entry: np.ndarray
    row: np.ndarray
    exact: np.ndarray

    def take(self, which: np.ndarray) -> "Found":
        return Found(*(column[which] for column in self))


class NameTable:
    """Finds names in a text: from each word on, word by word, while some name begins like this.

    A filter with one byte per slot says from the hash of a span whether it may be a name or the beginning of one; most
    spans cost one lookup of one byte. A possible name is looked up by its hash in a table of all names. With 10^7 names
    and the 10^11 spans of all of PubMed, the expected number of wrong matches by equal 64-bit hashes is 0.05.

    The hash is of a name from its first to its last letter or digit, case folded. For a name with more than that, or
    one that is matched in its own case, the hash of the whole name is compared too. A name without letters and digits
    is not found.

    names: of names that are equal in what is compared, the first is kept, with the row `AMBIGUOUS` when they belong to
        several entities.
    fold: case is ignored, except for `exact` names.
    short: a name of up to this many characters, unless exact, is not matched with a capital after its first letter.
    """

    def __init__(self, names: Iterable[FormedName], fold: bool, short: int = 0) -> None:
        self._fold = fold
        self._short = short
        self._n_read = 0
        columns = self._hashed(names)
        self._make_filter(columns["hash"], columns.pop("beginning"))
        # Exact names come first among equal hashes; equal names keep their order.
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
        # Open addressing in the order of the hashes: each entry is in the slot of its hash's high bits, or the next
        # free one. Empty slots have the highest value.
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
        """The names in the ontology."""
        return self._names.take(self._number[entries])

    def rows(self, entries: np.ndarray) -> np.ndarray:
        """The entities' rows, or `AMBIGUOUS`: (n,) → (n,) int32."""
        return _rows(self._entries[entries, 1])

    def find(self, forms: Forms) -> Found:
        """The longest name from each start in a text, on word boundaries; they may overlap.

        forms: `words` without the spaces at both ends.
        """
        words = Words(forms.words)
        spans = SpanHashes(forms.plain if self._fold else forms.key, forms.key)
        # Names that begin with a word: the longest so far is the last found.
        longest = _Longest(words.starts)
        # Names that begin with punctuation.
        before: list[_Candidates] = []
        # The words from which some name may continue, and by how many words it has.
        alive = np.arange(len(words.starts))
        n_further = 0
        while len(alive):
            start, end = words.starts[alive], words.ends[alive + n_further]
            hashes = spans.hashes(start, end)
            marks = self._filter[hashes >> self._filter_shift]
            named = np.flatnonzero(marks & NAME)
            place, entry, about = self._look_up(hashes[named])
            place = named[place]
            candidates = _Candidates(alive[place], start[place], end[place], entry, about)
            special = about >= 1 << SPECIAL
            if special.any():
                whole = self._whole(candidates.take(np.flatnonzero(special)), words, spans)
                candidates = candidates.take(np.flatnonzero(~special))
                longest.add(self._in_case(candidates, spans))
                at_word = whole.start == words.starts[whole.word]
                longest.add(whole.take(np.flatnonzero(at_word)))
                before.append(whole.take(np.flatnonzero(~at_word)))
            else:
                longest.add(self._in_case(candidates, spans))
            n_further += 1
            alive = alive[np.flatnonzero(marks & BEGINNING)]
            alive = alive[: np.searchsorted(alive, len(words.starts) - n_further)]
        return longest.found(before)

    def _look_up(self, hashes: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """The entries with these hashes: index of the hash, entry, and its bits `about`, (m,) each."""
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

    def _whole(self, candidates: "_Candidates", words: Words, spans: SpanHashes) -> "_Candidates":
        """The candidates with a check that match as a whole, with the start and end of the whole name; sorted by end,
        exact ones last.
        """
        which = (candidates.about >> np.uint64(SPECIAL)).astype(np.int64) - 1
        start, end = candidates.start - self._before[which], candidates.end + self._after[which]
        inside = np.flatnonzero((start >= 0) & (end <= len(spans)))
        # With punctuation at its edge, a name may begin or end next to a letter.
        inside = inside[~(words.inside(start[inside] - 1) | words.inside(end[inside]))]
        candidates = candidates._replace(start=start, end=end).take(inside)
        exact = candidates.about & EXACT != 0
        hashes = spans.hashes(candidates.start, candidates.end)
        hashes[exact] = spans.plain_hashes(candidates.start[exact], candidates.end[exact])
        equal = hashes == self._checks[which[inside]]
        exact = np.flatnonzero(equal & exact)
        folded = self._in_case(candidates.take(np.flatnonzero(equal & (candidates.about & EXACT == 0))), spans)
        both = _Candidates(*map(np.concatenate, zip(folded, candidates.take(exact), strict=True)))
        return both.take(np.argsort(both.end, kind="stable"))

    def _in_case(self, candidates: "_Candidates", spans: SpanHashes) -> "_Candidates":
        """The candidates without short names in capitals; the first letter may be one."""
        short = np.flatnonzero(candidates.end - candidates.start <= self._short)
        raised = short[spans.has_capital(candidates.start[short] + 1, candidates.end[short])]
        return candidates.take(np.delete(np.arange(len(candidates.word)), raised)) if len(raised) else candidates

    def _hashed(self, names: Iterable[FormedName]) -> dict[str, np.ndarray]:
        """The columns of the names, and the hashes of their beginnings (`beginning`)."""
        import pyarrow as pa

        blocks: dict[str, list[np.ndarray]] = defaultdict(list)
        texts: list[pa.LargeStringArray] = []
        rest = iter(names)
        while (block := list(islice(rest, BLOCK))) or not texts:
            texts.append(self._hash_block(block, blocks))
        self._names = pa.concat_arrays(texts)
        return {column: np.concatenate(blocks.pop(column)) for column in list(blocks)}

    def _hash_block(self, names: list[FormedName], blocks: dict[str, list[np.ndarray]]) -> "pa.LargeStringArray":
        import pyarrow as pa

        # No name has two spaces in a row: none continues in the next.
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
        spans = SpanHashes(plain, key)
        hashes = spans.hashes(first[np.cumsum(is_first) - 1], words.ends)
        exact = np.fromiter((self._fold and name.exact for name in names), dtype=bool, count=len(names))[name]
        before, after = first - starts[name], ends[name] - words.ends[is_last]
        start, end = starts[name], ends[name]
        checks = np.where(exact, spans.plain_hashes(start, end), spans.hashes(start, end))
        # For other names the first hash covers the whole name.
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
    """Possible names in a text: columns of one length.

    word: index of its first word. about: the bits of its entry.
    """

    word: np.ndarray
    start: np.ndarray
    end: np.ndarray
    entry: np.ndarray
    about: np.ndarray

    def take(self, which: np.ndarray) -> "_Candidates":
        return _Candidates(*(column[which] for column in self))


class _Longest:
    """The longest name from each word of a text.

    starts: of the words, (n_words,).
    """

    def __init__(self, starts: np.ndarray) -> None:
        self._starts = starts
        self._ends, self._entries = np.zeros((2, len(starts)), dtype=np.int64)
        self._abouts = np.zeros(len(starts), dtype=np.uint64)

    def add(self, longer: _Candidates) -> None:
        """Add names longer than those added before; of several from one word, the last counts."""
        self._ends[longer.word] = longer.end
        self._entries[longer.word] = longer.entry
        self._abouts[longer.word] = longer.about

    def found(self, others: list[_Candidates]) -> Found:
        """The names added, with `others` that begin between words."""
        word = np.flatnonzero(self._ends)
        columns = (self._starts[word], self._ends[word], self._entries[word], self._abouts[word])
        if sum(len(other.word) for other in others):
            parts = [(other.start, other.end, other.entry, other.about) for other in others]
            start, end, entry, about = map(np.concatenate, zip(columns, *parts, strict=True))
            # Of those with one start the longest, and of these an exact one.
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
