"""FAISS: flat, HNSW and IVF indexes on the CPU, flat and IVF on CUDA devices; saved in CPU form.

IVF with coded vectors (SQ8, PQ) retrieves more than it returns, and re-scores the results by their
vectors. An IVF list contains the vectors nearest to its centroid by distance, but is searched by
inner product, so vectors may have any length.
"""

import errno
import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, Literal

import numpy as np

from ..errors import Errors, KrisselError, wrong_setting
from ..util.disk import disk_error
from ..util.lock import Lock
from ..util.settings import Count, PositiveInt, checked, factory_for
from . import devices
from .devices import check_device, warn_cpu
from .exact import BLOCK_ROWS, rescored, search_blocks, vectors_at
from .faiss_cards import (
    ADD_ROWS,
    CARD_PQ_BYTES,
    MAX_SELECTED,
    PQ_BYTES,
    FaissCards,
    cards_problem,
    parts_of,
)
from .protocol import Mask, Rows, Scores, Vectors, check_mask, check_queries, check_vectors

FILE = "index.faiss"
# Number of vectors compared in the time of a filtered search: of a graph per unit of its width, of
# lists per vector in them (`benchmarks/index_filters.py`). Copying one vector first takes the time
# of PER_COPY comparisons.
PER_WIDTH, PER_LISTED, PER_COPY = 190, 3, 20
# Default settings of each type. `nlist` 0 means four times the root of the number of vectors,
# `pq_bytes` 0 half the width (on cards at most 48), `refine` 0 no re-scoring.
DEFAULTS: dict[str, dict[str, int]] = {
    "flat": {},
    "hnsw": {"m": 16, "ef_construction": 200, "ef_search": 64},
    "ivf": {"nlist": 0, "nprobe": 16},
    "ivf_sq8": {"nlist": 0, "nprobe": 16, "refine": 2},
    "ivf_pq": {"nlist": 0, "nprobe": 16, "pq_bytes": 0, "refine": 4},
}
# Settings that may change after an index was built.
SEARCH_SETTINGS = ("ef_search", "nprobe", "refine")
# k-means needs at least 39 vectors per list (or code) and uses at most 256.
MIN_TRAIN, MAX_TRAIN = 39, 256
# With many lists it uses fewer vectors per list: the time of k-means grows with their product.
MANY_TRAIN, MAX_TRAIN_OF_MANY = 2**18, 64
# Number of codes of a byte.
CODES = 256


