"""Entities of earlier releases, and the gold mentions that wait for them."""

import pickle

import numpy as np
import pytest
from spacy.vocab import Vocab

from spacy_krissel.errors import KrisselError
from spacy_krissel.kb import verdicts
from spacy_krissel.kb.columns import write_table
from spacy_krissel.kb.entity_columns import EntityTable
from spacy_krissel.kb.prototype_kb import PrototypeKB
from spacy_krissel.kb.prototype_table import Origin, Prototype
from spacy_krissel.kb.snapshot import numbers_of, verdicts_of
from spacy_krissel.kb.verdicts import NumberedVerdicts, Verdict
from spacy_krissel.ontology.entity import Entity
from spacy_krissel.util.atomic import hard_linking
from spacy_krissel.views import View

GONE = [Entity("X2", "second"), Entity("X1", "first", types=("T",), alt_ids=("X0",))]
GOLD = [
    Prototype("X1", "gold", View("a ", "one", " b"), Origin("mine", "doc 1", 2, 5)),
    Prototype("X2", "gold", View("a ", "two", ""), Origin("other", "doc 2", 2, 5)),
]
VECTORS = np.array([[1, 0, 0, 1], [0, 2, 0, 0]], dtype="f4")
WEIGHTS = np.array([1.0, 1.5])


@pytest.fixture
def kb(make_kb):
    kb = make_kb()
    kb.set_inactive(GONE, GOLD, VECTORS, WEIGHTS)
    kb.made_with = {"names": True}
    return kb


def state(kb):
    inactive = kb.inactive
    if inactive is None:
        return None
    rows = np.arange(inactive.n_prototypes)
    entities = [inactive[id_] for id_ in inactive.entity_ids]
    return entities, inactive.prototypes_at(rows), inactive.vectors.tolist()


def copies(kb, tmp_path):
    kb.to_disk(tmp_path / "one")
    yield PrototypeKB(Vocab(), 4).from_disk(tmp_path / "one")
    yield PrototypeKB(Vocab(), 4).from_bytes(kb.to_bytes())
    yield pickle.loads(pickle.dumps(kb))
    yield kb.branch()
    with hard_linking():
        kb.to_disk(tmp_path / "linked")
    yield PrototypeKB(Vocab(), 4).from_disk(tmp_path / "linked")


def test_inactive_entities_survive_saving_and_copying(kb, tmp_path):
    before = kb.search(VECTORS, 4)
    for copy in copies(kb, tmp_path):
        assert state(copy) == state(kb) and copy.made_with == {"names": True}
        assert copy.description() == kb.description()
        assert copy.description()["inactive"] == {
            "entities": 2,
            "prototypes": 2,
            "gold": 2,
            "verdicts": 0,
        }
        # None of them is searched or found.
        np.testing.assert_array_equal(copy.search(VECTORS, 4).scores, before.scores)
        assert "X1" not in copy and not copy.contains_alias("one") and len(copy) == 4
    kb.to_disk(tmp_path / "two")
    files = [
        {each.name: each.read_bytes() for each in (tmp_path / name).rglob("*") if each.is_file()}
        for name in ("one", "two")
    ]
    assert files[0] == files[1]


def test_changes_keep_inactive_entities(kb, make_kb):
    before = state(kb)
    kb.add_prototypes([Prototype("D004", "name", View("", "new", ""))], VECTORS[:1])
    kb.encoder, kb.ontology = "other", [{"source": "x"}]
    kb.keep_lexical_index()
    assert state(kb) == before
    assert kb.emptied().inactive is None
    kb.set_inactive([], [], np.zeros((0, 4)), np.zeros(0))
    assert kb.inactive is None and kb.description()["inactive"] is None


def test_an_emptied_knowledge_base_has_the_same_policies(make_kb):
    for policy in ({"dtype": "float16"}, {"normalize": True}, {}):
        kb = make_kb(**policy)
        empty = kb.emptied()
        assert empty.is_empty() and not kb.is_empty() and not empty.encoder
        for key in ("dimensions", "dtype", "normalized", "index"):
            assert empty.description()[key] == kb.description()[key]
        empty.set_entities(GONE)
        empty.add_prototypes(GOLD, VECTORS)
        assert len(kb) == 4 and empty.search(VECTORS, 1).entities.tolist() == [[0], [1]]


