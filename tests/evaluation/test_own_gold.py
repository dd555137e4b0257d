import warnings

import pytest
import spacy

from spacy_krissel.building.gold_prototypes import add_gold
from spacy_krissel.corpora.convert import read_docs
from spacy_krissel.errors import KrisselWarning
from spacy_krissel.evaluation.evaluate import evaluate
from spacy_krissel.evaluation.gold import read_gold, without_own_gold


@pytest.fixture
def nlp(gold_linker):
    return spacy.load(gold_linker)


@pytest.fixture
def docs(nlp, toy_files):
    return list(read_docs(toy_files / "gold.pubtator", nlp))


def test_gold_prototypes_of_evaluated_documents_are_left_out(nlp, docs, toy_store):
    kb = nlp.get_pipe("krissel_linker").kb
    before = evaluate(nlp, docs, toy_store, baselines=False)
    assert before.data["n_own_gold"] == 0 and "gold" not in before.data["winners"]["kinds"]
    n_own = add_gold(kb, docs).prototypes
    with pytest.warns(KrisselWarning, match=rf"KW703\] {n_own} gold"):
        report = evaluate(nlp, docs, toy_store, baselines=False)
    assert report.data["n_own_gold"] == n_own and "left out" in report.to_markdown()
    assert report.records == before.records
    assert kb.description()["prototype_kinds"]["gold"] == n_own


def test_gold_prototypes_of_other_documents_are_kept(nlp, docs, toy_store):
    kb = nlp.get_pipe("krissel_linker").kb
    add_gold(kb, docs)
    with (
        pytest.warns(KrisselWarning, match="KW703"),
        without_own_gold(nlp, read_gold(docs[:3], nlp)),
    ):
        left = {p.origin.doc for p in kb.prototypes_at(range(kb.n_prototypes)) if p.kind == "gold"}
    assert left == {doc.user_data["krissel_id"] for doc in docs[3:]}


def test_documents_without_ids_are_matched_by_text(nlp, docs):
    for doc in docs:
        del doc.user_data["krissel_id"]
    kb = nlp.get_pipe("krissel_linker").kb
    n_own = add_gold(kb, docs).prototypes
    with (
        pytest.warns(KrisselWarning, match="KW703"),
        without_own_gold(nlp, read_gold(docs, nlp)) as count,
    ):
        assert count == n_own


@pytest.mark.parametrize("added, evaluated", [("", "id"), ("id", ""), ("id", "PMID:id")])
def test_documents_with_another_id_are_matched_by_text(nlp, docs, tmp_path, added, evaluated):
    """The same corpus came by two ways, one of which lost or changed the ids."""
    linker = nlp.get_pipe("krissel_linker")

    def name(form):
        for i, doc in enumerate(docs):
            doc.user_data["krissel_id"] = form and f"{form}{i}"

    name(added)
    n_own = add_gold(linker.kb, docs).prototypes
    linker.kb.to_disk(tmp_path / "kb")
    linker.kb.from_disk(tmp_path / "kb")
    name(evaluated)
    expected = rf"KW703\] {n_own} gold .* these {len(docs)} documents"
    with (
        pytest.warns(KrisselWarning, match=expected),
        without_own_gold(nlp, read_gold(docs, nlp)) as count,
    ):
        assert count == n_own


def test_annotated_entities_do_not_count_as_mined(nlp, docs, toy_store):
    """Names and gold mentions are all that there is: no entity was mined, the documents' own ones
    least of all."""
    kb = nlp.get_pipe("krissel_linker").kb
    add_gold(kb, docs)
    with pytest.warns(KrisselWarning, match="KW703"):
        data = evaluate(nlp, docs, toy_store, baselines=False).data
    assert "mined" not in data["slices"] or data["slices"]["mined"]["n"] == 0
    assert (
        data["slices"]["unmined"]["n"] == data["n"] and data["winners"]["unmined"]["share"] == 1.0
    )


def test_pipelines_without_gold_prototypes_give_no_warning(nlp, docs, make_nlp):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for each in (nlp, make_nlp({})):
            with without_own_gold(each, read_gold(docs, nlp)) as count:
                assert count == 0


def test_links_are_counted_by_the_kind_of_prototype(nlp, docs, toy_store):
    kb = nlp.get_pipe("krissel_linker").kb
    add_gold(kb, docs[:6], weight=3.0)
    data = evaluate(nlp, docs[6:], toy_store, baselines=False).data
    kinds = data["winners"]["kinds"]
    assert sum(kind["n"] for kind in kinds.values()) == data["n"] and kinds["gold"]["n"] > 0
    right = sum(kind["n"] * kind["strict"] for kind in kinds.values())
    assert right == pytest.approx(data["n"] * data["strict"])


def test_links_from_text_do_not_use_gold_prototypes_of_the_same_documents(nlp, docs, toy_store):
    ruler = nlp.add_pipe("entity_ruler", first=True)
    ruler.add_patterns([{"label": "X", "pattern": ent.text} for doc in docs for ent in doc.ents])
    before = evaluate(nlp, docs, toy_store, end_to_end=True)
    n_own = add_gold(nlp.get_pipe("krissel_linker").kb, docs).prototypes
    with pytest.warns(KrisselWarning, match=rf"KW703\] {n_own} gold") as warned:
        report = evaluate(nlp, docs, toy_store, end_to_end=True)
    assert not any("KW704" in str(each.message) for each in warned)
    assert before.data["spans"]["n_predicted"] > 0 and report.data["n_own_gold"] == n_own
    assert report.records == before.records and "gold prototypes" in report.to_markdown()


def test_names_that_may_be_of_the_same_documents_are_named(nlp, docs, toy_store):
    """Their finder found what it had learned there."""
    finder = nlp.add_pipe("krissel_finder", before="krissel_linker")
    add_gold(nlp.get_pipe("krissel_linker").kb, docs)
    finder.cfg["stop_names"] = ["a", "b"]
    finder.cfg["added_names"] = {"c": next(iter(toy_store.ids))}
    for settings, n in (({"end_to_end": True}, 1), ({"predicted": True}, 1), ({}, 0)):
        with pytest.warns(KrisselWarning, match="KW703") as warned:
            evaluate(nlp, docs, toy_store, **settings)
        said = [str(each.message) for each in warned if "KW704" in str(each.message)]
        assert len(said) == n and all("of the finder (3)" in each for each in said)
