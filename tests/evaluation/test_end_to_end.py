import json
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
import spacy
from hypothesis import example, given
from hypothesis import strategies as st
from spacy.language import Language
from spacy.tokens import Span

from spacy_krissel.errors import KrisselError, KrisselWarning
from spacy_krissel.evaluation.bootstrap import Bootstrap
from spacy_krissel.evaluation.distance import cached_keys, has_hierarchy
from spacy_krissel.evaluation.end_to_end import (
    GoldLink,
    Link,
    dictionary_matcher,
    differences,
    gold_links,
    link_errors,
    match_links,
    predicted_links,
    score,
)
from spacy_krissel.evaluation.end_to_end_report import KINDS, EndToEndReport, LinkError
from spacy_krissel.evaluation.evaluate import evaluate, show_evaluate
from spacy_krissel.evaluation.gold import read_gold
from spacy_krissel.mentions.discontinuous import DISJOINT_KEY, DocMention, write_fragments
from spacy_krissel.ontology.entity import Entity
from spacy_krissel.ontology.store import write_store

# A: B (D, E) and C.
PARENTS = {"A": (), "B": ("A",), "C": ("A",), "D": ("B",), "E": ("B",), "F": ()}
# Few offsets, so that spans often overlap or are equal.
spans = st.tuples(st.integers(0, 3), st.integers(1, 3)).map(lambda each: (each[0], sum(each)))
ids = st.sampled_from(sorted(PARENTS))
gold_doc = st.sets(
    st.tuples(spans, st.sets(ids, min_size=1, max_size=2)).map(
        lambda each: GoldLink(*each[0], tuple(sorted(each[1])))
    ),
    max_size=5,
).map(sorted)
predicted_doc = st.sets(
    st.tuples(spans, ids).map(lambda each: Link(*each[0], each[1])), max_size=5
).map(sorted)
corpora = st.lists(st.tuples(gold_doc, predicted_doc), max_size=5)


@pytest.fixture(scope="module")
def tree(tmp_path_factory):
    entities = (
        Entity(id_, f"name {id_}", parents=parents, alt_ids=(f"OLD:{id_}",))
        for id_, parents in PARENTS.items()
    )
    return write_store(entities, tmp_path_factory.mktemp("tree") / "store")


def is_right(gold, link):
    return (gold.start, gold.end) == (link.start, link.end) and link.id in gold.ids


def harmonic(precision, recall):
    return 2 * precision * recall / (precision + recall) if precision + recall else 0.0


def plain_figures(docs, measure):
    """Precision, recall and F1 over documents, by loops over sets."""
    n_right = n_predicted = n_found = n_gold = 0
    for gold, predicted in docs:
        if measure == "ids":
            wanted = set().union(*(set(each.ids) for each in gold))
            found = {each.id for each in predicted}
            n_right += len(wanted & found)
            n_found += len(wanted & found)
            n_gold, n_predicted = n_gold + len(wanted), n_predicted + len(found)
        else:
            n_right += sum(any(is_right(each, link) for each in gold) for link in predicted)
            n_found += sum(any(is_right(each, link) for link in predicted) for each in gold)
            n_gold, n_predicted = n_gold + len(gold), n_predicted + len(predicted)
    precision = n_right / n_predicted if n_predicted else 0.0
    recall = n_found / n_gold if n_gold else 0.0
    return precision, recall, harmonic(precision, recall)


def score_corpus(docs, **settings):
    gold, predicted = [[doc[side] for doc in docs] for side in (0, 1)]
    bootstrap = Bootstrap([str(i) for i in range(len(docs))], resamples=50)
    return score(gold, predicted, bootstrap)


@given(corpora)
@example([([GoldLink(0, 1, ("A", "B"))], [Link(0, 1, "A"), Link(0, 1, "B")])])
@example([([GoldLink(0, 1, ("A",)), GoldLink(0, 1, ("A", "B"))], [Link(0, 1, "A")])])
def test_scores_agree_with_a_plain_count(docs):
    found = score_corpus(docs)
    for measure in ("ids", "spans"):
        micro, macro = found[measure]["micro"], found[measure]["macro"]
        expected = plain_figures(docs, measure)
        assert [micro[name] for name in ("precision", "recall", "f1")] == pytest.approx(expected)
        own = [plain_figures([doc], measure) for doc in docs if doc[0] or doc[1]]
        means = np.mean(own, axis=0) if own else (0, 0, 0)
        assert [macro[name] for name in ("precision", "recall", "f1")] == pytest.approx(means)


