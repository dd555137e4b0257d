import json
from pathlib import Path

import pytest

from spacy_krissel import Entity, build
from spacy_krissel.corpora.doc_bins import write_doc_bin
from spacy_krissel.errors import KrisselError, KrisselWarning
from spacy_krissel.evaluation.evaluate import evaluate, show_evaluate
from spacy_krissel.evaluation.records import read_records
from spacy_krissel.evaluation.tables import fact_rows
from spacy_krissel.mentions.discontinuous import DISJOINT_KEY, DocMention, write_fragments


@pytest.fixture
def docs(make_doc):
    return [
        make_doc("He has MS and a cold", [(2, 3, "D1"), (5, 6, "D4")], doc_id="a"),
        make_doc("His MS | breast cancers", [(1, 2, "D2"), (3, 5, "D5"), (2, 3, "-")], doc_id="b"),
    ]


def test_discontinuous_mentions_are_counted_as_left_out(make_nlp, docs, store):
    fragments = DocMention("D1", "Disease", ((0, 1), (2, 3)))
    for doc in docs:
        write_fragments(doc, [fragments], DISJOINT_KEY)
    nlp = make_nlp({"MS": "D1 D2", "cold": "tied=D3 D4"})
    report = evaluate(nlp, docs, store)
    (said,) = [value for name, value in fact_rows(report.data) if name == "mentions"]
    assert said.endswith("; 3 left out, of these 2 discontinuous")
    # The others are as many as are read from the text.
    with pytest.warns(KrisselWarning, match="KW721"):
        n = evaluate(nlp, docs, store, end_to_end=True).data
    assert report.data["n"] + report.data["n_left_out"] == n["spans"]["n_gold"] + n["n_left_out"]


def test_a_report_has_the_documented_keys_and_files(make_nlp, docs, store, tmp_path):
    nlp = make_nlp({"MS": "D1 D2", "cold": "tied=D3 D4"})
    report = evaluate(
        nlp,
        docs,
        store,
        tmp_path / "metrics",
        name="demo",
        seen=["D1"],
        command="krissel evaluate x",
    )
    data = json.loads((tmp_path / "metrics" / "demo.json").read_text(encoding="utf8"))
    assert data == json.loads(json.dumps(report.data))
    assert (data["n"], data["n_left_out"], data["command"]) == (4, 1, "krissel evaluate x")
    assert (data["strict"], data["lenient"]) == (0.25, 0.75)
    assert data["recall"] == {"1": 0.25, "5": 0.75, "20": 0.75, "64": 0.75}
    assert data["slices"]["homonym"]["strict"] == pytest.approx(1 / 3)
    assert data["slices"]["seen"]["n"] == 1
    assert data["nil"]["n_gold"] == 0
    assert data["mentions_per_second"] > 0
    assert set(data["baselines"]) == {
        "exact",
        "exact + abbreviations",
        "tfidf",
        "tfidf + abbreviations",
    }
    assert data["baselines"]["exact"]["strict"] == 0.0
    assert data["baselines"]["exact"]["lenient"] == 0.75
    assert data["baselines"]["tfidf"]["strict"] == 0.25
    assert data["baselines"]["exact"]["difference"]["strict"] == 0.25
    assert data["span"] is None and data["distance"] is None
    assert read_records(tmp_path / "metrics" / "demo.links.jsonl") == report.records
    assert [record.text for record in report.errors()] == ["cold", "MS", "breast cancers"]
    assert report.titles["D5"] == "Breast Neoplasms"
    assert (tmp_path / "metrics" / "demo.html").exists()
    assert data["errors"] == {
        "tied with the correct entity": 1,
        "correct entity in the top 5": 1,
        "no answer": 1,
    }
    shown, _, terms = (tmp_path / "metrics" / "demo.md").read_text().partition("## Terms")
    assert "| tied with the correct entity | 1 |" in shown
    assert "- tied with the correct entity: " in terms
    assert "- strict: one predicted id" in terms and terms.count("- R@") == 1


