import pytest
import spacy
from spacy.tokens import Doc, Span
from spacy.training.loop import subdivide_batch

from spacy_krissel.training.data import examples as examples_module
from spacy_krissel.training.data.examples import (
    linked_mentions,
    single_mentions,
    text_example,
    view_examples,
)
from spacy_krissel.views import View, name_view

CONTEXT = View("The pre", "flu", "x season")


@pytest.fixture
def doc():
    doc = spacy.blank("en")("Cold and flu and asthma and MS")
    ids = {0: "D1", 2: "NIL", 4: "", 6: "D2"}
    doc.ents = [Span(doc, i, i + 1, label="X", kb_id=id_) for i, id_ in ids.items()]
    doc.spans["nested"] = [
        Span(doc, 2, 5, kb_id="D3"),
        Span(doc, 4, 5, kb_id="D4"),
        Span(doc, 0, 1),
    ]
    return doc


def test_mentions_without_an_entity_are_left_out(doc):
    expected = [
        ("D1", View("", "Cold", " and flu and asthma and MS")),
        ("D2", View(doc.text[:-2], "MS", "")),
    ]
    assert linked_mentions(doc) == expected
    # As the linker's setting `spans_key` says "the entities of the doc".
    assert linked_mentions(doc, "") == expected


def test_mentions_can_come_from_a_span_group(doc):
    assert [(id_, view.mention) for id_, view in linked_mentions(doc, "nested")] == [
        ("D3", "flu and asthma"),
        ("D4", "asthma"),
    ]
    assert linked_mentions(doc, "missing") == []


@pytest.mark.parametrize("spans_key", ["", "sc"])
def test_views_round_trip_through_examples(spans_key):
    pair = [("T1", name_view("type-2 diabetes, (old)")), ("T1", name_view("t2d"))]
    for linked in (
        [("T2", CONTEXT)],
        pair,
        [("T2", CONTEXT), ("T1", CONTEXT._replace(masked=True))],
    ):
        (example,) = view_examples([linked], spans_key)
        assert linked_mentions(example.reference, spans_key) == linked
        loaded = Doc(example.reference.vocab).from_bytes(example.reference.to_bytes())
        assert linked_mentions(loaded, spans_key) == linked
        # Components that read docs find the mentions where the views have them.
        del example.reference.user_data[examples_module.VIEWS]
        assert [
            (id_, view.mention) for id_, view in linked_mentions(example.reference, spans_key)
        ] == [(id_, view.mention) for id_, view in linked]
        spans = example.predicted.spans["sc"] if spans_key else example.predicted.ents
        assert [span.text for span in spans] == [view.mention for _, view in linked]
        assert not any(span.kb_id_ for span in spans)


def test_batch_order_is_independent_of_context_lengths():
    """spaCy sorts a batch by the tokens of its predicted docs before `update` sees it."""
    linked = [
        ("T1", View("of a ", "flu", "")),
        ("T2", name_view("a b c")),
        ("T3", CONTEXT),
        ("T4", name_view("flu")),
    ]
    batch = list(view_examples([each] for each in linked))
    (ordered,) = subdivide_batch(batch, 1)
    assert [linked_mentions(example.reference) for example in ordered] == [
        [each] for each in linked
    ]


def test_mention_inside_a_token_keeps_its_boundaries_in_training():
    """The view that was mined is the view of its prototype: the tokenizer must have no say in
    it."""
    (example,) = view_examples([[("T10", CONTEXT)]])
    assert linked_mentions(example.reference) == [("T10", CONTEXT)]
    assert (
        example.reference.text == "The preflux season" and example.reference.ents[0].text == "flu"
    )
    # In development a pipeline reads the text as any other.
    assert text_example(spacy.blank("en"), ("T10", CONTEXT)).predicted.ents[0].text == "preflux"


@pytest.mark.parametrize("spans_key", ["", "sc"])
def test_single_mentions_keep_their_views(spans_key):
    linked = [("T1", CONTEXT), ("T2", name_view("t2d")), ("T1", name_view("old"))]
    (example,) = view_examples([linked], spans_key)
    found = list(single_mentions(example, spans_key))
    assert [entity for entity, _ in found] == ["T1", "T2", "T1"]
    for (_, alone), each in zip(found, linked, strict=True):
        assert linked_mentions(alone.reference, spans_key) == [each]
        spans = alone.reference.spans["sc"] if spans_key else alone.reference.ents
        assert [(span.kb_id_, span.text) for span in spans] == [(each[0], each[1].mention)]
    assert linked_mentions(example.reference, spans_key) == linked


def test_names_and_contexts_do_not_accumulate_in_memory(monkeypatch):
    monkeypatch.setattr(examples_module, "VOCAB_EXAMPLES", 10)
    vocabs = []
    for i, example in enumerate(view_examples([("T", name_view(f"name {i}"))] for i in range(35))):
        assert f"name {i}" in example.reference.vocab.strings
        vocabs.append(example.reference.vocab)
    assert len({id(vocab) for vocab in vocabs}) == 4
    assert "name 0" not in vocabs[-1].strings