@checked
class FaissIndex:
    """Index of the FAISS library, memory-mapped when loaded if the library supports it.

    Needs the extra `spacy-krissel[cpu]` or `spacy-krissel[gpu]`.

    type: "flat" (exact), "hnsw" (a graph; the fastest for 100,000 vectors or fewer), "ivf" (lists
        around centroids), and with vectors coded in one byte per value "ivf_sq8", or in fewer
        "ivf_pq" (product quantisation).
    device: "cpu", "cuda", "cuda:N", or "cuda:all" (sharded over all cards); HNSW runs on the CPU
        only. IVF indexes are also filled there. Without that device, or if it cannot take the codes
        of a saved index, the index warns (KW503) and searches on the CPU. Searches with a filter
        and those for more than 2,048 results run on the CPU.
    float16: store the vectors in half the space.
    m: HNSW's links per vector.
    ef_construction, ef_search: width of HNSW's search when building and when searching.
    nlist: IVF's number of lists; 0: four times the root of the number of vectors.
    nprobe: number of lists that an IVF search reads; at most 2,048 on cards.
    pq_bytes: bytes per code of "ivf_pq", a divisor of the width; 0: half the width, on cards at
        most 48. Cards take 1, 2, 3, 4, 8, 12, 16, 20, 24, 28, 32, 40, 48, 56, 64 or 96.
    refine: this many times the requested results are found by codes and re-scored by their vectors;
        0: codes alone.
    """

    kind = "faiss"
    owns_vectors = True

    def __init__(
        self,
        type: Literal["flat", "hnsw", "ivf", "ivf_sq8", "ivf_pq"] = "hnsw",
        device: str = "cpu",
        float16: bool = False,
        m: PositiveInt | None = None,
        ef_construction: PositiveInt | None = None,
        ef_search: PositiveInt | None = None,
        nlist: Count | None = None,
        nprobe: PositiveInt | None = None,
        pq_bytes: Count | None = None,
        refine: Count | None = None,
    ) -> None:
        settings = {
            "m": m,
            "ef_construction": ef_construction,
            "ef_search": ef_search,
            "nlist": nlist,
        }
        settings.update(nprobe=nprobe, pq_bytes=pq_bytes, refine=refine)
        self.device = check_device(device)
        self._own = _type_settings(type, device, float16, settings)
        self.type = type
        self.float16 = float16
        self._ivf = type.startswith("ivf")
        # For coded indexes, the vectors that re-score the results, in consecutive arrays.
        self._stored: list[Vectors] | None = None
        # Called with the number of vectors added, block by block; an exception from it ends a
        # build.
        self.on_added: Callable[[int], None] | None = None
        self._index: Any = None
        self._mapped = False
        self._read_from: Path | None = None
        self._gpu_index: Any = None
        self._cards: FaissCards | None = None
        self._gpu_lock = Lock()

    @property
    def settings(self) -> dict[str, Any]:
        return {"type": self.type, "float16": self.float16, **self._own}

    def can_read(self, settings: dict[str, Any]) -> bool:
        own = self.settings
        return all(
            settings.get(name) == own.get(name) for name in {*settings, *own} - {*SEARCH_SETTINGS}
        )

    def __len__(self) -> int:
        return self._index.ntotal if self._index is not None else 0

    def __getstate__(self) -> dict[str, Any]:
        state = {
            **self.__dict__,
            "_gpu_index": None,
            "_cards": None,
            "_mapped": False,
            "on_added": None,
        }
        if self._stored is not None:
            state["_stored"] = [np.concatenate(self._stored)]
        if self._index is not None:
            state["_index"] = _faiss().serialize_index(self._index)
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        if self._index is not None:
            self._index = _faiss().deserialize_index(self._index)

    def __copy__(self) -> "FaissIndex":
        """Return a copy that grows on its own; the vectors used for re-scoring are shared."""
        copied = FaissIndex(self.type, self.device, self.float16, **self._own)
        copied.on_added = self.on_added
        if self._index is not None:
            faiss = _faiss()
            copied._set_index(
                faiss.deserialize_index(faiss.serialize_index(self._index)), mapped=False
            )
        if self._stored is not None:
            copied._stored = list(self._stored)
        return copied

    def build(self, vectors: Vectors, centroids: Vectors | None = None) -> None:
        """Build the index.

        centroids: those of another IVF index of the same vectors with as many lists, which saves
            the time to find them.
        """
        faiss = _faiss()
        vectors = check_vectors(vectors, None, "vectors")
        if not len(vectors):
            raise KrisselError(Errors.K508)
        n, width = vectors.shape
        on_card = self.device != "cpu"
        name = factory_string(self.type, self.float16, self._own, n, width, on_card)
        index = faiss.index_factory(width, name, faiss.METRIC_INNER_PRODUCT)
        if self.type == "hnsw":
            index.hnsw.efConstruction = self._own["ef_construction"]
        if self._ivf and centroids is not None and centroids.shape == (index.nlist, width):
            index.quantizer.add(centroids)
        self._gpu_index = None
        if self._ivf and self._is_on_cards(index):
            # Kept in a variable, since FAISS keeps only a bare pointer.
            clustering_index = self._on_cards().clone(faiss.IndexFlatL2(width))
            index.clustering_index = clustering_index
        if self._ivf:
            index.cp.spherical = False
        with self._by_distance(index):
            index.train(_training_sample(vectors, training_rows(getattr(index, "nlist", 1))))
        if self._ivf:
            index.clustering_index = None
        self._set_index(index, mapped=False)
        self._stored = [] if "refine" in self._own else None
        self._extend(vectors)

    def add(self, vectors: Vectors) -> None:
        if self._index is None:
            self.build(vectors)
            return
        self._extend(check_vectors(vectors, self._index.d, "vectors"))

    def search(self, queries: Vectors, k: int, allowed: Mask | None = None) -> tuple[Scores, Rows]:
        faiss = _faiss()
        if self._index is None:
            raise KrisselError(Errors.K508)
        queries = check_queries(queries, self._index.d)
        if not len(queries) or not k:
            return np.zeros((len(queries), k), dtype=np.float32), np.zeros(
                (len(queries), k), dtype=np.int64
            )
        if allowed is not None:
            return self._search_allowed(faiss, queries, k, check_mask(allowed, len(self), "vector"))
        wanted = self._wanted(k)
        if wanted <= MAX_SELECTED and self._is_on_cards(self._index):
            # FAISS's resources on a card serve one search at a time.
            with self._gpu_lock:
                found = self._gpu_form().search(queries, wanted)
        else:
            index = self._index
            # Keep a reference to the index: FAISS frees its vectors with it.
            found = (index.storage if self._is_small() else index).search(queries, wanted)
        return self._rescored(queries, k, *found)

    def centroids(self) -> Vectors | None:
        """Return the centroids of an IVF index (nlist, d), None for other types."""
        return (
            self._index.quantizer.reconstruct_n(0, self._index.nlist)
            if self._ivf and self._index
            else None
        )

    def set_search(self, **settings: int) -> None:
        """Set search settings: "ef_search", "nprobe" and "refine", as far as the type has them.

        Raises KrisselError K006 for others, which affect how an index is built.
        """
        for name, value in settings.items():
            if name not in SEARCH_SETTINGS:
                expected = (
                    f"one of {', '.join(SEARCH_SETTINGS)}, which can change after an index was "
                    "built"
                )
                raise wrong_setting(name, value, expected)
        self._own = FaissIndex(
            self.type, self.device, self.float16, **{**self._own, **settings}
        )._own
        if self._index is not None:
            self._set_index(self._index, mapped=self._mapped, gpu_index=self._gpu_index)

    def to_disk(self, directory: Path) -> None:
        if self._index is None:
            raise KrisselError(Errors.K508)
        path = directory / FILE
        try:
            _faiss().write_index(self._index, str(path))
        except RuntimeError as error:
            # FAISS does not say why the disk refused; it may be full.
            raise disk_error(OSError(errno.ENOSPC, str(error)), path) from error

    def from_disk(self, directory: Path, vectors: Vectors) -> None:
        faiss = _faiss()
        # Older versions map only IVF lists, and then save them as a reference to the file: those
        # are read whole.
        mapping = getattr(faiss, "IO_FLAG_MMAP_IFC", 0)
        rows, width = vectors.shape
        problem: Any = ""
        try:
            index = faiss.read_index(str(directory / FILE), mapping)
        except RuntimeError as error:
            problem = error
        else:
            if index.ntotal != rows or index.d != width:
                problem = f"it holds {index.ntotal} vectors of width {index.d}"
            elif self.type == "hnsw" and not _is_sound_graph(faiss, index.hnsw, rows):
                problem = "the entry point of its graph is not a vector, or on a missing level"
        if problem:
            raise KrisselError(
                Errors.K506.format(path=directory, problem=problem, rows=rows, width=width)
            )
        self._set_index(index, mapped=bool(mapping))
        self._read_from = directory
        self._stored = [vectors] if "refine" in self._own else None

    def _set_index(self, index: Any, mapped: bool, gpu_index: Any = None) -> None:
        devices.guard_forks()
        if self.type == "hnsw":
            index.hnsw.efSearch = self._own["ef_search"]
        if self._ivf:
            for each in (index, *self._parts(gpu_index)):
                each.nprobe = self._own["nprobe"]
        if hasattr(index, "use_precomputed_table"):
            # A table of distances, which nothing reads.
            index.use_precomputed_table = -1
        self._index = index
        self._mapped = mapped
        self._gpu_index = gpu_index

    def _extend(self, vectors: Vectors) -> None:
        faiss = _faiss()
        # Many vectors are added on the cards and the CPU form is copied from there: assigning a
        # vector to one of many lists takes a core milliseconds. Few are added to both forms.
        is_many = self._ivf and (not len(self) or len(vectors) >= ADD_ROWS)
        fills_cards = is_many and self._is_on_cards(self._index)
        if fills_cards:
            # Not yet this index's form: the build may be interrupted before it is full.
            forms, self._gpu_index = [self._gpu_form()], None
        else:
            if self._mapped:
                # A mapped index cannot grow (FAISS ends the process): it is copied into memory.
                copied = faiss.deserialize_index(faiss.serialize_index(self._index))
                self._set_index(copied, mapped=False, gpu_index=self._gpu_index)
            # Flat indexes on several cards cannot grow.
            grows_there = self._ivf and not devices.cuda_lost()
            self._gpu_index = self._gpu_index if grows_there else None
            forms = [self._index] if self._gpu_index is None else [self._index, self._gpu_index]
        for start in range(0, len(vectors), ADD_ROWS):
            block = np.ascontiguousarray(vectors[start : start + ADD_ROWS], dtype=np.float32)
            for form in forms:
                with self._by_distance(form):
                    form.add(block)
            if self.on_added is not None:
                self.on_added(len(block))
        if fills_cards:
            self._set_index(faiss.index_gpu_to_cpu(forms[0]), mapped=False, gpu_index=forms[0])
        if self._stored is not None:
            self._stored.append(vectors)

    @contextmanager
    def _by_distance(self, index: Any) -> Iterator[None]:
        """Assign vectors to the nearest centroid, not to lists of longer vectors, as by inner
        product.

        An index on a card has its own quantizer, which searches by its own `metric_type`.
        """
        faiss = _faiss()
        quantizers = [each.quantizer for each in self._parts(index)] if self._ivf else []
        try:
            for each in quantizers:
                each.metric_type = faiss.METRIC_L2
            yield
        finally:
            for each in quantizers:
                each.metric_type = faiss.METRIC_INNER_PRODUCT

    def _parts(self, index: Any) -> list[Any]:
        return [] if index is None else parts_of(_faiss(), index)

    def _search_allowed(
        self, faiss: Any, queries: Vectors, k: int, allowed: Mask
    ) -> tuple[Scores, Rows]:
        """Search among the allowed rows, in the CPU form: GPU indexes have no filter."""
        rows = np.flatnonzero(allowed)
        # Only this fraction of the visited vectors counts, so the search must be wider by its
        # inverse.
        wider = len(allowed) / max(1, len(rows))
        ef_search = math.ceil(max(self._own.get("ef_search", 0), k) * wider)
        nprobe = math.ceil(self._own.get("nprobe", 0) * wider)
        # Comparing all of a few vectors is faster and exact.
        if self.type == "hnsw":
            few = PER_WIDTH * ef_search
        elif self._stored is not None:
            few = PER_LISTED * len(self) * nprobe // self._index.nlist
        else:
            few = 0 if self._ivf else len(self) // 20
        if len(rows) * (1 + PER_COPY / len(queries)) <= few:
            at = (
                self._index.reconstruct_batch
                if self._stored is None
                else partial(vectors_at, self._stored)
            )
            blocks = (rows[start : start + BLOCK_ROWS] for start in range(0, len(rows), BLOCK_ROWS))
            return search_blocks(((block, at(block)) for block in blocks), queries, k)
        selector = faiss.IDSelectorBitmap(np.packbits(allowed, bitorder="little"))
        if self.type == "hnsw":
            parameters = faiss.SearchParametersHNSW(
                sel=selector, efSearch=min(ef_search, len(self))
            )
        elif self._ivf:
            parameters = faiss.SearchParametersIVF(
                sel=selector, nprobe=min(self._index.nlist, nprobe)
            )
        else:
            parameters = faiss.SearchParameters(sel=selector)
        return self._rescored(
            queries, k, *self._index.search(queries, self._wanted(k), params=parameters)
        )

    def _wanted(self, k: int) -> int:
        """Return the number of rows to request from the index."""
        return (
            min(len(self), k * self._own["refine"])
            if self._own.get("refine") and k < len(self)
            else k
        )

    def _is_small(self) -> bool:
        """Return whether a graph has no more vectors than one search of it may compare.

        Then comparing all costs little more and misses none. A graph of few vectors may miss some:
        vectors of gold mentions are longer than others, attract the links, and cut off vectors
        without other links.
        """
        return self.type == "hnsw" and len(self) <= 2 * self._own["m"] * self._own["ef_search"]

    def _rescored(
        self, queries: Vectors, k: int, scores: Scores, rows: Rows
    ) -> tuple[Scores, Rows]:
        """Return the best `k` of the results of the index.

        scores, rows: (q, w), with FAISS's padding.

        Raises KrisselError K506 for invalid rows, as in a damaged file that was not verified.
        """
        if rows.size and not -1 <= rows.min() <= rows.max() < len(self):
            problem = f"a search found the rows {rows.min()} to {rows.max()} in it"
            of = {"rows": len(self), "width": queries.shape[1]}
            raise KrisselError(Errors.K506.format(path=self._read_from, problem=problem, **of))
        if self._stored is not None and self._own["refine"]:
            return rescored(self._stored, queries, rows, k)
        # FAISS pads with the lowest float.
        scores[rows < 0] = -np.inf
        return scores, rows

    def _is_on_cards(self, index: Any) -> bool:
        """Return whether cards search and fill the CPU index. Warns if they cannot (KW503)."""
        if self.device == "cpu" or devices.cuda_lost():
            return False
        if self._gpu_index is not None:
            return True
        if problem := cards_problem(_faiss(), self.device, index):
            warn_cpu(self.device, problem)
        return not problem

    def _on_cards(self) -> FaissCards:
        self._cards = self._cards or FaissCards(_faiss(), self.device)
        return self._cards

    def _gpu_form(self) -> Any:
        if self._gpu_index is None:
            cards = self._on_cards()
            in_blocks = self.type == "flat" and self.float16
            self._gpu_index = (cards.flat_float16 if in_blocks else cards.clone)(self._index)
        return self._gpu_index


