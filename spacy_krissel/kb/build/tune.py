"""Choose the index of a knowledge base by what is measured of it."""

import shutil
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Annotated, Any

import numpy as np
from pydantic import Field

from ...errors import Errors, KrisselError
from ...index.exact import ExactIndex, refined
from ...index.faiss_index import DEFAULTS, FaissIndex, estimated_bytes
from ...index.protocol import Mask, Rows, Scores, VectorIndex, Vectors
from ...util.progress import progress_bar
from ...util.settings import NotNegative, PositiveInt, checked
from ..prototype_kb import PrototypeKB
from ..ranking import SearchResult, tie_bound

# Of each type: what it is built with, and how wide it may search, narrowest first.
BUILT: dict[str, dict[str, Any]] = {
    "ivf": {"float16": True},
    "ivf_sq8": {},
    "ivf_pq": {},
    "hnsw": {"float16": True},
}
WIDTHS: dict[str, tuple[str, Sequence[int]]] = {
    "ivf": ("nprobe", (1, 2, 4, 8, 16, 32, 64, 128, 256, 512)),
    "ivf_sq8": ("nprobe", (1, 2, 4, 8, 16, 32, 64, 128, 256, 512)),
    "ivf_pq": ("nprobe", (1, 2, 4, 8, 16, 32, 64, 128, 256, 512)),
    "hnsw": ("ef_search", (16, 32, 64, 128, 256, 512)),
}
REFINE: dict[str, Sequence[int]] = {"ivf_sq8": (1, 2), "ivf_pq": (1, 2, 4, 8)}


def planned(types: Sequence[str], n: int, width: int, memory: float) -> tuple[list[str], list[str]]:
    """The types to build, least time first, and those that would take more than `memory` bytes (0: any)."""
    known = [type_ for type_ in BUILT if type_ in types]
    sizes = {type_: estimated_bytes(type_, {**DEFAULTS[type_], **BUILT[type_]}, n, width) for type_ in known}
    fitting = [type_ for type_ in known if not memory or sizes[type_] <= memory]
    return fitting, [type_ for type_ in known if type_ not in fitting]


def searches(type_: str) -> Iterator[list[dict[str, int]]]:
    """Settings of searches by an index of this type: lists of which each goes from narrow to wide."""
    name, widths = WIDTHS[type_]
    for refine in REFINE.get(type_, (None,)):  # type: ignore[arg-type]
        yield [{name: width} if refine is None else {name: width, "refine": refine} for width in widths]


# A search is timed so often, unless that takes longer than this; the least counts.
PASSES, PASS_SECONDS = 3, 5.0


class OutOfTime(Exception):
    """The time that was given is over; an index that is being built is given up."""


@dataclass(frozen=True)
class Trial:
    """What was measured of one index with one search.

    recall, recall_k: of the nearest prototypes, the first and the first k; one counts where it is as near as the exact
        index's, since equal ones are found in any order.
    entities, entities_k: of the nearest entities, by their ids.
    seconds: of a core for one query among many, entities and all. ratio: how many times as fast as the exact index.
    build_seconds: on all cores.
    """

    kind: str
    settings: dict[str, Any]
    recall: float
    recall_k: float
    entities: float
    entities_k: float
    seconds: float
    ratio: float
    mib: float
    build_seconds: float

    def found(self) -> float:
        """The lower of both figures of the first place."""
        return min(self.recall, self.entities)


@dataclass
class Tuning:
    """All trials, the exact index first, and the one that is chosen: the fastest with the recall that is wanted.

    left_out: what was not tried, and why.
    """

    k: int
    queries: int
    wanted: float
    trials: list[Trial] = field(default_factory=list)
    left_out: dict[str, str] = field(default_factory=dict)

    @property
    def chosen(self) -> Trial:
        good = [trial for trial in self.trials if trial.found() >= self.wanted]
        return min(good or self.trials[:1], key=lambda trial: trial.seconds)

    def summary(self, prototypes: int) -> dict[str, Any]:
        """For a manifest: the chosen index's figures, of so many prototypes."""
        figures = asdict(self.chosen)
        del figures["kind"], figures["settings"]
        return {**figures, "k": self.k, "queries": self.queries, "wanted": self.wanted, "prototypes": prototypes}


