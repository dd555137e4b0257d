"""Milvus Lite in this process, and one in a process of its own that stands for a Milvus at an address."""

import gc
import json
import pickle
import subprocess
import sys
import tempfile
from pathlib import Path
from unittest.mock import patch

import numpy as np
import pytest
import spacy
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from spacy_krissel.errors import KrisselError
from spacy_krissel.index import milvus_index, milvus_store
from spacy_krissel.index.exact import ExactIndex
from spacy_krissel.index.milvus_index import MilvusIndex, make_milvus_index

pymilvus = pytest.importorskip("pymilvus")
pytest.importorskip("milvus_lite")

N, WIDTH = 120, 4
SERVER = """
import sys
from milvus_lite.adapter.grpc.server import start_server_in_thread
server, db, port = start_server_in_thread(sys.argv[1])
print(port, flush=True)
sys.stdin.read()
server.stop(grace=0)
db.close()
"""


@pytest.fixture(scope="module")
def vectors():
    """Small whole numbers: their products are exact in float32, and ties are frequent."""
    return np.random.default_rng(0).integers(-2, 3, (N, WIDTH)).astype(np.float32)


@pytest.fixture(scope="module")
def built(vectors):
    index = MilvusIndex()
    index.build(vectors)
    return index


@pytest.fixture(scope="module")
def uri(tmp_path_factory):
    folder = tmp_path_factory.mktemp("server") / "milvus.db"
    command = [sys.executable, "-c", SERVER, str(folder)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as server:
        yield f"http://127.0.0.1:{int(server.stdout.readline())}"
        server.stdin.close()


@pytest.fixture
def client(uri):
    client = pymilvus.MilvusClient(uri)
    yield client
    for name in client.list_collections():
        client.drop_collection(name)
    client.close()


def exactly(vectors, *search):
    index = ExactIndex()
    index.build(vectors)
    return index.search(*search)


def assert_same(found, expected):
    np.testing.assert_array_equal(found[1], expected[1])
    np.testing.assert_array_equal(found[0], expected[0])


# What Milvus allows, and how many rows are named at a time: few enough here for each way of searching to be taken.
@given(
    queries=arrays(np.float32, (3, WIDTH), elements=st.integers(-2, 2).map(float)),
    k=st.integers(1, N + 3),
    allowed=st.none() | arrays(np.bool_, N),
    results=st.sampled_from([5, 40, 16_384]),
    named=st.sampled_from([7, 50, 10_000]),
)
@settings(deadline=None, max_examples=60)
def test_finds_what_exact_search_finds_equal_scores_by_row(built, vectors, queries, k, allowed, results, named):
    with patch.object(milvus_index, "MAX_RESULTS", results), patch.object(milvus_index, "NAMED_ROWS", named):
        found = built.search(queries, k, allowed)
    assert_same(found, exactly(vectors, queries, k, allowed))


def test_many_equal_vectors_are_found_by_row():
    index = MilvusIndex()
    index.build(np.ones((300, 2), dtype=np.float32))
    assert index.search(np.ones((1, 2), dtype=np.float32), 5)[1].tolist() == [[0, 1, 2, 3, 4]]


def test_asks_in_messages_that_milvus_takes(vectors, monkeypatch):
    """Vectors out, vectors back and queries, in parts."""
    monkeypatch.setattr(milvus_store, "MESSAGE_BYTES", 10 * (4 * WIDTH + 16))
    monkeypatch.setattr(milvus_store, "QUERIES", 7)
    sent = []
    insert = pymilvus.MilvusClient.insert
    monkeypatch.setattr(
        pymilvus.MilvusClient, "insert", lambda self, name, data: sent.append(len(data)) or insert(self, name, data)
    )
    index = MilvusIndex()
    index.build(vectors)
    assert sent == [10] * 12
    with patch.object(milvus_index, "MAX_RESULTS", 5):
        assert_same(index.search(vectors[:20], 9), exactly(vectors, vectors[:20], 9))
    sent.clear()
    MilvusIndex(batch_size=7).build(vectors[:20])
    assert sent == [7, 7, 6]


@pytest.mark.parametrize("type_,width", [("HNSW", "ef"), ("DISKANN", "search_list")])
def test_looks_at_no_fewer_candidates_than_are_asked_for(type_, width):
    search = milvus_index.MilvusSearch(None, type_, {width: 100, "other": 1})
    assert search._parameters(50) == {width: 100, "other": 1}
    assert search._parameters(500) == {width: 500, "other": 1}
    assert milvus_index.MilvusSearch(None, type_, {})._parameters(2) == {width: milvus_index.LEAST_WIDTH}
    assert milvus_index.MilvusSearch(None, "IVF_FLAT", {"nprobe": 3})._parameters(500) == {"nprobe": 3}


def test_a_saved_database_is_left_as_it_is_by_all_who_use_it(built, vectors, tmp_path):
    built.to_disk(tmp_path)
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    for path in (tmp_path, *before):
        path.chmod(0o555 if path.is_dir() else 0o444)
    users = [MilvusIndex(), MilvusIndex()]
    for user in users:
        user.from_disk(tmp_path, vectors)
    for user in users:
        user.add(vectors[:5] + 3)
        assert (user.search(vectors[:5] + 3, 1)[1].ravel() >= N).all()
    assert before == {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}


def test_leaves_nothing_behind(vectors, monkeypatch, tmp_path):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    index = MilvusIndex()
    index.build(vectors)
    assert len(list(tmp_path.iterdir())) == 1
    index.build(vectors[:5])
    copy = pickle.loads(pickle.dumps(index))
    assert len(list(tmp_path.iterdir())) == 2
    del index, copy
    gc.collect()
    assert not list(tmp_path.iterdir())


def test_runs_where_the_environment_names_a_proxy(vectors, monkeypatch):
    for name in ("http_proxy", "https_proxy", "grpc_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    index = MilvusIndex()
    index.build(vectors)
    assert index.search(vectors[:1], 1)[0].shape == (1, 1)


def test_a_config_makes_it():
    settings = {"@misc": "spacy-krissel.MilvusIndex.v1", "type": "hnsw", "search_params": {"ef": 99}}
    index = spacy.registry.resolve({"index": settings})["index"]()
    assert (index.uri, index.type, index.search_params) == (None, "HNSW", {"ef": 99})


@pytest.mark.parametrize("uri", ["milvus.db", "host:19530", "ftp://host", "", "http://me:secret@host:19530"])
def test_refuses_an_address_of_another_kind(uri):
    with pytest.raises(KrisselError, match="K006.*'uri'") as error:
        make_milvus_index(uri)()
    assert "secret" not in str(error.value)


@pytest.mark.parametrize("settings", [{"collection": "two words"}, {"collection": ""}, {"batch_size": 0}])
def test_refuses_a_wrong_setting(settings):
    with pytest.raises(KrisselError, match=f"K006.*'{next(iter(settings))}'"):
        make_milvus_index(**settings)()


@pytest.mark.parametrize("package", ["pymilvus", "milvus_lite"])
def test_names_the_extra_when_a_package_is_missing(vectors, monkeypatch, package):
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(KrisselError, match=rf"K540.*{package}.*spacy-krissel\[milvus\]"):
        MilvusIndex().build(vectors)


def test_other_settings_of_searching_need_no_other_collection():
    index = MilvusIndex(search_params={"ef": 9}, token_env="MINE", batch_size=1)
    assert index.reads(MilvusIndex().settings)
    for other in ({"uri": "http://host:1"}, {"type": "HNSW"}, {"index_params": {"M": 8}}, {"collection": "other"}):
        assert not index.reads(MilvusIndex(**other).settings)


# At an address.


def test_at_an_address_only_the_name_is_saved(client, uri, vectors, tmp_path, monkeypatch):
    monkeypatch.setenv("MILVUS_TOKEN", "top:secret")
    index = MilvusIndex(uri)
    index.build(vectors)
    index.to_disk(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["milvus.json"]
    saved = json.loads((tmp_path / "milvus.json").read_text())
    assert client.list_collections() == [saved["collection"]]
    copies = [MilvusIndex(uri), pickle.loads(pickle.dumps(index))]
    copies[0].from_disk(tmp_path, vectors)
    for copy in copies:
        assert_same(copy.search(vectors[:9], 20), exactly(vectors, vectors[:9], 20))
    for written in (json.dumps(index.settings), (tmp_path / "milvus.json").read_text(), str(pickle.dumps(index))):
        assert "secret" not in written


def test_the_token_is_that_of_the_environment(monkeypatch, vectors):
    given = []

    def refuse(*args, **kwargs):
        given.append((args, kwargs["token"]))
        raise pymilvus.MilvusException(message="no entry")

    monkeypatch.setattr(pymilvus, "MilvusClient", refuse)
    monkeypatch.setenv("MY_TOKEN", "top:secret")
    for name in ("MY_TOKEN", "MY_OTHER"):
        with pytest.raises(KrisselError, match=f"K541.*'http://host:1'.*no entry.*'{name}'") as error:
            MilvusIndex("http://host:1", token_env=name).build(vectors)
        assert "secret" not in str(error.value)
    assert given == [(("http://host:1",), "top:secret"), (("http://host:1",), "")]


def test_what_is_there_already_is_not_sent_again(client, uri, vectors, monkeypatch):
    MilvusIndex(uri).build(vectors)
    MilvusIndex(uri, type="IVF_FLAT", index_params={"nlist": 2}).build(vectors)
    MilvusIndex(uri).build(vectors[:50])
    assert len(client.list_collections()) == 3
    monkeypatch.setattr(pymilvus.MilvusClient, "insert", None)
    again = MilvusIndex(uri)
    again.build(vectors)
    assert_same(again.search(vectors[:9], 20), exactly(vectors, vectors[:9], 20))


def test_an_interrupted_build_leaves_no_collection(client, uri, vectors, monkeypatch):
    index = MilvusIndex(uri)
    index.build(vectors[:9])
    before = client.list_collections()
    insert = pymilvus.MilvusClient.insert

    def break_off(self, name, data):
        if data[0]["row"]:
            raise KeyboardInterrupt
        insert(self, name, data)

    monkeypatch.setattr(pymilvus.MilvusClient, "insert", break_off)
    index.batch_size = 50
    with pytest.raises(KeyboardInterrupt):
        index.build(vectors)
    assert client.list_collections() == before
    assert len(index) == 9
    assert_same(index.search(vectors[:9], 3), exactly(vectors[:9], vectors[:9], 3))


def test_each_sees_its_own_rows_of_a_collection_that_grew(client, uri, vectors, tmp_path):
    index = MilvusIndex(uri)
    index.build(vectors[:50])
    index.to_disk(tmp_path)
    old, second, first = MilvusIndex(uri), MilvusIndex(uri), MilvusIndex(uri)
    for each in (old, second, first):
        each.from_disk(tmp_path, vectors[:50])
    first.add(vectors[50:80])
    assert len(client.list_collections()) == 1
    # These other rows would have the same numbers.
    second.add(vectors[80:])
    assert len(client.list_collections()) == 2
    late = MilvusIndex(uri)
    late.from_disk(tmp_path, vectors[:50])
    seen = {old: np.arange(50), late: np.arange(50), first: np.arange(80), second: np.r_[:50, 80:N]}
    for each, numbers in seen.items():
        assert len(each) == len(numbers)
        allowed = np.arange(len(each)) % 3 > 0
        for mask in (None, allowed):
            found = each.search(vectors[:9], 60, mask)
            assert_same(found, exactly(vectors[numbers], vectors[:9], 60, mask))
    # Whoever knows the longer one still finds it whole.
    first.to_disk(tmp_path)
    late.from_disk(tmp_path, vectors[:80])
    assert len(late) == 80


def test_refuses_another_collection_than_its_own(client, uri, vectors, tmp_path):
    index = MilvusIndex(uri)
    index.build(vectors)
    index.to_disk(tmp_path)
    name = client.list_collections()[0]

    def refused(problem, vectors=vectors):
        with pytest.raises(KrisselError, match=f"K542.*{name}.*{uri}.*{problem}"):
            MilvusIndex(uri).from_disk(tmp_path, vectors)

    refused("its vector 0 is another one", vectors[::-1])
    changed = vectors.copy()
    changed[-1] += 1
    refused("its vector 119 is another one", changed)
    client.delete(name, ids=[7])
    refused("it holds 119 of the 120 vectors")
    client.drop_collection(name)
    refused("there is no such collection")
    with pytest.raises(KrisselError, match="K541"):
        index.search(vectors[:1], 1)
    client.create_collection(name, dimension=WIDTH)
    refused("its fields are")


def test_names_a_milvus_that_does_not_answer_or_refuses(vectors, monkeypatch, client, uri):
    monkeypatch.setattr(milvus_store, "CONNECT_SECONDS", 0.2)
    with pytest.raises(KrisselError, match="K541.*'http://127.0.0.1:9'.*MILVUS_TOKEN"):
        MilvusIndex("http://127.0.0.1:9").build(vectors)
    for address in (None, uri):
        with pytest.raises(KrisselError, match="K541.*NO_SUCH_TYPE"):
            MilvusIndex(address, type="no_such_type").build(vectors)


def test_writes_no_file_for_an_address(uri, vectors, client, monkeypatch, tmp_path):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    index = MilvusIndex(uri)
    index.build(vectors)
    index.search(vectors, 3)
    assert not list(Path(tmp_path).iterdir())
