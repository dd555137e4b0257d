import pickle
import sys

import numpy as np
import pytest
from spacy.vocab import Vocab

from spacy_krissel.errors import KrisselError
from spacy_krissel.index.exact import ExactIndex, make_exact_index
from spacy_krissel.index.faiss_index import FaissIndex, make_faiss_index
from spacy_krissel.index.kinds import make_index, named_index
from spacy_krissel.kb.prototype_kb import PrototypeKB
from spacy_krissel.kb.prototype_table import Prototype
from spacy_krissel.ontology.entity import Entity
from spacy_krissel.views import name_view

PLUGIN = """
from spacy_krissel.index.exact import ExactIndex

class ToyIndex(ExactIndex):
    kind = "toy"
    owns_vectors = True

    def to_disk(self, directory):
        (directory / "toy.txt").write_text("toy", encoding="utf8")
"""


@pytest.fixture
def toy_plugin(tmp_path):
    """The folder of an installed distribution that adds the kind "toy"."""
    folder = tmp_path / "site-packages"
    metadata = folder / "toy_index-1.0.dist-info"
    metadata.mkdir(parents=True)
    (folder / "toy_index.py").write_text(PLUGIN, encoding="utf8")
    (metadata / "METADATA").write_text(
        "Metadata-Version: 2.1\nName: toy-index\nVersion: 1.0\n", encoding="utf8"
    )
    (metadata / "entry_points.txt").write_text(
        "[krissel_indexes]\ntoy = toy_index:ToyIndex\n", encoding="utf8"
    )
    return folder


def test_a_saved_plugin_index_loads_only_with_the_plugin(toy_plugin, tmp_path, monkeypatch):
    with monkeypatch.context() as patch:
        patch.syspath_prepend(toy_plugin)
        made = make_index("toy", {"device": "cpu"})
        assert type(made).__name__ == "ToyIndex"
        kb = PrototypeKB(Vocab(), 2, index=type(made))
        kb.set_entities([Entity("D1", "one"), Entity("D2", "two")])
        kb.add_prototypes(
            [Prototype(id_, "name", name_view(id_)) for id_ in ("D1", "D2")],
            np.eye(2, dtype=np.float32),
        )
        kb.to_disk(tmp_path / "kb")
        loaded = PrototypeKB(Vocab(), 2).from_disk(tmp_path / "kb")
        assert loaded.description()["index"]["kind"] == "toy"
        assert loaded.search(np.eye(2, dtype=np.float32), 1).entities.tolist() == [[0], [1]]
    with pytest.raises(KrisselError, match="K507.*'toy'.*found: exact, faiss.*spacy-krissel-toy"):
        PrototypeKB(Vocab(), 2).from_disk(tmp_path / "kb")
    exact = PrototypeKB(Vocab(), 2).from_disk(tmp_path / "kb", exclude=["index"])
    assert exact.search(np.eye(2, dtype=np.float32), 1).entities.tolist() == [[0], [1]]


@pytest.mark.parametrize(
    "index", [ExactIndex(), FaissIndex("hnsw", m=8, float16=True), FaissIndex("ivf", nprobe=3)]
)
def test_settings_make_the_same_index(index):
    made = make_index(index.kind, index.settings)
    assert type(made) is type(index)
    assert made.settings == index.settings


def test_unknown_kinds_and_settings_raise():
    with pytest.raises(KrisselError, match="K507.*'annoy'.*exact, faiss"):
        make_index("annoy", {})
    with pytest.raises(KrisselError, match="K006"):
        make_index("exact", {"trees": 10})
    with pytest.raises(KrisselError, match="K006.*'trees'"):
        make_index("faiss", {"trees": 10})


@pytest.mark.parametrize("name", ["exact", "flat", "hnsw", "ivf"])
def test_a_name_makes_an_index(name):
    index = named_index(name)()
    assert name in (index.kind, getattr(index, "type", None))


def test_an_unknown_name_raises():
    with pytest.raises(KrisselError, match="K006.*'annoy'.*exact, flat, hnsw, ivf"):
        named_index("annoy")


@pytest.mark.parametrize("maker", [make_exact_index("cuda:1"), make_faiss_index("ivf", nprobe=3)])
def test_makers_can_be_pickled(maker):
    made = pickle.loads(pickle.dumps(maker))()
    assert made.settings == maker().settings
    assert getattr(made, "device", None) == getattr(maker(), "device", None)


@pytest.mark.parametrize("name", ["exact", "flat", "ivf", "ivf_sq8", "ivf_pq"])
def test_name_and_kind_make_an_index_for_a_device(name):
    for device in ("cpu", "cuda:1"):
        made = pickle.loads(pickle.dumps(named_index(name, device)))()
        again = make_index(made.kind, made.settings, device)
        assert made.device == again.device == device
        assert "device" not in made.settings


def test_a_device_that_a_kind_cannot_use_raises(toy_plugin, monkeypatch):
    with pytest.raises(KrisselError, match="K006.*'device'.*'cuda:0'.*'cpu' with type 'hnsw'"):
        named_index("hnsw", "cuda:0")
    with pytest.raises(KrisselError, match="K006.*'device'.*'cuda:0'.*'cpu' with type 'hnsw'"):
        make_index("faiss", {"type": "hnsw"}, "cuda:0")
    with pytest.raises(KrisselError, match="K006.*'device'.*'gpu'"):
        named_index("flat", "gpu")
    with pytest.raises(KrisselError, match="K006.*'device'.*'gpu'"):
        make_index("exact", {}, "gpu")
    source = (toy_plugin / "toy_index.py").read_text(encoding="utf8")
    source += "\n    def __init__(self):\n        super().__init__()\n"
    (toy_plugin / "toy_index.py").write_text(source, encoding="utf8")
    monkeypatch.syspath_prepend(toy_plugin)
    monkeypatch.delitem(sys.modules, "toy_index", raising=False)
    with pytest.raises(KrisselError, match="K006.*'device'.*'cuda:0'.*'toy' has no setting"):
        make_index("toy", {}, "cuda:0")
    assert make_index("toy", {}).device == "cpu"
    monkeypatch.delitem(sys.modules, "toy_index", raising=False)
