import pytest
import spacy
from spacy.language import Language
from spacy.tokens import Span

from spacy_krissel.errors import KrisselError, KrisselWarning
from spacy_krissel.evaluation.gold import read_gold
from spacy_krissel.evaluation.run import min_candidates, prototype_surface, run_pipeline


@pytest.fixture
def link(store):
    def run(nlp, docs, **settings):
        return run_pipeline(nlp, read_gold(docs, nlp), store, **{"mentions": "gold", **settings})

    return run


def test_gold_mentions_are_linked_and_recorded(make_nlp, make_doc, link):
    docs = [make_doc("He has MS and a cold", [(2, 3, "OMIM:300|D1"), (5, 6, "D4")], doc_id="x")]
    run = link(make_nlp({"MS": "D3 D1 D2", "cold": "tied=D3 D4"}), docs)
    ms, cold = run.records
    assert (ms.doc, ms.start, ms.end, ms.text, ms.label) == ("x", 7, 9, "MS", "Disease")
    assert (ms.left, ms.right) == ("He has ", " and a cold")
    assert ms.gold == ("D3", "D1")
    # Three candidates, although the linker's own setting keeps two.
    assert (ms.prediction, ms.ranked, ms.scores, ms.ties) == (
        "D3",
        ["D3", "D1", "D2"],
        [1.0, 0.9, 0.8],
        [],
    )
    assert (ms.prototype, ms.prototype_surface, ms.prototype_kind) == ("⟦MS⟧", "MS", "name")
    assert cold.ties == ["D3", "D4"]
    assert run.mentions_per_second > 0


def test_gold_docs_are_unchanged(make_nlp, make_doc, link):
    doc = make_doc("He has MS", [(2, 3, "D1")])
    link(make_nlp({"MS": "tied=D3 D1"}), [doc])
    assert doc.ents[0].kb_id_ == "D1"
    assert not doc.ents[0]._.krissel_candidates and not doc.ents[0]._.krissel_ties


def test_the_number_of_candidates_is_raised_only_during_the_run(make_nlp, make_doc, link):
    nlp = make_nlp({"MS": "D1"})
    linker = nlp.get_pipe("test_table_linker")
    link(nlp, [make_doc("He has MS", [(2, 3, "D1")])], n_candidates=10)
    # Recall is read from the first pass; the second one, for speed, is the linker as it was set.
    assert linker.n_candidates_seen == [10, 2]
    linker.answers = {"MS": ["no text"]}
    with pytest.raises(AttributeError):
        link(nlp, [make_doc("He has MS", [(2, 3, "D1")])])
    assert linker.cfg["n_candidates"] == 2


@pytest.mark.parametrize(
    "own, asked, kept", [(5, 64, 64), (5, 8, 32), (100, 8, 100), (None, 64, 64), (None, 8, 32)]
)
def test_a_reranker_gets_the_number_of_candidates_it_asks_for(make_nlp, own, asked, kept):
    nlp = make_nlp({"MS": "D1"})
    linker = nlp.get_pipe("test_table_linker")
    linker.cfg.update(n_candidates=own, top_k=32)
    with min_candidates(nlp, ["test_table_linker"], asked):
        assert (linker.cfg["n_candidates"], linker.cfg["top_k"]) == (kept, 32)
    assert (linker.cfg["n_candidates"], linker.cfg["top_k"]) == (own, 32)


def test_speed_is_measured_on_a_limited_number_of_mentions(make_nlp, make_doc, link):
    nlp = make_nlp({"MS": "D1"})
    link(nlp, [make_doc("He has MS", [(2, 3, "D1")]) for _ in range(10)], timed_mentions=3)
    assert len(nlp.get_pipe("test_table_linker").n_candidates_seen) == 10 + 3


def test_mentions_without_a_concept_are_left_out_by_default(make_nlp, make_doc, link):
    docs = [
        make_doc("He has MS and a cold", [(2, 3, "-1"), (5, 6, "")]),
        make_doc("MS", [(0, 1, "NIL")]),
    ]
    nlp = make_nlp({"MS": "NIL"})
    run = link(nlp, docs)
    assert (run.records, run.n_left_out) == ([], 3)
    run = link(nlp, docs, gold_nil=True)
    assert [(record.gold, record.prediction) for record in run.records] == [(("NIL",), "NIL")] * 2
    assert run.n_left_out == 1


def test_overlapping_gold_mentions_are_all_evaluated(make_nlp, make_doc, link):
    doc = make_doc("He has bad MS", [])
    doc.spans["krissel"] = [
        Span(doc, start, 4, label=label, kb_id=kb_id)
        for start, label, kb_id in (
            (2, "Disease", "D1"),
            (3, "Disease", "D2"),
            (3, "Other", "D3"),
            (3, "Other", "D4"),
        )
    ]
    run = link(make_nlp({"MS": "D2", "bad MS": "D1"}), [doc])
    assert [(record.text, record.gold, record.prediction) for record in run.records] == [
        ("bad MS", ("D1",), "D1"),
        ("MS", ("D2",), "D2"),
        ("MS", ("D3",), "D2"),
        ("MS", ("D4",), "D2"),
    ]


def test_a_linker_with_a_spans_key_gets_its_span_group(make_nlp, make_doc, link):
    run = link(make_nlp({"MS": "D1"}, spans_key="sc"), [make_doc("He has MS", [(2, 3, "D1")])])
    assert [record.prediction for record in run.records] == ["D1"]


