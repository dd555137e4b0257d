import pickle

import pytest

from spacy_krissel.errors import KrisselError
from spacy_krissel.index.exact import ExactIndex, make_exact_index
from spacy_krissel.index.faiss_index import FaissIndex, make_faiss_index
from spacy_krissel.index.kinds import make_index


@pytest.mark.parametrize("index", [ExactIndex(), FaissIndex("hnsw", m=8, float16=True), FaissIndex("ivf", nprobe=3)])
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


@pytest.mark.parametrize("maker", [make_exact_index("cuda:1"), make_faiss_index("ivf", nprobe=3)])
def test_makers_can_be_pickled(maker):
    made = pickle.loads(pickle.dumps(maker))()
    assert made.settings == maker().settings
    assert made.device == maker().device