def _faiss() -> Any:
    try:
        import faiss
    # A shared library that fails to load raises any of these.
    except (ImportError, OSError, RuntimeError) as error:
        if isinstance(error, ModuleNotFoundError) and error.name == "faiss":
            raise KrisselError(Errors.K501.format(kind=FaissIndex.kind)) from None
        raise KrisselError(Errors.K509.format(problem=error)) from error
    return faiss


def _is_sound_graph(faiss: Any, graph: Any, rows: int) -> bool:
    """Return whether the entry point of the graph is at its highest level, as FAISS assumes.

    From another entry point a search may not terminate.
    """
    levels = faiss.vector_to_array(graph.levels)
    if len(levels) != rows or not rows:
        return len(levels) == rows
    return (
        0 <= graph.entry_point < rows
        and graph.max_level + 1 == levels[graph.entry_point] == levels.max()
    )


def _training_sample(vectors: Vectors, max_rows: int) -> Vectors:
    if len(vectors) > max_rows:
        chosen = np.random.default_rng(0).choice(len(vectors), max_rows, replace=False)
        vectors = vectors[np.sort(chosen)]
    return np.ascontiguousarray(vectors, dtype=np.float32)


def _type_settings(
    type: str, device: str, float16: bool, settings: dict[str, int | None]
) -> dict[str, int]:
    """Return the settings of this type of index: those given, and the defaults.

    Raises KrisselError K006.
    """
    given = {name: value for name, value in settings.items() if value is not None}
    wrong: tuple[str, Any, str] | None = None
    if unknown := sorted(set(given) - set(DEFAULTS[type])):
        known = ", ".join(DEFAULTS[type]) or "none"
        wrong = (
            unknown[0],
            given[unknown[0]],
            f"nothing: it is not a setting of a {type!r} index (these are: {known})",
        )
    elif type == "hnsw" and device != "cpu":
        wrong = (
            "device",
            device,
            "'cpu' with type 'hnsw'; for a CUDA device choose 'flat' or one of the 'ivf' types",
        )
    elif device != "cpu" and given.get("nprobe", 0) > MAX_SELECTED:
        wrong = "nprobe", given["nprobe"], f"{MAX_SELECTED} or less with device {device!r}"
    elif device != "cpu" and given.get("pq_bytes") and given["pq_bytes"] not in CARD_PQ_BYTES:
        sizes = ", ".join(map(str, CARD_PQ_BYTES))
        expected = f"a size that cards take ({sizes}) with device {device!r}"
        wrong = "pq_bytes", given["pq_bytes"], expected
    elif float16 and type in ("ivf_sq8", "ivf_pq"):
        wrong = (
            "float16",
            float16,
            f"False with type {type!r}, which holds the vectors in less than half the space",
        )
    if wrong:
        setting, found, expected = wrong
        raise wrong_setting(setting, found, expected)
    return {**DEFAULTS[type], **given}


