"""The plugin of `experiments/milvus`, against Milvus Lite in a process of its own, which stands for
a server."""

import json
import pickle
import subprocess
import sys
from configparser import ConfigParser
from importlib.metadata import EntryPoint
from pathlib import Path
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from kb.conftest import make_kb  # noqa: F401
from spacy.vocab import Vocab
from spacy_krissel_milvus import index as milvus
from spacy_krissel_milvus.errors import Errors
from spacy_krissel_milvus.index import MilvusIndex, make_milvus_index

from spacy_krissel import errors as product
from spacy_krissel.errors import KrisselError
from spacy_krissel.index import kinds
from spacy_krissel.index.exact import ExactIndex
from spacy_krissel.kb.candidates import candidate_dicts
from spacy_krissel.kb.prototype_kb import PrototypeKB
from spacy_krissel.util import plugins

PLUGIN = Path(milvus.__file__).parents[1]
N, WIDTH = 120, 4
ADDRESS = "http://host:1"
FORK = """
import os, sys, numpy as np
from spacy_krissel_milvus.index import MilvusIndex
index = MilvusIndex(sys.argv[1])
vectors = np.eye(20, dtype=np.float32)
index.build(vectors)
search = lambda: index.search(vectors, 1)[1].ravel().tolist()
assert search() == list(range(20))
child = os.fork()
if not child:
    os._exit(0 if search() == list(range(20)) else 1)
status = os.waitpid(child, 0)[1]
assert search() == list(range(20))
sys.exit(os.waitstatus_to_exitcode(status))
"""


@pytest.fixture(scope="module")
def vectors():
    """Small whole numbers: their products are exact in float32, and ties are frequent."""
    return np.random.default_rng(0).integers(-2, 3, (N, WIDTH)).astype(np.float32)


@pytest.fixture(scope="module")
def built(milvus_uri, vectors):
    index = MilvusIndex(milvus_uri, collection="built")
    index.build(vectors)
    return index


@pytest.fixture
def client(milvus_uri):
    import pymilvus

    client = pymilvus.MilvusClient(milvus_uri)
    yield client
    for name in collections(client):
        client.drop_collection(name)
    client.close()


def collections(client):
    return [name for name in client.list_collections() if name.startswith("krissel")]


def exactly(vectors, *search):
    index = ExactIndex()
    index.build(vectors)
    return index.search(*search)


def assert_same(found, expected):
    np.testing.assert_array_equal(found[1], expected[1])
    np.testing.assert_array_equal(found[0], expected[0])


# Without Milvus.


@pytest.fixture
def entry_points():
    """Return the entry points that the distribution declares, by group."""
    parser = ConfigParser()
    parser.optionxform = str
    parser.read(PLUGIN / "pyproject.toml", encoding="utf8")
    groups = {
        name.removeprefix("project.entry-points."): parser[name] for name in parser.sections()
    }
    return {
        group: [
            EntryPoint(name.strip('"'), value.strip('"'), group)
            for name, value in groups[group].items()
        ]
        for group in ("spacy_misc", "krissel_indexes")
    }


def test_the_entry_points_resolve(entry_points):
    (point,) = entry_points["krissel_indexes"]
    assert (point.name, point.load()) == (MilvusIndex.kind, MilvusIndex)
    assert [(point.name, point.load()) for point in entry_points["spacy_misc"]] == [
        ("spacy-krissel.MilvusIndex.v1", make_milvus_index)
    ]


def test_error_codes_differ_from_those_of_the_package():
    for code in (name for name in vars(Errors) if not name.startswith("_")):
        assert getattr(Errors, code).startswith(f"[{code}] ")
        assert not hasattr(product.Errors, code)


@pytest.mark.parametrize(
    "settings", [{}, {"collection": "mine", "type": "hnsw", "search_params": {"ef": 9}}]
)
def test_settings_make_the_same_index(entry_points, settings):
    index = pickle.loads(pickle.dumps(make_milvus_index(ADDRESS, **settings)))()
    with patch.object(plugins, "entry_points", lambda group: entry_points[group]):
        assert kinds.make_index("milvus", index.settings).settings == index.settings
        with pytest.raises(KrisselError, match="K006.*milvus index.*'trees'"):
            kinds.make_index("milvus", {"trees": 10})


@pytest.mark.parametrize(
    "uri", ["milvus.db", "host:19530", "ftp://host", "", "http://me:secret@host:19530"]
)
def test_an_invalid_uri_raises(uri):
    with pytest.raises(KrisselError, match="K006.*'uri'") as error:
        make_milvus_index(uri)()
    assert "secret" not in str(error.value)


@pytest.mark.parametrize("collection", ["two words", ""])
def test_an_invalid_collection_name_raises(collection):
    with pytest.raises(KrisselError, match="K006.*'collection'"):
        MilvusIndex(ADDRESS, collection)


