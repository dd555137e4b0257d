import json
import warnings

import numpy as np
import pytest
import spacy
from spacy.tokens import Doc, Span
from spacy.training import Example

from spacy_krissel.commands.build_prototypes import build_prototypes
from spacy_krissel.errors import KrisselError, KrisselWarning
from spacy_krissel.kb.prototype_kb import PrototypeKB
from spacy_krissel.kb.prototype_table import Prototype
from spacy_krissel.lexical.index import LexicalIndex
from spacy_krissel.mentions.discontinuous import (
    DocMention,
    holds_fragments,
    read_fragments,
    write_fragments,
)
from spacy_krissel.ontology.entity import Entity
from spacy_krissel.pipeline.linker.terms import vectors
from spacy_krissel.pipeline.pipeline_io import save_pipeline
from spacy_krissel.views import View, name_view

DISEASE_CONTEXT = "Demyelinating lesions and relapses point to [MS|Disease] in this woman."


@pytest.fixture
def link(nlp, make_doc):
    """Links marked text with the present settings of the pipe."""

    def link(marked, spans_key=""):
        return nlp(make_doc(nlp, marked, spans_key))

    return link


def ids(spans):
    return [span.kb_id_ for span in spans]


# What is written ----------------------------------------------------------------------------------


def test_context_decides_between_homonyms(link):
    assert ids(link("Demyelinating lesions and relapses in this woman with [MS|Disease]").ents) == [
        "T01"
    ]
    assert ids(
        link("An enlarged atrium and a diastolic murmur in this man with [MS|Disease]").ents
    ) == ["T02"]


def test_links_are_written_to_every_token(link):
    doc = link("She had [acute nasopharyngitis|Disease] and [carcinoma of lung|Disease].")
    assert ids(doc.ents) == ["T04", "T03"]
    assert [token.ent_kb_id_ for token in doc] == [
        "",
        "",
        "T04",
        "T04",
        "",
        "T03",
        "T03",
        "T03",
        "",
    ]


def test_candidates_are_plain_and_ordered(link, linker):
    doc = link(DISEASE_CONTEXT)
    (span,) = doc.ents
    candidates = span._.krissel_candidates
    assert json.loads(json.dumps(candidates)) == candidates
    assert len(candidates) == 5 and candidates[0]["id"] == span.kb_id_ == "T01"
    assert candidates[0]["name"] == "multiple sclerosis"
    assert len({candidate["id"] for candidate in candidates}) == 5
    scores = [candidate["score"] for candidate in candidates]
    assert scores == sorted(scores, reverse=True) and scores[0] <= 1 + 1e-6
    assert all("⟦" in candidate["evidence"] and candidate["kind"] for candidate in candidates)
    assert linker.kb.entities.row(candidates[-1]["id"]) is not None
    # The ids of the toy texts begin with that of their entity.
    assert candidates[0]["doc"].startswith("T01-") and candidates[0]["source"] == ""
    # A name was seen in no text.
    linker.kb.add_prototypes(
        [Prototype("T01", "name", name_view("ms here"))], linker.encode([name_view("ms here")])
    )
    assert {"doc", "source"}.isdisjoint(link("[ms here|Disease]").ents[0]._.krissel_candidates[0])


def test_repeated_names_are_searched_once(link, linker, monkeypatch):
    asked, search = [], vectors.search_entities
    monkeypatch.setattr(
        vectors, "search_entities", lambda *args: asked.append(len(args[2])) or search(*args)
    )
    marked = (
        "She had [lung cancer|Disease], he a [cold|Disease] and [lung cancer|Disease], they [lung "
        "cancer|Disease]."
    )
    link(marked)
    for kind in ("mention", "replaced"):
        linker.kb.remove_prototypes(kind=kind)
    doc = link(marked)
    assert asked == [4, 2], (
        "with mined mentions contexts are searched for, with names alone each name once"
    )
    # Mentions are compared in their contexts.
    best = [
        each.ents[0]._.krissel_candidates[0]
        for each in (doc, link("Sneezing in [lung cancer|Disease]."))
    ]
    assert best[0]["id"] == best[1]["id"] and best[0]["score"] != pytest.approx(
        best[1]["score"], abs=1e-3
    )
    # Of one type alone, as all of them together.
    linker.cfg["types_by_label"] = {"Disease": ["T047"]}
    assert ids(link(f"{marked} A [cold|Phenomenon].").ents)[:4] == ids(doc.ents)
    assert asked[2:] == [1, 2, 1]
    # Spellings that the encoder folds to one text are searched for once, too.
    link("Of [Lung cancer|Disease] and [lung cancer|Disease].")
    assert asked[5:] == [1]


