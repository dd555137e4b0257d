"""Names of an ontology to search for, and a hash table that finds them in text."""

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import numpy as np

from .text_forms import Forms, SpanHashes, Words, fold_case, word_form

if TYPE_CHECKING:
    from ..ontology.store import OntologyStore

# Row of a name shared by several entities. It is matched, so that no shorter name is found inside
# it, and then dropped.
AMBIGUOUS = -1
# Common words that some ontologies list as names or abbreviations (ALL, WAS, AS).
STOP_WORDS = frozenset(
    "a about after all also am an and any are as at be been both but by can could did do does each "
    "for from had has have he her here him his how i if in into is it its may me men met might "
    "more most my no non nor not now of off on one or our out over per she so some such than that "
    "the their them then there these they this those to too two under up us use very via was we "
    "were what when where which who will with would yet you".split()
)
MAX_STOP_WORD_CHARS = max(map(len, STOP_WORDS))


class SearchName(NamedTuple):
    """A name to search for.

    row: the entity's row in the ontology store, or `AMBIGUOUS`. text: as in the ontology.
    """

    row: int
    text: str


def search_names(
    ontology: "OntologyStore", counts: dict[str, int], aliases: bool = True
) -> Iterator[SearchName]:
    """Yield the names to search for: unambiguous names first, then ambiguous ones.

    counts: set to the number of names that are `searched`, `ambiguous` (shared by several
        entities), `too_short` (one letter or digit), a `number` (no letter), or a `stop_word`.
    aliases: all names; otherwise only the preferred ones, which are ambiguous if another entity has
        them as an alias.

    Names are equal if they fold to the same string (`ontology.folding.fold_name`).
    """
    counts.update(searched=0, ambiguous=0, too_short=0, number=0, stop_word=0)
    for shared in (False, True):
        for row, name, preferred in ontology.names(shared=shared):
            if not (aliases or preferred):
                continue
            reason = _skip_reason(name)
            counts[reason or ("ambiguous" if shared else "searched")] += 1
            if not reason:
                yield SearchName(AMBIGUOUS if shared else row, name)


def is_searched(name: str) -> bool:
    """Return whether a name is searched for: it is no stop word, no number, and has two letters or
    digits."""
    return not _skip_reason(name)


def _skip_reason(name: str) -> str:
    # A shortcut: most names begin with two letters.
    if not (len(name) > 1 and name[:2].isalnum()) and sum(map(str.isalnum, name)) < 2:
        return "too_short"
    if not any(map(str.isalpha, name)):
        return "number"
    stripped = name.strip()
    if len(stripped) <= MAX_STOP_WORD_CHARS and fold_case(stripped) in STOP_WORDS:
        return "stop_word"
    return ""


if TYPE_CHECKING:
    import pyarrow as pa

# Filter bits of a hash: the hash of a name, and of a beginning of a name up to a word end.
NAME = 1
BEGINNING = 2
# Bits of an entry above its row: the next entry has the same hash; the entry is exact; from
# CHECK_SHIFT on, its index among the entries with a check, counted from 1.
MORE, EXACT, CHECK_SHIFT = np.uint64(1 << 32), np.uint64(1 << 33), 34
# Names per hashing block.
BLOCK_NAMES = 1 << 15
# Minimum bytes of the filter per hash: the false positive rate is about one in this number.
SPARSITY = 6


class NormalizedName(NamedTuple):
    """A name in its plain form.

    text: the name in the ontology. plain: its plain form (`text_forms`). row: its entity. exact:
        matched only in its own case.
    """

    text: str
    plain: str
    row: int
    exact: bool


class NameHits(NamedTuple):
    """Names found in a text: columns of one length.

    entry: index of the name in the table. about: the bits of its entry.
    """

    start: np.ndarray
    end: np.ndarray
    entry: np.ndarray
    about: np.ndarray

    @property
    def row(self) -> np.ndarray:
        """Rows of the entities, or `AMBIGUOUS`, (n,) int32."""
        return self.about.astype(np.uint32).view(np.int32)

    @property
    def exact(self) -> np.ndarray:
        return self.about & EXACT != 0


Columns = TypeVar("Columns", bound=tuple[Any, ...])


def take(columns: Columns, which: np.ndarray) -> Columns:
    """Return a named tuple of columns with only the rows `which`."""
    return type(columns)(*(column[which] for column in columns))


