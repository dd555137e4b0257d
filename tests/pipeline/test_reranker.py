"""Tests of `krissel_reranker` beyond the shared contract."""

import copy
import gc
import pickle
import shutil
import tempfile
from pathlib import Path

import numpy as np
import pytest
import spacy
from spacy.tokens import DocBin, Span
from spacy.training import Example
from spacy.util import load_config
from thinc.api import Adam
from thinc.config import ConfigValidationError

from spacy_krissel.errors import KrisselError, KrisselWarning
from spacy_krissel.layers.ranked import list_lengths
from spacy_krissel.mentions.abbreviations import Definition
from spacy_krissel.mentions.annotations import SpanLink, write_links

CONFIGS = Path(__file__).parents[2] / "configs"
KINDS = ["list", "pairs"]


@pytest.fixture(params=KINDS)
def nlp(request, save_reranker):
    return spacy.load(save_reranker(request.param))


@pytest.fixture
def reranker(nlp):
    return nlp.get_pipe("krissel_reranker")


@pytest.fixture
def linked(nlp, make_docs):
    """Docs that only the linker has seen."""

    def link():
        with nlp.select_pipes(disable=["krissel_reranker"]):
            return [nlp(doc) for doc in make_docs(nlp)]

    return link


def order_of(docs):
    return [[[c["id"] for c in ent._.krissel_candidates] for ent in doc.ents] for doc in docs]


def frozen(nlp):
    return nlp.select_pipes(disable=["krissel_linker"])


# Re-ranking ---------------------------------------------------------------------------------------


def test_reranker_changes_scores(nlp, linked, make_docs, links_of):
    """Without which the rest of this file says nothing. Scores, for on the toy data the linker's
    order is right."""
    for before, doc in zip(linked(), make_docs(nlp), strict=True):
        assert not doc.ents or links_of(nlp(doc)) != links_of(before)


@pytest.mark.parametrize("kind", KINDS)
def test_untrained_reranker_keeps_the_linkers_answer(make_reranker, make_docs, links_of, kind):
    nlp = make_reranker(kind)
    docs = [nlp(doc) for doc in make_docs(nlp)]
    with nlp.select_pipes(disable=["krissel_reranker"]):
        linked = [nlp(doc) for doc in make_docs(nlp)]
    assert [links_of(doc) for doc in docs] == [links_of(doc) for doc in linked]
    assert [c for doc in docs for e in doc.ents for c in e._.krissel_candidates] == [
        c for doc in linked for e in doc.ents for c in e._.krissel_candidates
    ], "scores to the last bit"


def test_weight_of_zero_changes_nothing(nlp, reranker, linked):
    reranker.cfg["weight"] = 0.0
    docs = linked()
    before = [doc.to_bytes() for doc in docs]
    assert [reranker(doc).to_bytes() for doc in docs] == before


def test_scores_are_the_linkers_plus_a_bounded_correction(nlp, reranker, linked):
    bound = reranker.cfg["temperature"] * 1.0
    moved = 0
    for doc in linked():
        old = [{c["id"]: c["score"] for c in ent._.krissel_candidates} for ent in doc.ents]
        reranker(doc)
        for ent, scores in zip(doc.ents, old, strict=True):
            new = {c["id"]: c["score"] for c in ent._.krissel_candidates}
            changes = np.array([new[id_] - scores[id_] for id_ in scores])
            assert (np.abs(changes) <= bound + 1e-6).all()
            moved += (np.abs(changes) > 1e-4).sum()
            assert ent.kb_id_ == ent._.krissel_candidates[0]["id"]
    assert moved > 10


def test_weight_scales_the_correction(nlp, reranker, linked):
    def change(weight):
        reranker.cfg["weight"] = weight
        doc = linked()[0]
        old = {c["id"]: c["score"] for c in doc.ents[0]._.krissel_candidates}
        return {
            c["id"]: c["score"] - old[c["id"]] for c in reranker(doc).ents[0]._.krissel_candidates
        }

    half, double = change(0.5), change(2.0)
    assert all(double[id_] == pytest.approx(4 * half[id_], abs=1e-6) for id_ in half)


def test_nil_stays_nil(nlp, reranker, make_docs, links_of):
    nlp.get_pipe("krissel_linker").cfg["threshold"] = 2.0
    docs = [nlp(doc) for doc in make_docs(nlp)]
    assert {ent.kb_id_ for doc in docs for ent in doc.ents} == {"NIL"}
    with nlp.select_pipes(disable=["krissel_reranker"]):
        linked = [nlp(doc) for doc in make_docs(nlp)]
    assert [links_of(doc) for doc in docs] == [links_of(doc) for doc in linked]


