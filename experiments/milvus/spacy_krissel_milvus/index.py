"""Vectors in a collection of a Milvus server or cluster, through its own client, pymilvus."""

import hashlib
import json
import os
import re
import sys
import uuid
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from itertools import chain
from pathlib import Path
from typing import Any
from weakref import WeakSet

import numpy as np

from spacy_krissel.errors import Errors as KrisselErrors
from spacy_krissel.errors import KrisselError
from spacy_krissel.index.exact import no_hits, rank_hits, search_blocks
from spacy_krissel.index.protocol import (
    Mask,
    Rows,
    Scores,
    Vectors,
    check_mask,
    check_queries,
    check_vectors,
)
from spacy_krissel.util.progress import progress_bar
from spacy_krissel.util.settings import checked, factory_for

from .errors import Errors

FILE = "milvus.json"
ROW, VECTOR = "row", "vector"
METRIC = "IP"
# Milvus's limits: results per query, and rows per answer.
MAX_RESULTS = 16_384
# Queries per search, and results of all of them.
QUERIES, ALL_RESULTS = 1024, 1_000_000
# Half of the 64 MB that a message may have.
MESSAGE_BYTES = 32 * 2**20
CONNECT_SECONDS = 10
# Number of vectors compared when a collection is opened.
SAMPLE = 16
# The number of candidates that a search of these types visits; it must not be below the number of
# results.
WIDTHS = {
    "HNSW": "ef",
    "HNSW_SQ": "ef",
    "HNSW_PQ": "ef",
    "HNSW_PRQ": "ef",
    "DISKANN": "search_list",
}
MIN_WIDTH = 64
# A search asks for SLACK times the results that it should need and SPARE more, then for GROWTH
# times as many.
SLACK, SPARE, GROWTH = 1.25, 16, 4
# Settings that another index may have and still read the collection.
SEARCH_SETTINGS = ("search_params", "token_env")


