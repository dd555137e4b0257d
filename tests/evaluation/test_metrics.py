import pytest
from hypothesis import given
from hypothesis import strategies as st

from spacy_krissel.errors import KrisselError
from spacy_krissel.evaluation.metrics import (
    compare,
    gold_rank,
    is_lenient,
    is_strict,
    macro_accuracy,
    measure,
    nil_scores,
    random_accuracy,
    span_scores,
)
from spacy_krissel.evaluation.records import LinkRecord


def none(name):
    return ()


def test_strict_requires_a_single_correct_id(make_record):
    assert is_strict(make_record(prediction="D5"))
    assert not is_strict(make_record(prediction="D1"))
    assert not is_strict(make_record(prediction="D5", ties=["D4", "D5"]))
    assert is_strict(make_record(prediction="D5", ties=["D5"]))


def test_any_id_of_a_composite_is_correct(make_record):
    assert is_strict(make_record(gold=("D1", "D5"), prediction="D5"))


def test_a_missing_prediction_is_never_correct(make_record):
    # Neither against gold that is empty, where "" == "" and "" in "D5" lie in wait.
    assert not is_strict(make_record(prediction=""))
    assert not is_strict(make_record(gold=("",), prediction=""))
    assert not is_lenient(
        make_record(prediction="", prototype_surface="breast cancer"), lambda name: ("D5",)
    )


def test_predicted_nil_is_correct_for_gold_nil_despite_ties(make_record):
    assert is_strict(make_record(gold=("NIL",), prediction="NIL", ties=["D1", "D2"]))
    assert not is_strict(make_record(gold=("D5",), prediction="NIL"))


def test_lenient_counts_every_entity_with_the_winning_name(make_record, store):
    record = make_record("MS", ("D2",), "D1", prototype_surface="MS")
    assert not is_strict(record)
    assert is_lenient(record, store.find)
    assert not is_lenient(
        make_record("MS", ("D2",), "D1", prototype_surface="Multiple sclerosis"), store.find
    )


def test_ties_count_with_the_probability_of_a_random_choice(make_record):
    assert random_accuracy(make_record("MS", ("D2",), "D1", ties=["D1", "D2"])) == 0.5
    assert random_accuracy(
        make_record("MS", ("D2", "D3"), "D1", ties=["D1", "D2", "D3"])
    ) == pytest.approx(2 / 3)
    assert random_accuracy(make_record("MS", ("D1",), "D1", prototype_surface="MS")) == 1
    assert random_accuracy(make_record("MS", ("D2",), "D1", prototype_surface="MS")) == 0
    assert random_accuracy(make_record("MS", ("D2",), "")) == 0
    assert random_accuracy(make_record("MS", ("NIL",), "NIL")) == 1


def test_lenient_counts_ties_and_strictly_correct_links(make_record):
    assert is_lenient(make_record("MS", ("D2",), "D1", ties=["D1", "D2"]), none)
    assert is_lenient(make_record("MS", ("D1",), "D1", prototype_surface="unlisted"), none)
    assert not is_lenient(
        make_record("MS", ("D2",), "NIL", prototype_surface="MS"), lambda name: ("D2",)
    )


def test_recall_is_over_distinct_entities(make_record):
    assert gold_rank(make_record(ranked=["D1", "D1", "D1", "D5"])) == 1
    assert gold_rank(make_record(ranked=["D1"])) is None


def test_measure_reports_counts_and_recall(make_record, store):
    records = [
        make_record(prediction="D5", ranked=["D5", "D1"]),
        make_record(gold=("D5", "D6"), prediction="D1", ranked=["D1", "D2", "D3", "D4", "D6"]),
        make_record(prediction="D1", ranked=["D1", "D2", "D3", "D4", "D6", "D5"], doc="2"),
        make_record(prediction=""),
        make_record(gold=(), prediction="D1"),
    ]
    figures = measure(records, store)
    assert figures["n"] == 4 and figures["n_docs"] == 2
    assert (figures["n_composite"], figures["n_missing"], figures["n_tied"]) == (1, 1, 0)
    assert figures["strict"] == 0.25
    assert figures["recall"] == {"1": 0.25, "5": 0.5, "20": 0.75, "64": 0.75}
    low, high = figures["intervals"]["strict"]
    assert low <= 0.25 <= high


