import dataclasses

import numpy as np
import pytest

from spacy_krissel.index.faiss_index import make_faiss_index
from spacy_krissel.kb import prototype_kb
from spacy_krissel.kb.prototype_table import Prototype
from spacy_krissel.kb.snapshot import KBSnapshot
from spacy_krissel.views import View

ADDED = [Prototype("D001", "gold", View("", "sclerosis", ""))]


@pytest.mark.parametrize("name", [field.name for field in dataclasses.fields(KBSnapshot)])
def test_a_snapshot_is_frozen(make_kb, name):
    with pytest.raises(dataclasses.FrozenInstanceError):
        setattr(make_kb().snapshot(), name, None)


def test_a_knowledge_base_and_its_snapshot_give_the_same_answers(make_kb, vectors):
    kb = make_kb()
    snapshot = kb.snapshot()
    assert (
        snapshot.snapshot() is snapshot is kb.current and snapshot.build_index() is kb.build_index()
    )
    for one, other in ((kb, snapshot), (snapshot, kb)):
        assert one.description() == other.description() and list(one.entity_ids) == list(
            other.entity_ids
        )
        assert one["D001"] == other["D001"] and one.find("stenosis", 2) == other.find("stenosis", 2)
        assert ("D001" in one, "D9" in one, len(one)) == (
            "D001" in other,
            "D9" in other,
            len(other),
        )
        np.testing.assert_array_equal(
            one.search(vectors, 2).entities, other.search(vectors, 2).entities
        )
        np.testing.assert_array_equal(one.get_vectors(["D001"]), other.get_vectors(["D001"]))


def test_a_grown_index_is_reused_when_its_prototypes_are_restored(make_kb, vectors, monkeypatch):
    pytest.importorskip("faiss")
    kb = make_kb(index=make_faiss_index("hnsw"))
    kb.search(vectors, 1)
    kb.add_prototypes(ADDED, vectors[:1])
    with kb.without_prototypes(source="none"):
        assert len(kb.build_index()) == len(vectors) + 1
    monkeypatch.setattr(
        type(kb.current.index), "build", lambda *_: pytest.fail("it was built again")
    )
    assert len(kb.build_index()) == kb.n_prototypes == len(vectors) + 1


def test_a_change_during_saving_is_not_lost(make_kb, vectors, tmp_path, monkeypatch):
    kb, write = make_kb(), prototype_kb.write_snapshot

    def write_slowly(*args):
        written = write(*args)
        kb.add_prototypes(ADDED, vectors[:1])
        return written

    monkeypatch.setattr(prototype_kb, "write_snapshot", write_slowly)
    kb.to_disk(tmp_path / "kb")
    assert kb.n_prototypes == len(vectors) + 1 and not kb.is_saved(tmp_path / "kb")
    monkeypatch.undo()
    kb.to_disk(tmp_path / "kb")
    assert kb.is_saved(tmp_path / "kb")
