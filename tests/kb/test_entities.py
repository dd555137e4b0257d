import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spacy_krissel.errors import KrisselError
from spacy_krissel.kb import entity_columns as entities_module
from spacy_krissel.kb.entity_columns import EntityTable
from spacy_krissel.ontology.entity import Entity

TEXT = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=8)


@given(
    st.lists(TEXT, unique=True, max_size=30),
    st.lists(TEXT, max_size=10),
    st.sampled_from([0, 1000]),
)
def test_rows_are_in_the_order_of_ids(ids, others, many):
    table = EntityTable.from_entities(Entity(id_, f"name of {id_}") for id_ in ids)
    assert list(table.ids) == sorted(ids)
    assert list(table.names) == [f"name of {id_}" for id_ in sorted(ids)]
    asked = others + ids
    expected = [sorted(ids).index(id_) if id_ in ids else -1 for id_ in asked]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(entities_module, "MANY_IDS", many)
        assert table.rows(asked).tolist() == expected
    assert [table.row(id_) for id_ in asked] == [None if row < 0 else row for row in expected]


def test_columns_can_be_indexed_like_lists(entities):
    table = EntityTable.from_entities(entities)
    assert table.ids[0] == "D001" and table.ids[-1] == "D004"
    assert table.ids[1:3] == ["D002", "D003"]
    assert table.names.take(np.array([[2], [0]])) == ["Mitral stenosis", "Multiple sclerosis"]
    assert table.at(0).types == ("T047", "T191")
    assert table.at(3).types == ()


def test_a_mask_selects_entities_of_the_given_types(entities):
    table = EntityTable.from_entities(entities)
    assert table.mask(types=["T047"]).tolist() == [True, False, True, False]
    assert table.mask(types=["T191", "T059"]).tolist() == [True, True, False, False]
    assert table.mask(types=[]).tolist() == [False] * 4


def test_unknown_types_raise(entities):
    table = EntityTable.from_entities(entities)
    with pytest.raises(KrisselError, match="K525.*1 of the given types.*'T999'.*T047, T059"):
        table.mask(types=["T047", "T999"])


def test_repeated_and_empty_ids_raise():
    with pytest.raises(KrisselError, match="K513.*1 entity ids.*'B'"):
        EntityTable.from_entities([Entity("B", "b"), Entity("A", "a"), Entity("B", "c")])
    with pytest.raises(KrisselError, match="K514.*number 1.*'nameless'"):
        EntityTable.from_entities([Entity("B", "b"), Entity("", "nameless")])
