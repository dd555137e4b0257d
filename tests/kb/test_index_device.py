"""Knowledge bases whose index lives on a card, without one: it searches on the CPU, as after a
fork."""

import json
import pickle
from functools import partial

import numpy as np
import pytest
from spacy.vocab import Vocab

from spacy_krissel.errors import KrisselError
from spacy_krissel.index import devices
from spacy_krissel.index.exact import make_exact_index
from spacy_krissel.index.faiss_index import FaissIndex, make_faiss_index
from spacy_krissel.kb.prototype_kb import PrototypeKB
from spacy_krissel.kb.prototype_table import Prototype
from spacy_krissel.kb.snapshot import device_of
from spacy_krissel.kb.storage import INDEX_DIR
from spacy_krissel.views import name_view

QUERIES = np.eye(4, dtype=np.float32)
CARD = "cuda:1"


@pytest.fixture(autouse=True)
def no_card(monkeypatch):
    monkeypatch.setattr(devices, "cuda_lost", lambda: True)


def device(kb):
    return device_of(kb.build_index())


@pytest.mark.parametrize(
    "index, chosen, expected",
    [
        (None, None, "cpu"),
        (None, CARD, CARD),
        (make_exact_index("cuda:0"), None, "cuda:0"),
        (make_exact_index("cuda:0"), CARD, CARD),
        (make_exact_index("cuda:0"), "cpu", "cpu"),
        (make_faiss_index("flat"), CARD, CARD),
    ],
)
def test_index_device_applies_to_a_new_index(make_kb, index, chosen, expected):
    pytest.importorskip("faiss")
    kb = make_kb(index, index_device=chosen)
    assert device(kb) == device(kb.snapshot()) == expected and kb.index_device == chosen
    kb.add_prototypes([Prototype("D004", "gold", name_view("seen"))], QUERIES[3:])
    kb.remove_prototypes(kind="gold")
    assert device(kb) == expected, "where it is built again"
    kb.use_index(make_exact_index("cpu"))
    assert device(kb) == (chosen or "cpu")


@pytest.mark.parametrize(
    "saved_with", [None, make_faiss_index("flat"), make_faiss_index("ivf", nlist=2)]
)
@pytest.mark.parametrize("named", [True, False], ids=["config", "manifest"])
def test_index_device_applies_to_a_loaded_index(make_kb, tmp_path, saved_with, named):
    pytest.importorskip("faiss")
    kb = make_kb(saved_with)
    kb.to_disk(tmp_path / "kb")
    index = saved_with if named else None
    opened = PrototypeKB(Vocab(), 4, index=index, index_device=CARD).from_disk(tmp_path / "kb")
    assert device(opened) == device(pickle.loads(pickle.dumps(opened))) == CARD
    assert opened.description() == kb.description(), "another index was made"
    found, expected = (each.search(QUERIES, 4).entities for each in (opened, kb))
    assert (found == expected).all()
    opened.remove_prototypes(kind="gold")
    assert opened.current.new_index().device == CARD


def test_a_saved_knowledge_base_contains_no_device(make_kb, tmp_path):
    make_kb(None, index_device=CARD).to_disk(tmp_path / "kb")
    assert "cuda" not in json.dumps(json.loads((tmp_path / "kb" / "manifest.json").read_text()))
    assert not any((tmp_path / "kb" / INDEX_DIR).iterdir())
    assert device(PrototypeKB(Vocab(), 4).from_disk(tmp_path / "kb")) == "cpu"


def test_an_index_that_is_set_stays_on_its_device(make_kb):
    kb = make_kb(None, index_device=CARD)
    index = make_exact_index("cuda:0")()
    index.build(kb.vectors)
    kb.set_index(index)
    assert kb.build_index() is index and kb.index_device == "cuda:0"
    kb.remove_prototypes(kind="gold")
    assert device(kb) == "cuda:0"


def test_invalid_devices_and_hnsw_on_a_gpu_raise(make_kb, tmp_path):
    pytest.importorskip("faiss")
    hnsw = partial(FaissIndex, type="hnsw")
    for settings in (
        {"index_device": "gpu"},
        {"index_device": 0},
        {"index": hnsw, "index_device": CARD},
    ):
        with pytest.raises(KrisselError, match="K006.*device"):
            PrototypeKB(Vocab(), 4, **settings)
    kb = make_kb(None, index_device=CARD)
    with pytest.raises(KrisselError, match="K006.*hnsw"):
        kb.use_index(hnsw)
    assert kb.description()["index"]["kind"] == "exact"
    make_kb(hnsw).to_disk(tmp_path / "kb")
    with pytest.raises(KrisselError, match="K006.*hnsw"):
        PrototypeKB(Vocab(), 4, index_device=CARD).from_disk(tmp_path / "kb")
