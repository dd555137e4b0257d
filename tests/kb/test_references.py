"""Eq. 6 by folding is eq. 6 spelled out, whatever was done to the knowledge base before."""

import json
import pickle

import numpy as np
import pytest
from spacy.vocab import Vocab

from spacy_krissel.errors import KrisselError
from spacy_krissel.index.faiss_index import make_faiss_index
from spacy_krissel.kb.prototype_kb import PrototypeKB, empty_kb
from spacy_krissel.kb.prototype_table import Prototype
from spacy_krissel.views import View, name_view

WIDTH = 8
N_ENTITIES = 12
OWNERS = [entity for entity in range(N_ENTITIES - 2) for _ in range(1 + entity % 4)]


def unit(vectors):
    return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


def draw(n, seed):
    return unit(np.random.default_rng(seed).standard_normal((n, WIDTH))).astype(np.float32)


OWN, LATER, REFERENCES, QUERIES = (
    draw(n, seed) for seed, n in enumerate((len(OWNERS), 3, N_ENTITIES, 20))
)
# Two more of an entity that has some already, and one of an entity that had none.
LATER_OWNERS = [2, 2, N_ENTITIES - 1]


class Entity:
    types = ()

    def __init__(self, row):
        self.id, self.name = f"E{row:02}", f"name {row}"


def prototypes_of(owners, kind="mention"):
    return [Prototype(f"E{row:02}", kind, View("a ", f"name {row}", "")) for row in owners]


def add_later(kb):
    kb.add_prototypes(prototypes_of(LATER_OWNERS, "gold"), LATER)


@pytest.fixture
def make():
    def make(references=REFERENCES, **settings):
        kb = PrototypeKB(Vocab(), WIDTH, **settings)
        kb.set_entities(map(Entity, range(N_ENTITIES)))
        kb.add_prototypes(prototypes_of(OWNERS), OWN)
        if references is not None:
            kb.set_references([([f"E{row:02}" for row in range(N_ENTITIES)], references)])
        return kb

    return make


def spelled_out(owners, own, references, weight, dtype):
    """`max_p q·(c_p + w·r_e)` of every query and entity, from vectors as they are stored."""
    own, references = (each.astype(dtype).astype(np.float64) for each in (own, references))
    scores = np.full((len(QUERIES), N_ENTITIES), -np.inf)
    for owner, c in zip(owners, own, strict=True):
        for i, q in enumerate(QUERIES.astype(np.float64)):
            scores[i, owner] = max(scores[i, owner], q @ (c + weight * references[owner]))
    return scores


def check(kb, later=False, references=REFERENCES, weight=1.0):
    owners = OWNERS + LATER_OWNERS * later
    own = np.concatenate([OWN, LATER]) if later else OWN
    expected = spelled_out(owners, own, references, weight, kb.prototypes.dtype)
    result = kb.search(QUERIES, N_ENTITIES)
    tolerance = 1e-6 if kb.prototypes.dtype == "float32" else 2e-3
    for i, row in enumerate(result.entities):
        found = row[row >= 0]
        assert len(found) == np.isfinite(expected[i]).sum()
        np.testing.assert_allclose(
            result.scores[i, : len(found)], expected[i, found], atol=tolerance
        )
        assert (np.diff(result.scores[i, : len(found)]) <= 0).all()
    # The winner is that of the equation wherever rounding cannot have changed it.
    clear = np.sort(expected, axis=1)[:, -1] - np.sort(expected, axis=1)[:, -2] > 2 * tolerance
    assert clear.sum() > len(QUERIES) // 2
    assert (result.entities[clear, 0] == expected[clear].argmax(axis=1)).all()
    assert kb.build_index() is kb.build_index()


@pytest.fixture(params=["float32", "float16"])
def dtype(request):
    return request.param


@pytest.fixture(params=["exact", "flat"])
def index(request):
    if request.param == "exact":
        return None
    pytest.importorskip("faiss")
    return make_faiss_index("flat")


@pytest.mark.parametrize("weight", [1.0, 0.25, 0.0])
def test_folded_references_equal_explicit_sums(make, dtype, index, weight):
    check(make(dtype=dtype, index=index, reference_weight=weight), weight=weight)


def test_scores_with_references_agree_with_hand_computed_values():
    kb = PrototypeKB(Vocab(), 2)
    kb.set_entities(map(Entity, range(2)))
    kb.add_prototypes(prototypes_of([0, 1, 1]), [[1.0, 0.0], [0.0, 1.0], [0.5, 0.5]])
    kb.set_references([(["E01"], [[1.0, -1.0]])])
    # Entity 0 has no reference: (1, 0). Entity 1: (0, 1) + (1, -1) = (1, 0) and (0.5, 0.5) + (1,
    # -1) = (1.5, -0.5).
    assert kb.vectors.tolist() == [[1, 0], [1, 0], [1.5, -0.5]]
    result = kb.search([[1.0, 0.0], [0.0, -1.0]], 2)
    assert result.entities.tolist() == [[1, 0], [1, 0]]
    assert result.scores.tolist() == [[1.5, 1], [0.5, 0]]
    assert result.prototypes[:, 0].tolist() == [2, 2]