@pytest.mark.parametrize("encoder, by_name", [("small", True), ("transformer", False)])
def test_only_linkers_without_a_transformer_search_by_name(make_linker, encoder, by_name):
    linker = make_linker(encoder).get_pipe("krissel_linker")
    kb = linker.new_kb()
    kb.set_entities([Entity("T1", "cold")])
    kb.add_prototypes(
        [Prototype("T1", "name", name_view("cold"))], linker.encode([name_view("cold")])
    )
    assert linker.has_transformer != by_name and linker.searches_names(kb) == by_name
    # A description is known besides, which contexts speak of.
    kb.set_references([(["T1"], kb.vectors)])
    assert not linker.searches_names(kb)


@pytest.mark.parametrize("wanted, found", [(0, 0), (1, 1), (3, 3), (100, 12)])
def test_n_candidates_limits_the_candidates(link, linker, wanted, found):
    linker.cfg["n_candidates"] = wanted
    (span,) = link(DISEASE_CONTEXT).ents
    assert span.kb_id_ == "T01"
    assert len(span._.krissel_candidates) == found


def test_score_is_that_of_the_nearest_prototype(link, linker):
    doc = link(DISEASE_CONTEXT)
    vector = linker.encode(linker.views(doc, doc.ents))[0]
    for candidate in doc.ents[0]._.krissel_candidates:
        scores = linker.kb.vectors[linker.kb.prototype_rows(candidate["id"])] @ vector
        assert candidate["score"] == pytest.approx(scores.max(), abs=1e-5)


# Ties ---------------------------------------------------------------------------------------------


@pytest.fixture
def set_names(linker, toy_store):
    """Gives the linker a knowledge base of names alone: entity → names."""

    def set_names(**names):
        kb = linker.new_kb()
        kb.set_entities(toy_store)
        prototypes = [
            Prototype(id_, "name", name_view(name))
            for id_, found in names.items()
            for name in found
        ]
        kb.add_prototypes(prototypes, linker.encode([prototype.view for prototype in prototypes]))
        linker.set_kb(kb)
        linker.cfg["context"] = "none"

    return set_names


def test_entities_with_the_same_names_tie(linker, link, set_names):
    """Entities of which the same names are known cannot be told apart: the first id is written, and
    all are kept."""
    set_names(T02=["MS"], T01=["MS"], T05=["cold"], T04=["cold"], T10=["influenza"])
    doc = link("[MS|Disease] and [cold|Disease] and [influenza|Disease]")
    assert ids(doc.ents) == ["T01", "T04", "T10"]
    assert [span._.krissel_ties for span in doc.ents] == [["T01", "T02"], ["T04", "T05"], []]
    linker.cfg["n_candidates"] = 0
    doc = link("[cold|Disease]")
    assert doc.ents[0]._.krissel_ties == ["T04", "T05"]


def test_the_next_best_name_breaks_a_tie(linker, link, set_names):
    """The other names of homonyms decide between them, not the order of their ids."""
    set_names(
        T01=["MS", "rickets"],
        T02=["MS", "MS disease"],
        T04=["cold"],
        T05=["cold", "influenza"],
        T06=["cold", "cold sore"],
    )
    first, second = link("[MS|Disease] and [cold|Disease]").ents
    assert [candidate["id"] for candidate in first._.krissel_candidates[:2]] == ["T02", "T01"]
    assert [candidate["name"] for candidate in second._.krissel_candidates[:3]] == [
        "breast neoplasms",
        "cold temperature",
        "common cold",
    ]
    for span in (first, second):
        assert span.kb_id_ == span._.krissel_candidates[0]["id"] and span._.krissel_ties == []
        assert span._.krissel_candidates[0]["score"] == pytest.approx(
            span._.krissel_candidates[1]["score"], abs=1e-5
        )


def test_linking_again_clears_earlier_candidates(linker, link, set_names):
    """A doc may be linked again with other settings or another knowledge base."""
    set_names(T04=["cold"], T05=["cold"])
    doc = link("[cold|Disease]")
    assert doc.ents[0]._.krissel_ties and doc.ents[0]._.krissel_candidates
    linker.cfg["types"] = ["T047"]
    linker.cfg["n_candidates"] = 0
    set_names(T04=["acute coryza"], T05=["low temperature"])
    doc = linker(doc)
    assert doc.ents[0]._.krissel_ties == [] and doc.ents[0]._.krissel_candidates == []


