"""Milvus: Milvus Lite in this process, or a Milvus at an address that the config names."""

import functools
import hashlib
import json
import re
import uuid
from pathlib import Path
from typing import Any, Callable, Dict, Iterator, Optional, Tuple

import numpy as np

from ..errors import Errors, KrisselError
from ..util.progress import progress_bar
from .checks import check_mask, check_queries, check_vectors
from .lite_folder import NAME, LiteFolder, copy_database, database_files
from .milvus_search import MilvusSearch
from .milvus_store import MilvusStore, block_rows, is_url
from .protocol import Mask, Rows, Scores, Vectors

FILE = "milvus.json"
# Settings that are not those of the collection: an index that differs in them alone reads what another wrote.
SEARCH_SETTINGS = ("search_params", "token_env", "batch_size")


def make_milvus_index(
    uri: Optional[str] = None,
    collection: str = "krissel",
    token_env: str = "MILVUS_TOKEN",
    type: str = "FLAT",
    index_params: Optional[Dict[str, Any]] = None,
    search_params: Optional[Dict[str, Any]] = None,
    batch_size: int = 4096,
) -> Callable[[], "MilvusIndex"]:
    """Registered as `spacy-krissel.MilvusIndex.v1`; needs the extra `spacy-krissel[milvus]`.

    uri: address of a Milvus, http(s)://host:port, with /database where it is not the default one; it is asked when the
        knowledge base is loaded, built and searched, over the network. None: Milvus Lite in this process, with its
        database in the knowledge base's own folder and no network.
    collection: what the names of the collections at `uri` begin with; a hash of the vectors follows.
    token_env: the environment variable that holds the token, or user:password. The token itself is never saved.
    type, index_params: Milvus's type of index and the settings it is built with: "FLAT" (exact), "HNSW", "IVF_FLAT"…;
        Milvus Lite has fewer of them.
    search_params: the settings it is searched with, as `{"ef": 64}` or `{"nprobe": 16}`.
    batch_size: vectors sent at a time, at most.
    """
    return functools.partial(
        MilvusIndex,
        uri=uri,
        collection=collection,
        token_env=token_env,
        type=type,
        index_params=index_params,
        search_params=search_params,
        batch_size=batch_size,
    )


class MilvusIndex:
    """A collection of Milvus, with row numbers as keys.

    With type "FLAT", results are exact, equal scores in the order of their rows. A collection at an address is made
    whole or not at all, is named by what it holds, and is never dropped: another knowledge base may have been saved
    with it. Rows may be added to it; who knows nothing of them does not see them.
    """

    kind = "milvus"
    owns_vectors = True

    def __init__(
        self,
        uri: Optional[str] = None,
        collection: str = "krissel",
        token_env: str = "MILVUS_TOKEN",
        type: str = "FLAT",
        index_params: Optional[Dict[str, Any]] = None,
        search_params: Optional[Dict[str, Any]] = None,
        batch_size: int = 4096,
    ) -> None:
        self.uri = _checked_uri(uri)
        if not re.fullmatch("[A-Za-z_][A-Za-z0-9_]{0,99}", collection):
            expected = "up to 100 letters, digits and underscores, no digit first"
            raise KrisselError(Errors.K006.format(setting="collection", found=collection, expected=expected))
        if not isinstance(batch_size, int) or batch_size < 1:
            raise KrisselError(Errors.K006.format(setting="batch_size", found=batch_size, expected="an integer from 1"))
        self.collection = collection
        self.token_env = token_env
        self.type = type.upper()
        self.index_params = dict(index_params or {})
        self.search_params = dict(search_params or {})
        self.batch_size = batch_size
        self._store: Optional[MilvusStore] = None
        # Of Milvus Lite's database.
        self._folder: Optional[LiteFolder] = None

    @property
    def settings(self) -> Dict[str, Any]:
        return {
            "uri": self.uri,
            "collection": self.collection,
            "token_env": self.token_env,
            "type": self.type,
            "index_params": self.index_params,
            "search_params": self.search_params,
            "batch_size": self.batch_size,
        }

    def reads(self, settings: Dict[str, Any]) -> bool:
        def of_collection(all_settings: Dict[str, Any]) -> Dict[str, Any]:
            return {name: value for name, value in all_settings.items() if name not in SEARCH_SETTINGS}

        return of_collection(settings) == of_collection(self.settings)

    def __len__(self) -> int:
        return self._store.rows if self._store is not None else 0

    def __getstate__(self) -> Dict[str, Any]:
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

    def __setstate__(self, state: Dict[str, Any]) -> None:
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

    def search(self, queries: Vectors, k: int, allowed: Optional[Mask] = None) -> Tuple[Scores, Rows]:
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

    def _new_store(self, folder: Optional[LiteFolder]) -> Tuple[MilvusStore, Optional[LiteFolder]]:
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


def _checked_uri(uri: Optional[str]) -> Optional[str]:
    """Raises KrisselError K006 for anything but None and an address without a secret."""
    if uri is None or (is_url(uri) and "@" not in uri):
        return uri
    found = "[not shown: it holds a password]" if "@" in uri else uri
    expected = (
        "None, for Milvus Lite in the knowledge base's folder, or http(s)://host:port; a password or token belongs "
        "into the environment variable that 'token_env' names"
    )
    raise KrisselError(Errors.K006.format(setting="uri", found=found, expected=expected))