@pytest.mark.parametrize("searched_before", [True, False])
def test_prototypes_added_later_get_their_references(make, dtype, index, searched_before):
    kb = make(dtype=dtype, index=index)
    if searched_before:
        check(kb)
    add_later(kb)
    check(kb, later=True)
    at_once = make(None, dtype=dtype)
    add_later(at_once)
    at_once.set_references([(list(at_once.entity_ids), REFERENCES)])
    assert (at_once.vectors == kb.vectors).all()


def test_references_survive_saving_and_loading(make, dtype, index, tmp_path):
    kb = make(dtype=dtype, index=index, reference_weight=0.5)
    kb.to_disk(tmp_path / "kb")
    for loaded in (
        PrototypeKB(Vocab(), WIDTH).from_disk(tmp_path / "kb"),
        PrototypeKB(Vocab(), 0).from_bytes(kb.to_bytes()),
        pickle.loads(pickle.dumps(kb)),
        pickle.loads(pickle.dumps(make(dtype=dtype, index=index, reference_weight=0.5))),
    ):
        assert loaded.description() == kb.description()
        check(loaded, weight=0.5)
        assert (loaded.vectors == kb.vectors).all()
        add_later(loaded)
        check(loaded, later=True, weight=0.5)
        loaded.to_disk(tmp_path / "again")
        check(PrototypeKB(Vocab(), WIDTH).from_disk(tmp_path / "again"), later=True, weight=0.5)


def test_vectors_without_references_can_be_recovered(make, dtype, tmp_path):
    kb = make(dtype=dtype, reference_weight=0.5)
    add_later(kb)
    kb.to_disk(tmp_path / "kb")
    loaded = PrototypeKB(Vocab(), WIDTH).from_disk(tmp_path / "kb")
    rows = np.r_[kb.n_prototypes - 2, 0:5]
    expected = np.concatenate([OWN, LATER])[rows]
    for each in (kb, loaded):
        assert each.prototypes.base_vectors(rows).dtype == np.float32
        np.testing.assert_allclose(
            each.prototypes.base_vectors(rows), expected, atol=1e-6 if dtype == "float32" else 1e-3
        )
    np.testing.assert_array_equal(make(None).prototypes.base_vectors(np.arange(len(OWN))), OWN)


@pytest.mark.parametrize("references_first", [False, True])
def test_a_reference_prototype_is_not_added_to_itself(references_first):
    """A reference prototype is searched unchanged, whatever the reference weight."""
    kb = PrototypeKB(Vocab(), WIDTH, reference_weight=0.5)
    kb.set_entities(map(Entity, range(2)))
    blocks = [(["E00", "E01"], REFERENCES[:2])]
    if references_first:
        kb.set_references(blocks)
    kb.add_prototypes(prototypes_of([0]), OWN[:1])
    kb.add_prototypes(prototypes_of([1], "reference"), REFERENCES[1:2])
    if not references_first:
        kb.set_references(blocks)
    np.testing.assert_allclose(kb.vectors, [OWN[0] + 0.5 * REFERENCES[0], REFERENCES[1]], atol=1e-6)
    np.testing.assert_allclose(
        kb.prototypes.base_vectors(np.arange(2)), [OWN[0], REFERENCES[1]], atol=1e-6
    )
    assert kb.remove_prototypes(kind="mention") == 1
    np.testing.assert_array_equal(kb.vectors, REFERENCES[1:2])


def test_files_are_memory_mapped_and_stable_after_loading(make, tmp_path):
    kb = make()
    kb.to_disk(tmp_path / "one")
    loaded = PrototypeKB(Vocab(), WIDTH).from_disk(tmp_path / "one")
    assert isinstance(loaded.vectors, np.memmap)
    assert isinstance(loaded.prototypes.references.vectors, np.memmap)
    loaded.to_disk(tmp_path / "two")
    files = [
        {
            file_.name: file_.read_bytes()
            for file_ in (tmp_path / name).rglob("*")
            if file_.is_file()
        }
        for name in ("one", "two")
    ]
    assert files[0] == files[1] and "references.npy" in files[0]
    # One copy of the vectors.
    assert len([name for name in files[0] if name.endswith(".npy")]) == 2


def test_a_kb_without_references_writes_none(make, tmp_path):
    make(None).to_disk(tmp_path / "kb")
    manifest = json.loads((tmp_path / "kb/manifest.json").read_text())
    assert manifest["references"] is None
    assert "references.npy" not in manifest["files"]
    loaded = PrototypeKB(Vocab(), WIDTH).from_disk(tmp_path / "kb")
    assert loaded.prototypes.references is None
    check(loaded, weight=0.0)


