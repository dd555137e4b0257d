"""Milvus: Milvus Lite in this process, or a Milvus at an address that the config names."""

import hashlib
import json
import re
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from ..errors import Errors, KrisselError
from ..util.progress import progress_bar
from ..util.settings import PositiveInt, checked, maker
from .checks import check_mask, check_queries, check_vectors
from .exact import Block, rank_hits, search_blocks
from .milvus_store import (
    MAX_RESULTS,
    NAME,
    LiteFolder,
    MilvusStore,
    among,
    block_rows,
    copy_database,
    database_files,
    is_url,
)
from .protocol import Mask, Rows, Scores, Vectors

FILE = "milvus.json"
# Settings that are not those of the collection: an index that differs in them alone reads what another wrote.
SEARCH_SETTINGS = ("search_params", "token_env", "batch_size")


@checked
class MilvusIndex:
    """A collection of Milvus, with row numbers as keys.

    With type "FLAT", results are exact, equal scores in the order of their rows. A collection at an address is made
    whole or not at all, is named by what it holds, and is never dropped: another knowledge base may have been saved
    with it. Rows may be added to it; an index that was saved before does not see them.

    Needs the extra `spacy-krissel[milvus]`.

    uri: address of a Milvus, http(s)://host:port, with /database where it is not the default one; it is asked over the
        network when the knowledge base is loaded, built and searched. null: Milvus Lite in this process, with its
        database in the knowledge base's own folder and no network.
    collection: prefix of the names of the collections at `uri`; a hash of the vectors follows.
    token_env: the environment variable that holds the token, or user:password. The token itself is never saved.
    type: Milvus's type of index: "FLAT" (exact), "HNSW", "IVF_FLAT"…; Milvus Lite has fewer of them.
    index_params: the settings that the index is built with.
    search_params: the settings it is searched with, as `{"ef": 64}` or `{"nprobe": 16}`.
    batch_size: vectors sent at a time, at most.
    """

    kind = "milvus"
    owns_vectors = True

    def __init__(
        self,
        uri: str | None = None,
        collection: str = "krissel",
        token_env: str = "MILVUS_TOKEN",
        type: str = "FLAT",
        index_params: dict[str, Any] | None = None,
        search_params: dict[str, Any] | None = None,
        batch_size: PositiveInt = 4096,
    ) -> None:
        self.uri = _checked_uri(uri)
        if not re.fullmatch("[A-Za-z_][A-Za-z0-9_]{0,99}", collection):
            expected = "up to 100 letters, digits and underscores, no digit first"
            raise KrisselError(Errors.K006.format(setting="collection", found=collection, expected=expected))
        self.collection = collection
        self.token_env = token_env
        self.type = type.upper()
        self.index_params = dict(index_params or {})
        self.search_params = dict(search_params or {})
        self.batch_size = batch_size
        self._store: MilvusStore | None = None
        # Of Milvus Lite's database.
        self._folder: LiteFolder | None = None

    @property
    def settings(self) -> dict[str, Any]:
        return {
            "uri": self.uri,
            "collection": self.collection,
            "token_env": self.token_env,
            "type": self.type,
            "index_params": self.index_params,
            "search_params": self.search_params,
            "batch_size": self.batch_size,
        }

    def reads(self, settings: dict[str, Any]) -> bool:
        def of_collection(all_settings: dict[str, Any]) -> dict[str, Any]:
            return {name: value for name, value in all_settings.items() if name not in SEARCH_SETTINGS}

        return of_collection(settings) == of_collection(self.settings)

    def __len__(self) -> int:
        return self._store.rows if self._store is not None else 0

    def __getstate__(self) -> dict[str, Any]:
        """With the files of Milvus Lite's database. A collection at an address stays where it is."""
        state = {**self.__dict__, "_store": None, "_folder": None, "_files": {}}
        if self._store is not None:
            store = self._opened()
            state["_store"] = store.moved(store.address)
            if self._folder is not None:
                store.close()
                path = self._folder.path
                state["_files"] = {name: (path / name).read_bytes() for name in database_files(path)}
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        files = state.pop("_files")
        self.__dict__.update(state)
        if self._store is not None and self.uri is None:
            self._folder = LiteFolder()
            for name, content in files.items():
                path = self._folder.path / name
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(content)
            self._store = self._store.moved(str(self._folder.path))

    def build(self, vectors: Vectors) -> None:
        vectors = check_vectors(vectors, None, "vectors")
        if not len(vectors):
            raise KrisselError(Errors.K508)
        store, folder = self._new_store(LiteFolder() if self.uri is None else None)
        name = f"{self.collection}_{self._digest(vectors)}"
        # What another process made of the same vectors serves as well.
        if not store.has(name):
            store.create(name, vectors.shape[1], self.type, self.index_params, self._blocks(vectors))
        store.use(name, vectors)
        self._store, self._folder = store, folder

    def add(self, vectors: Vectors) -> None:
        if self._store is None:
            self.build(vectors)
            return
        store = self._opened()
        vectors = check_vectors(vectors, store.width, "vectors")
        if not store.add(self._blocks(vectors)):
            # Another knowledge base has added other rows, so from here on each has a collection of its own.
            store.copy(f"{self.collection}_{uuid.uuid4().hex[:16]}", self.type, self.index_params)
            store.add(self._blocks(vectors))

    def search(self, queries: Vectors, k: int, allowed: Mask | None = None) -> tuple[Scores, Rows]:
        if self._store is None:
            raise KrisselError(Errors.K508)
        queries = check_queries(queries, self._store.width)
        search = MilvusSearch(self._opened(), self.type, self.search_params)
        if allowed is None:
            return search.best(queries, k)
        return search.best_allowed(queries, k, check_mask(allowed, len(self), "vector"))

    def to_disk(self, directory: Path) -> None:
        if self._store is None:
            raise KrisselError(Errors.K508)
        store = self._opened()
        saved = {"collection": store.name, "rows": store.rows, "width": store.width}
        (directory / FILE).write_text(json.dumps(saved, indent=2) + "\n", encoding="utf8")
        if self._folder is not None:
            store.close()
            copy_database(self._folder.path, directory / NAME)

    def from_disk(self, directory: Path, vectors: Vectors) -> None:
        rows, width = vectors.shape
        try:
            saved = json.loads((directory / FILE).read_text(encoding="utf8"))
            name, found = saved["collection"], (saved["rows"], saved["width"])
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise KrisselError(Errors.K506.format(path=directory, problem=error, rows=rows, width=width)) from None
        if found != vectors.shape:
            problem = f"it holds {found[0]} vectors of width {found[1]}"
            raise KrisselError(Errors.K506.format(path=directory, problem=problem, rows=rows, width=width))
        store, folder = self._new_store(LiteFolder(directory / NAME) if self.uri is None else None)
        store.use(name, vectors)
        self._store, self._folder = store, folder

    def _new_store(self, folder: LiteFolder | None) -> tuple[MilvusStore, LiteFolder | None]:
        return MilvusStore(str(folder.path if folder else self.uri), self.token_env), folder

    def _opened(self) -> MilvusStore:
        """The store; after a fork, that of a database of this process's own."""
        assert self._store is not None
        if self._folder is not None and not self._folder.is_ours():
            self._folder = LiteFolder(self._folder.path, parent=self._folder)
            self._store = self._store.moved(str(self._folder.path))
        return self._store

    def _digest(self, vectors: Vectors) -> str:
        """The same for the same vectors and the same index over them."""
        kind = json.dumps([vectors.shape, self.type, self.index_params], sort_keys=True)
        digest = hashlib.blake2b(kind.encode("utf8"), digest_size=8)
        step = block_rows(vectors.shape[1])
        for start in range(0, len(vectors), step):
            digest.update(vectors[start : start + step].astype("<f4").tobytes())
        return digest.hexdigest()

    def _blocks(self, vectors: Vectors) -> Iterator[Vectors]:
        """The vectors as float32, in blocks that can be sent."""
        step = min(self.batch_size, block_rows(vectors.shape[1]))
        with progress_bar(total=len(vectors), show=len(vectors) > step, unit="vector", desc="Milvus") as bar:
            for start in range(0, len(vectors), step):
                yield np.asarray(vectors[start : start + step], dtype=np.float32)
                bar.update(min(step, len(vectors) - start))


