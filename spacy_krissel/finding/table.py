"""Names of a vocabulary by their bags of words, in files that are mapped."""

import re
from collections.abc import Iterable, Iterator
from functools import cached_property
from itertools import chain, islice
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ..errors import Errors, KrisselError
from ..kb.columns import BATCH_ROWS, check_table, read_array, read_table, write_array, write_table
from ..mining.matcher import plain_letters
from ..util.folding import fold_name, to_american
from ..util.manifest import new_directory, read_manifest
from .substitutions import (
    GENERAL_KEYS,
    NameWords,
    adjective_of,
    equal_words,
    general_readings,
    is_in,
    substituted,
)
from .words import BARRIER, STRICT, TextWords, WordReader, hashed, stem, words_of

# Longer names are not found.
MAX_NAME_WORDS = 16
BLOCK_NAMES = 1 << 15
# Names of one word, and how many names are searched for them. From this fraction of those without a
# capital on, capitals tell something: NCBI's Taxonomy has .11, MEDIC and HPO have none.
_WORD_NAME = re.compile(r"[^\W\d_][a-z]{3,}")
SAMPLED_NAMES, MIN_LOWER_SHARE = 1 << 12, 0.05
# Fewer buckets are not made.
MIN_BITS = 8
KIND, VERSION = "folder of names to find", 2
# Larger folders are opened without a comparison of checksums; what is read of them is checked.
MAX_VERIFIED_BYTES = 1 << 25
NAMES, IDS = "names.arrow", "ids.arrow"
NAMES_SCHEMA = pa.schema([("text", pa.large_string()), ("entity", pa.int32())])
IDS_SCHEMA = pa.schema([("id", pa.large_string())])
# Arrays by the names of their files, with their types.
ARRAYS = {
    "hashes": "<u8",
    "buckets": "<i8",
    "bag_starts": "<i8",
    "bag_names": "<i8",
    "is_substituted": "|b1",
    "word_keys": "<u8",
    "before_stops": "<u8",
}
_MIX, _HALF = np.uint64(0xD6E8FEB86659FD93), np.uint64(32)


class Runs(NamedTuple):
    """Runs of words that are names, (n,) each: the first and the last word, and the bag."""

    first: np.ndarray
    last: np.ndarray
    bag: np.ndarray