def test_normalized_vectors_are_added_without_normalizing_the_sum(make):
    """The parts are scaled to unit length, the sums are not: the score is a sum of cosines."""
    kb = PrototypeKB(Vocab(), WIDTH, normalize=True)
    kb.set_entities(map(Entity, range(N_ENTITIES)))
    kb.add_prototypes(prototypes_of(OWNERS), OWN * 3)
    kb.set_references([([f"E{row:02}" for row in range(N_ENTITIES)], REFERENCES * 5)])
    check(kb)


def test_new_entities_leave_references_with_their_entities(make):
    kb = make()
    check(kb)
    before = kb.vectors.copy()
    new = Entity(0)
    new.id = "D99"
    kb.set_entities([new, *map(Entity, range(N_ENTITIES))])
    references = kb.prototypes.references.vectors
    assert not references[0].any() and (references[1:] == REFERENCES).all()
    assert (kb.vectors == before).all()
    shifted = kb.search(QUERIES, 1).entities[:, 0] - 1
    assert (shifted == make().search(QUERIES, 1).entities[:, 0]).all()


def test_setting_references_again_replaces_all(make):
    kb = make()
    check(kb)
    kb.set_references([(["E03"], REFERENCES[3:4])])
    only = np.zeros_like(REFERENCES)
    only[3] = REFERENCES[3]
    check(kb, references=only)
    assert kb.description()["references"] == {"entities": 1, "weight": 1.0}


def test_ties_are_broken_by_prototypes_with_their_references(make):
    """Two entities share a prototype; the next-best prototype decides, with its reference."""
    kb = PrototypeKB(Vocab(), 1)
    kb.set_entities(map(Entity, range(2)))
    kb.add_prototypes(prototypes_of([0, 1, 0, 1]), [[1.0], [0.875], [0.5], [0.4375]])
    kb.set_references([(["E01"], [[0.125]])])
    # 1 and 0.5 against 0.875 + 0.125 and 0.4375 + 0.125.
    result = kb.search([[1.0]], 2)
    assert result.scores[0].tolist() == [1.0, 1.0]
    assert result.entities[0].tolist() == [1, 0] and not result.ties


def test_entities_are_selected_by_prototype_kind(make):
    kb = make()
    add_later(kb)
    kb.add_prototypes(
        [Prototype("E00", "reference", View("", "name", "", reference=True))], REFERENCES[:1]
    )
    assert kb.prototypes.entities_of(["gold"]).tolist() == [2, N_ENTITIES - 1]
    assert kb.prototypes.entities_of(["reference", "gold"]).tolist() == [0, 2, N_ENTITIES - 1]
    assert not kb.prototypes.entities_of(["name"]).size
    assert kb.prototypes_at([kb.n_prototypes - 1])[0].view.reference
    assert not kb.prototypes_at([0])[0].view.reference


def test_invalid_references_and_weights_raise(make):
    kb = make(None)
    with pytest.raises(KrisselError, match="K531.*2 entities and 1 vectors"):
        kb.set_references([(["E00", "E01"], REFERENCES[:1])])
    with pytest.raises(KrisselError, match="K532.*1 of 2.*'X'"):
        kb.set_references([(["E00", "X"], REFERENCES[:2])])
    with pytest.raises(KrisselError, match="K503"):
        kb.set_references([(["E00"], np.ones((1, 3)))])
    with pytest.raises(KrisselError, match="K504"):
        kb.set_references([(["E00"], np.full((1, WIDTH), np.nan))])
    for weight in (-1.0, float("nan"), float("inf")):
        with pytest.raises(KrisselError, match="K006.*reference_weight"):
            empty_kb(reference_weight=weight)(Vocab(), WIDTH)


def test_damaged_files_raise_with_their_name(make, tmp_path):
    for name in ("references.npy", "vectors.npy"):
        make().to_disk(tmp_path / "kb")
        file_ = tmp_path / "kb" / name
        file_.write_bytes(file_.read_bytes()[:-8])
        with pytest.raises(KrisselError, match=f"K004.*{name}"):
            PrototypeKB(Vocab(), WIDTH).from_disk(tmp_path / "kb")


def test_entities_alone_have_no_references(make, tmp_path):
    make().to_disk(tmp_path / "kb", exclude=["prototypes"])
    loaded = PrototypeKB(Vocab(), WIDTH).from_disk(tmp_path / "kb")
    assert loaded.n_entities == N_ENTITIES and loaded.prototypes.references is None
    make().to_disk(tmp_path / "kb")
    bare = PrototypeKB(Vocab(), WIDTH).from_disk(tmp_path / "kb", exclude=["prototypes"])
    assert bare.prototypes.references is None


def test_references_may_be_set_before_prototypes():
    kb = PrototypeKB(Vocab(), 0)
    kb.set_entities(map(Entity, range(2)))
    kb.set_references([(["E00"], [[1.0, 2.0]])])
    kb.add_prototypes([Prototype("E00", "name", name_view("a"))], [[1.0, 0.0]])
    assert kb.vectors.tolist() == [[2, 2]]