@checked
def tune(
    kb: PrototypeKB,
    queries: Vectors,
    folder: Path,
    *,
    recall: Annotated[float, Field(gt=0, le=1)] = 0.99,
    k: PositiveInt = 16,
    types: Sequence[str] = tuple(BUILT),
    seconds: NotNegative = 0.0,
    memory: NotNegative = 0.0,
    progress: bool = False,
) -> tuple[Tuning, VectorIndex]:
    """Measure indexes of the knowledge base's vectors; it stays as it is.

    queries: vectors (q, d) to search with. folder: an empty one, in which built indexes are kept meanwhile.
    recall: of the nearest prototype and the nearest entity that the choice must have, 0 to 1.
    k: so many entities are searched for.
    types: of FAISS index. seconds: nothing new is begun when these are over, and what is being built is given up (0: no
        end). memory: bytes that an index may hold (0: any).

    Each index is built once, and its searches go from narrow to wide until one finds enough, or they become slower than
    one that did. RETURNS: what was measured, and the chosen index, its files in the folder mapped.
    Raises KrisselError K006 (a recall that is none, an unknown type, a negative limit), K501 (no FAISS) and what
    `kb.search` raises.
    """
    kb.check_filled()
    for type_ in types:
        if type_ not in BUILT:
            expected = f"one of {', '.join(BUILT)}"
            raise KrisselError(Errors.K006.format(setting="type", found=type_, expected=expected))
    clock = _Clock(seconds)
    measure = _Measure(kb, queries, k)
    tuning = Tuning(k=k, queries=len(queries), wanted=recall, trials=[measure.exact])
    fitting, too_large = planned(types, kb.n_prototypes, kb.entity_vector_length, memory)
    tuning.left_out.update(dict.fromkeys(too_large, "would take more memory than it may"))
    centroids: Vectors | None = None
    for type_ in fitting:
        path = folder / type_
        path.mkdir()
        try:
            index, build_seconds = _built(type_, kb.vectors, centroids, path, clock, progress)
            # The same for all: k-means is most of the work.
            centroids = index.centroids() if centroids is None else centroids
            with progress_bar(show=progress, desc=f"{type_}, searches", unit=" searches") as bar:
                for settings in _widening(type_, tuning, clock):
                    index.set_search(**settings)
                    tuning.trials.append(measure(index, build_seconds, _mib(path)))
                    bar.update(1)
        except OutOfTime:
            tuning.left_out[type_] = "the time was over"
        if tuning.chosen.settings.get("type") != type_:
            # Nobody will use it, and each is gigabytes.
            shutil.rmtree(path)
    return tuning, _made(tuning.chosen, folder, kb.vectors)


class _Clock:
    def __init__(self, seconds: float) -> None:
        self._end = time.monotonic() + seconds if seconds else float("inf")

    def check(self) -> None:
        """Raises OutOfTime."""
        if time.monotonic() > self._end:
            raise OutOfTime


class _Measure:
    """Makes trials, all against the exact index with the same queries."""

    def __init__(self, kb: PrototypeKB, queries: Vectors, k: int) -> None:
        self._kb = kb
        self._queries = queries
        self._k = k
        index = ExactIndex()
        index.build(kb.vectors)
        self._result, self._scores, _, self._seconds = self._searched(index)
        self.exact = Trial(index.kind, index.settings, 1.0, 1.0, 1.0, 1.0, self._seconds, 1.0, 0.0, 0.0)

    def __call__(self, index: VectorIndex, build_seconds: float, mib: float) -> Trial:
        result, _, rows, seconds = self._searched(index)
        k = min(self._k, self._kb.n_prototypes)
        # Some indexes round their scores.
        scores, _ = refined([self._kb.vectors], self._scaled, rows[:, :k], k)
        expected = self._result.entities
        common = [np.isin(b[b >= 0], a).sum() for a, b in zip(result.entities, expected, strict=True)]
        return Trial(
            index.kind,
            index.settings,
            recall=float(np.mean(scores[:, 0] >= tie_bound(self._scores[:, 0]))),
            recall_k=float(np.mean(scores >= tie_bound(self._scores[:, k - 1 : k]))),
            entities=float(np.mean(result.entities[:, 0] == expected[:, 0])),
            entities_k=float(np.sum(common) / np.sum(expected >= 0)),
            seconds=seconds,
            ratio=self._seconds / seconds,
            mib=mib,
            build_seconds=build_seconds,
        )

    def _searched(self, index: VectorIndex) -> tuple[SearchResult, Scores, Rows, float]:
        """Entities, and the nearest prototypes of the first search for them; the least seconds of a query."""
        from threadpoolctl import threadpool_limits

        times: list[float] = []
        with threadpool_limits(1):
            while len(times) < PASSES and sum(times) < PASS_SECONDS:
                noting = _Noting(index)
                # Of the processor: that of the clock depends on who else is at work.
                start = time.process_time()
                result = self._kb.search_with(noting, self._queries, self._k)
                times.append(time.process_time() - start)
        assert noting.first is not None
        self._scaled, scores, rows = noting.first
        return result, scores, rows, min(times) / len(self._queries)


class _Noting:
    """An index that notes its first search, of several that entities may take."""

    def __init__(self, index: VectorIndex) -> None:
        self._index = index
        self.first: tuple[Vectors, Scores, Rows] | None = None

    def search(self, queries: Vectors, k: int, allowed: Mask | None = None) -> tuple[Scores, Rows]:
        scores, rows = self._index.search(queries, k, allowed)
        self.first = self.first or (queries, scores, rows)
        return scores, rows


