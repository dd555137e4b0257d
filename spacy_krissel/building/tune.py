"""Choice of a knowledge base's index by measurements."""

import shutil
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import numpy as np
from pydantic import Field

from ..errors import wrong_setting
from ..index.exact import BLOCK_ROWS, Block, ExactIndex, rescored, search_blocks
from ..index.faiss_index import FaissIndex
from ..index.protocol import Rows, Scores, VectorIndex, Vectors
from ..kb.prototype_kb import PrototypeKB
from ..kb.prototype_table import MENTION_KINDS, PrototypeTable
from ..kb.ranking import MIN_RETRIEVED, PER_ENTITY, search_entities
from ..kb.ties import tie_bound
from ..util.progress import progress_bar
from ..util.settings import PositiveInt, checked


class Plan(NamedTuple):
    """Settings to try for a type of index.

    built: settings to build with. width, widths: the setting that widens a search, and its values,
        narrowest first.
    refine: further values, each tried with all widths.
    """

    built: dict[str, Any]
    width: str
    widths: Sequence[int]
    refine: Sequence[int] = ()

    def searches(self) -> Iterator[list[dict[str, int]]]:
        """Return lists of search settings, each list from narrow to wide."""
        for extra in [{"refine": refine} for refine in self.refine] or [{}]:
            yield [{self.width: width, **extra} for width in self.widths]


NPROBE = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512)
# Fastest to build first.
PLANS = {
    "ivf": Plan({"float16": True}, "nprobe", NPROBE),
    "ivf_sq8": Plan({}, "nprobe", NPROBE, (1, 2)),
    "ivf_pq": Plan({}, "nprobe", NPROBE, (1, 2, 4, 8)),
    "hnsw": Plan({"float16": True}, "ef_search", (16, 32, 64, 128, 256, 512)),
}
# A search is timed this often, or up to this time in total; the minimum counts.
PASSES, PASS_SECONDS = 3, 5.0
# Default target recall, and number of entities per search.
RECALL, N_SEARCHED = 0.99, 16
Recall = Annotated[float, Field(gt=0, le=1)]


