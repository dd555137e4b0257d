"""From texts to a table of sampled mentions: the plain functions that every kind of worker calls."""

from typing import TYPE_CHECKING, Dict, List, NamedTuple, Optional, Sequence, Tuple

import numpy as np

from ..corpora.texts import Text
from ..views import view_edges
from .matcher import UNSUPPORTED, Matches, NameMatcher
from .names import AMBIGUOUS
from .reservoir import doc_prefix, lowest, priorities
from .text_column import TextColumn
from .work import work_schema

if TYPE_CHECKING:
    import pyarrow as pa

# Mentions (columns of `work_schema`) and counts.
Mined = Tuple["pa.Table", Dict[str, int]]
COUNTS = ("mentions_found", "ambiguous_matches", "unsupported_matches")
TEXT_COUNTS = ("texts", "characters", "bytes", "repeated_ids")


class MinedChunk(NamedTuple):
    """mentions: columns of `work_schema`. counts: `COUNTS` and `TEXT_COUNTS`.

    first_repeated: the first text that was left out, for messages.
    """

    mentions: "pa.Table"
    counts: Dict[str, int]
    first_repeated: str


class Miner(NamedTuple):
    """Matches names in texts and samples the matches.

    ids: entity ids by row. cap, seed: see `reservoir`. limits: `Reservoir.limits`, by row: a mention of a priority
    above is not made, since it would be thrown away.
    """

    matcher: NameMatcher
    ids: TextColumn
    cap: Optional[int]
    seed: int
    limits: np.ndarray

    def __call__(self, texts: Sequence[Text]) -> Mined:
        """Counts: `mentions_found` (before the cap), and what was matched and dropped: `ambiguous_matches` (names of
        several entities), `unsupported_matches` (short acronyms alone, see `NameMatcher`).
        """
        matches = [np.zeros(0, dtype=np.int64)] * len(Matches._fields)
        parts = [Matches(*matches)]
        orders = [np.zeros(0, dtype=np.uint64)]
        counts = dict.fromkeys(COUNTS, 0)
        for found in self.matcher.find_in(text.text for text in texts):
            linked = np.flatnonzero(found.row >= 0)
            counts["mentions_found"] += len(linked)
            counts["ambiguous_matches"] += int((found.row == AMBIGUOUS).sum())
            counts["unsupported_matches"] += int((found.row == UNSUPPORTED).sum())
            found = found.take(linked)
            order = self._priorities(texts, found)
            kept = np.flatnonzero(order <= self.limits[found.row])
            parts.append(found.take(kept))
            orders.append(order[kept])
        whole, order = Matches(*map(np.concatenate, zip(*parts))), np.concatenate(orders)
        sampled = lowest(whole.row, order, self.cap)
        return self._table(texts, whole.take(sampled), order[sampled]), counts

    def _priorities(self, texts: Sequence[Text], matches: Matches) -> np.ndarray:
        numbers, which = np.unique(matches.text, return_inverse=True)
        prefixes = [doc_prefix(self.seed, texts[number].id) for number in numbers.tolist()]
        prefix_of = map(prefixes.__getitem__, which.tolist())
        return priorities(prefix_of, matches.start.tolist(), self.ids.encoded(matches.row))

    def _table(self, texts: Sequence[Text], matches: Matches, orders: np.ndarray) -> "pa.Table":
        import pyarrow as pa

        # The texts that mentions are in, in one.
        numbers, which = np.unique(matches.text, return_inverse=True)
        contents = [texts[number].text for number in numbers.tolist()]
        firsts = np.cumsum([0, *map(len, contents)])
        whole = "".join(contents)
        starts, ends = matches.start + firsts[which], matches.end + firsts[which]
        left, right = view_edges(whole, firsts, starts, ends)
        ids = [texts[number].id for number in numbers.tolist()]

        def cut(first: np.ndarray, last: np.ndarray) -> List[str]:
            return [whole[a:b] for a, b in zip(first.tolist(), last.tolist())]

        columns = {
            "entity": self.ids.take(matches.row),
            "name": self.matcher.build().texts(matches.entry),
            "doc": [ids[number] for number in which.tolist()],
            "start": matches.start,
            "end": matches.end,
            "left": cut(left, starts),
            "mention": cut(starts, ends),
            "right": cut(ends, right),
            "row": matches.row,
            "priority": orders,
        }
        schema = work_schema()
        return pa.table([pa.array(columns[field.name]).cast(field.type) for field in schema], schema=schema)


def mine_chunk(miner: Miner, texts: Sequence[Text], new: np.ndarray) -> MinedChunk:
    """Mine those of the texts that are `new`, (n,) bool; the others bear an id that was there before."""
    kept = [text for text, is_new in zip(texts, new) if is_new]
    mentions, counts = miner(kept)
    contents = [text.text for text in kept]
    counts["texts"] = len(kept)
    counts["characters"] = sum(map(len, contents))
    counts["bytes"] = sum(len(text) if text.isascii() else len(text.encode()) for text in contents)
    counts["repeated_ids"] = len(texts) - len(kept)
    first = next((text for text, is_new in zip(texts, new) if not is_new), None)
    return MinedChunk(mentions, counts, f"{first.id} in {first.source}, line {first.line}" if first else "")