def _built(
    type_: str, vectors: Vectors, centroids: Vectors | None, path: Path, clock: _Clock, progress: bool
) -> tuple[FaissIndex, float]:
    """An index of the `vectors`, its files at `path` mapped, and the seconds that it took. Raises OutOfTime."""
    index = FaissIndex(type_, **BUILT[type_])
    with progress_bar(show=progress, total=len(vectors), desc=f"{type_}, vectors", unit=" vectors") as bar:

        def added(number: int) -> None:
            bar.update(number)
            clock.check()

        clock.check()
        index.on_added = added
        start = time.perf_counter()
        index.build(vectors, centroids)
        seconds = time.perf_counter() - start
    index.to_disk(path)
    return _opened(index.settings, path, vectors), seconds


def _widening(type_: str, tuning: Tuning, clock: _Clock) -> Iterator[dict[str, int]]:
    """Settings to search with; whoever asks adds the trial of each before the next. Raises OutOfTime."""
    for settings_of_run in searches(type_):
        before = float("inf")
        for settings in settings_of_run:
            clock.check()
            yield settings
            last = tuning.trials[-1]
            # A search that is too narrow may be slow, too: where it runs dry, all prototypes are compared.
            slower = last.seconds >= max(before, tuning.chosen.seconds)
            if last.found() >= tuning.wanted or slower:
                break
            before = last.seconds


def _made(trial: Trial, folder: Path, vectors: Vectors) -> VectorIndex:
    if trial.kind == ExactIndex.kind:
        index = ExactIndex()
        index.build(vectors)
        return index
    return _opened(trial.settings, folder / trial.settings["type"], vectors)


def _opened(settings: dict[str, Any], path: Path, vectors: Vectors) -> FaissIndex:
    index = FaissIndex(**settings)
    index.from_disk(path, vectors)
    return index


def _mib(path: Path) -> float:
    return sum(file_.stat().st_size for file_ in path.iterdir()) / 2**20


def tuning_lines(tuning: Tuning) -> Iterator[str]:
    """A row for each trial, the chosen one marked, and a line for what was not tried."""
    k = tuning.k
    yield (
        f"| index | search | prototypes R@1 | R@{k} | entities R@1 | R@{k} | ms a query | × exact | MiB | built in, s |"
    )
    yield "| --- | --- |" + " ---: |" * 8
    for trial in tuning.trials:
        name, search = _named(trial)
        mark = "**" if trial == tuning.chosen else ""
        shares = [f"{share:.4f}" for share in (trial.recall, trial.recall_k, trial.entities, trial.entities_k)]
        cells = [
            f"{mark}{name}{mark}",
            search,
            *shares,
            f"{trial.seconds * 1000:.3f}",
            f"{trial.ratio:,.1f}",
            f"{trial.mib:,.0f}",
            f"{trial.build_seconds:,.0f}",
        ]
        yield f"| {' | '.join(cells)} |"
    for type_, reason in tuning.left_out.items():
        yield f"Not tried, or not all of it: {type_} ({reason})"


def _named(trial: Trial) -> tuple[str, str]:
    settings = dict(trial.settings)
    name = settings.pop("type", trial.kind)
    name += " float16" if settings.pop("float16", False) else ""
    return name, ", ".join(f"{key} {settings[key]}" for key in ("nprobe", "ef_search", "refine") if key in settings)


# Neighbours of a vector among which the nearest other one is sought.
NEIGHBOURS = 8
# Vectors as near as this, relative to their length, are of one name that several entities share.
SAME = 1e-2


def near_vectors(kb: PrototypeKB, n: int, seed: int = 0) -> Vectors:
    """`n` vectors (n, d) float32 near prototypes drawn by seed, each as far from its own as the nearest other one is.

    So a new mention of an entity lies, of which nothing is known but how its prototypes lie to one another. Raises
    KrisselError K520 (empty).
    """
    kb.check_filled()
    rng = np.random.default_rng(seed)
    rows = np.sort(rng.choice(kb.n_prototypes, min(n, kb.n_prototypes), replace=False))
    vectors = kb.vectors[rows].astype(np.float32)
    index = ExactIndex()
    index.build(kb.vectors)
    _, nearest = index.search(vectors, min(NEIGHBOURS, kb.n_prototypes))
    others = kb.vectors[nearest].astype(np.float32)  # (n, neighbours, d)
    distances = np.linalg.norm(others - vectors[:, None], axis=2)
    distances[distances <= SAME * np.linalg.norm(vectors, axis=1, keepdims=True)] = np.inf
    distance = distances.min(axis=1)
    known = distance[np.isfinite(distance)]
    distance[~np.isfinite(distance)] = np.median(known) if len(known) else 0.0
    noise = rng.standard_normal(vectors.shape, dtype=np.float32)
    noise *= (distance / np.linalg.norm(noise, axis=1))[:, None]
    return vectors + noise