class NameTable:
    """Hash table that finds names in a text, from each word on, word by word.

    The search from a word ends when no name begins with the words read. A filter with one byte per
    slot tells from the hash of a span whether it may be a name or the beginning of one; most spans
    cost one lookup of one byte. A possible name is looked up by its hash in a table of all names.
    With 10^7 names and the 10^11 spans of all of PubMed, the expected number of wrong matches by
    equal 64-bit hashes is 0.05.

    The hash covers a name from its first to its last letter or digit, case folded. If a name has
    characters outside these, or is matched in its own case, the hash of the whole name is compared
    too. A name without letters and digits is never found.

    names: of names with an equal compared form, the first is kept; its row is `AMBIGUOUS` if they
        belong to several entities.
    fold: ignore case, except for `exact` names.
    short: a name of up to this many characters, unless exact, is not matched with a capital after
        its first letter.
    """

    def __init__(self, names: Iterable[NormalizedName], fold: bool, short: int = 0) -> None:
        import pyarrow as pa

        self._fold = fold
        self._short = short
        rest = iter(names)
        batches = iter(lambda: list(islice(rest, BLOCK_NAMES)), [])
        blocks = [self._hash_block(batch, i * BLOCK_NAMES) for i, batch in enumerate(batches)] or [
            self._hash_block([], 0)
        ]
        self._names = pa.concat_arrays([block.pop("text") for block in blocks])
        columns = {
            name: np.concatenate([block.pop(name) for block in blocks]) for name in list(blocks[0])
        }
        beginnings = columns.pop("beginning")
        bits = max(10, (SPARSITY * (len(columns["hash"]) + len(beginnings))).bit_length())
        self._filter_shift = np.uint64(64 - bits)
        self._filter = np.zeros(1 << bits, dtype=np.uint8)
        self._filter[beginnings >> self._filter_shift] = BEGINNING
        self._filter[columns["hash"] >> self._filter_shift] |= NAME
        # Exact names come first among equal hashes; equal names keep their order.
        order = np.lexsort((columns["check"], ~columns["exact"], columns["hash"]))
        columns = {name: columns.pop(name)[order] for name in list(columns)}
        starts = np.flatnonzero(first_of_same(columns["hash"], columns["check"], columns["exact"]))
        row = columns.pop("row")
        if len(row):
            one_entity = np.minimum.reduceat(row, starts) == np.maximum.reduceat(row, starts)
            row = np.where(one_entity, row[starts], AMBIGUOUS).astype(np.int32)
        columns = {name: columns.pop(name)[starts] for name in list(columns)}
        hashes = columns["hash"]
        self._n_names = len(hashes)
        special = np.flatnonzero(
            columns["exact"] | (columns["before"] > 0) | (columns["after"] > 0)
        )
        self._before, self._after, self._checks = (
            columns[name][special] for name in ("before", "after", "check")
        )
        about = row.view(np.uint32).astype(np.uint64)
        about |= np.append(hashes[1:] == hashes[:-1], False)[: len(hashes)].astype(np.uint64) * MORE
        about |= columns["exact"].astype(np.uint64) * EXACT
        about[special] |= np.arange(1, len(special) + 1, dtype=np.uint64) << CHECK_SHIFT
        # Open addressing in the order of the hashes: each entry is in the slot of its hash's high
        # bits, or in the next free slot. Empty slots have the highest value.
        bits = len(self).bit_length() + 1
        self._slot_shift = np.uint64(64 - bits)
        numbers = np.arange(len(self))
        slots = (
            np.maximum.accumulate((hashes >> self._slot_shift).astype(np.int64) - numbers) + numbers
        )
        n_slots = max(1 << bits, slots.max(initial=0) + 1) + 1
        self._entries = np.full((n_slots, 2), np.iinfo(np.uint64).max)
        self._entries[slots, 0], self._entries[slots, 1] = hashes, about
        self._number = np.zeros(n_slots, dtype=np.uint32)
        self._number[slots] = columns["number"]

    def __len__(self) -> int:
        return self._n_names

    def names(self, entries: np.ndarray) -> "pa.LargeStringArray":
        """Return the names in the ontology for these entries."""
        return self._names.take(self._number[entries])

    def find(self, forms: Forms) -> NameHits:
        """Return the longest name from each start in a text, on word boundaries.

        The names are sorted by start and may overlap.
        """
        words = Words(forms.words)
        spans = SpanHashes(forms.plain if self._fold else forms.key, forms.key)
        parts: list[NameHits] = []
        # Words from which some name may continue, and the number of words after them in the span.
        alive = np.arange(len(words.starts))
        n_more_words = 0
        while len(alive) or not parts:
            start, end = words.starts[alive], words.ends[alive + n_more_words]
            hashes = spans.hashes(start, end)
            marks = self._filter[hashes >> self._filter_shift]
            named = np.flatnonzero(marks & NAME)
            which, entry, about = self._look_up(hashes[named])
            which = named[which]
            found = NameHits(start[which], end[which], entry, about)
            special = about >= 1 << CHECK_SHIFT
            if special.any():
                parts += self._match_whole(take(found, np.flatnonzero(special)), words, spans)
                found = take(found, np.flatnonzero(~special))
            parts.append(self._drop_capitals(found, spans))
            n_more_words += 1
            alive = alive[np.flatnonzero(marks & BEGINNING)]
            alive = alive[: np.searchsorted(alive, len(words.starts) - n_more_words)]
        found = NameHits(*map(np.concatenate, zip(*parts, strict=True)))
        # Longest name per start, exact names first; one key sorts faster than three.
        order = np.argsort((found.start << 32) - 2 * (found.end - found.start) - found.exact)
        return take(found, order[first_of_same(found.start[order])])

    def _look_up(self, hashes: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return the entries with these hashes.

        The columns are the index of the hash, the entry, and its bits `about`, (m,) each.
        """
        entry = (hashes >> self._slot_shift).astype(np.int64)
        found = np.take(self._entries, entry, axis=0)
        early = np.flatnonzero(found[:, 0] < hashes)
        while len(early):
            entry[early] += 1
            found[early] = self._entries[entry[early]]
            early = early[found[early, 0] < hashes[early]]
        which = np.flatnonzero(found[:, 0] == hashes)
        entry, about = entry[which], found[which, 1]
        parts = [(which, entry, about)]
        while len(more := np.flatnonzero(about & MORE)):
            which, entry = which[more], entry[more] + 1
            about = self._entries[entry, 1]
            parts.append((which, entry, about))
        return tuple(map(np.concatenate, zip(*parts, strict=True)))  # type: ignore[return-value]

    def _match_whole(self, found: NameHits, words: Words, spans: SpanHashes) -> list[NameHits]:
        """Return the names with a check that match as a whole, with the offsets of the whole
        name.
        """
        which = (found.about >> np.uint64(CHECK_SHIFT)).astype(np.int64) - 1
        start, end = found.start - self._before[which], found.end + self._after[which]
        inside = np.flatnonzero((start >= 0) & (end <= len(spans)))
        # A name with punctuation at its edge must not begin or end next to a letter.
        inside = inside[~(words.inside(start[inside] - 1) | words.inside(end[inside]))]
        found = take(found._replace(start=start, end=end), inside)
        exact = found.exact
        hashes = spans.hashes(found.start, found.end)
        hashes[exact] = spans.plain_hashes(found.start[exact], found.end[exact])
        equal = hashes == self._checks[which[inside]]
        return [take(found, equal & exact), self._drop_capitals(take(found, equal & ~exact), spans)]

    def _drop_capitals(self, found: NameHits, spans: SpanHashes) -> NameHits:
        """Return `found` without short names in capitals; the first letter may be a capital."""
        short = np.flatnonzero(found.end - found.start <= self._short)
        raised = short[spans.has_capital(found.start[short] + 1, found.end[short])]
        return take(found, np.delete(np.arange(len(found.start)), raised)) if len(raised) else found

    def _hash_block(self, names: list[NormalizedName], number: int) -> dict[str, Any]:
        """Return the columns of names, and the hashes of their beginnings.

        number: the number of earlier names.
        """
        import pyarrow as pa

        # No name contains two spaces in a row, so no span crosses two names.
        plain = "".join(f" {name.plain} " for name in names)
        key = fold_case(plain) if self._fold else plain
        words = Words(word_form(key))
        lengths = np.fromiter((len(name.plain) for name in names), dtype=np.int64, count=len(names))
        ends = np.cumsum(lengths + 2) - 1
        starts = ends - lengths
        name_of = np.searchsorted(ends, words.starts)  # by word
        is_first = first_of_same(name_of)
        is_last = first_of_same(name_of[::-1])[::-1]
        first, name = words.starts[is_first], name_of[is_first]
        spans = SpanHashes(plain, key)
        hashes = spans.hashes(first[np.cumsum(is_first) - 1], words.ends)
        exact = np.fromiter(
            (self._fold and name.exact for name in names), dtype=bool, count=len(names)
        )[name]
        before, after = first - starts[name], ends[name] - words.ends[is_last]
        start, end = starts[name], ends[name]
        checks = np.where(exact, spans.plain_hashes(start, end), spans.hashes(start, end))
        # For other names the first hash covers the whole name.
        checks[~(exact | (before > 0) | (after > 0))] = 0
        return {
            "text": pa.array([name.text for name in names], type=pa.large_string()),
            "hash": hashes[is_last],
            "beginning": np.unique(hashes[~is_last]),
            "check": checks,
            "number": (name + number).astype(np.uint32),
            "row": np.fromiter((name.row for name in names), dtype=np.int32, count=len(names))[
                name
            ],
            "exact": exact,
            "before": before.astype(np.int32),
            "after": after.astype(np.int32),
        }


def first_of_same(*columns: np.ndarray) -> np.ndarray:
    """Return whether each row of sorted columns differs from the row before, (n,) bool."""
    first = np.ones(len(columns[0]), dtype=bool)
    first[1:] = False
    for column in columns:
        first[1:] |= column[1:] != column[:-1]
    return first
