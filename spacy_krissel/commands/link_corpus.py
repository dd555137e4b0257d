"""Linking of a corpus by several processes or a Ray cluster, to a folder of parts."""

import hashlib
import json
import os
import shutil
import time
import warnings
from collections import Counter, deque
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

from thinc.api import get_current_ops

from ..about import __version__
from ..corpora.report import CorpusReport
from ..distributed.pool import Event, Pool, workers
from ..errors import Errors, KrisselError, KrisselWarning, Warnings, wrong_setting
from ..mining.reading import Unit, text_hashes
from ..pipeline.pipeline_io import MAX_IDS, pipeline_hash
from ..util.disk import coded_io
from ..util.manifest import check_replaceable, new_directory, read_manifest
from ..util.progress import progress_bar, size_of
from ..util.work_folder import difference
from .corpus_parts import corpus_files, corpus_units, parts_of
from .linking_work import Key, LinkingWork
from .linking_workers import Linked, LinkingSettings, Request, start_linking

KIND, FORMAT_VERSION = "linked corpus", 1
# Units for each worker from which the workers read them, in place of this process.
UNITS_PER_WORKER = 4
# Parts that a worker links before a new one takes its place: a vocab's tables keep room for all
# words that ever were in a memory zone, 67 MB for 3.4 million words, and the heap has gaps.
PARTS_PER_WORKER = 16
# Parts that are read ahead of the workers.
MAX_AHEAD = 8
# Times that a part is tried again after its worker was lost.
MAX_RETRIES = 5
COUNTS = ("docs", "mentions", "linked", "long")


def link_corpus(
    settings: LinkingSettings,
    source: str,
    output: str | Path | None,
    *,
    n_process: int,
    ray: str | None,
    restart: bool,
    progress: bool,
) -> dict[str, int]:
    """Link a corpus to a folder of parts with a manifest (`commands.link_texts.link`).

    An interrupted run resumes. A finished run with the same input changes nothing, and one with
    other input is refused.

    RETURNS: the numbers of `COUNTS`.
    """
    if output is None:
        raise wrong_setting("output", output, "a folder for the parts")
    output = Path(output)
    check_replaceable(output, KIND)
    if ray is not None and n_process != 1:
        raise wrong_setting("n_process", n_process, "1, since Ray has its own")
    if (ray is not None or n_process != 1) and get_current_ops().device_type != "cpu":
        raise wrong_setting("n_process", n_process, "1, and no Ray, with a GPU")
    # A worker may have another working directory.
    files = [path.absolute() for path in corpus_files(source)]
    if Path(settings.pipeline).exists():
        settings = settings._replace(pipeline=str(Path(settings.pipeline).absolute()))
    units = corpus_units(files)
    inputs = [
        {"file": name, "bytes": path.stat().st_size, "sha256": sha256}
        for path, (name, sha256) in zip(files, text_hashes(files), strict=True)
    ]
    settings = settings._replace(pipeline_hash=pipeline_hash(settings.pipeline))
    # No part depends on the device.
    own = {**settings._asdict(), "rows": settings.rows._asdict()}
    del own["index_device"], own["pipeline_hash"]
    state = {
        **own,
        "format_version": FORMAT_VERSION,
        "version": __version__,
        "pipeline": settings.pipeline_hash,
        "texts": hashlib.sha256(json.dumps(inputs).encode()).hexdigest(),
    }
    if not restart and (counts := _finished(output, state)) is not None:
        return counts
    with coded_io(output), LinkingWork(output, settings.format) as work:
        work.begin(state, restart=restart)
        left = [number for number in range(len(units)) if not work.done(number)]
        if left:
            start = partial(start_linking, settings)
            with workers(start, n_process, ray) as pool:
                in_workers = pool.n > 1 and len(left) >= UNITS_PER_WORKER * pool.n
                schedule = Schedule(units, left, work, settings.part_chars, in_workers)
                with _Progress(units, work, progress) as shown:
                    for key, linked in run(pool, schedule):
                        work.add(key, *linked)
                        shown.update(key, linked.record)
        counts = _write(work, output, state, inputs, units)
        work.remove()
    return counts