def test_slices_have_their_sizes_and_accuracy(make_record, store):
    records = [
        make_record("MS", ("D1",), "D1"),
        make_record("MS", ("D2",), "D1"),
        make_record("breast cancer", ("D5",), "D5", label="Cancer"),
        make_record("mammary growth", ("D5",), "D1"),
    ]
    slices = measure(records, store, seen=["D1", "OMIM:300"])["slices"]
    sizes = {name: slices[name]["n"] for name in slices}
    assert sizes == {
        "ambiguous": 3,
        "unambiguous": 1,
        "homonym": 2,
        "listed": 3,
        "unlisted": 1,
        "seen": 1,
        "unseen": 3,
        "label:Cancer": 1,
        "label:Disease": 3,
        "type:Disease": 4,
        "type:Heart": 1,
    }
    assert slices["homonym"]["strict"] == 0.5
    assert slices["ambiguous"]["strict"] == pytest.approx(1 / 3)
    assert slices["seen"]["strict"] == 1.0
    assert slices["type:Heart"]["strict"] == 0.0


def test_slices_have_their_own_recall(make_record, store):
    records = [
        make_record("MS", ("D1",), "D2", ["D2", "D1"]),
        make_record("MS", ("D2",), "D2", ["D2"]),
        make_record("MS", ("NIL",), "D2", ["D2"]),
        make_record("cold", ("D4",), "D3", ["D3"]),
    ]
    slices = measure(records, store, seen=["D1", "D2"])["slices"]
    assert slices["seen"]["recall"] == {"1": 0.5, "5": 1.0, "20": 1.0, "64": 1.0}
    assert slices["unseen"]["recall"] == {"1": 0.0, "5": 0.0, "20": 0.0, "64": 0.0}
    # A mention without an entity has no part in recall, and is right or wrong all the same.
    assert slices["homonym"]["recall"]["64"] == pytest.approx(2 / 3) and slices["homonym"]["n"] == 4
    assert slices["nil"]["recall"]["64"] is None and slices["nil"]["strict"] == 0.0


def test_slices_have_their_own_random_choice_accuracy(make_record, store):
    ties = ["D1", "D2", "D5"]
    records = [
        make_record("MS", ("D1",), "D1", ties=ties[:2]),
        make_record("MS", ("D2",), "D1", ties=ties),
        make_record(prediction="D5"),
    ]
    figures = measure(records, store, seen=["D1"])
    assert figures["random"] == pytest.approx((1 / 2 + 1 / 3 + 1) / 3)
    assert figures["slices"]["seen"]["random"] == pytest.approx(1 / 2)
    assert figures["slices"]["unseen"]["random"] == pytest.approx((1 / 3 + 1) / 2)


def test_macro_accuracy_averages_over_labels(make_record, store):
    records = [make_record(prediction="D5", label="lego")] * 3 + [
        make_record(prediction="D1", label="lego")
    ]
    assert measure(records, store)["macro"] is None
    records += [
        make_record(prediction="D1", label="muppets"),
        make_record(prediction="D5", label="trek"),
    ]
    figures = measure(records, store)
    assert figures["macro"] == pytest.approx((0.75 + 0 + 1) / 3) and figures[
        "strict"
    ] == pytest.approx(4 / 6)
    assert macro_accuracy([]) is None


def test_seen_slices_require_training_entities(make_record, store):
    assert "seen" not in measure([make_record(prediction="D5")], store)["slices"]


def test_nil_scores_have_precision_recall_and_f1(make_record):
    records = [
        make_record(gold=("NIL",), prediction="NIL"),
        make_record(gold=("NIL",), prediction="D1"),
        make_record(gold=("D5",), prediction="NIL"),
        make_record(gold=("D5",), prediction="NIL"),
    ]
    scores = nil_scores(records)
    assert scores["precision"] == pytest.approx(1 / 3)
    assert scores["recall"] == 0.5
    assert scores["f1"] == pytest.approx(0.4)
    figures = dict.fromkeys(
        ("precision", "recall", "f1", "aupr", "strict", "strict_linked", "share")
    )
    assert nil_scores(records[2:]) == {**figures, "n_gold": 0, "n_predicted": 2}