class NameBags:
    """Hash table of names by their words, whatever their order.

    names: the texts and the entities. ids: of the entities. arrays: of `ARRAYS`. "hashes": of the
    distinct bags, ascending; "buckets": the first hash of each value of the highest bits;
    "bag_starts", "bag_names", "is_substituted": the names of each bag, and whether a word of theirs
    was replaced; "word_keys": of all words, ascending; "before_stops": of `NameWords`.
    """

    def __init__(
        self,
        names: pa.Table,
        ids: pa.Table,
        arrays: dict[str, np.ndarray],
        folder: Path | None = None,
    ) -> None:
        """folder: of the files that are mapped."""
        self.names, self.ids, self.arrays = names, ids, arrays
        self._folder = folder
        self._texts, self._entities = names.column("text"), names.column("entity")
        self._ids = ids.column("id")
        # Batches of the mapped tables that were checked.
        self._checked: set[tuple[str, int]] = set()
        bits = (len(arrays["buckets"]) - 1).bit_length() - 1
        if (
            bits < MIN_BITS
            or len(arrays["buckets"]) != (1 << bits) + 1
            or len(arrays["bag_starts"]) != len(arrays["hashes"]) + 1
            or len(arrays["bag_names"]) != len(arrays["is_substituted"])
        ):
            raise self._damaged("its files have lengths that do not fit each other")
        self._shift = np.uint64(64 - bits)

    def __len__(self) -> int:
        """Number of names."""
        return len(self.names)

    @classmethod
    def of(
        cls, names: Iterable[tuple[str, int]], ids: Iterable[str], *, substitutes: bool = True
    ) -> "NameBags":
        """Make the table of names with the index of each one's entity, and of the entities' ids.

        substitutes: add the names in which a word is replaced by one that the vocabulary's own
            synonyms show to be equal (`substituted`), and adjectives of single nouns.
        """
        tables, stream = [NAMES_SCHEMA.empty_table()], iter(names)
        while batch := list(islice(stream, BLOCK_NAMES)):
            tables.append(pa.table([*zip(*batch, strict=True)], schema=NAMES_SCHEMA))
        table = pa.concat_tables(tables)
        words = _words_of(table)
        lengths = np.bincount(words.name, minlength=len(table))
        of = np.flatnonzero((lengths > 0) & (lengths <= MAX_NAME_WORDS))
        bags, is_substituted = words.sums[of], np.zeros(len(of), dtype=bool)
        more = np.zeros(0, dtype=np.uint64)
        if substitutes and len(of):
            made, made_of = substituted(words)
            general, general_of = general_readings(words)
            single, nouns = _adjectives(table)
            new = ~is_in(single, np.unique(words.sums))
            made = np.concatenate([made, general, single[new]])
            made_of = np.concatenate([made_of, general_of, nouns[new]])
            bags, of = np.append(bags, made), np.append(of, made_of)
            more = np.append(single, GENERAL_KEYS)
            is_substituted = np.append(is_substituted, np.ones(len(made), dtype=bool))
        hashes = mixed(bags)
        order = np.lexsort((of, is_substituted, hashes))
        distinct, starts = np.unique(hashes[order], return_index=True)
        bits = max(MIN_BITS, (2 * len(distinct)).bit_length())
        first_of = np.arange(1 << bits, dtype=np.uint64) << np.uint64(64 - bits)
        arrays = {
            "hashes": distinct,
            "buckets": np.append(np.searchsorted(distinct, first_of), len(distinct)),
            "bag_starts": np.append(starts, len(order)),
            "bag_names": of[order],
            "is_substituted": is_substituted[order],
            "word_keys": np.unique(np.append(words.key, more)),
            "before_stops": words.before_stops,
        }
        return cls(table.combine_chunks(), pa.table([[*ids]], schema=IDS_SCHEMA), arrays)

    def words_like(self, text: str) -> dict[str, list[str]]:
        """Return the words of a text, each with those that the names show to be equal to it, in
        their shortest form. All names are read."""
        shortest: dict[str, str] = {}
        for word in chain.from_iterable(map(words_of, _texts_of(self.names))):
            own = stem(word)
            shortest[own] = min(shortest.get(own, word), word, key=lambda form: (len(form), form))
        by_key = dict(zip(hashed([*shortest]).tolist(), shortest, strict=True))
        written = {stem(word): word for word in words_of(text)}
        found: dict[str, list[str]] = {word: [] for word in written.values()}
        for word, by in equal_words(_words_of(self.names)):
            own, other = by_key.get(int(word), ""), by_key.get(int(by))
            if own in written and other is not None:
                found[written[own]].append(shortest[other])
        return found

    @cached_property
    def is_proper(self) -> bool:
        """Tell whether the names distinguish proper from ordinary words: many of one word have a
        capital, as the genus *Cancer*, and others have none, as "mouse". A sample is read.

        Raises KrisselError K524 for damaged files.
        """
        if not len(self):
            return False
        rows = np.unique(np.linspace(0, len(self) - 1, SAMPLED_NAMES).astype(np.int64))
        for row in rows.tolist():
            self._check(self.names, NAMES, row)
        words = [name for name in self._texts.take(rows).to_pylist() if _WORD_NAME.fullmatch(name)]
        n_lower = sum(map(str.islower, words))
        return MIN_LOWER_SHARE * len(words) <= n_lower <= len(words) / 2 and n_lower > 0

    def known(self, words: TextWords) -> np.ndarray:
        """Return which of the words names have (n,)."""
        return is_in(words.key, self.arrays["word_keys"])

    def find(self, words: TextWords) -> Runs:
        """Return all runs of words that are names, by their first word."""
        from .kernel import find

        known = self.known(words)
        gap, stops = words.gap.copy(), np.flatnonzero(words.gap == BARRIER)
        gap[stops[is_in(words.key[stops], self.arrays["before_stops"])]] = STRICT
        size = 2 * len(words.key) + 16
        while True:
            found = Runs(*(np.empty(size, dtype=np.int64) for _ in range(3)))
            read = words.key, words.skipped, gap, known
            arrays = self.arrays["buckets"], self.arrays["hashes"]
            n = find(*read, MAX_NAME_WORDS, self._shift, *arrays, *found)
            if n <= size:
                return Runs(*(column[:n] for column in found))
            size = n

    def bag_of(self, keys: Iterable[np.uint64]) -> int:
        """Return the bag of words with these keys, -1 for none."""
        hash_ = mixed(np.array([*keys], dtype=np.uint64).sum(keepdims=True))[0]
        at = int(np.searchsorted(self.arrays["hashes"], hash_))
        return at if at < len(self.arrays["hashes"]) and self.arrays["hashes"][at] == hash_ else -1

    def names_of(self, bag: int) -> Iterator[tuple[str, int, bool]]:
        """Yield the names of a bag: the text, the entity, and whether a word was replaced.

        Raises KrisselError K524 for damaged files.
        """
        first, end = self.arrays["bag_starts"][bag : bag + 2].tolist()
        if not 0 <= first <= end <= len(self.arrays["bag_names"]):
            raise self._damaged(f"bag_starts.npy has names {first} to {end}")
        for at in range(first, end):
            name = int(self.arrays["bag_names"][at])
            self._check(self.names, NAMES, name)
            text, entity = self._texts[name].as_py(), self._entities[name].as_py()
            yield text, entity, bool(self.arrays["is_substituted"][at])

    def id_of(self, entity: int) -> str:
        """Return the id of an entity. Raises KrisselError K524 for damaged files."""
        self._check(self.ids, IDS, entity)
        return str(self._ids[entity].as_py())

    def names_by_id(self, ids: Iterable[str]) -> dict[str, list[str]]:
        """Return the names of each of these entities that has any, by its id. Raises KrisselError
        K524 for damaged files."""
        rows = pc.index_in(pa.array(ids, pa.large_string()), self._ids).drop_null().to_numpy()
        names = np.flatnonzero(np.isin(self._entities.to_numpy(), rows))
        found: dict[str, list[str]] = {}
        for name in names.tolist():
            self._check(self.names, NAMES, name)
            id_ = self.id_of(self._entities[name].as_py())
            found.setdefault(id_, []).append(self._texts[name].as_py())
        return found

    def _check(self, table: pa.Table, file: str, row: int) -> None:
        """Check that a table has a row, and once each batch of rows of a mapped one."""
        if not 0 <= row < len(table):
            raise self._damaged(f"{file} has {len(table)} rows, and is asked for row {row}")
        batch = file, row // BATCH_ROWS
        if self._folder is not None and batch not in self._checked:
            check_table(table, self._folder / file, row)
            self._checked.add(batch)

    def _damaged(self, problem: str) -> KrisselError:
        return KrisselError(Errors.K524.format(path=self._folder, problem=problem))

    def to_disk(self, folder: Path) -> None:
        """Write the files atomically; it may be the folder that is mapped.

        Raises KrisselError K005, K028 (the folder holds something else), K026 (the disk refuses).
        """
        with new_directory(folder, KIND, VERSION) as writer:
            write_table(self.names, writer.path / NAMES)
            write_table(self.ids, writer.path / IDS)
            for name, array in self.arrays.items():
                column = array.astype(ARRAYS[name], copy=False)[:, None]
                write_array(column, writer.path / f"{name}.npy")
            lengths = {name: len(array) for name, array in self.arrays.items()}
            writer.info["lengths"] = {"names": len(self), "ids": len(self.ids), **lengths}

    @classmethod
    def from_disk(cls, folder: Path) -> "NameBags":
        """Map the files.

        Raises KrisselError K001 to K004 and K524 (missing, of another version, damaged), K026.
        """
        size = sum(path.stat().st_size for path in folder.glob("*.*"))
        verify = size <= MAX_VERIFIED_BYTES
        lengths = read_manifest(folder, KIND, VERSION, verify=verify)["lengths"]
        return cls(
            read_table(folder / NAMES, NAMES_SCHEMA, lengths["names"], verify=False),
            read_table(folder / IDS, IDS_SCHEMA, lengths["ids"], verify=False),
            {
                name: read_array(folder / f"{name}.npy", lengths[name], 1, dtype)[:, 0]
                for name, dtype in ARRAYS.items()
            },
            folder,
        )