class Schedule:
    """The parts that are left to link, in the order of the corpus.

    in_workers: each worker reads a unit of its own, part by part; otherwise this process reads.
    """

    def __init__(
        self, units: list[Unit], left: list[int], work: LinkingWork, chars: int, in_workers: bool
    ) -> None:
        self._units, self._chars = units, chars
        self._done = {*work.records}
        # The last part of each unit, where an earlier run linked it.
        self._last = {
            unit: number for (unit, number), each in work.records.items() if each["is_last"]
        }
        self._again: deque[Request] = deque()
        self._ahead: deque[Request] = deque()
        self._own: dict[int, Key] = {}
        self._left = iter(left)
        self._requests = None if in_workers else self._read()

    def next(self, worker: int) -> Request | None:
        """Return the next request for a worker; None if there is none at present."""
        while True:
            # A worker stays with the unit that it reads.
            if worker not in self._own:
                if self._again:
                    return self._again.popleft()
                if self._requests is not None:
                    return self._ahead.popleft() if self._ahead else next(self._requests, None)
                if (unit := next(self._left, -1)) < 0:
                    return None
                self._own[worker] = unit, 0
            unit, number = self._own.pop(worker)
            while (unit, number) in self._done:
                number += 1
            if number <= self._last.get(unit, number):
                self._own[worker] = unit, number
                return Request(unit, self._units[unit], number, None)

    def read_ahead(self, n: int) -> None:
        while self._requests is not None and len(self._ahead) < n:
            request = next(self._requests, None)
            if request is None:
                return
            self._ahead.append(request)

    def finished(self, worker: int, request: Request, is_last: bool) -> None:
        self._done.add((request.unit, request.number))
        if request.part is None:
            self._own.pop(worker, None)
            if not is_last:
                self._own[worker] = request.unit, request.number + 1

    def returned(self, worker: int, request: Request) -> None:
        """Take back a request that its worker did not answer, for the next worker."""
        self._own.pop(worker, None)
        self._again.append(request)

    def n_to_skip(self, worker: int) -> int:
        """Return how many parts of its unit a new worker would read in vain."""
        return self._own.get(worker, (0, 0))[1]

    def _read(self) -> Iterator[Request]:
        for unit in self._left:
            for number, part in enumerate(parts_of(self._units[unit], self._chars)):
                if (unit, number) not in self._done:
                    yield Request(unit, self._units[unit], number, part)


def run(pool: Pool, schedule: Schedule) -> Iterator[tuple[Key, Linked]]:
    """Yield the linked parts of a schedule, in any order.

    Raises KrisselError K646 if workers are lost again and again, and the errors of the workers.
    """
    working: dict[int, Request] = {}
    idle: set[int] = set()
    losses, n_linked = Counter[Any](), Counter[int]()
    n_ahead = min(pool.n, MAX_AHEAD) if pool.n > 1 else 0
    schedule.read_ahead(n_ahead)
    while True:
        worker, answer = pool.receive()
        request = working.pop(worker, None)
        if answer is Event.LOST:
            _count_loss(losses, worker, request)
            n_linked[worker] = 0
            if request is not None:
                schedule.returned(worker, request)
        else:
            idle.add(worker)
            losses[worker] = 0
        if request is not None and isinstance(answer, Linked):
            schedule.finished(worker, request, answer.record["is_last"])
            yield (request.unit, request.number), answer
            n_linked[worker] += 1
            # A new worker reads no more parts in vain than this one linked.
            is_old = n_linked[worker] >= max(PARTS_PER_WORKER, schedule.n_to_skip(worker))
            if is_old and (following := schedule.next(worker)) is not None:
                schedule.returned(worker, following)
                idle.remove(worker)
                pool.renew(worker)
                n_linked[worker] = 0
        for each in sorted(idle):
            # There may be one for another, which reads a unit.
            if (following := schedule.next(each)) is not None:
                idle.remove(each)
                working[each] = following
                pool.send(each, following)
        if not working and idle:
            return
        schedule.read_ahead(n_ahead)


def _count_loss(losses: Counter[Any], worker: int, request: Request | None) -> None:
    cause: Any = worker if request is None else (request.unit, request.number)
    losses[cause] += 1
    if losses[cause] > MAX_RETRIES:
        part = "its start" if request is None else request.title
        raise KrisselError(Errors.K646.format(count=losses[cause], part=part))