# NIL ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("n_candidates", [5, 1, 0])
def test_scores_below_the_threshold_give_nil(link, linker, n_candidates):
    linker.cfg["n_candidates"] = 1
    (span,) = link(DISEASE_CONTEXT).ents
    score = span._.krissel_candidates[0]["score"]
    linker.cfg["n_candidates"] = n_candidates
    for threshold, kb_id in ((score - 1e-3, "T01"), (score + 1e-3, "NIL"), (None, "T01")):
        linker.cfg["threshold"] = threshold
        doc = link(DISEASE_CONTEXT)
        assert ids(doc.ents) == [kb_id]
        assert {token.ent_kb_id_ for token in doc.ents[0]} == {kb_id}
        # What was found stays to be seen.
        assert len(doc.ents[0]._.krissel_candidates) == n_candidates


def test_a_threshold_just_above_the_score_is_not_rounded_to_it(link, linker):
    """Scores are in single precision, thresholds are not."""
    (span,) = link(DISEASE_CONTEXT).ents
    score = span._.krissel_candidates[0]["score"]
    for threshold, kb_id in ((score, "T01"), (np.nextafter(score, 2), "NIL")):
        linker.cfg["threshold"] = float(threshold)
        assert ids(link(DISEASE_CONTEXT).ents) == [kb_id]


def test_threshold_works_with_a_kb_of_one_entity(nlp, linker, link):
    """With a single candidate in the knowledge base, a threshold still tells it from NIL."""
    kb = linker.new_kb()
    kb.set_entities([Entity("T10", "influenza")])
    views = [name_view("influenza")]
    kb.add_prototypes([Prototype("T10", "name", views[0])], linker.encode(views))
    linker.set_kb(kb)
    linker.cfg.update(threshold=0.9, context="none")
    doc = link("[influenza|Disease] or [psoriasis|Disease]")
    assert ids(doc.ents) == ["T10", "NIL"]
    assert [len(span._.krissel_candidates) for span in doc.ents] == [1, 1]


# Filters ------------------------------------------------------------------------------------------


def test_types_filter_before_ranking(link, linker):
    """All requested candidates have the types, not only what is left of the top five."""
    linker.cfg["types"] = ["T184"]
    (span,) = link(DISEASE_CONTEXT).ents
    candidates = [candidate["id"] for candidate in span._.krissel_candidates]
    assert len(candidates) == 5 and span.kb_id_ == candidates[0]
    assert all(id_ >= "T07" for id_ in candidates)


def test_types_can_depend_on_the_label(link, linker):
    linker.cfg["types_by_label"] = {"Symptom": ["T184"], "Any": []}
    linker.cfg["types"] = ["T047"]
    text = "Wheezing: [{0}|Symptom], [{0}|Disease], [{0}|Any] and [{0}|Symptom]".format(
        "bronchial asthma"
    )
    symptom, disease, any_, again = link(text).ents
    assert (symptom.kb_id_, any_.kb_id_, again.kb_id_) == ("T07", "T07", "T07")
    assert disease.kb_id_ < "T07"
    assert all(candidate["id"] < "T07" for candidate in disease._.krissel_candidates)
    assert all(candidate["id"] >= "T07" for candidate in again._.krissel_candidates)


def test_filtered_search_keeps_the_unfiltered_order(link, linker):
    """Filtering gives the order of the unfiltered search, less the other types."""
    linker.cfg["n_candidates"] = 12
    everything = [
        candidate["id"] for candidate in link(DISEASE_CONTEXT).ents[0]._.krissel_candidates
    ]
    linker.cfg["types"] = ["T184"]
    filtered = [candidate["id"] for candidate in link(DISEASE_CONTEXT).ents[0]._.krissel_candidates]
    assert filtered == [id_ for id_ in everything if id_ >= "T07"]


def test_unknown_type_raises(link, linker):
    linker.cfg["types"] = ["T999"]
    with pytest.raises(KrisselError, match="K525.*T999"):
        link(DISEASE_CONTEXT)


def test_type_without_prototypes_gives_nil(nlp, linker, link, toy_store):
    kb = linker.new_kb()
    kb.set_entities(toy_store)
    views = [name_view("influenza")]
    kb.add_prototypes([Prototype("T10", "name", views[0])], linker.encode(views))
    linker.set_kb(kb)
    linker.cfg["types"] = ["T047"]
    (span,) = link("[influenza|Disease]").ents
    assert (span.kb_id_, span._.krissel_candidates, span._.krissel_ties) == ("NIL", [], [])


# Spans --------------------------------------------------------------------------------------------


@pytest.fixture
def grouped(nlp, linker):
    """A doc with nested and crossing spans in `doc.spans["sc"]`, and an entity that is none of
    them."""
    linker.cfg["spans_key"] = "sc"
    doc = nlp.make_doc("Carcinoma of lung cancer was seen with flu.")
    doc.ents = [doc.char_span(39, 42, label="Disease")]
    doc.spans["sc"] = [
        Span(doc, 0, 3, label="Disease", span_id="outer"),
        Span(doc, 2, 4, label="Neoplasm", span_id="crossing"),
        Span(doc, 2, 3, label="Organ", kb_id="UBERON:1"),
    ]
    doc.spans["sc"].attrs["made_by"] = "hand"
    doc.spans["other"] = [Span(doc, 0, 1, label="Other", kb_id="X")]
    return doc