@checked
class MilvusIndex:
    """A collection of Milvus, with row numbers as keys. With type "FLAT", results are exact, equal
    scores by row.

    A collection appears under its name when it is complete, is named by a hash of its content, and
    is never changed or dropped: another knowledge base may be saved with it. Rows are added by
    copying it.

    uri: address of a Milvus, http(s)://host:port, with /database where it is not the default one;
        asked over the network when the knowledge base is loaded, built and searched.
    collection: prefix of the names of collections; a hash of the vectors follows.
    token_env: the environment variable with the token, or user:password. The token itself is never
        saved.
    type: Milvus's type of index: "FLAT" (exact), "HNSW", "IVF_FLAT"…
    index_params: settings with which Milvus builds the index.
    search_params: settings of its search, such as `{"ef": 64}` or `{"nprobe": 16}`.
    """

    kind = "milvus"
    owns_vectors = True
    _client: Any = None

    def __init__(
        self,
        uri: str,
        collection: str = "krissel",
        token_env: str = "MILVUS_TOKEN",
        type: str = "FLAT",
        index_params: dict[str, Any] | None = None,
        search_params: dict[str, Any] | None = None,
    ) -> None:
        self.uri = _checked_uri(uri)
        if not re.fullmatch("[A-Za-z_][A-Za-z0-9_]{0,99}", collection):
            expected = "up to 100 letters, digits and underscores, no digit first"
            raise KrisselError(
                KrisselErrors.K006.format(setting="collection", found=collection, expected=expected)
            )
        self.collection = collection
        self.token_env = token_env
        self.type = type.upper()
        self.index_params = index_params or {}
        self.search_params = search_params or {}
        self._name = ""
        self._rows, self._width = 0, 0
        # Milvus may answer as of a few seconds ago; what this process wrote must be found at once.
        self._consistency = "Bounded"

    @property
    def settings(self) -> dict[str, Any]:
        names = ("uri", "collection", "token_env", "type", "index_params", "search_params")
        return {name: getattr(self, name) for name in names}

    def can_read(self, settings: dict[str, Any]) -> bool:
        return {
            **self.settings,
            **{name: settings.get(name) for name in SEARCH_SETTINGS},
        } == settings

    def __len__(self) -> int:
        return self._rows

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_client": None}

    def __del__(self) -> None:
        if not sys.is_finalizing():
            self.close()

    def close(self) -> None:
        """Close the connection; the next request opens another."""
        client, self._client = self._client, None
        if client is not None:
            client.close()

    def build(self, vectors: Vectors) -> None:
        vectors = check_vectors(vectors, None, "vectors")
        if not len(vectors):
            raise KrisselError(KrisselErrors.K508)
        name = self._named("", vectors)
        self._create(name, vectors.shape[1], _blocks(vectors))
        self._open(name, vectors)

    def add(self, vectors: Vectors) -> None:
        if not self._name:
            self.build(vectors)
            return
        vectors = check_vectors(vectors, self._width, "vectors")
        name = self._named(self._name, vectors)
        present = (block for _, block in self._fetched(np.arange(self._rows)))
        self._create(name, self._width, chain(present, _blocks(vectors)))
        self._open(name, vectors, first=self._rows)

    def search(self, queries: Vectors, k: int, allowed: Mask | None = None) -> tuple[Scores, Rows]:
        if not self._name:
            raise KrisselError(KrisselErrors.K508)
        queries = check_queries(queries, self._width)
        n = self._rows
        mask = np.ones(n, dtype=np.bool_) if allowed is None else check_mask(allowed, n, "vector")
        rows = np.flatnonzero(mask)
        scores, found = no_hits(len(queries), k)
        wanted = min(k, len(rows))
        if not wanted:
            return scores, found
        todo = np.arange(len(queries))
        limit = min(n, int(SLACK * wanted * n / len(rows)) + SPARE)
        # Milvus returns the best of all rows; the allowed ones among them are kept.
        while len(todo) and limit <= min(MAX_RESULTS, len(rows)):
            all_scores, all_rows = self._best(queries[todo], limit)
            query, column = np.nonzero((all_rows >= 0) & mask[all_rows])
            hits = query, all_rows[query, column], all_scores[query, column]
            scores[todo, :wanted], found[todo, :wanted] = rank_hits(*hits, len(todo), wanted)
            # Rows left out may have the same score as the last one returned: which are left out is
            # chance.
            cut = (scores[todo, wanted - 1] <= all_scores[:, -1]) & (limit < n)
            todo = todo[cut | (found[todo, wanted - 1] < 0)]
            limit *= GROWTH
        if len(todo):
            scores[todo], found[todo] = search_blocks(self._fetched(rows), queries[todo], k)
        return scores, found

    def to_disk(self, directory: Path) -> None:
        if not self._name:
            raise KrisselError(KrisselErrors.K508)
        saved = {"collection": self._name, "rows": self._rows, "width": self._width}
        (directory / FILE).write_text(json.dumps(saved, indent=2) + "\n", encoding="utf8")

    def from_disk(self, directory: Path, vectors: Vectors) -> None:
        wanted = dict(zip(("rows", "width"), vectors.shape, strict=True))
        try:
            saved = json.loads((directory / FILE).read_text(encoding="utf8"))
            name, found = saved["collection"], (saved["rows"], saved["width"])
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise KrisselError(
                KrisselErrors.K506.format(path=directory, problem=error, **wanted)
            ) from None
        if found != vectors.shape:
            problem = f"it holds {found[0]} vectors of width {found[1]}"
            raise KrisselError(KrisselErrors.K506.format(path=directory, problem=problem, **wanted))
        self._open(name, vectors)

    def _named(self, base: str, vectors: Vectors) -> str:
        """The name of the collection of these vectors after those of the collection `base`."""
        kind = json.dumps([base, vectors.shape, self.type, self.index_params], sort_keys=True)
        digest = hashlib.blake2b(kind.encode("utf8"), digest_size=8)
        step = _block_rows(vectors.shape[1])
        for start in range(0, len(vectors), step):
            digest.update(vectors[start : start + step].astype("<f4").tobytes())
        return f"{self.collection}_{digest.hexdigest()}"

    def _create(self, name: str, width: int, blocks: Iterable[Vectors]) -> None:
        """Make the collection `name` of blocks of vectors (b, width), unless it exists. It has
        another name until it is complete."""
        part = f"{name}_part_{uuid.uuid4().hex[:8]}"
        with self._connected() as client:
            from pymilvus import DataType, MilvusException

            if client.has_collection(name):
                return
            schema = client.create_schema(auto_id=False, enable_dynamic_field=False)
            schema.add_field(ROW, DataType.INT64, is_primary=True)
            schema.add_field(VECTOR, DataType.FLOAT_VECTOR, dim=width)
            index = client.prepare_index_params()
            index.add_index(
                VECTOR, index_type=self.type, metric_type=METRIC, params=self.index_params
            )
            client.create_collection(part, schema=schema, consistency_level="Bounded")
            try:
                # Before the vectors, so that an unknown type is refused at once. Milvus builds the
                # index as they come.
                client.create_index(part, index, sync=False)
                row = 0
                for block in blocks:
                    client.insert(
                        part, [{ROW: row + i, VECTOR: vector} for i, vector in enumerate(block)]
                    )
                    row += len(block)
                client.flush(part)
                try:
                    client.rename_collection(part, name)
                except MilvusException:
                    # Another process may have made the same one meanwhile, which is as good.
                    if not client.has_collection(name):
                        raise
                self._consistency = "Strong"
            finally:
                if client.has_collection(part):
                    client.drop_collection(part)

    def _open(self, name: str, vectors: Vectors, first: int = 0) -> None:
        """Search the collection `name` from now on, which has `vectors` (m, d) from row `first` on.

        Raises KrisselError K542 where it has another number of rows or width, or where a sample of
        the vectors differs.
        """
        rows, width = first + len(vectors), vectors.shape[1]
        with self._connected() as client:
            if not client.has_collection(name):
                raise self._wrong(name, "there is no such collection")
            fields = {
                field["name"]: field["params"]
                for field in client.describe_collection(name)["fields"]
            }
            if set(fields) != {ROW, VECTOR} or fields[VECTOR].get("dim") != width:
                raise self._wrong(
                    name, f"its fields are {fields}, not '{ROW}' and '{VECTOR}' of width {width}"
                )
            client.load_collection(name)
            counted = client.query(
                name, filter="", output_fields=["count(*)"], consistency_level="Strong"
            )
            if counted[0]["count(*)"] != rows:
                raise self._wrong(name, f"it holds {counted[0]['count(*)']} vectors, not {rows}")
            sample = np.unique(np.linspace(0, len(vectors) - 1, SAMPLE, dtype=np.int64))
            for row, found in zip(sample, self._fetch(client, name, first + sample), strict=True):
                if not np.array_equal(found, vectors[row].astype(np.float32)):
                    raise self._wrong(name, f"its vector {first + row} is another one")
        self._name, self._rows, self._width = name, rows, width

    def _best(self, queries: Vectors, limit: int) -> tuple[Scores, Rows]:
        """Results of Milvus for the queries (q, d): scores and rows (q, limit), best first, equal
        scores by row, padded with -inf and -1."""
        params = dict(self.search_params)
        if width := WIDTHS.get(self.type):
            params[width] = max(limit, params.get(width, MIN_WIDTH))
        counts: list[int] = []
        rows: list[int] = []
        scores: list[float] = []
        step = max(1, min(QUERIES, ALL_RESULTS // limit))
        with self._connected() as client:
            for start in range(0, len(queries), step):
                found = client.search(
                    self._name,
                    data=list(queries[start : start + step]),
                    anns_field=VECTOR,
                    limit=limit,
                    search_params={"metric_type": METRIC, "params": params},
                    consistency_level=self._consistency,
                )
                for hits in found:
                    counts.append(len(hits.ids))
                    rows.extend(hits.ids)
                    scores.extend(hits.distances)
        query = np.repeat(np.arange(len(counts)), counts)
        return rank_hits(
            query, np.array(rows, dtype=np.int64), np.array(scores, np.float32), len(queries), limit
        )

    def _fetched(self, rows: Rows) -> Iterator[tuple[Rows, Vectors]]:
        """The ascending `rows` and their vectors (b, d), in blocks. Raises KrisselError K542 if one
        is missing."""
        step = _block_rows(self._width)
        for start in range(0, len(rows), step):
            block = rows[start : start + step]
            with self._connected() as client:
                vectors = self._fetch(client, self._name, block)
            yield block, vectors

    def _fetch(self, client: Any, name: str, rows: Rows) -> Vectors:
        if rows[-1] - rows[0] == len(rows) - 1:
            condition = f"{ROW} >= {rows[0]} and {ROW} <= {rows[-1]}"
        else:
            condition = f"{ROW} in {rows.tolist()}"
        found = client.query(
            name, filter=condition, output_fields=[ROW, VECTOR], consistency_level=self._consistency
        )
        vectors = {each[ROW]: each[VECTOR] for each in found}
        if len(vectors) != len(rows):
            raise self._wrong(
                name, f"it holds {len(vectors)} of {len(rows)} vectors from number {rows[0]} on"
            )
        return np.array([vectors[row] for row in rows.tolist()], dtype=np.float32)

    def _wrong(self, name: str, problem: str) -> KrisselError:
        return KrisselError(Errors.K542.format(collection=name, address=self.uri, problem=problem))

    @contextmanager
    def _connected(self) -> Iterator[Any]:
        """The client. Raises KrisselError K540 without pymilvus, K541 for what Milvus or the
        connection raises."""
        try:
            from grpc import RpcError
            from pymilvus import MilvusClient, MilvusException
        except ImportError:
            raise KrisselError(Errors.K540) from None
        try:
            if self._client is None:
                token = os.environ.get(self.token_env, "")
                self._client = MilvusClient(self.uri, token=token, timeout=CONNECT_SECONDS)
                _open_indexes.add(self)
            yield self._client
        except (MilvusException, RpcError) as error:
            problem = getattr(error, "message", "") or str(error)
            message = Errors.K541.format(
                address=self.uri, problem=problem, token_env=self.token_env
            )
            raise KrisselError(message) from None


_open_indexes: WeakSet[MilvusIndex] = WeakSet()


def _close_all() -> None:
    # gRPC ends a child that is forked while a connection of its parent is open.
    for index in list(_open_indexes):
        index.close()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_close_all)


def _checked_uri(uri: str) -> str:
    """Raises KrisselError K006 for anything but an address without a secret."""
    if uri.startswith(("http://", "https://")) and "@" not in uri:
        return uri
    found = "[not shown: it holds a password]" if "@" in uri else uri
    expected = (
        "http(s)://host:port; a password or token belongs into the environment variable that "
        "'token_env' names"
    )
    raise KrisselError(KrisselErrors.K006.format(setting="uri", found=found, expected=expected))


def _block_rows(width: int) -> int:
    """Return the number of vectors of `width` that fit into a message."""
    return max(1, min(MAX_RESULTS, MESSAGE_BYTES // (4 * width + 16)))


def _blocks(vectors: Vectors) -> Iterator[Vectors]:
    """The vectors as float32, in blocks that can be sent."""
    step = _block_rows(vectors.shape[1])
    with progress_bar(
        total=len(vectors), show=len(vectors) > step, unit="vector", desc="Milvus"
    ) as bar:
        for start in range(0, len(vectors), step):
            block = np.asarray(vectors[start : start + step], dtype=np.float32)
            yield block
            bar.update(len(block))


make_milvus_index = factory_for(MilvusIndex)