@given(st.lists(st.tuples(gold_doc, predicted_doc), min_size=1, max_size=3))
def test_intervals_are_those_of_resampled_documents(docs):
    found = score_corpus(docs)
    draws = np.random.default_rng(0).multinomial(len(docs), [1 / len(docs)] * len(docs), size=50)
    for measure in ("ids", "spans"):
        values = [
            plain_figures([docs[i] for i in np.repeat(range(len(docs)), row)], measure)
            for row in draws
        ]
        for i, name in enumerate(("precision", "recall", "f1")):
            expected = np.percentile([each[i] for each in values], [2.5, 97.5])
            assert found[measure]["micro"]["intervals"][name] == pytest.approx(list(expected))


def plain_relation(one, other):
    above, theirs = set(PARENTS[one]), set(PARENTS[other])
    return other in above or one in theirs or bool(above & theirs)


def plain_kind(link, others, alone):
    there = [each for each in others if each.start < link.end and link.start < each.end]
    pairs = [(each, one, other) for each in there for one in link.ids for other in each.ids]
    if any(one == other for _, one, other in pairs):
        return "wrong span"
    if any(plain_relation(one, other) for _, one, other in pairs):
        return "sibling"
    if any((each.start, each.end) == (link.start, link.end) for each in there):
        return "wrong id"
    return "overlap" if there else alone


@given(gold=gold_doc, predicted=predicted_doc)
def test_errors_agree_with_a_plain_restatement(tree, gold, predicted):
    found = list(link_errors(gold, predicted, cached_keys(tree)))
    missed = [each for each in gold if not any(is_right(each, link) for link in predicted)]
    wrong = [link for link in predicted if not any(is_right(each, link) for each in gold)]
    expected = [(plain_kind(each, predicted, "missed"), each) for each in missed]
    expected += [(plain_kind(each, gold, "spurious"), each) for each in wrong]
    assert [(kind, link) for kind, link, _ in found] == expected
    assert {kind for kind, *_ in found} <= set(KINDS)
    for kind, link, other in found:
        assert (other is None) is (kind in ("missed", "spurious"))
        if other is not None:
            assert other.start < link.end and link.start < other.end


def test_a_difference_is_that_of_the_two_f1s(tree):
    gold = [[GoldLink(0, 1, ("A",))], [GoldLink(0, 1, ("B",))]]
    ours, theirs = [[Link(0, 1, "A")], [Link(0, 1, "B")]], [[Link(0, 1, "A")], []]
    found = differences(gold, ours, theirs, Bootstrap(["0", "1"]))
    assert found["ids"]["f1"] == found["spans"]["f1"] == pytest.approx(1 - 2 / 3)
    assert found["spans"]["interval"] == pytest.approx([0, 1])


def gold_item(doc, **settings):
    return read_gold([doc], spacy.blank("en"), **settings)[0]


def test_gold_ids_are_primary_and_marks_for_no_concept_are_left_out(make_doc, tree):
    mentions = [
        (0, 1, "OLD:A|B"),
        (1, 2, "NIL"),
        (2, 3, "-1"),
        (3, 4, ""),
        (4, 5, "C"),
        (5, 6, "X"),
    ]
    item = gold_item(make_doc("a b c d e f", mentions))
    found = [GoldLink(0, 1, ("A", "B")), GoldLink(8, 9, ("C",)), GoldLink(10, 11, ("X",))]
    assert gold_links(item, tree) == (found, 3)
    assert gold_links(item, tree, within={"B"}) == ([GoldLink(0, 1, ("B",))], 5)


def test_discontinuous_mentions_count_by_their_outer_span(make_doc, tree):
    doc = make_doc("cleft lip and palate here", [(0, 2, "A")])
    torn = DocMention("OLD:B", "Disease", ((0, 1), (3, 4)))
    write_fragments(doc, [torn, DocMention("C", "Other", ((0, 1), (4, 5)))], DISJOINT_KEY)
    both = [GoldLink(0, 9, ("A",)), GoldLink(0, 20, ("B",))]
    assert gold_links(gold_item(doc, labels=["Disease"]), tree, labels=["Disease"]) == (both, 0)
    assert len(gold_links(gold_item(doc), tree)[0]) == 3
    # As a group of their own, which `read_gold` sees as contiguous fragments.
    item = gold_item(doc, spans_key=DISJOINT_KEY)
    assert gold_links(item, tree, spans_key=DISJOINT_KEY)[0] == [
        GoldLink(0, 20, ("B",)),
        GoldLink(0, 25, ("C",)),
    ]
    assert predicted_links(doc, ["", DISJOINT_KEY, "none"], tree) == [
        Link(0, 9, "A"),
        Link(0, 20, "B"),
        Link(0, 25, "C"),
    ]


