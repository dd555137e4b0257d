from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from spacy_krissel.evaluation.metrics import shuffle_contexts
from spacy_krissel.evaluation.records import LinkRecord


@given(st.lists(st.tuples(st.sampled_from(["MS", "ms", "cold", "?"]), st.sampled_from("ABC"))), st.integers(0, 9))
def test_gold_moves_among_mentions_of_one_surface_form_only(mentions, seed):
    records = [LinkRecord(str(i), 0, 2, text, "", (gold,)) for i, (text, gold) in enumerate(mentions)]
    shuffled = shuffle_contexts(records, seed)
    assert [record.doc for record in shuffled] == [record.doc for record in records]
    for form in ("ms", "cold", "?"):
        before = Counter(record.gold for record in records if record.text.lower() == form)
        assert Counter(record.gold for record in shuffled if record.text.lower() == form) == before
    assert shuffled == shuffle_contexts(records, seed)


def test_records_are_not_changed_in_place(make_record):
    records = [make_record(doc=str(i), gold=(str(i),)) for i in range(20)]
    shuffled = shuffle_contexts(records, seed=1)
    assert [record.gold for record in records] == [(str(i),) for i in range(20)]
    assert [record.gold for record in shuffled] != [record.gold for record in records]


def test_nothing_to_shuffle():
    assert shuffle_contexts([]) == []