@Language.component("test_ruler", assigns=["doc.ents"])
def ruler(doc):
    doc.ents = [
        Span(doc, token.i, token.i + 1, label="DISEASE")
        for token in doc
        if token.text in ("MS", "has")
    ]
    return doc


@Language.component("test_silent_ruler")
def silent_ruler(doc):
    return ruler(doc)


def test_components_that_set_mentions_are_disabled_for_gold_mentions(make_nlp, make_doc, link):
    nlp = make_nlp({"cold": "D4"})
    nlp.add_pipe("test_ruler", first=True)
    run = link(nlp, [make_doc("He has MS and a cold", [(5, 6, "D4")])])
    assert [(record.text, record.prediction) for record in run.records] == [("cold", "D4")]
    assert nlp.pipe_names == ["test_ruler", "test_table_linker"]


def test_lost_gold_mentions_count_as_missing_and_raise_a_warning(make_nlp, make_doc, link):
    nlp = make_nlp({"cold": "D4"})
    nlp.add_pipe("test_silent_ruler", first=True)
    docs = [make_doc("He has MS and a cold", [(5, 6, "D4")], doc_id="x")]
    with pytest.warns(KrisselWarning, match="KW701.* 1 of 1 .*x 16-20"):
        run = link(nlp, docs)
    assert [(record.found, record.prediction) for record in run.records] == [(False, "")]
    assert link(nlp, docs, disable=["test_silent_ruler"]).records[0].prediction == "D4"


def test_predicted_mentions_are_matched_to_gold(make_nlp, make_doc, link):
    nlp = make_nlp({"MS": "D1", "has": "D2"})
    nlp.add_pipe("test_ruler", first=True)
    docs = [
        make_doc("He has MS and a cold", [(2, 3, "D1"), (5, 6, "D4")]),
        make_doc("MS", [(0, 1, "-1")]),
    ]
    run = link(nlp, docs, mentions="predicted")
    assert [
        (record.text, record.gold, record.prediction, record.found) for record in run.records
    ] == [
        ("MS", ("D1",), "D1", True),
        ("cold", ("D4",), "", False),
        ("has", (), "D2", True),
    ]
    # A prediction at the place of a mention without a concept is neither right nor wrong.
    assert run.n_left_out == 1


def test_predicted_mentions_are_selected_by_label_ignoring_case(make_nlp, make_doc, store):
    nlp = make_nlp({"MS": "D1"})
    nlp.add_pipe("test_ruler", first=True)
    gold = read_gold([make_doc("He has MS", [(2, 3, "D1")])], nlp)
    found = run_pipeline(nlp, gold, store, mentions="predicted", labels=["Disease"]).records
    assert [record.text for record in found] == ["MS", "has"]
    found = run_pipeline(nlp, gold, store, mentions="predicted", labels=["Other"]).records
    assert [(record.text, record.found) for record in found] == [("MS", False)]


def test_a_pipeline_without_a_linker_and_an_invalid_kind_raise(make_nlp, make_doc, link):
    nlp = spacy.blank("en")
    nlp.add_pipe("sentencizer")
    with pytest.raises(KrisselError, match="K703.*sentencizer"):
        link(nlp, [])
    with pytest.raises(KrisselError, match="K006.*'golden'"):
        link(make_nlp({}), [], mentions="golden")


def test_empty_and_blank_docs_give_no_records(make_nlp, make_doc, link):
    docs = [make_doc("", []), make_doc("   ", []), make_doc("no mention", [])]
    assert link(make_nlp({}), docs).records == []
    assert link(make_nlp({}), docs, mentions="predicted").records == []


@pytest.mark.parametrize(
    "kind, evidence, surface",
    [
        ("mention", "…he has ⟦MS⟧ and…", "MS"),
        ("name", "⟦multiple sclerosis⟧", "multiple sclerosis"),
        ("reference", "⟦Multiple Sclerosis [SEP] Disease⟧", "Multiple Sclerosis"),
        ("mention", "no marks", "Multiple Sclerosis"),
    ],
)
def test_the_surface_form_of_a_prototype_is_taken_from_its_evidence(kind, evidence, surface):
    assert (
        prototype_surface({"kind": kind, "evidence": evidence, "name": "Multiple Sclerosis"})
        == surface
    )


def test_a_run_without_any_link_raises_a_warning(make_nlp, make_doc, link):
    """All figures would be those of no answer, without a word."""
    with pytest.warns(KrisselWarning, match="KW720.* 1 mentions .*test_table_linker"):
        link(make_nlp({}), [make_doc("He has MS", [(2, 3, "D1")])])


def test_texts_beyond_max_length_are_skipped_with_a_warning(make_nlp, make_doc, link):
    """One long text would end the evaluation (E088)."""
    nlp = make_nlp({"MS": "D1"})
    nlp.add_pipe("test_ruler", first=True)
    nlp.max_length = 12
    docs = [
        make_doc("He has MS", [(2, 3, "D1")]),
        make_doc("He has MS, too", [(2, 3, "D1")], doc_id="long"),
    ]
    with pytest.warns(KrisselWarning, match="KW620.*1 of 2 texts.*12 characters.*first: long"):
        run = link(nlp, docs, mentions="predicted")
    assert [record.prediction for record in run.records if record.gold] == ["D1"]
    assert len(link(nlp, docs).records) == 2