def test_a_mention_that_is_annotated_twice_counts_once(make_doc, tree):
    doc = make_doc("a b", [])
    doc.spans["krissel"] = [Span(doc, 0, 1, label, kb_id="A") for label in ("X", "Y")]
    assert gold_links(gold_item(doc), tree) == ([GoldLink(0, 1, ("A",))], 0)


def test_predicted_nil_is_no_link(make_doc, tree):
    doc = make_doc("a b c", [(0, 1, "NIL"), (1, 2, ""), (2, 3, "OLD:C")])
    assert predicted_links(doc, [""], tree) == [Link(4, 5, "C")]


def test_the_dictionary_takes_the_longest_name_and_drops_shared_ones(store):
    texts = ["Breast cancers, a breast cancer: disseminated sclerosis.", "a cold", "", "MS"]
    found = match_links(dictionary_matcher(store), texts, store)
    assert found[0] == [Link(18, 31, "D5"), Link(33, 55, "D1")], "no plural is matched"
    assert found[1:] == [[], [], []], "cold and MS belong to two entities"


@Language.component("test_sees_only_text", assigns=["doc.ents"])
def sees_only_text(doc):
    assert not doc.ents and not doc.spans and not doc.user_data and not doc.cats
    doc.ents = [Span(doc, i, i + 1, label="X") for i, token in enumerate(doc) if token.is_alpha]
    return doc


@pytest.fixture
def make_text_nlp(make_nlp):
    def make(answers):
        nlp = make_nlp(answers)
        nlp.add_pipe("test_sees_only_text", first=True)
        return nlp

    return make


@pytest.fixture
def docs(make_doc):
    made = [
        make_doc("He has MS and a cold", [(2, 3, "D1"), (5, 6, "D4")], doc_id="a"),
        make_doc("His MS | breast cancers", [(1, 2, "D2"), (3, 5, "D5"), (2, 3, "-")], doc_id="b"),
    ]
    for doc in made:
        doc.spans["krissel"] = list(doc.ents)
        doc.cats = {"D1": 1.0}
    return made


def test_a_report_has_the_documented_keys_and_files(make_text_nlp, docs, store, tmp_path):
    nlp = make_text_nlp({"MS": "D1", "cold": "OMIM:300", "cancers": "D5", "has": "NIL"})
    report = evaluate(
        nlp, docs, store, tmp_path, name="demo", end_to_end=True, command="krissel <x>"
    )
    data = json.loads((tmp_path / "demo.json").read_text(encoding="utf8"))
    assert data == json.loads(json.dumps(report.data))
    assert (data["n_docs"], data["n_left_out"], data["texts_per_second"] > 0) == (2, 1, True)
    # Predicted: MS D1 and cold D3 in one, MS D1 and cancers D5 in the other.
    ids, found = data["ids"]["micro"], data["spans"]["micro"]
    assert (ids["precision"], ids["recall"], ids["f1"]) == (0.5, 0.5, 0.5)
    assert (found["precision"], found["recall"], found["f1"]) == (0.25, 0.25, 0.25)
    assert data["spans"]["n_gold"] == data["spans"]["n_predicted"] == 4
    counts = {kind: n for kind, n in data["errors"].items() if any(n.values())}
    assert counts == {
        "wrong span": {"gold": 1, "predicted": 1},
        "wrong id": {"gold": 2, "predicted": 2},
    }
    dictionary = data["baselines"]["dictionary"]
    assert dictionary["ids"]["n_predicted"] == 0 and dictionary["errors"]["missed"]["gold"] == 4
    assert dictionary["difference"]["ids"]["f1"] == 0.5
    lines = (tmp_path / "demo.errors.jsonl").read_text(encoding="utf8").splitlines()
    errors = [json.loads(line) for line in lines]
    assert Counter((each["kind"], each["side"]) for each in errors) == {
        (kind, side): n for kind, sides in counts.items() for side, n in sides.items()
    }
    first = next(each for each in errors if each["kind"] == "wrong span")
    assert (first["text"], first["other_text"], first["ids"]) == (
        "breast cancers",
        "cancers",
        ["D5"],
    )
    shown = (tmp_path / "demo.md").read_text(encoding="utf8")
    assert "| sibling | – | – | – | – |" in shown, "no entity has a parent"
    assert "krissel <x>" in shown and "D5 Breast Neoplasms" in shown and "| dictionary |" in shown
    printed = show_evaluate(report, tmp_path, "demo", Path("pipeline"), write_meta=False)
    assert "span with id" in printed and ".errors.jsonl" in printed
    assert not (tmp_path / "demo.html").exists()