@pytest.mark.parametrize(
    "which, left",
    [
        ({"source": "mine"}, ["X2"]),
        ({"docs": ["doc 2"]}, ["X1"]),
        ({"kind": "gold"}, []),
        ({"kind": "name"}, ["X1", "X2"]),
    ],
)
def test_removal_includes_inactive_gold_mentions(kb, which, left):
    kb.remove_prototypes(**which)
    assert [each.entity for each in state(kb)[1]] == left
    # The ids of a retired entity still lead on.
    assert [each.id for each in state(kb)[0]] == ["X1", "X2"]


def test_removal_for_a_while_restores_them(kb):
    before = state(kb)
    with kb.without_prototypes(source="mine"):
        assert state(kb) != before
    assert state(kb) == before


def test_damaged_inactive_files_are_reported(kb, tmp_path):
    kb.to_disk(tmp_path / "kb")
    for path in sorted((tmp_path / "kb" / "inactive").iterdir()):
        content = path.read_bytes()
        path.write_bytes(content[:-8] + b"12345678")
        with pytest.raises(KrisselError, match=f"K004.*inactive/{path.name}"):
            PrototypeKB(Vocab(), 4).from_disk(tmp_path / "kb")
        path.unlink()
        with pytest.raises(KrisselError, match=f"K004.*inactive/{path.name}"):
            PrototypeKB(Vocab(), 4).from_disk(tmp_path / "kb", verify=False)
        path.write_bytes(content)
    assert PrototypeKB(Vocab(), 4).from_disk(tmp_path / "kb").inactive is not None


def test_the_knowledge_base_can_be_saved_without_prototypes(kb, tmp_path):
    kb.to_disk(tmp_path / "kb", exclude=["prototypes"])
    loaded = PrototypeKB(Vocab(), 4).from_disk(tmp_path / "kb")
    assert loaded.inactive is None and len(loaded) == 4
    loaded.from_disk(tmp_path / "kb", exclude=["prototypes"])
    assert loaded.made_with == {"names": True}


def test_invalid_inactive_prototypes_raise(make_kb):
    kb = make_kb()
    for entities, vectors, code in (
        (GONE[:1], VECTORS, "K510"),
        (GONE, VECTORS[:1], "K511"),
        (GONE, VECTORS[:, :3], "K503"),
        ([*GONE, *GONE], VECTORS, "K513"),
    ):
        with pytest.raises(KrisselError, match=code):
            kb.set_inactive(entities, GOLD, vectors, WEIGHTS)
        assert kb.inactive is None


def test_an_alternative_id_of_several_entities_leads_nowhere():
    table = EntityTable.from_entities(
        [
            Entity("A:1", "a", alt_ids=("B:1", "B:2")),
            Entity("A:2", "b", alt_ids=("B:2", "A:1", "B:2")),
            Entity("A:3", "c", alt_ids=("A:1", "B:3", "B:3")),
        ]
    )
    expected = {"A:1": 0, "A_1": 0, "B:1": 0, "B:2": None, "B_2": None, "B:3": 2, "B:4": None}
    assert {id_: table.resolve_replaced(id_) for id_ in expected} == expected
    assert table.resolve("B:2") == 0
    assert [*table.each("alt_ids")][1:] == [["B:2", "A:1", "B:2"], ["A:1", "B:3", "B:3"]]
    assert [*table.each("definition")] == ["", "", ""]
    assert [*EntityTable.from_entities(GONE, details=False).each("aliases")] == [[], []]


def test_verdicts_of_versions_without_numbers_are_in_their_order(kb, tmp_path, monkeypatch):
    def verdict(name, id_):
        return Verdict(View("a ", name, " b"), (id_,))

    gone = [verdict("one", "X1"), verdict("two", "X2")]
    kb.set_inactive(GONE, GOLD, VECTORS, WEIGHTS, NumberedVerdicts(gone, VECTORS, [0, 3]))
    own = [verdict("one", kb.entity_ids[0]), verdict("two", kb.entity_ids[1])]
    kb.add_verdicts(own, VECTORS, [1, 2])
    with monkeypatch.context() as patch:
        patch.setattr(
            verdicts,
            "write_table",
            lambda table, path: write_table(table.drop_columns("number"), path),
        )
        kb.to_disk(tmp_path / "earlier")
    read = PrototypeKB(Vocab(), 4).from_disk(tmp_path / "earlier")
    for _ in range(2):
        assert [*verdicts_of(read.current)] == own and [*verdicts_of(read.inactive)] == gone
        assert numbers_of(read.current) == [0, 1] and numbers_of(read.inactive) == [-2, -1]
        read.to_disk(tmp_path / "now")
        read = PrototypeKB(Vocab(), 4).from_disk(tmp_path / "now")
    read.add_verdicts(own[:1], VECTORS[:1])
    assert numbers_of(read.current) == [0, 1, 2]
