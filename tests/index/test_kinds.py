import pickle

import pytest

from spacy_krissel.errors import KrisselError
from spacy_krissel.index.exact import ExactIndex, make_exact_index
from spacy_krissel.index.faiss_index import FaissIndex, make_faiss_index
from spacy_krissel.index.kinds import make_index, named_index
from spacy_krissel.index.milvus_index import MilvusIndex, make_milvus_index


@pytest.mark.parametrize(
    "index",
    [
        ExactIndex(),
        FaissIndex("hnsw", m=8, float16=True),
        FaissIndex("ivf", nprobe=3),
        MilvusIndex(),
        MilvusIndex("http://host:1", "mine", "SECRET", "hnsw", {"M": 8}, {"ef": 9}, 10),
    ],
)
def test_settings_make_the_same_index_again(index):
    made = make_index(index.kind, index.settings)
    assert type(made) is type(index)
    assert made.settings == index.settings


def test_refuses_an_unknown_kind_and_a_strange_setting():
    with pytest.raises(KrisselError, match="K507.*'annoy'.*exact, faiss"):
        make_index("annoy", {})
    with pytest.raises(KrisselError, match="K006"):
        make_index("exact", {"trees": 10})
    with pytest.raises(KrisselError, match="K006.*'trees'"):
        make_index("faiss", {"trees": 10})
    with pytest.raises(KrisselError, match="K006.*milvus index.*'trees'"):
        make_index("milvus", {"trees": 10})


@pytest.mark.parametrize("name", ["exact", "flat", "hnsw", "ivf", "milvus"])
def test_a_name_makes_an_index(name):
    index = named_index(name)()
    assert name in (index.kind, getattr(index, "type", None))


def test_refuses_an_unknown_name():
    with pytest.raises(KrisselError, match="K006.*'annoy'.*exact, flat, hnsw, ivf, .*milvus"):
        named_index("annoy")


@pytest.mark.parametrize("maker", [make_exact_index("cuda:1"), make_faiss_index("ivf", nprobe=3), make_milvus_index()])
def test_makers_can_be_pickled(maker):
    made = pickle.loads(pickle.dumps(maker))()
    assert made.settings == maker().settings
    assert getattr(made, "device", None) == getattr(maker(), "device", None)
