import pickle

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from spacy_krissel.mining.text_column import TextColumn

texts = st.lists(st.text(st.characters(codec=None), max_size=5), max_size=9)


@given(texts, texts)
def test_a_column_is_a_list_of_texts(first, more):
    column = TextColumn(first)
    for expected in (first, first + more):
        assert len(column) == len(expected)
        assert [column[i] for i in range(len(column))] == expected
        assert column.take(np.arange(len(expected))[::-1]) == expected[::-1]
        assert [text.decode("utf8", "surrogatepass") for text in column.encoded(np.arange(len(expected)))] == expected
        column.extend(more)
    assert pickle.loads(pickle.dumps(column)).take(np.arange(len(first))) == first


def test_empty():
    assert len(TextColumn()) == 0 and TextColumn().take(np.zeros(0, dtype=np.int64)) == []