def test_candidates_beyond_top_k_keep_their_order(reranker, linked):
    reranker.cfg["top_k"] = 2
    for doc, old in zip(linked(), order_of(linked()), strict=True):
        reranker(doc)
        for ids, before in zip(order_of([doc])[0], old, strict=True):
            assert ids[2:] == before[2:] and set(ids[:2]) == set(before[:2])


def test_spans_of_a_group_are_reranked(nlp, reranker, make_doc, links_of):
    nlp.get_pipe("krissel_linker").cfg["spans_key"] = "sc"
    reranker.cfg["spans_key"] = "sc"
    texts = ["Sneezing, a [cold|Disease], caught at school, with [migraine|Disease] and an aura."]
    grouped = [nlp(make_doc(nlp, text, "sc")) for text in texts]
    nlp.get_pipe("krissel_linker").cfg["spans_key"] = ""
    reranker.cfg["spans_key"] = ""
    assert [links_of(doc, "sc") for doc in grouped] == [
        links_of(nlp(make_doc(nlp, text))) for text in texts
    ]


@pytest.mark.parametrize("key", ["", "sc"])
def test_candidates_on_other_spans_warn(nlp, reranker, make_doc, key):
    """A linker on a group and a re-ranker on entities do nothing together, and say so."""
    nlp.get_pipe("krissel_linker").cfg["spans_key"] = key
    reranker.cfg["spans_key"] = "sc" if not key else ""
    doc = make_doc(nlp, "Sneezing and a [cold|Disease]", key)
    with pytest.warns(KrisselWarning, match=r"KW614.*nothing to re-rank.*sc.*Set the same"):
        nlp(doc)


def test_an_abbreviation_is_read_as_its_long_form(reranker, linked, monkeypatch):
    def read():
        return [mention.view.mention for _, _, mention in reranker._ranked(linked()[0])]

    defined = [Definition("MS", "multiple sclerosis")]
    monkeypatch.setattr("spacy_krissel.mentions.contexts.doc_definitions", lambda *_: defined)
    assert read() == ["multiple sclerosis"]
    reranker.cfg["use_abbreviations"] = False
    assert read() == ["MS"]


def views_in_training(reranker, nlp, doc):
    doc = doc.copy()
    doc.ents = [
        Span(doc, ent.start, ent.end, ent.label_, kb_id=ent._.krissel_candidates[0]["id"])
        for ent in doc.ents
    ]
    reranker.objective.p_hide, reranker.objective.insert_gold = 0.0, True
    mentions, _ = training_mentions(reranker, [Example(nlp.make_doc(doc.text), doc)])
    return [mention.view for mention in mentions]


@pytest.mark.parametrize("own", [True, False])
@pytest.mark.parametrize("of_linker", [True, False])
def test_training_and_inference_read_the_same_views(
    make_reranker, make_docs, monkeypatch, own, of_linker
):
    """Abbreviations are the re-ranker's own setting in both, and the context a window, whatever the
    linker's is."""
    defined = [Definition("MS", "multiple sclerosis")]
    monkeypatch.setattr("spacy_krissel.mentions.contexts.doc_definitions", lambda *_: defined)
    nlp = make_reranker("list")
    reranker, linker = nlp.get_pipe("krissel_reranker"), nlp.get_pipe("krissel_linker")
    linker.cfg.update(use_abbreviations=of_linker, context="none")
    reranker.cfg["use_abbreviations"] = own
    with nlp.select_pipes(disable=["krissel_reranker"]):
        doc = nlp(make_docs(nlp)[0])
    in_use = [mention.view for _, _, mention in reranker._ranked(doc)]
    assert [view.mention for view in in_use] == ["multiple sclerosis" if own else "MS"] and in_use[
        0
    ].left
    assert views_in_training(reranker, nlp, doc) == in_use


