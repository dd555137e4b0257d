"""From a chunk of texts to a table of sampled mentions, in this process or in several."""

import multiprocessing
import os
import signal
import threading
from collections import deque
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from multiprocessing import connection
from typing import TYPE_CHECKING, Deque, Dict, Iterable, Iterator, List, NamedTuple, Optional, Sequence, Tuple

from ..corpora.texts import Text
from ..errors import Errors, KrisselError
from ..views import mention_view
from .matcher import NameMatch, NameMatcher
from .names import AMBIGUOUS
from .reservoir import Reservoir, priority
from .shards import MinedMention
from .work import work_schema

if TYPE_CHECKING:
    import pyarrow as pa

# A chunk's mentions (columns of `work_schema`) and counts.
Mined = Tuple["pa.Table", Dict[str, int]]
COUNTS = ("mentions_found", "ambiguous_matches", "unsupported_matches")
_worker: Optional["Miner"] = None


class Miner(NamedTuple):
    """Matches names in texts and samples the matches.

    ids: entity ids by row. cap, seed: see `Reservoir` and `priority`.
    """

    matcher: NameMatcher
    ids: Sequence[str]
    cap: Optional[int]
    seed: int

    def __call__(self, texts: Sequence[Text]) -> Mined:
        """Counts: `mentions_found` (before the cap), and what was matched and dropped: `ambiguous_matches` (names of
        several entities), `unsupported_matches` (short acronyms alone, see `NameMatcher`).
        """
        sampled: Reservoir[Tuple[Text, NameMatch]] = Reservoir(self.cap)
        counts = dict.fromkeys(COUNTS, 0)
        for text in texts:
            for match in self.matcher.find_all(text.text):
                if match.row < 0:
                    counts["ambiguous_matches" if match.row == AMBIGUOUS else "unsupported_matches"] += 1
                else:
                    counts["mentions_found"] += 1
                    order = priority(self.seed, text.id, match.start, self.ids[match.row])
                    sampled.offer(match.row, order, (text, match))
        return self._table(sampled), counts

    def _table(self, sampled: Reservoir[Tuple[Text, NameMatch]]) -> "pa.Table":
        import pyarrow as pa

        mentions: List[tuple] = []
        for row, order, (text, match) in sampled:
            view = mention_view(text.text, match.start, match.end)
            mention = MinedMention(
                self.ids[row], match.name, text.id, match.start, match.end, view.left, view.mention, view.right
            )
            mentions.append((*mention, row, order))
        schema = work_schema()
        columns = zip(*mentions) if mentions else [()] * len(schema)
        return pa.table([pa.array(column, field.type) for column, field in zip(columns, schema)], schema=schema)


def mine_chunks(miner: Miner, chunks: Iterable[List[Text]], n_process: int) -> Iterator[Tuple[List[Text], Mined]]:
    """Each chunk and what `miner` makes of it, in the order of the chunks, few of them in memory at a time.

    Raises KrisselError K303 when a process dies.
    """
    if n_process == 1:
        for chunk in chunks:
            yield chunk, miner(chunk)
        return
    waiting: Deque[Tuple[List[Text], Future[Mined]]] = deque()
    # Built before the processes are, which then share it where they are forked.
    miner.matcher.build()
    with _processes(miner, n_process) as pool:
        try:
            for chunk in chunks:
                if len(waiting) > n_process:
                    first, future = waiting.popleft()
                    yield first, future.result()
                waiting.append((chunk, pool.submit(_mine_in_worker, chunk)))
            while waiting:
                first, future = waiting.popleft()
                yield first, future.result()
        except BrokenProcessPool as error:
            raise KrisselError(Errors.K303.format(problem=error, n_process=n_process)) from error


@contextmanager
def _processes(miner: Miner, n_process: int) -> Iterator[ProcessPoolExecutor]:
    pool = ProcessPoolExecutor(n_process, initializer=_start_worker, initargs=(miner,))
    try:
        yield pool
    finally:
        pool.shutdown(cancel_futures=True)


def _start_worker(miner: Miner) -> None:
    global _worker
    _worker = miner
    # Ctrl-C is the parent's to answer.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    # A killed parent cannot end its workers, and they would wait for work for ever.
    parent = multiprocessing.parent_process()
    if parent is not None:
        connection.wait([parent.sentinel])
        os._exit(1)


def _mine_in_worker(texts: List[Text]) -> Mined:
    assert _worker is not None
    return _worker(texts)
