"""`krissel_span_extractor` beyond the contract of components: which entities it looks for, what it
writes."""

import tracemalloc

import numpy as np
import pytest
import spacy
from numpy.testing import assert_allclose
from spacy.training import Example
from thinc.api import Adam, Model

from spacy_krissel.commands.build_prototypes import build_prototypes
from spacy_krissel.errors import KrisselError
from spacy_krissel.layers import token_states
from spacy_krissel.layers.label_attention import PresenceInput, attend, mean_states, presence_layer
from spacy_krissel.mentions.discontinuous import read_fragments
from spacy_krissel.pipeline import extractor as extractor_module
from spacy_krissel.pipeline.extractor import (
    attended_fragments,
    content_tokens,
    runs,
    sum_by_token,
    token_rows,
)

TEXT = "Relapses of sclerosis , and migraine with a running nose"
NAME = "krissel_span_extractor"


@pytest.fixture
def nlp(save_extractor):
    return spacy.load(save_extractor("words"))


@pytest.fixture
def extractor(nlp):
    extractor = nlp.get_pipe(NAME)
    extractor.cfg.update(max_entities=0, threshold=None)
    return extractor


def restated(extractor, names, text):
    """(names, tokens) attention and (names,) probabilities, name by name."""
    model = extractor.model
    states = model.predict([text])
    weights, scores = [], []
    for name in names:
        query = mean_states(model.predict([name]))[0]
        seen, _ = attend(query, states.vectors, model.attrs["settings"].scale)
        weights.append(seen.weights[0])
        (logit,) = presence_layer(model).predict(PresenceInput(seen.contexts, query))
        scores.append(1 / (1 + np.exp(-logit)))
    return np.array(weights), np.array(scores)


def test_score_is_the_maximum_over_names_and_attention_the_mean(nlp, extractor, toy_names):
    doc = nlp.make_doc(TEXT)
    found = extractor.extract(doc, ["T01", "T08"])
    assert sorted(found) == ["T01", "T08"]
    words = [token.i for token in doc if token.is_alpha]
    for id_, entity in found.items():
        weights, scores = restated(extractor, toy_names[id_], TEXT)
        assert entity.name == toy_names[id_][0]
        assert entity.score == pytest.approx(scores.max(), abs=1e-5)
        assert_allclose(entity.attention[words], weights.mean(axis=0), atol=1e-5)
        assert entity.attention.sum() == pytest.approx(1, abs=1e-5)
        enough = {i for i in words if entity.attention[i] >= 0.05 and not doc[i].is_stop}
        assert {i for start, end in entity.fragments for i in range(start, end)} == enough


def test_scores_of_many_docs_equal_those_of_each(nlp, extractor):
    docs = [nlp.make_doc(text) for text in (TEXT, "", "a cold at school")]
    ids = ["T08", "T99", "T01"]
    scores = extractor.scores(docs, ids)
    assert scores.shape == (3, 3)
    assert_allclose(scores[1], 0)
    assert_allclose(scores[:, 1], 0, err_msg="an unknown entity")
    found = extractor.extract(docs[0], ["T08", "T01"])
    assert_allclose(scores[0, [0, 2]], [found["T08"].score, found["T01"].score], atol=1e-6)


def test_entities_are_written_to_the_doc(nlp, extractor):
    doc = nlp(TEXT)
    listed = doc._.krissel_entities
    scores = [each["score"] for each in listed]
    assert len(listed) == 12 and scores == sorted(scores, reverse=True)
    mentions = {mention.kb_id: mention for mention in read_fragments(doc, "krissel_entities")}
    for each in listed:
        fragments = tuple(map(tuple, each["fragments"]))
        assert (mentions[each["id"]].fragments if fragments else ()) == fragments
        assert len(each["attention"]) == len(doc)
    assert {span.label_ for span in doc.spans["krissel_entities"]} == {"ENTITY"}
    assert [each["id"] for each in doc.spans["krissel_entities"].attrs["entities"]] == [
        each["id"] for each in listed
    ]


def test_a_second_run_leaves_nothing_of_the_first(nlp, extractor):
    doc = nlp(TEXT)
    extractor.cfg["threshold"] = 1.0
    nlp.get_pipe(NAME)(doc)
    assert len(doc.spans["krissel_entities"]) == 0 and len(doc._.krissel_entities) == 0


def test_candidates_can_come_from_the_doc(nlp, extractor):
    doc = nlp.make_doc(TEXT)
    doc._.krissel_entity_candidates = ["T08", "T03", "T99"]
    assert {each["id"] for each in nlp(doc)._.krissel_entities} == {"T03", "T08"}
    extractor.cfg["candidates"] = "all"
    assert len(nlp(doc)._.krissel_entities) == 12
    extractor.cfg["candidates"] = "doc"
    assert len(nlp(TEXT)._.krissel_entities) == 0