@pytest.mark.parametrize("of_linker", [True, False])
def test_abbreviation_setting_is_that_of_the_linker(
    save_linker, rerankers, make_examples, toy_store, tmp_path, of_linker
):
    """Fitted as the temperature is, and saved with it."""
    nlp = spacy.load(save_linker("small"))
    nlp.get_pipe("krissel_linker").cfg["use_abbreviations"] = of_linker
    reranker = nlp.add_pipe("krissel_reranker", config={"model": rerankers["list"]})
    assert reranker.cfg["use_abbreviations"] is None
    reranker.initialize(lambda: make_examples(nlp), nlp=nlp, ontology=lambda: toy_store)
    assert reranker.cfg["use_abbreviations"] is of_linker
    nlp.to_disk(tmp_path / "pipeline")
    assert (
        spacy.load(tmp_path / "pipeline").get_pipe("krissel_reranker").cfg["use_abbreviations"]
        is of_linker
    )


# How many candidates there are --------------------------------------------------------------------


def n_written(nlp, make_docs):
    docs = list(nlp.pipe(make_docs(nlp)))
    return max(len(ent._.krissel_candidates) for doc in docs for ent in doc.ents)


def test_linker_keeps_as_many_candidates_as_are_reranked(
    nlp, reranker, make_docs, tmp_path, recwarn
):
    """It follows `top_k` as it is now, loaded, copied and sent too, and nothing of that is
    saved."""
    for top_k, kept in ((8, 8), (9, 9), (2, 5)):
        reranker.cfg["top_k"] = top_k
        assert n_written(nlp, make_docs) == kept
    reranker.cfg["top_k"] = 8
    nlp.to_disk(tmp_path / "pipeline")
    loaded = spacy.load(tmp_path / "pipeline")
    linker, followed = pickle.loads(pickle.dumps((nlp.get_pipe("krissel_linker"), reranker)))
    assert (
        loaded.get_pipe("krissel_linker").n_candidates_kept() == linker.n_candidates_kept() == 8
        and followed.cfg["top_k"] == 8
    )
    assert loaded.config["components"]["krissel_linker"]["n_candidates"] is None
    assert loaded.get_pipe("krissel_linker").cfg["n_candidates"] is None
    assert not [each for each in recwarn if "KW615" in str(each.message)]


def test_linker_ignores_a_removed_reranker(nlp, make_docs):
    assert nlp.get_pipe("krissel_linker").n_candidates_kept() == 32
    nlp.remove_pipe("krissel_reranker")
    gc.collect()
    assert n_written(nlp, make_docs) == nlp.get_pipe("krissel_linker").n_candidates_kept() == 5


def test_too_few_candidates_to_rerank_warn(nlp, make_docs):
    nlp.get_pipe("krissel_linker").cfg["n_candidates"] = 3
    with pytest.warns(
        KrisselWarning, match="KW615.*'krissel_reranker'.* have 3 at most.*`n_candidates`"
    ):
        assert n_written(nlp, make_docs) == 3


def test_sourced_reranker_with_few_candidates_warns(save_reranker, save_linker, make_docs):
    """A pipe cannot know the pipeline that it is sourced into, but for its docs."""
    source, nlp = spacy.load(save_reranker("list")), spacy.load(save_linker("small"))
    nlp.add_pipe("krissel_reranker", source=source)
    with pytest.warns(KrisselWarning, match="KW615.* have 5 at most"):
        assert n_written(nlp, make_docs) == 5
    nlp.get_pipe("krissel_reranker").learn_from(nlp)
    assert n_written(nlp, make_docs) > 5


# Without a bound ----------------------------------------------------------------------------------


@pytest.mark.parametrize("weight", [1.0, 0.5])
def test_without_a_bound_the_models_scores_are_weighted_in(save_reranker, make_docs, weight):
    """At weight 1 the final score is the model's in the unit of the linker's, below 1 it is between
    both."""
    nlp = spacy.load(save_reranker("plain"))
    reranker = nlp.get_pipe("krissel_reranker")
    reranker.cfg.update(weight=weight, temperature=0.5)
    for doc in make_docs(nlp):
        with nlp.select_pipes(disable=["krissel_reranker"]):
            doc = nlp(doc)
        mentions = [mention for _, _, mention in reranker._ranked(doc)]
        for ent, mention in zip(doc.ents, mentions, strict=True):
            own = {c["id"]: c["score"] for c in ent._.krissel_candidates}
            model = 0.5 * (reranker.model.predict([mention]) + mention.logits)
            expected = {
                id_: (1 - weight) * own[id_] + weight * float(m)
                for id_, m in zip(own, model, strict=True)
            }
            (copied,) = reranker(doc.copy()).ents[list(doc.ents).index(ent) :][:1]
            found = {c["id"]: c["score"] for c in copied._.krissel_candidates}
            assert found == pytest.approx(expected, abs=1e-5) and copied.kb_id_ == max(
                found, key=found.get
            )