def test_a_missing_package_raises_with_the_install_command(vectors, monkeypatch):
    monkeypatch.setitem(sys.modules, "pymilvus", None)
    with pytest.raises(KrisselError, match="K540.*pip install pymilvus"):
        MilvusIndex(ADDRESS).build(vectors)


def test_search_settings_do_not_require_another_collection():
    index = MilvusIndex(ADDRESS, search_params={"ef": 9}, token_env="MINE")
    assert index.can_read(MilvusIndex(ADDRESS).settings)
    for other in ({"type": "HNSW"}, {"index_params": {"M": 8}}, {"collection": "other"}):
        assert not index.can_read(MilvusIndex(ADDRESS, **other).settings)
    assert not index.can_read(MilvusIndex("http://host:2").settings)


# With Milvus Lite.


# Milvus's limit, small enough here for each way of searching to be taken.
@given(
    queries=arrays(np.float32, (3, WIDTH), elements=st.integers(-2, 2).map(float)),
    k=st.integers(1, N + 3),
    allowed=st.none() | arrays(np.bool_, N),
    results=st.sampled_from([5, 40, 16_384]),
)
@settings(deadline=None, max_examples=60)
def test_results_equal_exact_search(built, vectors, queries, k, allowed, results):
    with patch.object(milvus, "MAX_RESULTS", results):
        found = built.search(queries, k, allowed)
    assert_same(found, exactly(vectors, queries, k, allowed))


def test_equal_vectors_are_ordered_by_row(client, milvus_uri):
    index = MilvusIndex(milvus_uri)
    index.build(np.ones((300, 2), dtype=np.float32))
    assert index.search(np.ones((1, 2), dtype=np.float32), 5)[1].tolist() == [[0, 1, 2, 3, 4]]


def test_vectors_and_queries_are_sent_in_parts(client, milvus_uri, vectors, monkeypatch):
    """Vectors out, vectors back and queries, in parts."""
    monkeypatch.setattr(milvus, "MESSAGE_BYTES", 10 * (4 * WIDTH + 16))
    monkeypatch.setattr(milvus, "QUERIES", 7)
    sent = []
    insert = type(client).insert
    monkeypatch.setattr(
        type(client),
        "insert",
        lambda self, name, data: sent.append(len(data)) or insert(self, name, data),
    )
    index = MilvusIndex(milvus_uri)
    index.build(vectors)
    assert sent == [10] * 12
    with patch.object(milvus, "MAX_RESULTS", 5):
        assert_same(index.search(vectors[:20], 9), exactly(vectors, vectors[:20], 9))


@pytest.mark.parametrize(
    "width, type", [("ef", "HNSW"), ("search_list", "DISKANN"), (None, "IVF_FLAT")]
)
def test_the_search_width_is_at_least_the_limit(width, type, monkeypatch):
    pytest.importorskip("pymilvus")
    index = MilvusIndex(
        ADDRESS, type=type, search_params={"other": 1, **({width: 100} if width else {})}
    )
    asked = []

    class Client:
        def search(self, name, **settings):
            asked.append(settings["search_params"]["params"])
            return []

        def close(self):
            pass

    index._client = Client()
    for limit in (50, 500):
        index._best(np.ones((0, 2), dtype=np.float32), limit)
        index._best(np.ones((1, 2), dtype=np.float32), limit)
    expected = [{"other": 1, width: 100}, {"other": 1, width: 500}] if width else [{"other": 1}] * 2
    assert asked == expected


@pytest.mark.skipif(sys.platform == "win32", reason="no fork here")
def test_a_child_forked_after_a_search_can_search(milvus_uri):
    command = [sys.executable, "-c", FORK, milvus_uri]
    subprocess.run(command, check=True, timeout=120, env={"PYTHONPATH": str(PLUGIN)})


def test_a_saved_kb_finds_the_same_entities(make_kb, client, milvus_uri, entry_points, tmp_path):  # noqa: F811
    kb = make_kb(make_milvus_index(milvus_uri))
    kb.to_disk(tmp_path)
    with patch.object(plugins, "entry_points", lambda group: entry_points[group]):
        loaded = PrototypeKB(Vocab(), 4).from_disk(tmp_path)
    assert loaded.description()["index"]["kind"] == "milvus"
    queries = np.eye(4, dtype=np.float32)
    answers = [candidate_dicts(each, each.search(queries, 4)) for each in (make_kb(), kb, loaded)]
    assert answers[0] == answers[1] == answers[2]