def test_recall_ignores_gold_nil(make_record, store):
    records = [make_record(gold=("NIL",), prediction="NIL"), make_record(prediction="D5")]
    figures = measure(records, store)
    assert figures["strict"] == 1.0
    assert figures["recall"]["1"] == 1.0
    assert figures["slices"]["nil"]["n"] == 1


def test_span_scores_count_links_only(make_record):
    records = [
        make_record(prediction="D5"),
        make_record(prediction="D5", ties=["D5", "D6"]),
        make_record(prediction="NIL"),
        make_record(prediction="", found=False),
        make_record(gold=(), prediction="D1"),
        make_record(gold=(), prediction="NIL"),
    ]
    scores = span_scores(records)
    assert (scores["n_predicted"], scores["n_gold"]) == (3, 4)
    assert scores["precision"] == pytest.approx(1 / 3)
    assert scores["recall"] == 0.25
    assert scores["f1"] == pytest.approx(2 / 7)


def test_compare_pairs_records_by_offsets(make_record):
    ours = [make_record(prediction="D5", doc=str(i)) for i in range(4)]
    theirs = [make_record(prediction="D5" if i < 3 else "", doc=str(i)) for i in range(4)]
    difference = compare(ours, list(reversed(theirs)))
    assert difference["strict"] == 0.25
    assert difference["interval"][0] <= 0.25 <= difference["interval"][1]
    assert difference["right"] == {"both": 3, "this": 1, "other": 0, "neither": 0}


def test_comparing_other_mentions_raises(make_record):
    with pytest.raises(KrisselError, match="K705.*'names'.* 1 of 2 .* 2 0-13"):
        compare([make_record(), make_record(doc="2")], [make_record()], name="names")


IDS = st.sampled_from(["D1", "D2", "D5", "X9", "NIL", ""])


@given(
    st.lists(
        st.builds(
            LinkRecord,
            doc=st.sampled_from("abc"),
            start=st.integers(0, 9),
            end=st.integers(10, 19),
            text=st.sampled_from(["MS", "breast cancer", "", "?"]),
            label=st.just("Disease"),
            gold=st.lists(IDS.filter(bool), max_size=2).map(tuple),
            ranked=st.lists(IDS.filter(bool), max_size=4),
            ties=st.lists(IDS.filter(bool), max_size=3),
            prediction=IDS,
            prototype_surface=st.sampled_from(["MS", "", "breast tumour"]),
        ),
        max_size=8,
    )
)
def test_scores_are_fractions_and_strict_is_at_most_lenient(store, records):
    figures = measure(records, store, resamples=20)
    if figures["n"]:
        assert 0 <= figures["strict"] <= figures["random"] <= figures["lenient"] <= 1
        shares = [value for value in figures["recall"].values() if value is not None]
        assert shares == sorted(shares)
    else:
        assert figures["strict"] is None


def test_winners_are_counted_by_prototype_kind(make_record, store):
    records = [
        make_record("MS", ("D1",), "D1", prototype_kind="mention"),
        make_record("MS", ("D2",), "D1", prototype_kind="mention"),
        make_record("cancer", ("D5",), "D5", prototype_kind="reference"),
        make_record("cold", ("D3",), "D3", prototype_kind="name"),
        make_record("cold", ("D3",), "NIL", prototype_kind="name"),
        make_record("cold", ("D3",), ""),
        make_record("cold", (), "D1", prototype_kind="name"),
    ]
    figures = measure(records, store, mined=["D1", "OMIM:300"])
    assert figures["winners"]["kinds"] == {
        "mention": {"n": 2, "share": 0.5, "strict": 0.5},
        "name": {"n": 1, "share": 0.25, "strict": 1.0},
        "reference": {"n": 1, "share": 0.25, "strict": 1.0},
    }
    # D3 is mined, by its alternative id.
    assert figures["winners"]["unmined"] == {"n": 1, "share": 0.25, "strict": 1.0}
    sizes = {name: figures["slices"][name]["n"] for name in ("mined", "unmined")}
    assert sizes == {"mined": 4, "unmined": 2}
    assert figures["slices"]["unmined"]["strict"] == 0.5


def test_without_links_there_are_no_winners(make_record, store):
    figures = measure([make_record(prediction="NIL")], store, mined=[])
    assert figures["winners"] == {"kinds": {}, "unmined": {"n": 0, "share": None, "strict": None}}
    assert "unmined" not in measure([make_record()], store)["winners"]
