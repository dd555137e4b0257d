import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from spacy_krissel.mining.reading import SeenIds


@given(st.lists(st.lists(st.integers(0, 30) | st.integers(2**64 - 3, 2**64 - 1), max_size=12), max_size=12))
def test_each_id_is_new_once(parts):
    seen, known = SeenIds(), set()
    for part in parts:
        new = seen.add(np.array(part, dtype=np.uint64))
        expected = []
        for id_ in part:
            expected.append(id_ not in known)
            known.add(id_)
        assert new.tolist() == expected
    # Few arrays to search, and none of them twice over.
    assert sum(map(len, seen._runs)) == len(known) and len(seen._runs) <= 8