def test_retrieved_candidates_are_near_to_words_of_the_text(nlp, extractor):
    extractor.cfg.update(candidates="retrieved", n_retrieved=1)
    found = {each["id"] for each in nlp("He had migraine and rickets .")._.krissel_entities}
    assert {"T08", "T12"} <= found and len(found) < 12
    assert len(nlp("of the and")._.krissel_entities) == 0
    # "auto": all of a small knowledge base, the nearest of a large one.
    extractor.cfg.update(candidates="auto")
    assert len(nlp("He had migraine")._.krissel_entities) == 12
    extractor.cfg.update(max_all=5)
    assert len(nlp("He had migraine")._.krissel_entities) < 12


def test_threshold_and_max_entities_limit_the_output(nlp, extractor):
    scores = {each["id"]: each["score"] for each in nlp(TEXT)._.krissel_entities}
    extractor.cfg["threshold"] = sorted(scores.values())[5]
    assert {each["id"] for each in nlp(TEXT)._.krissel_entities} == {
        id_ for id_, score in scores.items() if score >= extractor.cfg["threshold"]
    }
    extractor.cfg["max_entities"] = 2
    assert [each["id"] for each in nlp(TEXT)._.krissel_entities] == sorted(
        scores, key=lambda id_: -scores[id_]
    )[:2]


def test_extractor_can_be_evaluated_while_training(make_extractor, make_text_examples):
    """On names by the present weights, with no knowledge base about."""
    nlp = make_extractor("words")
    examples = make_text_examples(nlp)
    before = nlp.get_pipe(NAME).scores([examples[0].predicted], ["T01"])
    assert 0 <= nlp.evaluate(examples)["krissel_entity_f"] <= 1
    nlp.update(examples, sgd=Adam(0.02, use_averages=False))
    assert nlp.get_pipe(NAME).scores([examples[0].predicted], ["T01"]) != before


def test_the_scorer_counts_pairs_and_tokens(nlp, extractor):
    extractor.cfg["threshold"] = 0.5
    doc = nlp.make_doc(TEXT)
    reference = doc.copy()
    found = {each["id"]: each["fragments"] for each in nlp(doc.copy())._.krissel_entities}
    (id_, pieces), *_ = found.items()
    reference.cats = {id_: 1.0, "T99": 1.0}
    (start, end), *_others = pieces
    reference.spans["krissel"] = [spacy.tokens.Span(reference, start, end, "ENTITY", kb_id=id_)]
    scores = nlp.evaluate([Example(doc, reference)])
    assert scores["krissel_entity_r"] == 0.5 and scores["krissel_entity_p"] == pytest.approx(
        1 / len(found)
    )
    n_tokens = sum(b - a for a, b in pieces)
    assert scores["krissel_token_r"] == 1 and scores["krissel_token_p"] == pytest.approx(
        (end - start) / n_tokens
    )


def test_linker_links_fragments_of_a_mention_together(nlp, extractor, save_linker):
    nlp.add_pipe("krissel_linker", source=spacy.load(save_linker("small")))
    nlp.get_pipe("krissel_linker").cfg["spans_key"] = "krissel_entities"
    docs = extractor(nlp.make_doc(TEXT)), nlp(TEXT)
    found, linked = (doc.spans["krissel_entities"] for doc in docs)
    pieces = [[(span.start, span.end, span.id_) for span in group] for group in (found, linked)]
    assert pieces[0] == pieces[1] and len({span.id_ for span in found}) < len(found), (
        "some are in pieces"
    )
    ids = {
        id_: {span.kb_id_ for span in linked if span.id_ == id_}
        for id_ in {span.id_ for span in linked}
    }
    assert all(len(each) == 1 and "" not in each for each in ids.values())


def test_extractor_starts_from_another_extractors_tokens(
    nlp, save_extractor, make_extractor, tmp_path
):
    """The second training stage does so; the classifier starts untrained."""
    from spacy_krissel.commands.export_encoder import start_encoder

    model = make_extractor("words").get_pipe(NAME).model
    before = presence_layer(model).to_bytes()
    start_encoder(model, path=save_extractor("words"), name=NAME)
    trained = nlp.get_pipe(NAME).model
    assert model.layers[0].to_bytes() == trained.layers[0].to_bytes()
    assert presence_layer(model).to_bytes() == before != presence_layer(trained).to_bytes()


def test_extractor_of_pieces_starts_from_a_linkers_transformer(save_linker, make_extractor):
    from spacy_krissel.commands.export_encoder import start_encoder

    model = make_extractor("pieces").get_pipe(NAME).model
    start_encoder(model, path=save_linker("transformer"), name="krissel_linker")
    linker = spacy.load(save_linker("transformer")).get_pipe("krissel_linker")
    (ours,) = [shim for node in model.walk() for shim in node.shims]
    (theirs,) = [shim for node in linker.model.walk() for shim in node.shims]
    assert ours.to_bytes() == theirs.to_bytes()