def test_spans_of_the_group_are_linked(nlp, grouped):
    doc = nlp(grouped)
    group = doc.spans["sc"]
    assert [(span.start, span.end, span.label_, span.id_) for span in group] == [
        (0, 3, "Disease", "outer"),
        (2, 4, "Neoplasm", "crossing"),
        (2, 3, "Organ", ""),
    ]
    assert ids(group)[:2] == ["T03", "T03"] and group[2].kb_id_ not in ("", "UBERON:1")
    assert group.attrs == {"made_by": "hand"} and group.name == "sc" and group.has_overlap
    assert all(len(span._.krissel_candidates) == 5 for span in group)
    assert [ids(doc.spans["other"]), ids(doc.ents)] == [["X"], [""]], "no other span is touched"
    assert {token.ent_kb_id_ for token in doc} == {""}


def test_without_overwrite_linked_spans_are_kept(nlp, linker, grouped):
    linker.cfg["overwrite"] = False
    group = nlp(grouped).spans["sc"]
    assert ids(group) == ["T03", "T03", "UBERON:1"]
    assert not group[2]._.krissel_candidates, "candidates beside an id that is not among them"


def test_discontinuous_mention_is_linked_as_a_whole(nlp, linker, link):
    text = "Carcinoma and inflammation of lung"
    whole, flu = link("[carcinoma lung|Disease] and [flu|Disease]").ents
    linker.cfg.update(spans_key="sc", context="none")
    mentions = [
        DocMention("", "Disease", ((0, 1), (4, 5))),
        DocMention("", "Disease", ((2, 3), (4, 5))),
    ]
    doc = nlp.make_doc(text)
    write_fragments(doc, mentions, "sc")
    seen = linker.views(doc, list(doc.spans["sc"]))
    assert [view.mention for view in seen] == ["Carcinoma lung"] * 2 + ["inflammation lung"] * 2
    found = nlp(doc).spans["sc"]
    assert ids(found)[:2] == [whole.kb_id_] * 2 and whole.kb_id_ != flu.kb_id_
    assert ids(found)[2] == ids(found)[3] and holds_fragments(doc, "sc")
    assert [mention.fragments for mention in read_fragments(doc, "sc")] == [
        mention.fragments for mention in mentions
    ]
    doc.spans["sc"].attrs.clear()
    alone = linker.views(doc, list(doc.spans["sc"]))
    assert [view.mention for view in alone] == ["Carcinoma", "lung", "inflammation", "lung"], (
        "ids of rules, say"
    )


@pytest.mark.parametrize("context", ["window", "sentence"])
def test_discontinuous_mention_takes_the_position_of_its_first_fragment(nlp, linker, context):
    linker.cfg.update(spans_key="sc", context=context)
    doc = nlp.make_doc("She had carcinoma, then inflammation, of lung. No flu.")
    write_fragments(
        doc,
        [DocMention("", "Disease", ((2, 3), (8, 9))), DocMention("", "Disease", ((11, 12),))],
        "sc",
    )
    first, second, other = linker.views(doc, list(doc.spans["sc"]))
    assert first == second and (first.left, first.mention) == ("She had ", "carcinoma lung")
    assert first.right.startswith(", then inflammation, of lung.") and other.mention == "flu"
    assert [
        (first.left + first.mention + first.right)[start:end] for start, end in first.co_mentions
    ] == (["lung"] if context == "sentence" else [])


def test_links_in_a_span_group_survive_bytes(nlp, grouped, links_of):
    doc = nlp(grouped)
    back = Doc(spacy.blank("en").vocab).from_bytes(doc.to_bytes())
    assert links_of(back, "sc") == links_of(doc, "sc")


def test_missing_group_is_ignored(nlp, linker):
    linker.cfg["spans_key"] = "absent"
    doc = nlp("Carcinoma of lung cancer.")
    assert "absent" not in doc.spans


def test_empty_group_stays_empty(nlp, linker):
    linker.cfg["spans_key"] = "sc"
    doc = nlp.make_doc("Nothing.")
    doc.spans["sc"] = []
    assert len(nlp(doc).spans["sc"]) == 0


def test_links_in_a_span_group_are_scored(nlp, grouped, linker):
    reference = grouped.copy()
    gold = [
        Span(reference, span.start, span.end, label=span.label, kb_id="T03")
        for span in reference.spans["sc"]
    ]
    gold[1].kb_id_ = "T12"
    reference.spans["sc"] = gold
    doc = nlp(grouped)
    right = [span.kb_id_ for span in doc.spans["sc"]].count("T03") - 1
    assert right > 0 and linker.score([Example(doc, reference)])["krissel_acc"] == pytest.approx(
        right / 3
    )