def test_without_a_bound_the_model_scores_nil(save_reranker, make_docs):
    nlp = spacy.load(save_reranker("plain"))
    reranker = nlp.get_pipe("krissel_reranker")
    reranker.cfg["nil_score"] = 0.25
    for doc in make_docs(nlp):
        with nlp.select_pipes(disable=["krissel_reranker"]):
            doc = nlp(doc)
        mentions = [mention for _, _, mention in reranker._ranked(doc)]
        for ent, mention in zip(reranker(doc).ents, mentions, strict=True):
            scores = reranker.model.predict([mention]) + mention.logits
            best, nil = scores[:-1].max(), scores[-1]
            assert (ent.kb_id_ == "NIL") is bool(best < nil)
            above = reranker.cfg["temperature"] * (best - nil)
            assert ent._.krissel_candidates[0]["score"] == pytest.approx(0.25 + above, abs=1e-5)


def test_candidate_missing_from_the_table_is_read_by_its_name(reranker, linked):
    doc = linked()[0]
    candidates = [{**c, "id": f"X{i}"} for i, c in enumerate(doc.ents[0]._.krissel_candidates)]
    write_links(doc, doc.ents, [SpanLink("X0", candidates, [])])
    ((_, _, mention),) = reranker._ranked(doc)
    assert [c.parts for c in mention.candidates] == [(c["name"],) for c in candidates]


def test_reranker_needs_no_linker_and_no_ontology(
    nlp, save_reranker, linked, links_of, make_docs, tmp_path
):
    """The pipe holds everything that it needs except the candidates on the doc."""
    expected = [links_of(nlp(doc)) for doc in make_docs(nlp)]
    docs = linked()
    nlp.to_disk(tmp_path / "pipeline")
    alone = spacy.load(tmp_path / "pipeline", exclude=["krissel_linker"])
    assert [links_of(alone(doc)) for doc in docs] == expected


def test_pickled_reranker_gives_the_same_links(reranker, linked, links_of):
    """Spawned workers get its table and settings, but not the linker it was trained on."""
    reranker.cfg["weight"] = 0.7
    copy = pickle.loads(pickle.dumps(reranker))
    assert copy.cfg == reranker.cfg
    assert [links_of(copy(doc)) for doc in linked()] == [
        links_of(reranker(doc)) for doc in linked()
    ]


# What was put right by hand -----------------------------------------------------------------------


def put_right(doc, kb_id="CORRECTED", spans_key=""):
    """Change the link of the first mention, as a curator does."""
    if spans_key:
        first, *others = doc.spans[spans_key]
        doc.spans[spans_key] = [
            Span(doc, first.start, first.end, label=first.label, kb_id=kb_id),
            *others,
        ]
        return doc
    for token in doc.ents[0]:
        token.ent_kb_id_ = kb_id
    return doc


def through_a_file(nlp, docs):
    data = DocBin(store_user_data=True, docs=docs).to_bytes()
    return list(DocBin().from_bytes(data).get_docs(nlp.vocab))


@pytest.mark.parametrize("kb_id", ["CORRECTED", "second", "NIL", ""])
@pytest.mark.parametrize("key", ["", "sc"])
def test_corrected_link_is_kept(nlp, reranker, make_doc, links_of, kb_id, key):
    """Whoever wrote the candidates that are still there, and whether or not they came out of a
    file."""
    for name in nlp.pipe_names:
        nlp.get_pipe(name).cfg["spans_key"] = key
    nlp.get_pipe("krissel_linker").cfg["overwrite"] = False
    made = make_doc(
        nlp,
        "Sneezing, a [cold|Disease], caught at school, with [migraine|Disease] and an aura.",
        key,
    )
    with nlp.select_pipes(disable=["krissel_reranker"]):
        linked = nlp(made)
    spans = linked.spans[key] if key else linked.ents
    wanted = spans[0]._.krissel_candidates[1]["id"] if kb_id == "second" else kb_id
    other = links_of(reranker(linked.copy()), key)[1]
    for doc in (linked, *through_a_file(nlp, [put_right(linked.copy(), wanted, key)])):
        doc = put_right(doc, wanted, key)
        before = links_of(doc, key)
        reranker(doc)
        assert links_of(doc, key) == [before[0], other], (
            "the mention that nobody touched is re-ranked"
        )
        again = through_a_file(nlp, [doc])[0]
        if wanted:
            assert links_of(nlp(again), key) == links_of(doc, key), "through the whole pipeline"