def test_missing_weights_or_knowledge_base_raise(nlp, make_extractor, names_source):
    bare = spacy.blank("en").from_config(nlp.config)
    with pytest.raises(KrisselError, match="K604"):
        bare(TEXT)
    fresh = make_extractor("words")
    fresh.get_pipe(NAME)._dev = None
    with pytest.raises(KrisselError, match="K603"):
        fresh(TEXT)
    build_prototypes(fresh, names_source, name=NAME)
    assert fresh(TEXT) is not None


def test_tokens_have_the_attention_of_their_pieces(nlp):
    doc = nlp.make_doc("knee-pain in  knees.")
    places = np.array([[0, 4], [5, 9], [10, 12], [14, 18], [18, 19], [19, 20]])
    rows = token_rows(doc, places)
    assert [doc[row].text for row in rows.tolist()] == ["knee", "pain", "in", "knees", "knees", "."]
    assert token_rows(nlp.make_doc(""), np.zeros((0, 2), dtype=np.int64)).shape == (0,)
    weights = np.random.default_rng(0).random(6).astype("float32")
    dense = np.zeros((6, len(doc)), dtype="float32")
    dense[np.arange(6), rows] = 1
    assert_allclose(sum_by_token(weights, rows, len(doc)), weights @ dense, atol=1e-6)
    assert sum_by_token(weights[:0], rows[:0], 3).tolist() == [0, 0, 0]


def dense_answer(extractor, doc, found):
    """The attention of each entity by the matrix of places and tokens, which takes memory with the
    square of a text."""
    (states,) = extractor._states([doc])
    matrix = np.zeros((len(states.rows), len(doc)), dtype="float32")
    matrix[np.arange(len(states.rows)), states.rows] = 1
    kb = extractor.kb
    rows = [kb.prototype_rows(each.id) for each in found]
    return np.stack([extractor._attention(kb, states, each).mean(axis=0) @ matrix for each in rows])


@pytest.mark.parametrize("kind", ["words", "pieces"])
def test_attention_equals_the_dense_product(save_extractor, kind):
    nlp = spacy.load(save_extractor(kind))
    extractor = nlp.get_pipe(NAME)
    extractor.cfg.update(max_entities=0, threshold=None)
    doc = nlp.make_doc(
        "  Relapses of sclerosis-like pain , \n\n and migraine with a running nose; " * 3
    )
    (found,) = extractor.predict([doc])
    assert len(found) > 5
    assert_allclose(
        [each.attention for each in found], dense_answer(extractor, doc, found), atol=1e-6
    )


def test_large_batches_are_split(nlp, extractor, monkeypatch):
    """Into parts that are as good as the whole: of texts, of a text's words, and of the names that
    attend to it."""
    docs = [nlp.make_doc(text) for text in (TEXT, "", TEXT[:30], TEXT * 3, "Flu.")]
    expected = extractor.predict(docs)
    passes = []
    predict = Model.predict

    def seen(model, X):
        if model is extractor.model:
            passes.append(len(X))
        return predict(model, X)

    monkeypatch.setattr(extractor_module, "MAX_CHARS", 70)
    monkeypatch.setattr(extractor_module, "MAX_WEIGHTS", 20)
    monkeypatch.setattr(token_states, "MAX_WORDS_AT_ONCE", 3)
    monkeypatch.setattr(Model, "predict", seen)
    found = extractor.predict(docs)
    assert passes == [2, 1, 1, 1]
    assert [[each.id for each in entities] for entities in found] == [
        [each.id for each in e] for e in expected
    ]
    for one, other in zip(found, expected, strict=True):
        assert_allclose([each.score for each in one], [each.score for each in other], atol=1e-5)
        for each, same in zip(one, other, strict=True):
            assert_allclose(each.attention, same.attention, atol=1e-6)


def test_memory_is_linear_in_the_text(nlp, extractor):
    """Twice the text takes twice the memory, not four times; and candidates are found by its words
    in linear time."""
    extractor.cfg.update(candidates="retrieved", max_entities=1)
    peaks = []
    for n in (2000, 4000):
        doc = nlp.make_doc(
            " ".join(["Relapses of sclerosis and migraine with a running nose ."] * (n // 10))
        )
        tracemalloc.start()
        extractor.predict([doc])
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert peaks[1] < 2.5 * peaks[0]


def test_fragments_are_content_runs_with_enough_attention(nlp):
    doc = nlp.make_doc("pain and swelling in knee .")
    content = content_tokens(doc)
    assert content.tolist() == [True, False, True, False, True, False]
    attention = np.array([0.3, 0.1, 0.04, 0.3, 0.21, 0.05])
    assert attended_fragments(attention, content, 0.05) == ((0, 1), (4, 5))
    assert attended_fragments(attention, np.ones(6, dtype=bool), 0.05) == ((0, 2), (3, 6))


def test_runs_begin_and_end_with_content():
    content = np.array([True, False, True, True])
    assert runs(content, 1) == [(0, 1), (2, 3), (3, 4)]
    assert runs(content, 3) == [(0, 1), (0, 3), (2, 3), (2, 4), (3, 4)]