class _Progress:
    """A bar of the bytes read, with the number of documents and their rate in this run."""

    def __init__(self, units: list[Unit], work: LinkingWork, show: bool) -> None:
        self._read: Counter[int] = Counter()
        self._docs = self._docs_before = 0
        for (unit, _), record in work.records.items():
            self._read[unit] = max(self._read[unit], record["n_read"])
            self._docs += record["docs"]
        self._docs_before = self._docs
        total = sum(map(size_of, units))
        # Time left is computed from this run alone.
        self._bar = progress_bar(
            show=show,
            total=total,
            initial=self._read.total(),
            desc="Linking",
            unit="B",
            unit_scale=True,
        )
        self._began = time.perf_counter()

    def __enter__(self) -> "_Progress":
        return self

    def __exit__(self, *error: object) -> None:
        self._bar.close()

    def update(self, key: Key, record: dict[str, Any]) -> None:
        self._docs += record["docs"]
        rate = (self._docs - self._docs_before) / (time.perf_counter() - self._began)
        self._bar.set_postfix_str(f"{self._docs:,} docs, {rate:,.0f} docs/s", refresh=False)
        # Parts of a unit may be linked in any order.
        more = max(0, record["n_read"] - self._read[key[0]])
        self._read[key[0]] += more
        self._bar.update(more)


def _finished(output: Path, state: dict[str, Any]) -> dict[str, Any] | None:
    """Return the counts of a finished run with this state; None if there is none.

    Raises KrisselError K647 for one with another state.
    """
    try:
        manifest = read_manifest(output, KIND, FORMAT_VERSION, verify=False)
        earlier, counts = dict(manifest["state"]), dict(manifest["counts"])
    except (KrisselError, KeyError, TypeError, ValueError):
        # Nothing is there, or nothing that can be read.
        return None
    if changes := difference(earlier, json.loads(json.dumps(state))):
        raise KrisselError(Errors.K647.format(path=output, difference=changes))
    return counts


def _write(
    work: LinkingWork,
    output: Path,
    state: dict[str, Any],
    inputs: list[dict[str, Any]],
    units: list[Unit],
) -> dict[str, int]:
    """Write the output, whose parts are those of the work. RETURNS: the counts.

    Raises KrisselError K648 if no file could be read. Warns of what was left out.
    """
    records = [work.records[key] for key in sorted(work.records)]
    report, damaged, long = CorpusReport(), list[str](), list[str]()
    for each in records:
        if each["report"]:
            report.add(each["report"])
        damaged += each["damaged"]
        long += each["long_ids"]
    counts = {name: sum(each[name] for each in records) for name in COUNTS}
    if damaged and not counts["docs"] and not counts["long"]:
        # Other files will be given.
        work.remove()
        raise KrisselError(Errors.K648.format(examples="; ".join(damaged[:MAX_IDS])))
    with new_directory(output, KIND, FORMAT_VERSION) as directory:
        for each in records:
            if each["file"]:
                _link_or_copy(work.path / each["file"], directory.path / each["file"])
        directory.info.update(
            state=state,
            inputs=inputs,
            counts=counts,
            issues=report.to_dict(),
            damaged=damaged,
            parts=[
                {
                    "file": work.records[key]["file"],
                    "inputs": [path.name for path in units[key[0]]],
                    **{name: work.records[key][name] for name in COUNTS},
                }
                for key in sorted(work.records)
                if work.records[key]["file"]
            ],
        )
    report.warn()
    _warn(counts, long, **records[-1]["about"])
    return counts


def _warn(counts: dict[str, int], long: list[str], *, limit: int, where: str, found: str) -> None:
    messages = []
    if n_long := counts["long"]:
        total, first = counts["docs"] + n_long, ", ".join(long[:MAX_IDS])
        messages.append(Warnings.KW620.format(count=n_long, total=total, limit=limit, first=first))
    if counts["docs"] and not counts["mentions"]:
        messages.append(Warnings.KW621.format(n_docs=counts["docs"], where=where, found=found))
    for message in messages:
        warnings.warn(message, KrisselWarning, stacklevel=5)


def _link_or_copy(source: Path, target: Path) -> None:
    # The work stays as it is until all of the output is there.
    try:
        os.link(source, target)
    except OSError:
        shutil.copyfile(source, target)