def _texts_of(table: pa.Table) -> Iterator[str]:
    """Yield the names of a table of `NAMES_SCHEMA` in plain letters, read in batches."""
    for batch in table.to_batches(max_chunksize=BLOCK_NAMES):
        yield from (plain_letters(text).text for text in batch.column("text").to_pylist())


def _words_of(table: pa.Table) -> NameWords:
    """Return the words of the names in a table of `NAMES_SCHEMA`, without those that no name
    needs."""
    reader, stream, n = WordReader(), _texts_of(table), 0
    owners, keys = [np.zeros(0, dtype=np.int64)], [np.zeros(0, dtype=np.uint64)]
    before_stops = [np.zeros(0, dtype=np.uint64)]
    while texts := list(islice(stream, BLOCK_NAMES)):
        read = reader.read(texts)
        before_stops.append(np.unique(read.key[read.gap == BARRIER]))
        owners.append(read.text[~read.skipped] + n)
        keys.append(read.key[~read.skipped])
        n += len(texts)
    name, key = np.concatenate(owners), np.concatenate(keys)
    sums = np.zeros(n, dtype=np.uint64)
    np.add.at(sums, name, key)
    entities = table.column("entity").to_numpy().astype(np.int64)
    return NameWords(name, key, sums, entities, np.unique(np.concatenate(before_stops)))


def _adjectives(table: pa.Table) -> tuple[np.ndarray, np.ndarray]:
    """Return the keys of the adjectives of names that are one noun, and these names (n,)."""
    found = [
        (adjective, number)
        for number, text in enumerate(_texts_of(table))
        if (adjective := adjective_of(to_american(fold_name(text))))
    ]
    keys = hashed([stem(adjective) for adjective, _ in found])
    return keys, np.array([number for _, number in found], dtype=np.int64)


def mixed(sums: np.ndarray) -> np.ndarray:
    """Return the hash of each bag from the sum of its words' keys (n,)."""
    sums = sums ^ (sums >> _HALF)
    sums *= _MIX
    return sums ^ (sums >> _HALF)