@given(st.lists(st.tuples(*[st.sampled_from(["RB1", "rb1", "Rb1", "x"])] * 2), min_size=1))
def test_frequent_errors_have_their_most_frequent_spelling(texts):
    records = [
        LinkError("wrong id", "gold", f"{i}", 0, 1, one, ("A",), 0, 1, other, ("B",), "", "")
        for i, (one, other) in enumerate(texts)
    ]
    _, *rows = EndToEndReport("demo", {}, records)._example_rows()
    for _, times, text, _, other, first in rows:
        other = other.partition(" → ")[0]
        alike = [each for each in texts if [*map(str.lower, each)] == [text.lower(), other.lower()]]
        assert times == str(len(alike)) and texts[int(first)] == alike[0]
        for shown, written in zip((text, other), zip(*alike, strict=True), strict=True):
            assert written.count(shown) == max(map(written.count, written))
    assert sum(int(row[1]) for row in rows) == len(texts)


def test_siblings_are_counted_by_parents_or_tree_numbers(tmp_path):
    flat, numbered = Entity("A", "a", tree_numbers=("C01",)), ("C01.1",)
    for other, found in (
        (Entity("B", "b"), False),
        (Entity("B", "b", parents=("A",)), True),
        (Entity("B", "b", tree_numbers=numbered), True),
        (Entity("B", "b", tree_numbers=numbered, source="UMLS"), False),
    ):
        assert has_hierarchy(write_store([flat, other], tmp_path / "store")) is found


def test_a_link_outside_below_counts_on_neither_side(make_text_nlp, make_doc, tree):
    doc = make_doc("a b c", [(0, 1, "B|F"), (1, 2, "F"), (2, 3, "D")], doc_id="a")
    nlp = make_text_nlp({"a": "F", "b": "A", "c": "D"})
    data = evaluate(nlp, [doc], tree, end_to_end=True, below=["B"]).data
    assert (data["spans"]["n_gold"], data["spans"]["n_predicted"], data["below"]) == (2, 1, ["B"])
    assert (data["ids"]["micro"]["precision"], data["ids"]["micro"]["recall"]) == (1.0, 0.5)
    with pytest.raises(KrisselError, match="K113.*X9"):
        evaluate(nlp, [doc], tree, end_to_end=True, below=["X9"])
    with pytest.raises(KrisselError, match="K701.*below C"):
        evaluate(nlp, [doc], tree, end_to_end=True, below=["C"])


def test_gold_labels_select_mentions_whatever_the_predicted_label(make_text_nlp, make_doc, store):
    doc = make_doc("MS cold", [(0, 1, "D1"), (1, 2, "D4", "Drug")])
    nlp = make_text_nlp({"MS": "D1", "cold": "D4"})
    data = evaluate(nlp, [doc], store, end_to_end=True, labels=["Disease"], baselines=False).data
    assert (data["spans"]["n_gold"], data["spans"]["n_predicted"], data["baselines"]) == (1, 2, {})


@pytest.mark.parametrize(
    "settings",
    [
        {"predicted": True},
        {"gold_nil": True},
        {"compare": {"a": []}},
        {"train": "x.spacy"},
        {"seen": ["D1"]},
        {"n_candidates": 3},
        {"timed_mentions": 3},
    ],
)
def test_settings_of_another_evaluation_are_refused(make_nlp, docs, store, settings):
    (name,) = settings
    with pytest.raises(KrisselError, match=f"K006.*{name}.*none with end_to_end"):
        evaluate(make_nlp({}), docs, store, end_to_end=True, **settings)
    with pytest.raises(KrisselError, match="K006.*below.*only with end_to_end"):
        evaluate(make_nlp({}), docs, store, below=["D1"])