def test_link_confirmed_after_reranking_is_kept(nlp, reranker, make_docs, links_of):
    nlp.get_pipe("krissel_linker").cfg["overwrite"] = False
    docs = [nlp(doc) for doc in make_docs(nlp)]
    expected = [links_of(doc) for doc in docs]
    assert [links_of(nlp(doc)) for doc in through_a_file(nlp, docs)] == expected


def test_reranking_twice_equals_reranking_once(nlp, reranker, make_docs, links_of):
    """Corrections are added to the linker's scores, never to those that have them; new links are
    corrected anew."""
    docs = [nlp(doc) for doc in make_docs(nlp)]
    expected = [links_of(doc) for doc in docs]
    assert [links_of(reranker(doc)) for doc in docs] == expected
    assert [links_of(reranker(doc)) for doc in through_a_file(nlp, docs)] == expected
    assert [links_of(nlp(doc)) for doc in docs] == expected


@pytest.mark.parametrize("key", ["", "sc"])
def test_spans_without_candidates_are_left_alone(nlp, reranker, linked, make_doc, key):
    """Nothing is stored with a doc, not even an empty list, by reading or for a mention that
    nothing linked."""
    reranker.cfg["spans_key"] = nlp.get_pipe("krissel_linker").cfg["spans_key"] = key
    doc = make_doc(nlp, "A [cold|Disease] and [migraine|Disease]", key)
    reranker(doc)
    for span in doc.spans[key] if key else doc.ents:
        assert (
            not span._.krissel_candidates
            and not span._.krissel_ties
            and not span._.krissel_reranked_by
        )
    assert doc.user_data == {}
    nlp.get_pipe("krissel_linker")(doc)
    spans = list(doc.spans[key] if key else doc.ents)
    del doc.user_data[("._.", "krissel_candidates", spans[0].start_char, spans[0].end_char)]
    reranker(doc)
    stored = {name for _, name, start, _ in doc.user_data if start == spans[0].start_char}
    assert stored == {"krissel_ties"}


# Saving and loading -------------------------------------------------------------------------------


def test_settings_survive_and_the_config_wins(nlp, reranker, tmp_path):
    reranker.cfg["weight"] = 0.5
    reranker.cfg["top_k"] = 3
    nlp.to_disk(tmp_path / "one")
    again = spacy.load(tmp_path / "one").get_pipe("krissel_reranker")
    assert again.cfg == reranker.cfg and again.cfg["temperature"] > 0
    config = {"components.krissel_reranker.weight": 0.0}
    cfg = spacy.load(tmp_path / "one", config=config).get_pipe("krissel_reranker").cfg
    assert (cfg["weight"], cfg["top_k"], cfg["temperature"]) == (
        0.0,
        3,
        reranker.cfg["temperature"],
    )


def test_sourced_reranker_gives_the_same_links(nlp, make_docs, links_of, tmp_path):
    expected = [links_of(nlp(doc)) for doc in make_docs(nlp)]
    other = spacy.blank("en")
    for name in nlp.pipe_names:
        other.add_pipe(name, source=nlp)
    assert [links_of(other(doc)) for doc in make_docs(other)] == expected
    other.to_disk(tmp_path / "other")
    again = spacy.load(tmp_path / "other")
    assert [links_of(again(doc)) for doc in make_docs(again)] == expected


def test_loaded_reranker_works_without_its_folder(nlp, make_docs, links_of, tmp_path):
    """It is saved, copied and sent on whole, as the linker is: no folder is needed once a pipeline
    is loaded."""
    expected = [links_of(nlp(doc)) for doc in make_docs(nlp)]
    with tempfile.TemporaryDirectory() as folder:
        nlp.to_disk(folder)
        loaded = spacy.load(folder)
    loaded.to_disk(tmp_path / "other")
    from_bytes = spacy.blank("en").from_config(loaded.config).from_bytes(loaded.to_bytes())
    pickled = pickle.dumps(from_bytes.get_pipe("krissel_reranker"))
    copies = [loaded, spacy.load(tmp_path / "other"), copy.deepcopy(loaded), from_bytes]
    for each in copies:
        assert [links_of(each(doc)) for doc in make_docs(each)] == expected
    linked = list(nlp.get_pipe("krissel_linker").pipe(make_docs(nlp)))
    del loaded, from_bytes, copies, each
    gc.collect()
    reranker = pickle.loads(pickled)
    assert [links_of(reranker(doc)) for doc in linked] == expected