def test_without_overwrite_linked_entities_are_kept(nlp, linker, make_doc):
    linker.cfg["overwrite"] = False
    doc = make_doc(nlp, "[flu|Disease] and [asthma|Disease]")
    first, second = doc.ents
    doc.ents = [Span(doc, first.start, first.end, label=first.label, kb_id="GOLD"), second]
    doc = nlp(doc)
    assert ids(doc.ents) == ["GOLD", "T07"]
    assert [len(span._.krissel_candidates) for span in doc.ents] == [0, 5]
    linker.cfg["overwrite"] = True
    assert ids(nlp(doc).ents) == ["T10", "T07"]


# What the encoder sees ----------------------------------------------------------------------------


def test_context_none_ignores_the_context(link, linker):
    apart = "A lump on the mammogram was [MS|Disease] and oestrogen receptors."
    linker.cfg["context"] = "none"
    doc = link(apart)
    assert linker.views(doc, doc.ents) == [name_view("MS")]
    bare = link("[MS|Disease]").ents[0]._.krissel_candidates
    assert doc.ents[0]._.krissel_candidates == bare
    linker.cfg["context"] = "window"
    assert link(apart).ents[0]._.krissel_candidates != bare


def test_context_can_be_the_sentence(link, linker):
    """All mentions of a sentence know each other, abbreviations written out in all of them."""
    linker.cfg["context"] = "sentence"
    doc = link(
        "Multiple sclerosis (MS) is old. In [MS|Disease] and [flu|Disease] it was seen. No "
        "[flu|Disease] here."
    )
    first, second, third = linker.views(doc, doc.ents)
    assert first == View(
        "In ", "Multiple sclerosis", " and flu it was seen. ", co_mentions=((26, 29),)
    )
    assert second == View(
        "In Multiple sclerosis and ", "flu", " it was seen. ", co_mentions=((3, 21),)
    )
    assert third == View("No ", "flu", " here.")
    assert all(doc_link.candidates for doc_link in linker.predict([doc])[0])
    linker.cfg["context"] = "none"
    assert linker.views(doc, doc.ents) == [
        name_view("Multiple sclerosis"),
        name_view("flu"),
        name_view("flu"),
    ]
    with pytest.raises(KrisselError, match="K006.*'context'.*window, sentence, none"):
        linker.cfg["context"] = "document"


def test_mentions_at_the_edges_of_a_doc_are_linked(link, linker):
    doc = link("[Lung cancer|Disease] and [flu|Disease]")
    assert ids(doc.ents) == ["T03", "T10"]
    assert linker.views(doc, doc.ents) == [
        View("", "Lung cancer", " and flu"),
        View("Lung cancer and ", "flu", ""),
    ]
    assert ids(link("[asthma|Disease]").ents) == ["T07"]


def test_mention_longer_than_any_window_is_linked(link):
    (span,) = link(f"[{'carcinoma of lung ' * 500}cancer|Disease] ended.").ents
    assert span.kb_id_ == "T03" and len(span) > 1500
    assert {token.ent_kb_id_ for token in span} == {"T03"}


def test_mention_across_sentences_is_linked(nlp, make_doc):
    nlp.add_pipe("sentencizer", first=True)
    doc = nlp(make_doc(nlp, "It was [carcinoma. Of the lung|Disease]. She left."))
    assert len(list(doc.sents)) == 3
    assert ids(doc.ents) == ["T03"] and {token.ent_kb_id_ for token in doc.ents[0]} == {"T03"}


def test_context_reaches_across_sentences(link, linker):
    doc = link("A diastolic murmur was heard. The atrium was enlarged. It was [MS|Disease].")
    assert linker.views(doc, doc.ents)[0].left.startswith("A diastolic")


# Abbreviations ------------------------------------------------------------------------------------


@pytest.fixture
def abbreviations():
    """The extension attributes of scispaCy's abbreviation detector."""
    Doc.set_extension("abbreviations", default=[], force=True)
    Span.set_extension("long_form", default=None, force=True)
    yield
    Doc.remove_extension("abbreviations")
    Span.remove_extension("long_form")


def abbreviated(nlp, make_doc, serializable):
    doc = make_doc(
        nlp,
        "Bronchial asthma (BA) was treated. Her [BA|Disease] improved, her [flu|Disease] did not.",
    )
    short, long = doc.char_span(18, 20), doc.char_span(0, 16)
    assert (short.text, long.text) == ("BA", "Bronchial asthma")
    if serializable:
        doc._.abbreviations = [
            {"short_text": "BA", "short_start": 3, "long_text": "Bronchial asthma", "long_start": 0}
        ]
    else:
        short._.long_form = long
        doc._.abbreviations = [short]
    return doc


