"""Sampling of mentions from texts into a table, by plain functions that every worker type calls."""

from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from ..corpora.text_stream import Text
from ..views import view_edges
from .matcher import UNSUPPORTED, Matches, NameMatcher
from .name_table import AMBIGUOUS, take
from .reservoir import doc_prefix, lowest, priorities
from .text_forms import codes
from .work import work_schema

if TYPE_CHECKING:
    import pyarrow as pa

COUNTS = ("mentions_found", "ambiguous_matches", "unsupported_matches")
TEXT_COUNTS = ("texts", "characters", "bytes", "repeated_ids")


class MinedChunk(NamedTuple):
    """Mentions and counts of a chunk of texts.

    mentions: columns of `work_schema`, or a file of them in the work directory. counts: `COUNTS`
        and `TEXT_COUNTS`. first_repeated: the first text skipped as repeated, for messages.
    """

    mentions: "pa.Table | Path"
    counts: dict[str, int]
    first_repeated: str


class Miner(NamedTuple):
    """Matcher of names in texts that samples the matches.

    ids: entity ids by row. cap, seed: see `reservoir`. limits: `Reservoir.limits`, by row; mentions
        with a higher priority are skipped, since they would be discarded.
    """

    matcher: NameMatcher
    ids: "pa.LargeStringArray"
    cap: int | None
    seed: int
    limits: np.ndarray

    def __call__(self, texts: Sequence[Text]) -> tuple["pa.Table", dict[str, int]]:
        """Return mentions (columns of `work_schema`) and counts.

        The counts are `mentions_found` (before the cap), and the dropped matches:
        `ambiguous_matches` (names of several entities) and `unsupported_matches` (short acronyms
        alone, see `NameMatcher`).
        """
        found = [Matches(*[np.zeros(0, dtype=np.int64)] * len(Matches._fields))]
        found += self.matcher.find_in(text.text for text in texts)
        matches = Matches(*map(np.concatenate, zip(*found, strict=True)))
        linked = np.flatnonzero(matches.row >= 0)
        counts = {
            "mentions_found": len(linked),
            "ambiguous_matches": int((matches.row == AMBIGUOUS).sum()),
            "unsupported_matches": int((matches.row == UNSUPPORTED).sum()),
        }
        matches = take(matches, linked)
        order = self._priorities(texts, matches)
        kept = np.flatnonzero(order <= self.limits[matches.row])
        # In the order of the texts, which is the fastest to read.
        sampled = kept[np.sort(lowest(matches.row[kept], order[kept], self.cap))]
        return self._table(texts, take(matches, sampled), order[sampled]), counts

    def _priorities(self, texts: Sequence[Text], matches: Matches) -> np.ndarray:
        numbers, which = np.unique(matches.text, return_inverse=True)
        prefixes = [doc_prefix(self.seed, texts[number].id) for number in numbers.tolist()]
        rows, row_of = np.unique(matches.row, return_inverse=True)
        ids = [id_.encode() for id_ in self.ids.take(rows).to_pylist()]
        prefix_of, id_of = (
            map(of.__getitem__, i.tolist()) for of, i in ((prefixes, which), (ids, row_of))
        )
        return priorities(prefix_of, matches.start.tolist(), id_of)

    def _table(self, texts: Sequence[Text], matches: Matches, orders: np.ndarray) -> "pa.Table":
        """Return the table of the matches.

        matches: in the order of the texts.
        """
        import pyarrow as pa

        # Concatenate the texts with mentions.
        numbers, which = np.unique(matches.text, return_inverse=True)
        contents = [texts[number].text for number in numbers.tolist()]
        firsts = np.cumsum([0, *map(len, contents)])
        whole = "".join(contents)
        starts, ends = matches.start + firsts[which], matches.end + firsts[which]
        edges = view_edges(whole, firsts, starts, ends)
        views = _slices(whole, edges[0], starts, ends, edges[1])
        docs = pa.array([texts[number].id for number in numbers.tolist()], type=pa.string())
        columns = {
            "entity": self.ids.take(matches.row),
            "name": self.matcher.table.names(matches.entry),
            "doc": docs.take(pa.array(which)),
            "start": matches.start,
            "end": matches.end,
            **dict(zip(("left", "mention", "right"), views, strict=True)),
            "row": matches.row,
            "priority": orders,
        }
        schema = work_schema()
        return pa.table(
            [pa.array(columns[field.name]).cast(field.type) for field in schema], schema=schema
        )


def _slices(whole: str, *edges: np.ndarray) -> list["pa.Array"]:
    """Return one column per pair of successive edges (n,): the text between them in `whole`."""
    import pyarrow as pa

    encoded = whole.encode("utf8", "surrogatepass")
    if len(encoded) != len(whole):
        n_bytes = np.ones(len(whole), dtype=np.int64)
        characters = codes(whole)
        for bound in (0x80, 0x800, 0x10000):
            n_bytes += characters >= bound
        byte_offset = np.append(0, np.cumsum(n_bytes))
        edges = tuple(byte_offset[edge] for edge in edges)
    columns = []
    for first, last in pairwise(edges):
        # Twice as fast as an array of Python strings.
        parts = b"".join([encoded[a:b] for a, b in zip(first.tolist(), last.tolist(), strict=True)])
        ends = np.append(0, np.cumsum(last - first))
        columns.append(
            pa.LargeStringArray.from_buffers(len(first), pa.py_buffer(ends), pa.py_buffer(parts))
        )
    return columns


def mine_chunk(miner: Miner, texts: Sequence[Text], new: np.ndarray) -> MinedChunk:
    """Mine the texts that are `new`, (n,) bool; the others have a repeated id."""
    kept = [texts[i] for i in np.flatnonzero(new).tolist()]
    mentions, counts = miner(kept)
    contents = [text.text for text in kept]
    counts["texts"] = len(kept)
    counts["characters"] = sum(map(len, contents))
    counts["bytes"] = sum(len(text) if text.isascii() else len(text.encode()) for text in contents)
    counts["repeated_ids"] = len(texts) - len(kept)
    if new.all():
        return MinedChunk(mentions, counts, "")
    first = texts[int(new.argmin())]
    return MinedChunk(mentions, counts, f"{first.id} in {first.source}, line {first.line}")
