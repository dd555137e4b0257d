from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from spacy_krissel.evaluation.records import LinkRecord
from spacy_krissel.evaluation.shuffle import shuffle_contexts


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


def test_docs_exchange_ids_and_stay_unchanged_themselves(make_doc):
    docs = [make_doc("He has MS and a cold", [(2, 3, f"M{i}"), (5, 6, f"C{i}")], doc_id=str(i)) for i in range(8)]
    shuffled = shuffle_contexts(docs, seed=2)
    assert sorted(doc.ents[0].kb_id_ for doc in shuffled) == [f"M{i}" for i in range(8)]
    assert sorted(doc.ents[1].kb_id_ for doc in shuffled) == [f"C{i}" for i in range(8)]
    assert [doc.ents[0].kb_id_ for doc in shuffled] != [f"M{i}" for i in range(8)]
    assert [doc.ents[0].kb_id_ for doc in docs] == [f"M{i}" for i in range(8)]
    assert [doc.user_data["krissel_id"] for doc in shuffled] == [str(i) for i in range(8)]


def test_docs_with_span_groups(make_doc):
    docs = [make_doc("He has MS", [(2, 3, f"M{i}"), (1, 3, "X")], spans_key="sc") for i in range(8)]
    shuffled = shuffle_contexts([*docs, make_doc("no group", [])], seed=2, spans_key="sc")
    ids = [doc.spans["sc"][0].kb_id_ for doc in shuffled[:8]]
    assert sorted(ids) == [f"M{i}" for i in range(8)] != ids
    assert {doc.spans["sc"][1].kb_id_ for doc in shuffled[:8]} == {"X"}
    assert "sc" not in shuffled[8].spans


def test_nothing_to_shuffle():
    assert shuffle_contexts([]) == []