@pytest.mark.parametrize("serializable", [False, True])
def test_component_abbreviations_are_written_out(
    nlp, linker, make_doc, abbreviations, serializable
):
    doc = abbreviated(nlp, make_doc, serializable)
    assert [view.mention for view in linker.views(doc, doc.ents)] == ["Bronchial asthma", "flu"]
    assert linker.views(doc, doc.ents)[0].left.endswith("was treated. Her ")
    assert ids(nlp(doc).ents) == ["T07", "T10"]
    assert doc.ents[0].text == "BA"


def test_abbreviations_can_be_switched_off(nlp, linker, make_doc, abbreviations):
    doc = abbreviated(nlp, make_doc, serializable=True)
    linker.cfg["use_abbreviations"] = False
    assert [view.mention for view in linker.views(doc, doc.ents)] == ["BA", "flu"]


def test_undefined_abbreviation_is_kept(nlp, linker, make_doc, abbreviations):
    doc = make_doc(nlp, "Her [BA|Disease] improved.")
    assert [view.mention for view in linker.views(doc, doc.ents)] == ["BA"]


DEFINED = (
    "Bronchial asthma (BA) was treated. Her [BA|Disease] improved, her [BA attacks|Disease] did "
    "not."
)


def test_abbreviations_defined_in_the_text_are_written_out(nlp, linker, make_doc):
    """Without a component that finds them."""
    doc = make_doc(nlp, DEFINED)
    mentions = ["Bronchial asthma", "Bronchial asthma attacks"]
    assert [view.mention for view in linker.views(doc, doc.ents)] == mentions
    assert linker.views(doc, doc.ents)[1].left.endswith("improved, her ")
    assert ids(nlp(doc).ents) == ["T07", "T07"]
    assert [span.text for span in doc.ents] == ["BA", "BA attacks"]
    linker.cfg["context"] = "none"
    assert [view.mention for view in linker.views(doc, doc.ents)] == mentions
    linker.cfg["use_abbreviations"] = False
    assert [view.mention for view in linker.views(doc, doc.ents)] == ["BA", "BA attacks"]


# Spelling -----------------------------------------------------------------------------------------


def test_lexical_similarity_is_added_with_its_weight(linker, link):
    """The score is that of the vectors plus the weighted similarity in spelling, for every
    candidate."""
    linker.cfg.update(n_candidates=100, lexical_weight=0.5)
    doc = link("Demyelinating lesions point to [multiple sclerosi|Disease] and [coldd|Disease].")
    lexicon = linker.kb.prototypes.lexical_index
    for span, vector in zip(doc.ents, linker.encode(linker.views(doc, doc.ents)), strict=True):
        assert len(span._.krissel_candidates) == 12
        for candidate in span._.krissel_candidates:
            dense = (linker.kb.vectors[linker.kb.prototype_rows(candidate["id"])] @ vector).max()
            row = np.array([linker.kb.entities.row(candidate["id"])])
            lexical = lexicon.similarity(
                lexicon.read([span.text]), np.zeros(1, dtype=np.int64), row
            )[0]
            assert candidate["score"] == pytest.approx(dense + 0.5 * lexical, abs=1e-5)
        scores = [candidate["score"] for candidate in span._.krissel_candidates]
        assert scores == sorted(scores, reverse=True)
        assert span.kb_id_ == span._.krissel_candidates[0]["id"]


def test_lexical_similarity_uses_the_long_form(linker, link, set_names):
    set_names(T07=["bronchial asthma"], T10=["BA"])
    linker.cfg.update(lexical_weight=10.0, use_abbreviations=True)
    assert ids(link(DEFINED).ents) == ["T07", "T07"]
    linker.cfg["use_abbreviations"] = False
    assert ids(link(DEFINED).ents)[0] == "T10"


# Gold mentions ------------------------------------------------------------------------------------