def test_only_the_collection_name_is_saved(client, milvus_uri, vectors, tmp_path, monkeypatch):
    monkeypatch.setenv("MILVUS_TOKEN", "top:secret")
    index = MilvusIndex(milvus_uri)
    index.build(vectors)
    index.to_disk(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["milvus.json"]
    saved = json.loads((tmp_path / "milvus.json").read_text())
    assert collections(client) == [saved["collection"]]
    copies = [MilvusIndex(milvus_uri), pickle.loads(pickle.dumps(index))]
    copies[0].from_disk(tmp_path, vectors)
    for copy in copies:
        assert_same(copy.search(vectors[:9], 20), exactly(vectors, vectors[:9], 20))
    for written in (
        json.dumps(index.settings),
        (tmp_path / "milvus.json").read_text(),
        str(pickle.dumps(index)),
    ):
        assert "secret" not in written


def test_the_token_is_read_from_the_environment(monkeypatch, vectors):
    pymilvus = pytest.importorskip("pymilvus")
    given = []

    def refuse(*args, **kwargs):
        given.append((args, kwargs["token"]))
        raise pymilvus.MilvusException(message="no entry")

    monkeypatch.setattr(pymilvus, "MilvusClient", refuse)
    monkeypatch.setenv("MY_TOKEN", "top:secret")
    for name in ("MY_TOKEN", "MY_OTHER"):
        with pytest.raises(KrisselError, match=f"K541.*'{ADDRESS}'.*no entry.*'{name}'") as error:
            MilvusIndex(ADDRESS, token_env=name).build(vectors)
        assert "secret" not in str(error.value)
    assert given == [((ADDRESS,), "top:secret"), ((ADDRESS,), "")]


def test_an_existing_collection_is_not_sent_again(client, milvus_uri, vectors, monkeypatch):
    MilvusIndex(milvus_uri).build(vectors)
    MilvusIndex(milvus_uri, type="IVF_FLAT", index_params={"nlist": 2}).build(vectors)
    MilvusIndex(milvus_uri).build(vectors[:50])
    assert len(collections(client)) == 3
    monkeypatch.setattr(type(client), "insert", None)
    again = MilvusIndex(milvus_uri)
    again.build(vectors)
    assert_same(again.search(vectors[:9], 20), exactly(vectors, vectors[:9], 20))


def test_an_interrupted_build_leaves_no_collection(client, milvus_uri, vectors, monkeypatch):
    index = MilvusIndex(milvus_uri)
    index.build(vectors[:9])
    before = collections(client)
    insert = type(client).insert

    def break_off(self, name, data):
        if data[0]["row"]:
            raise KeyboardInterrupt
        insert(self, name, data)

    monkeypatch.setattr(type(client), "insert", break_off)
    monkeypatch.setattr(milvus, "MESSAGE_BYTES", 50 * (4 * WIDTH + 16))
    with pytest.raises(KeyboardInterrupt):
        index.build(vectors)
    assert collections(client) == before
    assert len(index) == 9
    assert_same(index.search(vectors[:9], 3), exactly(vectors[:9], vectors[:9], 3))


def test_rows_added_to_one_index_are_not_seen_by_another(client, milvus_uri, vectors, tmp_path):
    index = MilvusIndex(milvus_uri)
    index.build(vectors[:50])
    index.to_disk(tmp_path)
    old, second, first = MilvusIndex(milvus_uri), MilvusIndex(milvus_uri), MilvusIndex(milvus_uri)
    for each in (old, second, first):
        each.from_disk(tmp_path, vectors[:50])
    first.add(vectors[50:80])
    second.add(vectors[80:])
    assert len(collections(client)) == 3
    for each, numbers in ((old, np.arange(50)), (first, np.arange(80)), (second, np.r_[:50, 80:N])):
        assert len(each) == len(numbers)
        for mask in (None, np.arange(len(each)) % 3 > 0):
            found = each.search(vectors[:9], 60, mask)
            assert_same(found, exactly(vectors[numbers], vectors[:9], 60, mask))


def test_a_collection_that_does_not_match_raises(client, milvus_uri, vectors, tmp_path):
    index = MilvusIndex(milvus_uri)
    index.build(vectors)
    index.to_disk(tmp_path)
    name = collections(client)[0]

    def refused(problem, vectors=vectors):
        with pytest.raises(KrisselError, match=f"K542.*{name}.*{milvus_uri}.*{problem}"):
            MilvusIndex(milvus_uri).from_disk(tmp_path, vectors)

    refused("its vector 0 is another one", vectors[::-1])
    changed = vectors.copy()
    changed[-1] += 1
    refused("its vector 119 is another one", changed)
    client.delete(name, ids=[7])
    refused("it holds 119 vectors, not 120")
    client.drop_collection(name)
    refused("there is no such collection")
    with pytest.raises(KrisselError, match="K541"):
        index.search(vectors[:1], 1)
    client.create_collection(name, dimension=WIDTH)
    refused("its fields are")


def test_a_server_that_does_not_answer_or_refuses_raises(vectors, monkeypatch, milvus_uri):
    monkeypatch.setattr(milvus, "CONNECT_SECONDS", 0.2)
    with pytest.raises(KrisselError, match="K541.*'http://127.0.0.1:9'.*MILVUS_TOKEN"):
        MilvusIndex("http://127.0.0.1:9").build(vectors)
    with pytest.raises(KrisselError, match="K541.*NO_SUCH_TYPE"):
        MilvusIndex(milvus_uri, type="no_such_type").build(vectors)