def test_baselines_expand_abbreviations_per_document(make_nlp, make_doc, store):
    """Abbreviations of one document are not expanded in another."""
    docs = [
        make_doc(
            "Breast cancer ( BC ) or BC type",
            [(0, 2, "D5"), (3, 4, "D5"), (6, 8, "D5")],
            doc_id="a",
        ),
        make_doc("no BC", [(1, 2, "D5")], doc_id="b"),
    ]
    baselines = evaluate(make_nlp({}), docs, store).data["baselines"]
    assert [baselines[name]["strict"] for name in ("exact", "exact + abbreviations")] == [0.25, 0.5]
    assert [baselines[name]["strict"] for name in ("tfidf", "tfidf + abbreviations")] == [
        0.25,
        0.75,
    ]


def test_other_systems_are_in_the_same_table(make_nlp, docs, store, tmp_path):
    first = evaluate(make_nlp({"MS": "D1"}), docs, store, tmp_path, name="first")
    better = make_nlp({"MS": "D1", "cold": "D4"})
    report = evaluate(
        better,
        docs,
        store.path,
        baselines=False,
        compare={"names": first.records, "file": tmp_path / "first.links.jsonl"},
    )
    assert set(report.data["baselines"]) == {"names", "file"}
    for figures in report.data["baselines"].values():
        assert (figures["strict"], figures["difference"]["strict"]) == (0.25, 0.25)
        assert figures["difference"]["right"] == {"both": 1, "this": 1, "other": 0, "neither": 2}
    assert report.to_html().count('<ul class="side">') == 4 and set(report.others) == {
        "names",
        "file",
    }
    with pytest.raises(KrisselError, match="K705.*'names'"):
        evaluate(better, docs, store, baselines=False, compare={"names": first.records[1:]})


def test_nothing_to_evaluate_raises(make_nlp, make_doc, docs, store):
    nlp = make_nlp({})
    with pytest.raises(KrisselError, match=r"K701.*2 document.*\['Drug'\]"):
        evaluate(nlp, docs, store, labels=["Drug"])
    with pytest.raises(KrisselError, match="K701.*0 document"):
        evaluate(nlp, [], store)
    with pytest.raises(KrisselError, match="K701"):
        evaluate(nlp, [make_doc("He has MS", [(2, 3, "-1")])], store)


def test_gold_ids_missing_from_the_ontology_raise_a_warning(make_nlp, make_doc, store):
    docs = [make_doc("He has MS and a cold", [(2, 3, "X9"), (5, 6, "X9|D4")], doc_id="a")]
    with pytest.warns(KrisselWarning, match="KW702.* 1 of 2 .*a 7-9 X9"):
        report = evaluate(make_nlp({"MS": "D1"}), docs, store)
    assert report.data["n"] == 2
    # What is printed ends with it: the warning has scrolled away.
    shown = show_evaluate(report, Path("metrics"), "dev", Path("pipeline"), write_meta=False)
    assert "1 gold mentions have an id" in shown.splitlines()[-1]


def test_progress_bars_are_shown_only_on_request(make_nlp, docs, store, terminal):
    evaluate(make_nlp({"MS": "D1"}), docs, store, progress=True)
    shown = terminal.readouterr().err
    assert "Linking: 100%" in shown and "2/2" in shown and "Baselines: 100%" in shown
    evaluate(make_nlp({"MS": "D1"}), docs, store)
    assert not terminal.readouterr().err


def test_an_evaluation_against_the_wrong_ontology_raises(make_nlp, make_doc, store):
    docs = [make_doc("He has MS and a cold", [(2, 3, "X9|X8"), (5, 6, "-1")])]
    with pytest.raises(KrisselError, match="K706.*1 gold mentions is in the ontology '.*first: X9"):
        evaluate(make_nlp({"MS": "D1"}), docs, store)


def test_without_an_ontology_the_pipelines_is_named(make_doc, tmp_path):
    docs = [make_doc("He has MS", [(2, 3, "X9")])]
    build([Entity("D1", "multiple sclerosis", ("MS",))], tmp_path / "linker")
    with pytest.raises(KrisselError, match="K706.*is in the pipeline's ontology .first: X9"):
        evaluate(tmp_path / "linker", docs)


def test_gold_nil_is_reported_on_request(make_nlp, docs, store):
    nlp = make_nlp({"MS": "NIL", "|": "NIL"})
    assert evaluate(nlp, docs, store).data["n"] == 4
    data = evaluate(nlp, docs, store, gold_nil=True).data
    assert data["n"] == 5
    assert (data["nil"]["precision"], data["nil"]["recall"]) == (pytest.approx(1 / 3), 1.0)
    assert data["slices"]["nil"]["strict"] == 1.0
    assert data["nil"]["strict_linked"] == 0.0 and data["nil"]["strict"] == data["strict"] == 0.2