def _checked_uri(uri: str | None) -> str | None:
    """Raises KrisselError K006 for anything but None and an address without a secret."""
    if uri is None or (is_url(uri) and "@" not in uri):
        return uri
    found = "[not shown: it holds a password]" if "@" in uri else uri
    expected = (
        "None, for Milvus Lite in the knowledge base's folder, or http(s)://host:port; a password or token belongs "
        "into the environment variable that 'token_env' names"
    )
    raise KrisselError(Errors.K006.format(setting="uri", found=found, expected=expected))


# How many candidates a search of these types looks at, which must not be fewer than the results asked for.
WIDTHS = {"HNSW": "ef", "HNSW_SQ": "ef", "HNSW_PQ": "ef", "HNSW_PRQ": "ef", "DISKANN": "search_list"}
LEAST_WIDTH = 64
# How many rows are named in one condition.
NAMED_ROWS = 10_000
# Without a condition, so much more is asked for than should do.
SLACK, SPARE = 1.25, 16
# How the results asked for grow while the last of them are equal.
GROWTH = 4


class MilvusSearch:
    """Searches of one collection.

    type: Milvus's type of index. params: its search_params.
    """

    def __init__(self, store: MilvusStore, type: str, params: dict[str, Any]) -> None:
        self._store = store
        self._params = params
        self._width = WIDTHS.get(type)

    def best(self, queries: Vectors, k: int, named: Rows | None = None) -> tuple[Scores, Rows]:
        """The best `k` rows for each of the queries (q, d), of all rows or of the `named`, which ascend."""
        scores, rows = _padding(len(queries), k)
        n = self._store.rows if named is None else len(named)
        condition = "" if named is None else among(named)
        wanted = min(k, n)
        if not wanted:
            return scores, rows
        todo = np.arange(len(queries))
        # One more than wanted, to see whether equal ones were cut off: which of those Milvus leaves out is chance.
        limit = min(wanted + 1, n, MAX_RESULTS)
        while len(todo) and wanted <= MAX_RESULTS:
            found = self._store.search(queries[todo], limit, condition, self._parameters(limit))
            all_scores, all_rows = rank_hits(*found, len(todo), limit)
            scores[todo, :wanted], rows[todo, :wanted] = all_scores[:, :wanted], all_rows[:, :wanted]
            cut = (all_rows[:, -1] >= 0) & (all_scores[:, -1] == all_scores[:, wanted - 1])
            todo = todo[cut & (limit < n)]
            if limit == MAX_RESULTS:
                break
            limit = min(limit * GROWTH, n, MAX_RESULTS)
        if named is not None and wanted <= MAX_RESULTS:
            # Where few rows are left, Milvus Lite's graph and everyone's lists miss some.
            todo = np.union1d(todo, np.flatnonzero(rows[:, wanted - 1] < 0))
        if len(todo):
            numbers = np.arange(n) if named is None else named
            scores[todo], rows[todo] = search_blocks(self._blocks(numbers), queries[todo], k)
        return scores, rows

    def best_allowed(self, queries: Vectors, k: int, allowed: Mask) -> tuple[Scores, Rows]:
        """The best `k` allowed rows. Few are named; of many, enough are asked for and those not allowed left out."""
        numbers = np.flatnonzero(allowed)
        scores, rows = _padding(len(queries), k)
        todo = np.arange(len(queries))
        wider = int(SLACK * k * len(allowed) / max(1, len(numbers))) + SPARE
        if len(numbers) > NAMED_ROWS and wider < MAX_RESULTS:
            all_scores, all_rows = self.best(queries, wider)
            taken = (all_rows >= 0) & allowed[all_rows]
            query, place = np.nonzero(taken)
            scores, rows = rank_hits(query, all_rows[query, place], all_scores[query, place], len(queries), k)
            todo = np.flatnonzero(taken.sum(axis=1) < min(k, len(numbers)))
        if len(todo):
            scores[todo], rows[todo] = self._best_named(queries[todo], k, numbers)
        return scores, rows

    def _best_named(self, queries: Vectors, k: int, numbers: Rows) -> tuple[Scores, Rows]:
        scores, rows = _padding(len(queries), k)
        for start in range(0, len(numbers), NAMED_ROWS):
            found = self.best(queries, k, numbers[start : start + NAMED_ROWS])
            all_scores = np.concatenate([scores, found[0]], axis=1)
            all_rows = np.concatenate([rows, found[1]], axis=1)
            query, place = np.nonzero(all_rows >= 0)
            scores, rows = rank_hits(query, all_rows[query, place], all_scores[query, place], len(queries), k)
        return scores, rows

    def _blocks(self, rows: Rows) -> Iterator[Block]:
        start = 0
        for vectors in self._store.vectors(rows):
            yield rows[start : start + len(vectors)], vectors
            start += len(vectors)

    def _parameters(self, limit: int) -> dict[str, Any]:
        if self._width is None:
            return self._params
        return {**self._params, self._width: max(limit, self._params.get(self._width, LEAST_WIDTH))}


def _padding(n_queries: int, k: int) -> tuple[Scores, Rows]:
    scores: Scores = np.full((n_queries, k), -np.inf, dtype=np.float32)
    rows: Rows = np.full((n_queries, k), -1, dtype=np.int64)
    return scores, rows


make_milvus_index = maker(MilvusIndex)