def test_damaged_table_raises(save_reranker, tmp_path):
    path = tmp_path / "pipeline"
    shutil.copytree(save_reranker("list"), path)
    table = path / "krissel_reranker" / "entities" / "entities.arrow"
    table.write_bytes(table.read_bytes()[:-8])
    with pytest.raises(KrisselError, match="K004.*entities.arrow"):
        spacy.load(path)


# Training -----------------------------------------------------------------------------------------


def training_mentions(reranker, examples):
    return reranker.objective.mentions(
        examples, reranker.cfg["spans_key"], reranker._training_candidates()
    )


def test_update_changes_only_its_own_weights(make_reranker, make_examples):
    nlp = make_reranker("list")
    reranker, linker = nlp.get_pipe("krissel_reranker"), nlp.get_pipe("krissel_linker")
    before, of_linker = reranker.model.to_bytes(), linker.model.to_bytes()
    assert reranker.update(make_examples(nlp))["krissel_reranker"] > 0
    assert reranker.model.to_bytes() == before
    reranker.finish_update(Adam(0.01, use_averages=False))
    assert (
        reranker.model.to_bytes() != before
        and linker.model.to_bytes() == of_linker
        and not linker.kb.is_empty()
    )


def test_training_mentions_do_not_see_their_names(make_reranker, make_examples):
    """Neither as a prototype, nor in a candidate's text."""
    nlp = make_reranker("list")
    reranker = nlp.get_pipe("krissel_reranker")
    mentions, gold = training_mentions(reranker, make_examples(nlp))
    assert len(mentions) == len(make_examples(nlp)) and set(list_lengths(mentions)) == {4}
    for mention, right in zip(mentions, gold, strict=True):
        name = mention.view.mention.lower()
        assert not any(name == each.lower() for c in mention.candidates for each in c.names)
        assert mention.logits.argmax() == 0 and 0 <= right < len(mention.candidates)
    reranker.objective.p_hide = 0.0
    mentions, _ = training_mentions(reranker, make_examples(nlp))
    assert any(mention.view.mention in c.names for mention in mentions for c in mention.candidates)


def test_training_scores_use_the_linkers_settings(make_reranker, make_examples):
    """Visible names score in training as the linker scores them: by vector and lexically."""
    nlp = make_reranker("list", temperature=1.0)
    reranker, linker = nlp.get_pipe("krissel_reranker"), nlp.get_pipe("krissel_linker")
    linker.cfg["lexical_weight"] = 0.5
    linker.cfg["context"] = "none"
    linker.cfg["n_candidates"] = reranker.objective.n_candidates = 6
    reranker.objective.p_hide = 0.0
    examples = make_examples(nlp)
    mentions, _ = training_mentions(reranker, examples)
    with nlp.select_pipes(disable=["krissel_reranker"]):
        docs = [nlp(example.predicted.copy()) for example in examples]
    assert len(mentions) == len(docs)
    for mention, doc in zip(mentions, docs, strict=True):
        written = [candidate["score"] for candidate in doc.ents[0]._.krissel_candidates]
        assert mention.logits == pytest.approx(written, abs=1e-5)


def test_correct_entity_that_was_not_found_is_inserted(make_reranker, make_examples):
    nlp = make_reranker("list")
    reranker = nlp.get_pipe("krissel_reranker")
    reranker.objective.n_candidates = 2
    # Two entities change their names, so that the linker is wrong about both.
    examples = make_examples(nlp)[:4]
    for example, kb_id in zip(examples, ("T08", "T07", "T09", "T10"), strict=True):
        for token in example.reference.ents[0]:
            token.ent_kb_id_ = kb_id
    inserted, gold = training_mentions(reranker, examples)
    assert gold == [1] * 4
    assert [m.candidates[1].names[0] for m in inserted] == [
        "migraine",
        "asthma",
        "anemia",
        "influenza",
    ]
    assert all(m.logits[0] >= m.logits[1] for m in inserted)
    reranker.objective.insert_gold = False
    assert training_mentions(reranker, examples) == ([], [])


def test_training_continues_after_loading(nlp, reranker, make_examples):
    before = reranker.model.to_bytes()
    with frozen(nlp):
        losses = nlp.update(
            make_examples(nlp), sgd=nlp.resume_training(sgd=Adam(0.01, use_averages=False))
        )
    assert losses["krissel_reranker"] > 0 and reranker.model.to_bytes() != before