def factory_string(
    type: str,
    float16: bool,
    settings: dict[str, Any],
    n: int,
    width: int,
    on_card: bool = False,
) -> str:
    """Return the FAISS factory string of an index for `n` vectors of this width.

    Raises KrisselError K006 (pq_bytes).
    """
    storage = "SQfp16" if float16 else "Flat"
    if type == "hnsw":
        return f"HNSW{settings['m']}_{storage}"
    if not type.startswith("ivf"):
        return storage
    nlist = settings["nlist"] or 4 * math.isqrt(n)
    # Few vectors cannot train the many codes of a byte.
    if type == "ivf_sq8" or (type == "ivf_pq" and n < CODES * MIN_TRAIN):
        storage = "SQ8"
    elif type == "ivf_pq":
        # Not polysemous: training the order of the codes would take minutes, and nothing reads it.
        storage = f"PQ{_pq_bytes(settings['pq_bytes'], width, on_card)}np"
    return f"IVF{max(1, min(nlist, n // MIN_TRAIN))},{storage}"


def training_rows(nlist: int) -> int:
    """Return the maximum number of training vectors of an index with `nlist` lists."""
    return min(MAX_TRAIN * nlist, max(MANY_TRAIN, MAX_TRAIN_OF_MANY * nlist))


def _pq_bytes(given: int, width: int, on_card: bool) -> int:
    divisors = [number for number in range(1, width + 1) if width % number == 0]
    if given and given not in divisors:
        expected = f"a divisor of the width of the vectors ({', '.join(map(str, divisors))})"
        raise wrong_setting("pq_bytes", given, expected)
    sizes = [number for number in divisors if number in PQ_BYTES] if on_card else divisors
    return given or max(number for number in sizes if number <= max(1, width // 2))


make_faiss_index = factory_for(FaissIndex)