def test_nil_scores_are_reported_with_average_precision(make_nlp, docs, store):
    """The linker that links all: MS and cold score 1, what it has no candidate for is NIL whatever
    the threshold."""
    report = evaluate(
        make_nlp({"MS": "D1", "cold": "D4", "|": "NIL", "breast cancers": "NIL"}),
        docs,
        store,
        gold_nil=True,
    )
    nil = report.data["nil"]
    assert (nil["aupr"], nil["precision"], nil["recall"]) == (0.5, 0.5, 1.0)
    assert (nil["strict"], nil["strict_linked"]) == (0.6, 0.5)
    assert report.data["baselines"]["tfidf"]["nil"]["aupr"] == 1.0, (
        "it has candidates for all but the NIL"
    )
    for text in (report.to_markdown(), report.to_html(), report.to_table()):
        assert (
            "precision 50.0, recall 100.0, F1 66.7, auPR 50.0 where 20.0 % are NIL; 2 "
            "predicted, 1 gold"
        ) in text
        assert "60.0 over all classes, 50.0 on mentions with an entity" in text
    assert "over all classes" not in evaluate(make_nlp({"MS": "D1"}), docs, store).to_markdown()


def test_predicted_mentions_are_scored_as_spans(make_nlp, docs, store):
    nlp = make_nlp({"MS": "D1", "cold": "D4", "breast": "D5"})
    ruler = nlp.add_pipe("entity_ruler", first=True)
    ruler.add_patterns([{"label": "Disease", "pattern": word} for word in ("MS", "breast")])
    report = evaluate(nlp, docs, store, predicted=True)
    assert report.data["mentions"] == "predicted"
    assert (report.data["n"], report.data["strict"], report.data["n_missing"]) == (4, 0.25, 2)
    # Three links, of which the first MS is right; four gold mentions.
    assert report.data["span"]["precision"] == pytest.approx(1 / 3)
    assert report.data["span"]["recall"] == 0.25
    # The baselines got the same mentions, so they too can only link those that were found.
    assert report.data["baselines"]["tfidf"]["n_missing"] == 2


def test_entities_of_training_documents_count_as_seen(make_nlp, make_doc, docs, store, tmp_path):
    nlp = make_nlp({"MS": "D1 D2"})
    # By an alternative id, one of a composite, and an unlinked mention.
    trained = [make_doc("cold MS what", [(0, 1, "OMIM:300|D5"), (1, 2, "NIL"), (2, 3, "")])]
    write_doc_bin([make_doc("MS", [(0, 1, "MESH:D2")])], tmp_path / "train.spacy")
    report = evaluate(nlp, docs, store, train=[trained, tmp_path / "train.spacy"], baselines=False)
    # D2 and D5 of D1, D4, D2 and D5.
    assert (report.data["slices"]["seen"]["n"], report.data["slices"]["unseen"]["n"]) == (2, 2)
    assert (
        report.data["slices"]["seen"]["recall"]["64"] == 0.5
        and report.data["slices"]["seen"]["strict"] == 0.0
    )
    assert report.data["n_seen"] == 3 and "3 seen in training" in report.to_markdown()
    one = evaluate(nlp, docs, store, train=tmp_path / "train.spacy", baselines=False).data
    assert (one["n_seen"], one["slices"]["seen"]["n"]) == (1, 1)
    both = evaluate(nlp, docs, store, train=[trained], seen=["D1", "D5"], baselines=False).data
    assert (both["n_seen"], both["slices"]["seen"]["n"]) == (3, 2)
    assert evaluate(nlp, docs, store, baselines=False).data["n_seen"] is None


def test_training_documents_without_links_raise(make_nlp, make_doc, docs, store, tmp_path):
    nlp = make_nlp({"MS": "D1"})
    with pytest.raises(KrisselError, match="K721.*1 document"):
        evaluate(nlp, docs, store, train=[[make_doc("MS", [(0, 1, "")])]])
    with pytest.raises(KrisselError, match="K001"):
        evaluate(nlp, docs, store, train=[tmp_path / "missing.spacy"])