@dataclass(frozen=True)
class Trial:
    """Measurements of one index with one search.

    recall, recall_k: of the nearest prototypes, the first and the first k; one counts if it is as
        near as the exact index's, since equal ones are found in any order.
    entities, entities_k: of the nearest entities, by their ids.
    seconds: of a core for one query among many, entities included; on a card, by the clock.
    ratio: speed relative to the exact index.
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

    def min_recall(self) -> float:
        """Return the lower of the two recalls at 1."""
        return min(self.recall, self.entities)


@dataclass
class Tuning:
    """All trials, the exact index first, and the chosen one: the fastest with the target recall."""

    k: int
    queries: int
    wanted: float
    trials: list[Trial] = field(default_factory=list)

    @property
    def chosen(self) -> Trial:
        good = [trial for trial in self.trials if trial.min_recall() >= self.wanted]
        return min(good or self.trials[:1], key=lambda trial: trial.seconds)

    def summary(self, prototypes: int) -> dict[str, Any]:
        """Return the measurements of the chosen index for a manifest.

        prototypes: number of prototypes.
        """
        measured = asdict(self.chosen)
        del measured["kind"], measured["settings"]
        return {
            **measured,
            "k": self.k,
            "queries": self.queries,
            "wanted": self.wanted,
            "prototypes": prototypes,
        }


@checked
def tune(
    kb: PrototypeKB,
    queries: Vectors,
    folder: Path,
    *,
    recall: Recall = RECALL,
    k: PositiveInt = N_SEARCHED,
    types: Sequence[str] | None = None,
    index_device: str | None = None,
    progress: bool = False,
) -> tuple[Tuning, VectorIndex]:
    """Measure indexes of the knowledge base's vectors, without changing it.

    queries: vectors (q, d) to search with. folder: an empty one for the built indexes.
    recall: minimum recall of the nearest prototype and the nearest entity, 0 to 1.
    k: number of entities searched for. types: of FAISS index; None: all that the device takes.
    index_device: Where indexes are built and measured: cpu, cuda:0 or cuda:all; default: as the
        knowledge base says, else cpu

    Each index is built once. Its searches go from narrow to wide until one reaches the recall, or
    they become slower than one that did. RETURNS: the measurements, and the chosen index, its files
    in the folder mapped.
    Raises KrisselError K006 (an invalid recall, a type that is unknown or refused by the device),
    K501 (no FAISS) and the errors of `kb.search`.
    """
    kb.check_filled()
    device = index_device or kb.index_device or "cpu"
    if types is None:
        types = [each for each in PLANS if device == "cpu" or each != "hnsw"]
    for type_ in types:
        if type_ not in PLANS:
            raise wrong_setting("type", type_, f"one of {', '.join(PLANS)}")
        _empty(type_, device)
    measure = _Measure(kb, kb.queries(queries), k, device)
    tuning = Tuning(k=k, queries=len(queries), wanted=recall, trials=[measure.exact])
    centroids: Vectors | None = None
    for type_ in (each for each in PLANS if each in types):
        path = folder / type_
        path.mkdir()
        index, build_seconds = _build_index(type_, device, kb.vectors, centroids, path, progress)
        mib = sum(file_.stat().st_size for file_ in path.iterdir()) / 2**20
        # Shared by all: k-means is most of the work.
        centroids = index.centroids() if centroids is None else centroids
        with progress_bar(show=progress, desc=f"{type_}, searches", unit=" searches") as bar:
            for settings in _widening(type_, tuning):
                index.set_search(**settings)
                tuning.trials.append(measure(index, build_seconds, mib))
                bar.update(1)
        if tuning.chosen.settings.get("type") != type_:
            # Unused from here on, and gigabytes in size.
            shutil.rmtree(path)
    chosen = tuning.chosen
    if chosen.kind == ExactIndex.kind:
        return tuning, measure.index
    return tuning, _open_index(
        chosen.settings, device, folder / chosen.settings["type"], kb.vectors
    )


class _Measure:
    """Measures trials against the exact index with the same queries."""

    def __init__(self, kb: PrototypeKB, queries: Vectors, k: int, device: str) -> None:
        self._prototypes = kb.prototypes
        self._queries = queries
        self._k = k
        self._on_card = device != "cpu"
        # Processor time on a core, since the clock's depends on other processes.
        self._clock = time.perf_counter if self._on_card else time.process_time
        self.index = ExactIndex(device)
        self.index.build(kb.vectors)
        self._entities, self._scores, _, self._seconds = self._time_search(self.index)
        self.exact = Trial(
            self.index.kind, self.index.settings, 1.0, 1.0, 1.0, 1.0, self._seconds, 1.0, 0.0, 0.0
        )

    def __call__(self, index: VectorIndex, build_seconds: float, mib: float) -> Trial:
        entities, _, rows, seconds = self._time_search(index)
        k = min(self._k, len(self._prototypes))
        # Some indexes round their scores.
        scores, _ = rescored([self._prototypes.vectors], self._queries, rows[:, :k], k)
        common = [
            np.isin(b[b >= 0], a).sum() for a, b in zip(entities, self._entities, strict=True)
        ]
        return Trial(
            index.kind,
            index.settings,
            recall=float(np.mean(scores[:, 0] >= tie_bound(self._scores[:, 0]))),
            recall_k=float(np.mean(scores >= tie_bound(self._scores[:, k - 1 : k]))),
            entities=float(np.mean(entities[:, 0] == self._entities[:, 0])),
            entities_k=float(np.sum(common) / np.sum(self._entities >= 0)),
            seconds=seconds,
            ratio=self._seconds / seconds,
            mib=mib,
            build_seconds=build_seconds,
        )

    def _time_search(self, index: VectorIndex) -> tuple[Rows, Scores, Rows, float]:
        """Return entities (q, k), scores and rows of the nearest prototypes, and seconds per query.

        The seconds are the minimum over the passes.
        """
        from threadpoolctl import threadpool_limits

        times: list[float] = []
        if self._on_card:
            # The first search moves the index to the card.
            index.search(self._queries[:1], 1)
        with threadpool_limits(1):
            while len(times) < PASSES and sum(times) < PASS_SECONDS:
                start = self._clock()
                result = search_entities(index, self._prototypes, self._queries, self._k, None)
                times.append(self._clock() - start)
            # The number of prototypes that a search for entities retrieves first.
            wanted = min(len(self._prototypes), max(MIN_RETRIEVED, PER_ENTITY * self._k))
            scores, rows = index.search(self._queries, wanted)
        return result.entities, scores, rows, min(times) / len(self._queries)


def _empty(type_: Any, device: str) -> FaissIndex:
    """Return an empty index. Raises KrisselError K006 for a type that the device refuses."""
    return FaissIndex(type_, device=device, **PLANS[type_].built)


def _build_index(
    type_: str, device: str, vectors: Vectors, centroids: Vectors | None, path: Path, progress: bool
) -> tuple[FaissIndex, float]:
    """Build an index of the `vectors`, with its files at `path` mapped.

    RETURNS: the index and the seconds that it took.
    """
    index = _empty(type_, device)
    with progress_bar(
        show=progress, total=len(vectors), desc=f"{type_}, vectors", unit=" vectors"
    ) as bar:
        index.on_added = bar.update
        start = time.perf_counter()
        index.build(vectors, centroids)
        seconds = time.perf_counter() - start
    index.to_disk(path)
    return _open_index(index.settings, device, path, vectors), seconds


def _widening(type_: str, tuning: Tuning) -> Iterator[dict[str, int]]:
    """Yield search settings; the caller adds the trial of each before the next."""
    for settings_of_run in PLANS[type_].searches():
        before = float("inf")
        for settings in settings_of_run:
            yield settings
            last = tuning.trials[-1]
            # A too narrow search may be slow as well: if it ends early, all prototypes are
            # compared.
            slower = last.seconds >= max(before, tuning.chosen.seconds)
            if last.min_recall() >= tuning.wanted or slower:
                break
            before = last.seconds


def _open_index(settings: dict[str, Any], device: str, path: Path, vectors: Vectors) -> FaissIndex:
    index = FaissIndex(**settings, device=device)
    index.from_disk(path, vectors)
    return index


def tuning_lines(tuning: Tuning) -> Iterator[str]:
    """Yield a Markdown table with a row per trial, the chosen one in bold."""
    k = tuning.k
    yield (
        f"| index | search | prototypes R@1 | R@{k} | entities R@1 | R@{k} "
        "| ms per query | × exact | MiB | built in, s |"
    )
    yield "| --- | --- |" + " ---: |" * 8
    for trial in tuning.trials:
        name, search = _named(trial)
        mark = "**" if trial == tuning.chosen else ""
        recalls = [
            f"{recall:.4f}"
            for recall in (trial.recall, trial.recall_k, trial.entities, trial.entities_k)
        ]
        cells = [
            f"{mark}{name}{mark}",
            search,
            *recalls,
            f"{trial.seconds * 1000:.3f}",
            f"{trial.ratio:,.1f}",
            f"{trial.mib:,.0f}",
            f"{trial.build_seconds:,.0f}",
        ]
        yield f"| {' | '.join(cells)} |"


def _named(trial: Trial) -> tuple[str, str]:
    settings = dict(trial.settings)
    name = settings.pop("type", trial.kind)
    name += " float16" if settings.pop("float16", False) else ""
    return name, ", ".join(
        f"{key} {settings[key]}" for key in ("nprobe", "ef_search", "refine") if key in settings
    )


# Number of neighbours of a vector that are searched for the nearest distinct one.
NEIGHBOURS = 8
# Vectors within this distance, relative to their length, belong to one shared name.
SAME_DISTANCE = 1e-2


def near_vectors(kb: PrototypeKB, n: int, seed: int = 0) -> Vectors:
    """Return `n` vectors (n, d) float32 near the prototypes drawn by seed.

    Each is as far from its prototype as the nearest distinct prototype. They simulate new mentions,
    which lie near prototypes that are mentions, without the added references
    (`PrototypeTable.base_vectors`). Raises KrisselError K520 (empty).
    """
    kb.check_filled()
    rng = np.random.default_rng(seed)
    prototypes = kb.prototypes
    rows = prototypes.rows_of_kinds(MENTION_KINDS)
    rows = rows if len(rows) else np.arange(kb.n_prototypes)
    drawn = np.sort(rng.choice(rows, min(n, len(rows)), replace=False))
    vectors = prototypes.base_vectors(drawn)
    # The highest q·c - |c|²/2 is the nearest c, whatever its length.
    queries = np.hstack([vectors, np.ones((len(vectors), 1), np.float32)])
    _, nearest = search_blocks(
        _with_half_norms(prototypes, rows), queries, min(NEIGHBOURS, len(rows))
    )
    # (n, neighbours, d)
    others = prototypes.base_vectors(nearest.ravel()).reshape(*nearest.shape, -1)
    distances = np.linalg.norm(others - vectors[:, None], axis=2)
    distances[distances <= SAME_DISTANCE * np.linalg.norm(vectors, axis=1, keepdims=True)] = np.inf
    distance = distances.min(axis=1)
    known = distance[np.isfinite(distance)]
    distance[~np.isfinite(distance)] = np.median(known) if len(known) else 0.0
    noise = rng.standard_normal(vectors.shape, dtype=np.float32)
    noise *= (distance / np.linalg.norm(noise, axis=1))[:, None]
    return vectors + noise


def _with_half_norms(prototypes: PrototypeTable, rows: Rows) -> Iterator[Block]:
    """Yield the vectors c of the prototypes at `rows`, with -|c|²/2 appended.

    Blocks are (b, d + 1) float32.
    """
    for start in range(0, len(rows), BLOCK_ROWS):
        block = rows[start : start + BLOCK_ROWS]
        own = prototypes.base_vectors(block)
        yield block, np.hstack([own, -0.5 * np.sum(own * own, axis=1, keepdims=True)])