def test_a_pipeline_that_links_nothing_says_so(make_nlp, docs, store, make_doc):
    with pytest.warns(KrisselWarning, match="KW721.*2 documents.*test_table_linker"):
        data = evaluate(make_nlp({}), docs, store, end_to_end=True).data
    assert data["ids"]["micro"]["f1"] == 0.0 and data["errors"]["missed"]["gold"] == 4
    with pytest.raises(KrisselError, match="K703"):
        evaluate(spacy.blank("en"), docs, store, end_to_end=True)
    with pytest.raises(KrisselError, match="K701.*2 document"):
        evaluate(make_nlp({}), docs, store, end_to_end=True, labels=["Drug"])


def test_gold_ids_missing_from_the_ontology_raise_a_warning(make_text_nlp, make_doc, store):
    doc = make_doc("MS cold", [(0, 1, "X9"), (1, 2, "D4")], doc_id="a")
    with pytest.warns(KrisselWarning, match="KW702.* 1 of 2 .*a 0-2 X9"):
        report = evaluate(make_text_nlp({"MS": "D1"}), [doc], store, end_to_end=True)
    assert report.data["n_unknown"] == 1


def test_the_knowledge_base_is_the_default_ontology(gold_linker, toy_store, toy_files):
    gold = toy_files / "gold.pubtator"
    figures = [evaluate(gold_linker, gold, ontology).data for ontology in (None, toy_store)]
    for name in ("strict", "lenient", "slices", "n_unknown"):
        assert figures[0][name] == figures[1][name]
    with pytest.raises(KrisselError, match="K006.*ontology.*knowledge base"):
        evaluate(spacy.blank("en"), gold)


def test_links_of_a_group_are_read_where_the_linker_writes_them(make_nlp, make_doc, store):
    nlp = make_nlp({"MS": "D1"}, spans_key="found")
    ruler = nlp.add_pipe("span_ruler", first=True, config={"spans_key": "found"})
    ruler.add_patterns([{"label": "X", "pattern": "MS"}])
    data = evaluate(nlp, [make_doc("MS cold", [(0, 1, "D1")])], store, end_to_end=True).data
    assert data["spans"]["micro"]["f1"] == 1.0


@Language.component("test_links_all", assigns=["doc.ents", "token.ent_kb_id"])
def links_all(doc):
    doc.ents = [Span(doc, 0, 1, label="X", kb_id="D1")]
    return doc


def test_a_component_without_settings_links_entities(make_nlp, make_doc, store):
    nlp = make_nlp({"MS": "D2"}, spans_key="found")
    ruler = nlp.add_pipe("span_ruler", first=True, config={"spans_key": "found"})
    ruler.add_patterns([{"label": "X", "pattern": "cold"}])
    nlp.add_pipe("test_links_all")
    data = evaluate(nlp, [make_doc("MS cold", [(0, 1, "D1")])], store, end_to_end=True).data
    assert data["spans"]["micro"]["f1"] == 1.0


def test_a_document_that_is_too_long_counts_on_neither_side(make_text_nlp, make_doc, store):
    nlp = make_text_nlp({"MS": "D1"})
    nlp.max_length = 10
    docs = [
        make_doc("MS", [(0, 1, "D1")], doc_id="a"),
        make_doc("MS " * 9, [(0, 1, "D1")], doc_id="b"),
    ]
    with pytest.warns(KrisselWarning, match="KW620.*1 of 2 texts.*first: b"):
        data = evaluate(nlp, docs, store, end_to_end=True).data
    assert (data["n_docs"], data["spans"]["n_gold"], data["spans"]["n_predicted"]) == (1, 1, 1)


def test_a_report_shows_the_most_frequent_errors_first(make_text_nlp, make_doc, store):
    texts = ["cold ms x", "Cold", "MS", "cold"]
    docs = [
        make_doc(text, [(0, 1, "D4" if text[0] in "cC" else "D2")], doc_id=str(i))
        for i, text in enumerate(texts)
    ]
    nlp = make_text_nlp({"x": "D6"})
    report = evaluate(nlp, docs, store, end_to_end=True, baselines=False)
    shown = report.to_markdown()
    rows = [line.split(" | ")[1:3] for line in shown.splitlines() if line.startswith("| missed |")]
    assert rows == [["4", "0 |"], ["3", "cold"], ["1", "MS"]]
    assert "| spurious | 1 | x | D6 \\<Odd & Sons> disease |" in shown
    assert "- missed: no prediction overlaps" in shown
    assert "- macro F1: mean of the documents' F1" in shown
