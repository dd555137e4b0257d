"""The memorisation baseline."""

from lab.ablation.memorised import memorised

from spacy_krissel.evaluation.metrics import is_strict
from spacy_krissel.evaluation.records import LinkRecord


def record(text, gold):
    return LinkRecord("1", 0, len(text), text, "Disease", (gold,), [])


def test_memorised_links_to_the_most_frequent_entity_of_a_form():
    seen = [("MS", "D2"), ("ms", "D1"), ("Ms", "D2"), ("cold", "D4"), ("cold", "D3")]
    most, even, unseen = memorised(
        [record("Ms", "D2"), record("COLD", "D3"), record("flu", "D5")], seen
    )
    assert (most.prediction, most.ranked, most.scores, most.ties) == (
        "D2",
        ["D2", "D1"],
        [2.0, 1.0],
        [],
    )
    assert even.ties == ["D3", "D4"] and not is_strict(even)
    assert (unseen.prediction, unseen.ranked) == ("", [])