def test_training_continues_after_sourcing(save_reranker, make_examples):
    """Beside its linker, whose own pipeline is gone."""
    source = spacy.load(save_reranker("list"))
    nlp = spacy.blank("en")
    for name in source.pipe_names:
        nlp.add_pipe(name, source=source)
    del source
    gc.collect()
    assert nlp.get_pipe("krissel_reranker").update(make_examples(nlp))["krissel_reranker"] > 0


def test_pickled_copy_does_not_contain_the_linker(make_reranker, make_examples):
    """The pickle holds neither the linker nor its knowledge base, even after training."""
    nlp = make_reranker("list")
    reranker = nlp.get_pipe("krissel_reranker")
    reranker.update(make_examples(nlp))
    data = pickle.dumps(reranker)
    assert b"KrisselLinker" not in data and b"PrototypeKB" not in data
    copy = pickle.loads(data)
    with pytest.raises(KrisselError, match="K618.*learn_from"):
        copy.update(make_examples(nlp))
    copy.learn_from(nlp)
    assert copy.update(make_examples(nlp))["krissel_reranker"] > 0


def test_reranker_does_not_keep_its_pipeline_alive(make_reranker):
    reranker = make_reranker("list").get_pipe("krissel_reranker")
    gc.collect()
    with pytest.raises(KrisselError, match="K618"):
        reranker._training_linker()


def test_learning_from_a_pipeline_without_a_linker_raises(reranker):
    with pytest.raises(KrisselError, match="K610"):
        reranker.learn_from(spacy.blank("en"))


def test_configs_do_not_link_training_batches():
    """`update` searches candidates itself: linking what it is given would be for nothing."""
    paths = sorted(CONFIGS.glob("reranker*.cfg"))
    for path in paths:
        training = load_config(path)["training"]
        assert training["frozen_components"] == ["krissel_linker"] and not training.get(
            "annotating_components"
        )
    assert paths


def test_temperature_is_fitted_or_given(make_reranker):
    fitted = make_reranker("list", temperature=None).get_pipe("krissel_reranker").cfg["temperature"]
    assert 0.001 < fitted < 10
    assert (
        make_reranker("list", temperature=0.25).get_pipe("krissel_reranker").cfg["temperature"]
        == 0.25
    )


def test_reranker_can_be_evaluated_while_training(make_reranker, make_examples):
    nlp = make_reranker("list")
    assert nlp.evaluate(make_examples(nlp))["krissel_acc"] > 0


@pytest.mark.parametrize("kind", KINDS)
def test_use_before_initialization_raises(save_linker, rerankers, make_docs, make_examples, kind):
    nlp = spacy.load(save_linker("small"))
    reranker = nlp.add_pipe("krissel_reranker", config={"model": rerankers[kind]})
    with pytest.raises(KrisselError, match="K615"):
        nlp(make_docs(nlp)[0])
    with pytest.raises(KrisselError, match="K604"):
        reranker.update(make_examples(nlp))
    nlp("Nothing to re-rank is nothing to complain about.")


def test_training_needs_a_linker_and_an_ontology(
    make_linker, make_examples, toy_store, save_linker
):
    nlp = make_linker("small")
    reranker = nlp.add_pipe("krissel_reranker")
    with pytest.raises(KrisselError, match="K616"):
        reranker.initialize(lambda: make_examples(nlp), nlp=nlp)
    with pytest.raises(KrisselError, match="K617.*krissel_linker"):
        reranker.initialize(lambda: make_examples(nlp), nlp=nlp, ontology=lambda: toy_store)
    nlp.remove_pipe("krissel_linker")
    with pytest.raises(KrisselError, match="K610"):
        reranker.initialize(lambda: make_examples(nlp), nlp=nlp, ontology=lambda: toy_store)


# Settings -----------------------------------------------------------------------------------------


def test_invalid_setting_raises():
    with pytest.raises(KrisselError, match="K006.*'max_names'"):
        spacy.blank("en").add_pipe("krissel_reranker", config={"max_names": 0})


def test_misspelt_setting_raises(reranker):
    with pytest.raises(ConfigValidationError, match="wieght"):
        spacy.blank("en").add_pipe("krissel_reranker", config={"wieght": 0.5})
    with pytest.raises(KrisselError, match="K607.*'wieght'.*weight"):
        reranker.cfg["wieght"] = 0.5