def test_gold_settings_apply_only_with_gold_mentions(linker, link):
    """Without gold mentions they do nothing; with them names and prior are part of each score."""
    text = "Demyelinating lesions point to [multiple sclerosi|Disease] and [coldd|Disease]."
    linker.cfg.update(n_candidates=100, gold_name_weight=0.0, gold_prior=0.0)
    off = [span._.krissel_candidates for span in link(text).ents]
    linker.cfg.update(gold_name_weight=0.25, gold_prior=0.125)
    assert [span._.krissel_candidates for span in link(text).ents] == off
    views = [name_view("scleroses"), name_view("catarrh")]
    linker.kb.add_prototypes(
        [Prototype(id_, "gold", view) for id_, view in zip(("T01", "T04"), views, strict=True)]
    )
    doc = link(text)
    names = linker.encode([name_view(span.text) for span in doc.ents])
    for span, vector, name in zip(
        doc.ents, linker.encode(linker.views(doc, doc.ents)), names, strict=True
    ):
        assert len(span._.krissel_candidates) == 12
        for candidate in span._.krissel_candidates:
            own = linker.kb.vectors[linker.kb.prototype_rows(candidate["id"])]
            expected = 0.75 * (own @ vector).max() + 0.25 * (own @ name).max()
            assert candidate["vector"] == pytest.approx(expected, abs=1e-5)
            assert candidate["gold"] == 0.125 * (candidate["id"] in ("T01", "T04"))
            assert candidate["score"] == pytest.approx(
                candidate["vector"] + candidate["gold"], abs=1e-5
            )
    linker.kb.remove_prototypes(kind="gold")
    assert [span._.krissel_candidates for span in link(text).ents] == off


def test_names_without_context_are_encoded_once(linker, link, monkeypatch):
    """A mention without context is its name already."""
    linker.kb.add_prototypes([Prototype("T01", "gold", name_view("scleroses"))])
    linker.cfg["gold_name_weight"] = 0.5
    asked = []
    encode = linker.encode
    monkeypatch.setattr(linker, "encode", lambda views: asked.append(len(views)) or encode(views))
    text = "[colds|Disease] and [colds|Disease]"
    for context, expected in (("window", [2, 1]), ("none", [2])):
        linker.cfg["context"] = context
        asked.clear()
        link(text)
        assert asked == expected


def test_lexical_index_matches_british_and_american_spelling():
    lexicon = LexicalIndex.of(["Haemorrhage", "fever"], np.array([0, 1]))
    texts = lexicon.read(["hemorrhage"])
    np.testing.assert_allclose(
        lexicon.similarity(texts, np.array([0]), np.array([0])), [1.0], rtol=1e-6
    )


# All together -------------------------------------------------------------------------------------

ALL = {"use_abbreviations": True, "lexical_weight": 0.5}


@pytest.mark.parametrize("n_candidates", [0, 1, 5])
def test_threshold_applies_to_scores_with_lexical_similarity(linker, link, n_candidates):
    linker.cfg.update(ALL, n_candidates=1)
    (span,) = link(DISEASE_CONTEXT).ents
    score = span._.krissel_candidates[0]["score"]
    assert score > 1, "more than a cosine"
    linker.cfg["n_candidates"] = n_candidates
    for threshold, kb_id in ((score - 1e-3, "T01"), (score + 1e-3, "NIL")):
        linker.cfg["threshold"] = threshold
        doc = link(DISEASE_CONTEXT)
        assert ids(doc.ents) == [kb_id] and len(doc.ents[0]._.krissel_candidates) == n_candidates


def test_types_apply_to_scores_with_lexical_similarity(linker, link):
    linker.cfg.update(ALL, types=["T184"])
    (span,) = link(DISEASE_CONTEXT).ents
    candidates = [candidate["id"] for candidate in span._.krissel_candidates]
    assert len(candidates) == 5 and all(id_ >= "T07" for id_ in candidates)


def test_ties_remain_with_lexical_similarity(linker, link, set_names):
    set_names(T02=["MS"], T01=["MS"], T05=["cold"], T04=["cold"], T10=["influenza"])
    linker.cfg.update(ALL)
    doc = link("[MS|Disease], [cold|Disease], [influenza|Disease] and [MS|Disease]")
    assert ids(doc.ents) == ["T01", "T04", "T10", "T01"]
    assert [span._.krissel_ties for span in doc.ents] == [
        ["T01", "T02"],
        ["T04", "T05"],
        [],
        ["T01", "T02"],
    ]


# Knowledge base elsewhere -------------------------------------------------------------------------


def test_kb_path_of_the_config_wins_over_the_folder(nlp, linker, link, save_linker, tmp_path):
    """The knowledge base that the config names wins over the one in the folder, and is not copied
    into it."""
    kb = linker.new_kb()
    kb.set_entities([Entity("X1", "anything")])
    kb.add_prototypes(
        [Prototype("X1", "name", name_view("anything"))], linker.encode([name_view("anything")])
    )
    kb.encoder = linker.fingerprint()
    kb.to_disk(tmp_path / "kb")
    config = {"components.krissel_linker.kb_path": str(tmp_path / "kb")}
    other = spacy.load(save_linker("small"), config=config)
    assert ids(other(link(DISEASE_CONTEXT)).ents) == ["X1"]
    other.to_disk(tmp_path / "pipeline")
    assert not (tmp_path / "pipeline" / "krissel_linker" / "kb").exists()
    assert ids(spacy.load(tmp_path / "pipeline")(link(DISEASE_CONTEXT)).ents) == ["X1"]
    pipe = other.get_pipe("krissel_linker")
    assert pipe.from_bytes(pipe.to_bytes()).kb.n_entities == 1


