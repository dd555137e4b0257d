"""A collection of vectors in Milvus, through its own client, pymilvus."""

import os
import shutil
import sys
import tempfile
import uuid
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from multiprocessing.util import Finalize
from pathlib import Path
from typing import Any, Optional

import numpy as np

from ..errors import Errors, KrisselError
from . import fork
from .protocol import Rows, Scores, Vectors

ROW, VECTOR = "row", "vector"
METRIC = "IP"
# What Milvus allows: results for each query, and rows of an answer.
MAX_RESULTS = 16_384
# A message may be of 64 MB; vectors are sent and fetched in half of it.
MESSAGE_BYTES = 32 * 2**20
# Of one search: queries, and results altogether.
QUERIES, ALL_RESULTS = 1024, 1_000_000
# How long to wait for a connection, in seconds.
CONNECT_SECONDS = 10
# Vectors compared when a collection is taken up.
SAMPLE = 16


class MilvusStore:
    """The first `rows` vectors of a collection; their numbers are its keys.

    Connects when first asked, and again after a fork.

    address: http(s)://host:port of a Milvus, or the folder of a Milvus Lite database.
    token_env: the environment variable that holds the token of a Milvus that asks for one.

    Everything raises KrisselError K540 (a package is missing) and K541 (no answer, or a refusal).
    """

    def __init__(self, address: str, token_env: str) -> None:
        self.address = address
        self.name = ""
        self.rows, self.width = 0, 0
        self._lite = not is_url(address)
        self._token_env = token_env
        self._client: Any = None
        # Whether the collection has rows beyond ours, which another knowledge base added.
        self._shared = False
        # Milvus may answer as of a few seconds ago. What this process wrote, it is to find at once.
        self._consistency = "Bounded"

    def __del__(self) -> None:
        # At the end of the process Milvus Lite closes what is open by itself.
        if not sys.is_finalizing():
            self.close()

    def moved(self, address: str) -> "MilvusStore":
        """The same rows at another address."""
        store = MilvusStore(address, self._token_env)
        store.name, store.rows, store.width = self.name, self.rows, self.width
        store._shared, store._consistency = self._shared, self._consistency
        return store

    def close(self) -> None:
        """Let go of the connection, and of the database of Milvus Lite; both are opened again when needed."""
        client, self._client = self._client, None
        if client is None:
            return
        client.close()
        if self._lite:
            from milvus_lite.server_manager import server_manager_instance

            server_manager_instance.release_server(self.address)

    def has(self, name: str) -> bool:
        with self._asked() as client:
            return bool(client.has_collection(name))

    def create(self, name: str, width: int, type: str, index_params: dict[str, Any], blocks: Iterable[Vectors]) -> None:
        """Make the collection `name` of blocks of vectors (b, width). Until it is whole it has another name."""
        part = f"{name}_part_{uuid.uuid4().hex[:8]}"
        with self._asked() as client:
            from pymilvus import DataType

            schema = client.create_schema(auto_id=False, enable_dynamic_field=False)
            schema.add_field(ROW, DataType.INT64, is_primary=True)
            schema.add_field(VECTOR, DataType.FLOAT_VECTOR, dim=width)
            index = client.prepare_index_params()
            index.add_index(VECTOR, index_type=type, metric_type=METRIC, params=index_params)
            client.create_collection(part, schema=schema, consistency_level="Bounded")
            try:
                # Before the vectors, so that a type which Milvus does not have is refused at once. It builds the index
                # as they come, and compares those that it has not come to.
                client.create_index(part, index, sync=False)
                self._insert(client, part, 0, blocks)
                self._rename(client, part, name)
            finally:
                if client.has_collection(part):
                    client.drop_collection(part)

    def use(self, name: str, vectors: Vectors) -> None:
        """Be the rows of the collection `name` that hold `vectors` (n, d).

        Raises KrisselError K542 if it does not begin with as many rows, or if some that are looked at differ.
        """
        rows, width = vectors.shape
        with self._asked() as client:
            if not client.has_collection(name):
                raise self._wrong(name, "there is no such collection")
            fields = {field["name"]: field["params"] for field in client.describe_collection(name)["fields"]}
            if set(fields) != {ROW, VECTOR} or fields[VECTOR].get("dim") != width:
                raise self._wrong(name, f"its fields are {fields}, not '{ROW}' and '{VECTOR}' of width {width}")
            client.load_collection(name)
            total = self._count(client, name, "")
            # Milvus Lite takes its time over a condition that most rows meet.
            held = rows if total == rows else self._count(client, name, f"{ROW} < {rows}")
            if held != rows:
                raise self._wrong(name, f"it holds {held} of the {rows} vectors")
            sample = np.unique(np.linspace(0, rows - 1, SAMPLE, dtype=np.int64))
            for row, found in zip(sample, self._fetch(client, name, sample), strict=True):
                if not np.array_equal(found, vectors[row].astype(np.float32)):
                    raise self._wrong(name, f"its vector {row} is another one")
        self.name, self.rows, self.width, self._shared = name, rows, width, total != rows

    def add(self, blocks: Iterable[Vectors]) -> bool:
        """Write further rows, blocks of vectors (b, width). False, and nothing done, where others added theirs."""
        with self._asked() as client:
            if self._count(client, self.name, "") != self.rows:
                return False
            self.rows = self._insert(client, self.name, self.rows, blocks)
        return True

    def copy(self, name: str, type: str, index_params: dict[str, Any]) -> None:
        """Be the same rows in a collection `name` of their own, which is made."""
        self.create(name, self.width, type, index_params, self.vectors(np.arange(self.rows)))
        with self._asked() as client:
            client.load_collection(name)
        self.name, self._shared = name, False

    def vectors(self, rows: Rows) -> Iterator[Vectors]:
        """The vectors at `rows` (n,), which ascend, in blocks (b, width). Raises KrisselError K542 if one is gone."""
        step = block_rows(self.width)
        for start in range(0, len(rows), step):
            with self._asked() as client:
                block = self._fetch(client, self.name, rows[start : start + step])
            yield block

    def search(self, queries: Vectors, limit: int, condition: str, params: dict[str, Any]) -> tuple[Rows, Rows, Scores]:
        """Up to `limit` rows for each of the queries (q, width) among those that meet the condition.

        RETURNS: query number, row and score of each: three arrays (h,).
        """
        counts: list[int] = []
        rows: list[int] = []
        scores: list[float] = []
        step = max(1, min(QUERIES, ALL_RESULTS // limit))
        with self._asked() as client:
            for start in range(0, len(queries), step):
                found = client.search(
                    self.name,
                    data=list(queries[start : start + step]),
                    anns_field=VECTOR,
                    limit=limit,
                    filter=condition or (f"{ROW} < {self.rows}" if self._shared else ""),
                    search_params={"metric_type": METRIC, "params": params},
                    consistency_level=self._consistency,
                )
                for hits in found:
                    counts.append(len(hits.ids))
                    rows.extend(hits.ids)
                    scores.extend(hits.distances)
        if max(rows, default=-1) >= self.rows:
            # Another knowledge base has added to the collection since.
            self._shared = True
            return self.search(queries, limit, condition, params)
        query = np.repeat(np.arange(len(counts)), counts)
        return query, np.array(rows, dtype=np.int64), np.array(scores, dtype=np.float32)

    def _insert(self, client: Any, name: str, start: int, blocks: Iterable[Vectors]) -> int:
        """Write blocks of vectors as the rows from `start` on, and tell the number of the row after the last."""
        self._consistency = "Strong"
        for block in blocks:
            rows = range(start, start + len(block))
            client.insert(name, [{ROW: row, VECTOR: vector} for row, vector in zip(rows, block, strict=True)])
            start += len(block)
        client.flush(name)
        return start

    def _rename(self, client: Any, part: str, name: str) -> None:
        from pymilvus import MilvusException

        try:
            client.rename_collection(part, name)
        except MilvusException:
            # Another process may have made the same one in the meantime, which is as good.
            if not client.has_collection(name):
                raise

    def _count(self, client: Any, name: str, condition: str) -> int:
        counted = client.query(name, filter=condition, output_fields=["count(*)"], consistency_level="Strong")
        return int(counted[0]["count(*)"])

    def _fetch(self, client: Any, name: str, rows: Rows) -> Vectors:
        """The vectors at `rows`, no more than `block_rows` of them."""
        found = client.query(name, filter=among(rows), output_fields=[ROW, VECTOR], consistency_level=self._consistency)
        vectors = {each[ROW]: each[VECTOR] for each in found}
        if len(vectors) != len(rows):
            raise self._wrong(name, f"it holds {len(vectors)} of {len(rows)} vectors from number {rows[0]} on")
        return np.array([vectors[row] for row in rows.tolist()], dtype=np.float32)

    def _wrong(self, name: str, problem: str) -> KrisselError:
        return KrisselError(Errors.K542.format(collection=name, address=self.address, problem=problem))

    @contextmanager
    def _asked(self) -> Iterator[Any]:
        """The client, with its errors said in our way."""
        _check_installed("pymilvus", *(["milvus_lite"] if self._lite else []))
        from grpc import RpcError
        from pymilvus import MilvusException

        try:
            if self._client is None:
                self._connect()
            yield self._client
        except (MilvusException, RpcError) as error:
            problem = getattr(error, "message", "") or str(error)
            raise KrisselError(
                Errors.K541.format(address=self.address, problem=problem, token_env=self._token_env)
            ) from None

    def _connect(self) -> None:
        from pymilvus import MilvusClient

        # A child that is forked while gRPC runs in its parent is ended by gRPC.
        fork.close_before_forks(self)
        if self._lite:
            # Not by way of a proxy that the environment names for the world outside.
            options = {"grpc.enable_http_proxy": 0}
            self._client = MilvusClient(self.address, timeout=CONNECT_SECONDS, grpc_options=options)
        else:
            token = os.environ.get(self._token_env, "")
            self._client = MilvusClient(self.address, token=token, timeout=CONNECT_SECONDS)
        if self.name:
            # Milvus Lite forgets what was loaded when it is closed.
            self._client.load_collection(self.name)


def is_url(address: str) -> bool:
    return address.startswith(("http://", "https://"))


def block_rows(width: int) -> int:
    """How many vectors of `width` fit into a message."""
    return max(1, min(MAX_RESULTS, MESSAGE_BYTES // (4 * width + 16)))


def among(rows: Rows) -> str:
    """The condition that a row is one of `rows`, which ascend."""
    if rows[-1] - rows[0] == len(rows) - 1:
        return f"{ROW} >= {rows[0]} and {ROW} <= {rows[-1]}"
    return f"{ROW} in {rows.tolist()}"


def _check_installed(*packages: str) -> None:
    for package in packages:
        try:
            __import__(package)
        except ImportError:
            raise KrisselError(Errors.K540.format(package=package)) from None


# Milvus tells a file name from an address by this ending, though the database is a folder.
NAME = "milvus.db"
# Written once and never changed, so that two databases may share them.
UNCHANGING = (".parquet", ".idx")
# Of the process that has it open, and a copy of what was before the last change.
LEFT_OUT = ("LOCK", "manifest.json.prev")


class LiteFolder:
    """A database in a temporary folder of this process alone, removed with this object or at exit.

    Milvus Lite locks the database that it opens and writes into it even when it is only searched. So a saved one is
    never opened where it lies: its folder may be read-only, and several processes may want it.

    source: the database to begin with; its large files are linked where the file system can, not copied.
    parent: the folder of the process that this one was forked from, which then removes this one too, should this
        process be killed.
    """

    def __init__(self, source: Path | None = None, parent: Optional["LiteFolder"] = None) -> None:
        self.root: Path = Path(tempfile.mkdtemp(prefix="krissel-milvus-", dir=parent.root if parent else None))
        self.path = self.root / NAME
        self._pid = os.getpid()
        # Unlike `weakref.finalize`, it also runs where a worker process ends, and never in another process's place.
        Finalize(self, shutil.rmtree, args=(self.root, True), exitpriority=0)
        if source is not None:
            copy_database(source, self.path, link=True)

    def is_ours(self) -> bool:
        """Whether this process made it, rather than the one it was forked from."""
        return self._pid == os.getpid()


def database_files(path: Path) -> list[str]:
    """The files of a database that no process has open, as names within its folder `path`."""
    files = (file_ for file_ in path.rglob("*") if file_.is_file() and file_.name not in LEFT_OUT)
    return sorted(file_.relative_to(path).as_posix() for file_ in files)


def copy_database(source: Path, target: Path, link: bool = False) -> None:
    """Copy a database that no process has open; with `link`, share what never changes."""
    for name in database_files(source):
        (target / name).parent.mkdir(parents=True, exist_ok=True)
        if not (link and name.endswith(UNCHANGING) and _linked(source / name, target / name)):
            shutil.copyfile(source / name, target / name)


def _linked(source: Path, target: Path) -> bool:
    try:
        os.link(source, target)
    except OSError:
        # Another file system, or one without links.
        return False
    return True