def test_analyze_pipes_reports_problems(nlp):
    nlp.add_pipe("entity_ruler", first=True)
    assert nlp.analyze_pipes()["problems"]["krissel_reranker"] == []
    nlp.remove_pipe("krissel_linker")
    assert nlp.analyze_pipes()["problems"]["krissel_reranker"] == ["token.ent_kb_id"]


# NIL as a candidate -------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
def test_untrained_nil_is_a_threshold(make_reranker, make_docs, kind):
    """No correction yet: a mention is NIL where the linker's best score is below NIL's."""
    nlp = make_reranker(kind)
    reranker = nlp.get_pipe("krissel_reranker")
    docs = [nlp(doc) for doc in make_docs(nlp)]
    tops = [
        ent._.krissel_candidates[0]["score"]
        for doc in docs
        for ent in doc.ents
        if ent._.krissel_candidates
    ]
    links = [ent.kb_id_ for doc in docs for ent in doc.ents if ent._.krissel_candidates]
    reranker.cfg["nil_score"] = float(np.median(tops)) + 1e-4
    again = [ent for doc in make_docs(nlp) for ent in nlp(doc).ents if ent._.krissel_candidates]
    expected = [
        "NIL" if top < reranker.cfg["nil_score"] else link
        for top, link in zip(tops, links, strict=True)
    ]
    assert (
        [ent.kb_id_ for ent in again] == expected and "NIL" in expected and set(expected) != {"NIL"}
    )
    # The candidates stay, with the scores that they had.
    assert [ent._.krissel_candidates[0]["score"] for ent in again] == pytest.approx(tops, abs=1e-5)


def test_removed_entities_train_nil(make_reranker, make_examples):
    nlp = make_reranker("list")
    reranker = nlp.get_pipe("krissel_reranker")
    examples = make_examples(nlp)
    whole, _ = training_mentions(reranker, examples)
    reranker.cfg["nil_score"] = 0.3
    reranker.objective.p_nil = 0.5
    mentions, gold = training_mentions(reranker, examples)
    assert len(mentions) == len(examples)
    lengths = list_lengths(mentions)
    taken = [right == length - 1 for right, length in zip(gold, lengths, strict=True)]
    assert any(taken) and not all(taken)
    for mention, full, length, is_nil in zip(mentions, whole, lengths, taken, strict=True):
        assert mention.logits[-1] == pytest.approx(0.3) and mention.candidates[-1].names == ()
        assert length == len(full.candidates) + (0 if is_nil else 1)


def test_reranker_learns_with_removed_entities(make_reranker, make_examples):
    """After some steps NIL is likelier for mentions whose entity is taken away than for the
    others."""
    nlp = make_reranker("list")
    reranker = nlp.get_pipe("krissel_reranker")
    reranker.objective.p_nil = 0.5
    reranker.cfg["nil_score"] = 0.3
    losses = []
    optimizer = Adam(0.03, use_averages=False)
    with nlp.select_pipes(disable=["krissel_linker"]):
        for _ in range(30):
            losses.append(nlp.update(make_examples(nlp), sgd=optimizer)["krissel_reranker"])
    assert np.mean(losses[-5:]) < 0.8 * np.mean(losses[:5])


def test_nil_score_is_fitted_and_saved(rerankers, save_linker, make_examples, toy_store, tmp_path):
    nlp = spacy.load(save_linker("small"))
    objective = {
        "@misc": "spacy-krissel.RerankObjective.v1",
        "loss": {"@losses": "spacy-krissel.SoftmaxLoss.v1"},
        "n_candidates": 4,
        "insert_gold": True,
        "p_nil": 0.3,
    }
    nlp.add_pipe("krissel_reranker", config={"model": rerankers["list"], "objective": objective})
    ontology = {"@misc": "spacy-krissel.OntologyFromDisk.v1", "path": str(toy_store.path)}
    nlp.config["initialize"]["components"]["krissel_reranker"] = {"ontology": ontology}
    with nlp.select_pipes(disable=["krissel_linker"]):
        nlp.initialize(lambda: make_examples(nlp))
    fitted = nlp.get_pipe("krissel_reranker").cfg["nil_score"]
    assert fitted is not None and np.isfinite(fitted)
    nlp.to_disk(tmp_path / "pipeline")
    assert spacy.load(tmp_path / "pipeline").get_pipe("krissel_reranker").cfg[
        "nil_score"
    ] == pytest.approx(fitted)
    with pytest.raises(KrisselError, match="K006.*'nil_score'"):
        nlp.get_pipe("krissel_reranker").cfg["nil_score"] = float("nan")
