"""Names by the hashes of their words, in some hundred bytes a name."""

from collections import defaultdict
from typing import Dict, Iterable, List, NamedTuple, Tuple

import numpy as np

from .folding import Forms, fold_case, word_form
from .names import AMBIGUOUS
from .stretches import Stretches, Words
from .text_column import TextColumn

# What the filter says of a hash: a name has it, or the beginning of one, up to the end of a word.
NAME = 1
BEGINNING = 2
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
    """Names in a text: columns of one length, by start, the longer ones first. Of one place there is one name.

    entry: the name's place in the table.
    """

    start: np.ndarray
    end: np.ndarray
    entry: np.ndarray

    def take(self, which: np.ndarray) -> "Found":
        return Found(*(column[which] for column in self))


class NameTable:
    """Finds names in a text from word to word: from each word on, as long as some name goes on like this.

    A filter of one byte a place says, from the hash of a stretch of the text, whether it may be a name or the beginning
    of one; most stretches cost one look at one byte. What may be a name is looked up among the sorted hashes of all
    names, and counts as one when a second hash, independent of the first, is the name's too: of 10^7 names and the
    10^11 stretches of all of PubMed, two that differ agree in these 128 bits with a probability of 10^-20.

    The first hash is of a name from its first letter or digit to its last, the second of all of it. A name without
    letters and digits is not found.

    names: of those that are the same in what is compared, the first is kept, with `AMBIGUOUS` for a row when they are
        of several entities. fold: case is ignored, but where a name is `exact`.

    row, exact: by entry, (n,).
    """

    def __init__(self, names: Iterable[FormedName], fold: bool) -> None:
        self._fold = fold
        self._names = TextColumn()
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
        self.row = row
        self.exact, self._number = columns.pop("exact")[starts], columns.pop("number")[starts]
        self._hashes, self._checks = columns.pop("hash")[starts], columns.pop("check")[starts]
        self._before, self._after = columns.pop("before")[starts], columns.pop("after")[starts]
        # Whether the next entry has the same hash, too.
        self._more = np.zeros(len(self), dtype=bool)
        self._more[:-1] = self._hashes[1:] == self._hashes[:-1]
        # Where the hashes begin with each of the numbers that their first bits can make.
        bits = max(1, len(self).bit_length())
        self._bucket_shift = np.uint64(64 - bits)
        firsts = np.arange(1 << bits, dtype=np.uint64) << self._bucket_shift
        self._buckets = np.append(np.searchsorted(self._hashes, firsts), len(self)).astype(np.uint32)

    def __len__(self) -> int:
        return len(self._hashes)

    def texts(self, entries: np.ndarray) -> List[str]:
        """The names as the ontology has them."""
        return self._names.take(self._number[entries])

    def find(self, forms: Forms) -> Found:
        """All names in a text, between other than letters and digits; they may overlap."""
        words = Words(forms.words)
        start, end, entry = self._candidates(forms.key, words)
        start, end = start - self._before[entry], end + self._after[entry]
        inside = np.flatnonzero((start >= 0) & (end <= len(forms.key)))
        # With the punctuation at its edge, a name may begin or end next to a letter.
        inside = inside[~(words.inside(start[inside] - 1) | words.inside(end[inside]))]
        found = Found(start[inside], end[inside], entry[inside])
        checks = Stretches(forms.key, 1).hashes(found.start, found.end)
        if self._fold and len(exact := np.flatnonzero(self.exact[found.entry])):
            checks[exact] = Stretches(forms.plain, 1).hashes(found.start[exact], found.end[exact])
        found = found.take(np.flatnonzero(checks == self._checks[found.entry]))
        # By start, then the longer ones; of one place in the order of the entries, the exact ones first.
        found = found.take(np.lexsort((found.entry, -found.end, found.start)))
        return found.take(np.flatnonzero(_first_of_same(found.start, found.end)))

    def _candidates(self, key: str, words: Words) -> Tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Stretches from word to word with the hash of an entry: where they start and end, and the entry."""
        stretches = Stretches(key)
        starts, ends, entries = [], [], []
        # The words that some name may go on from, and by how many words it has done so.
        alive = np.arange(len(words.starts))
        n_further = 0
        while len(alive):
            start, end = words.starts[alive], words.ends[alive + n_further]
            hashes = stretches.hashes(start, end)
            marks = self._filter[hashes >> self._filter_shift]
            named = np.flatnonzero(marks & NAME)
            place, entry = self._look_up(hashes[named])
            place = named[place]
            starts.append(start[place])
            ends.append(end[place])
            entries.append(entry)
            n_further += 1
            alive = alive[np.flatnonzero(marks & BEGINNING)]
            alive = alive[: np.searchsorted(alive, len(words.starts) - n_further)]
        columns = (starts, ends, entries)
        none = np.zeros(0, dtype=np.int64)
        return tuple(np.concatenate([none, *column]) for column in columns)  # type: ignore[return-value]

    def _look_up(self, hashes: np.ndarray) -> Tuple[np.ndarray, np.ndarray]:
        """The entries that have these hashes, each with the place of its hash: (n,) → (m,), (m,)."""
        bucket = hashes >> self._bucket_shift
        entry, last = self._buckets[bucket].astype(np.int64), self._buckets[bucket + np.uint64(1)]
        behind = np.flatnonzero(entry < last)
        while len(behind):
            behind = behind[self._hashes[entry[behind]] < hashes[behind]]
            entry[behind] += 1
            behind = behind[entry[behind] < last[behind]]
        place = np.flatnonzero(entry < last)
        place = place[self._hashes[entry[place]] == hashes[place]]
        entry = entry[place]
        places, entries = [place], [entry]
        while len(more := np.flatnonzero(self._more[entry])):
            place, entry = place[more], entry[more] + 1
            places.append(place)
            entries.append(entry)
        return np.concatenate(places), np.concatenate(entries)

    def _hashed(self, names: Iterable[FormedName]) -> Dict[str, np.ndarray]:
        """The names' columns in the order of `names`, and the hashes of their beginnings (`beginning`)."""
        blocks: Dict[str, List[np.ndarray]] = defaultdict(list)
        block: List[FormedName] = []
        for name in names:
            block.append(name)
            if len(block) == BLOCK:
                self._hash_block(block, blocks)
                block = []
        self._hash_block(block, blocks)
        return {column: np.concatenate(blocks.pop(column)) for column in list(blocks)}

    def _hash_block(self, names: List[FormedName], blocks: Dict[str, List[np.ndarray]]) -> None:
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
        hashes = Stretches(key).hashes(first[np.cumsum(is_first) - 1], words.ends)
        exact = np.fromiter((name.exact for name in names), dtype=bool, count=len(names))
        checks = np.where(exact, *(Stretches(form, 1).hashes(starts, ends) for form in (plain, key)))
        columns = {
            "hash": hashes[is_last],
            "beginning": np.unique(hashes[~is_last]),
            "check": checks[name],
            "number": (name + len(self._names)).astype(np.uint32),
            "row": np.fromiter((name.row for name in names), dtype=np.int32, count=len(names))[name],
            "exact": exact[name],
            "before": (first - starts[name]).astype(np.int32),
            "after": (ends[name] - words.ends[is_last]).astype(np.int32),
        }
        for column, values in columns.items():
            blocks[column].append(values)
        self._names.extend([name.text for name in names])

    def _make_filter(self, names: np.ndarray, beginnings: np.ndarray) -> None:
        bits = max(10, (SPARSITY * (len(names) + len(beginnings))).bit_length())
        self._filter_shift = np.uint64(64 - bits)
        self._filter = np.zeros(1 << bits, dtype=np.uint8)
        self._filter[beginnings >> self._filter_shift] = BEGINNING
        self._filter[names >> self._filter_shift] |= NAME


def _first_of_same(*columns: np.ndarray) -> np.ndarray:
    """Whether each row of sorted columns differs from the one before: (n,)."""
    first = np.ones(len(columns[0]), dtype=bool)
    first[1:] = False
    for column in columns:
        first[1:] |= column[1:] != column[:-1]
    return first