def test_pipeline_can_be_saved_with_an_external_kb(nlp, linker, link, tmp_path, links_of):
    expected = links_of(link(DISEASE_CONTEXT))
    save_pipeline(nlp, tmp_path / "new" / "pipeline", kb_path=tmp_path / "kb")
    assert not (tmp_path / "new" / "pipeline" / "krissel_linker" / "kb").exists()
    again = spacy.load(tmp_path / "new" / "pipeline")
    assert again.get_pipe("krissel_linker").kb_path == str(tmp_path / "kb")
    assert links_of(again(link(DISEASE_CONTEXT))) == expected


def test_missing_kb_path_raises(save_linker, tmp_path):
    path = str(tmp_path / "nowhere")
    with pytest.raises(KrisselError, match="K001") as error:
        spacy.load(save_linker("small"), config={"components.krissel_linker.kb_path": path})
    assert path in str(error.value)


def test_kb_path_of_something_else_raises(save_linker, toy_store):
    with pytest.raises(KrisselError, match="K002"):
        spacy.load(
            save_linker("small"), config={"components.krissel_linker.kb_path": str(toy_store.path)}
        )


def test_kb_path_of_another_encoder_raises(linker, save_linker, make_linker, source, tmp_path):
    untrained = make_linker("small")
    build_prototypes(untrained, source).to_disk(tmp_path / "kb")
    with pytest.raises(KrisselError, match="K522"):
        spacy.load(
            save_linker("small"), config={"components.krissel_linker.kb_path": str(tmp_path / "kb")}
        )


@pytest.mark.parametrize(
    "setting, value", [("rows", 1024), ("width", 16), ("context_rows", 4096), ("hidden", 8)]
)
def test_config_of_another_encoder_raises(save_linker, setting, value):
    """Else its features would be looked up in the wrong rows of its tables."""
    with pytest.raises(KrisselError, match=r"K408|K605"):
        spacy.load(
            save_linker("small"), config={f"components.krissel_linker.model.{setting}": value}
        )


# Encoder ------------------------------------------------------------------------------------------


def test_no_views_give_no_vectors(linker):
    vectors = linker.encode([])
    assert vectors.shape == (0, 32) and vectors.dtype == np.float32


def test_spacys_get_candidates_finds_the_same_entities(linker, link):
    """spaCy's own interface to the knowledge base finds what the linker finds."""
    doc = link(DISEASE_CONTEXT)
    found = linker.kb.get_candidates(doc.ents[0])
    ours = [candidate["id"] for candidate in doc.ents[0]._.krissel_candidates]
    assert [candidate.entity_ for candidate in found][:5] == ours


def test_kb_of_another_width_raises(linker):
    with pytest.raises(KrisselError, match="K528"):
        linker.set_kb(PrototypeKB(linker.vocab, 31))


def test_initialize_reads_the_examples(make_linker, encoders):
    """Frequent features start smaller than rare ones: the encoder is shown the examples'
    mentions."""
    shown = make_linker("small").get_pipe("krissel_linker")
    nlp = spacy.blank("en")
    blank = nlp.add_pipe("krissel_linker", config={"model": encoders["small"]})
    nlp.initialize()
    assert blank.fingerprint() != shown.fingerprint()


def test_docs_without_annotated_mentions_warn(linker, nlp):
    with pytest.warns(KrisselWarning, match="KW622.*doc.ents"):
        nlp(nlp.make_doc("Nothing looked for mentions here."))
    doc = nlp.make_doc("A component looked and found none.")
    doc.ents = []
    linker._warned = False
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        nlp(doc)


@pytest.mark.parametrize("make", [list, lambda links: [[*each] for each in links]])
def test_links_for_a_copy_are_written_to_the_copy(link, linker, make):
    """Which is where they belong: `predict` keeps the spans of the doc that it was given."""
    doc = link("[MS|Disease] and [flu|Disease] were seen.")
    links = make(linker.predict([doc]))
    expected = [ent.kb_id_ for ent in doc.ents]
    for each in (doc, copy := doc.copy()):
        each.ents = [Span(each, ent.start, ent.end, label=ent.label) for ent in each.ents]
    linker.set_annotations([copy], links)
    assert [ent.kb_id_ for ent in copy.ents] == expected and all(expected)
    assert [ent.kb_id_ for ent in doc.ents] == ["", ""]
