"""Verdicts on links: they hold in their sentences with all settings, count for like mentions,
change no other link, and are undone exactly."""

import threading
from functools import partial

import numpy as np
import pytest
import spacy
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from spacy.tokens import Span

from spacy_krissel import Entity, Term, add_corrections, add_rejections, build
from spacy_krissel.errors import KrisselError, KrisselWarning
from spacy_krissel.evaluation.gold import GoldDoc, without_own_gold
from spacy_krissel.kb.verdicts import MAX_ALIKE, Verdict
from spacy_krissel.pipeline.pipeline_io import find_linker
from spacy_krissel.views import View, mention_view

ENTITIES = [
    Entity("D1", "multiple sclerosis", ("MS",), types=("Disease",)),
    Entity("C1", "mass spectrometry", ("MS",), types=("Method",)),
    Entity("D2", "common cold", ("cold",), types=("Disease",)),
    Entity("D3", "cold injury", types=("Disease",)),
    Entity("D4", "influenza", ("flu",), types=("Disease",)),
    Entity("D5", "pneumonia", types=("Disease",)),
    Entity("D6", "asthma", types=("Disease",)),
]
NAMES = ("MS", "cold", "flu", "pneumonia", "asthma", "qwzx")
OWN = "On Monday he had a cold, and MS."
# The same sentence in another text, another sentence with the same mention, and unlike mentions.
AGAIN = f"Nothing else was seen. \n{OWN} The end."
LIKE = "A cold was treated with rest."
UNLIKE = "Pneumonia and asthma; MS and qwzx were seen in flu."
TEXTS = (OWN, AGAIN, LIKE, UNLIKE)


class Popular(Term):
    """A user's own term, which outweighs all others."""

    weight = 100.0

    def score(self, query, pairs):
        return (pairs.entities == 0).astype(np.float32)


@pytest.fixture(scope="module")
def saved(make_once):
    def make(folder):
        build(ENTITIES, folder / "linker", precision=0.01)

    return make_once("verdicts", make) / "linker"


@pytest.fixture
def nlp(saved):
    return loaded(saved)


def loaded(path):
    nlp = spacy.load(path)
    # It would say which name each mention is, and so leave no choice between entities.
    nlp.remove_pipe("krissel_finder")
    ruler = nlp.add_pipe("entity_ruler", first=True, config={"phrase_matcher_attr": "LOWER"})
    ruler.add_patterns([{"label": "X", "pattern": name} for name in NAMES])
    return nlp


def said(nlp, text, kb_id, mention="cold", doc_id=""):
    """A doc with one mention and what is said of it."""
    doc = nlp.make_doc(text)
    start = text.index(mention)
    doc.ents = [doc.char_span(start, start + len(mention), label="X", kb_id=kb_id)]
    if doc_id:
        doc.user_data["krissel_id"] = doc_id
    return doc


def answer(nlp, texts=TEXTS):
    """All that is said of the mentions, scores included."""
    return [
        [
            (ent.text, ent.kb_id_, ent._.krissel_candidates, [*ent._.krissel_ties])
            for ent in doc.ents
        ]
        for doc in nlp.pipe(texts)
    ]


def link(nlp, text, mention="cold"):
    return next(ent for ent in nlp(text).ents if ent.text == mention)


SETTINGS = {
    "as built": {},
    "threshold": {"threshold": 1e6},
    "confidence": {"min_confidence": 1.0},
    "types": {"types": ["Method"]},
    "types of a label": {"types_by_label": {"X": ["Method"]}},
    "no candidate": {"n_candidates": 0},
    "one candidate": {"n_candidates": 1},
    "no context": {"context": "none"},
    "sentence": {"context": "sentence"},
    "no lexical weight": {"lexical_weight": 0.0, "spelling_weight": 0.0},
    "weights": {"lexical_weight": 9.0, "spelling_weight": 9.0, "coherence_weight": 9.0},
    "no confidence": {"confidence": {}, "min_confidence": 0.0},
    "vectors alone": {
        "confidence": {},
        "min_confidence": 0.0,
        "lexical_weight": 0.0,
        "spelling_weight": 0.0,
    },
}


@pytest.fixture(params=SETTINGS)
def configured(nlp, request):
    find_linker(nlp).configure(**SETTINGS[request.param])
    return nlp


@pytest.mark.parametrize("right", ["D4", "D3", "D2"])
@pytest.mark.parametrize("text", [OWN, AGAIN, OWN.replace(" a cold", "  a\u00ad\ncold")])
def test_correction_is_the_link_with_all_settings(configured, right, text):
    kb = find_linker(configured).kb
    before = answer(configured)
    assert add_corrections(kb, said(configured, OWN, right), source="test") == 1
    ent = link(configured, text)
    assert (ent.kb_id_, [*ent._.krissel_ties]) == (right, [])
    for first in ent._.krissel_candidates[:1]:
        assert (first["id"], first["kind"], first["confidence"]) == (right, "verdict", 1.0)
        assert "⟦cold⟧" in first["evidence"] and first["source"] == "test"
        assert all(each["score"] <= first["score"] for each in ent._.krissel_candidates)
    # All of it can be saved.
    assert configured(text).to_bytes()
    kb.remove_verdicts(source="test")
    assert answer(configured) == before


def test_no_entity_is_nil_with_all_settings(configured):
    kb = find_linker(configured).kb
    before = answer(configured)
    for add in (add_corrections, add_rejections):
        add(kb, said(configured, OWN, "NIL"), source="test")
        ent = link(configured, AGAIN)
        assert (ent.kb_id_, ent._.krissel_candidates) == ("NIL", [])
        kb.remove_verdicts(source="test")
    assert answer(configured) == before


def test_rejected_entities_are_never_linked_with_all_settings(configured):
    kb = find_linker(configured).kb
    before = answer(configured)
    for entity in ENTITIES:
        kb.add_rejections(said(configured, OWN, entity.id), source="test")
        ent = link(configured, AGAIN)
        rejected = {each.rejected[0] for each in kb.all_verdicts()}
        assert ent.kb_id_ not in rejected
        assert not rejected & {each["id"] for each in ent._.krissel_candidates}
    assert link(configured, OWN).kb_id_ == "NIL"
    kb.remove_verdicts(source="test")
    assert answer(configured) == before


def test_own_terms_and_approximate_indexes_do_not_change_what_was_said(nlp):
    linker = find_linker(nlp)
    linker.terms = {"popular": Popular()}
    linker.terms["popular"].name = "popular"
    linker.kb.add_corrections(said(nlp, OWN, "D4"))
    assert link(nlp, OWN).kb_id_ == "D4"
    faiss = pytest.importorskip("faiss")
    assert faiss
    from spacy_krissel.index.faiss_index import make_faiss_index

    linker.kb.use_index(make_faiss_index("hnsw"))
    assert link(nlp, AGAIN).kb_id_ == "D4"


def test_reranker_leaves_what_was_said(make_reranker):
    text = "Sneezing, a running nose and a cold, caught at school."
    nlp = make_reranker(weight=1000.0, nil_score=1e6)
    ruler = nlp.add_pipe("entity_ruler", first=True)
    ruler.add_patterns([{"label": "Disease", "pattern": "cold"}])
    kb = find_linker(nlp).kb
    rejected = {each["id"] for each in link(nlp, text)._.krissel_candidates[:2]}
    for kb_id in rejected:
        kb.add_rejections(said(nlp, text, kb_id), source="rejected")
    assert link(nlp, text).kb_id_ not in rejected
    for right in (*rejected, kb.entity_ids[0]):
        kb.add_corrections(said(nlp, text, right))
        ent = link(nlp, text)
        assert ent.kb_id_ == right
        assert ent._.krissel_candidates[0]["kind"] == "verdict"
        assert not ent._.krissel_reranked_by
    kb.add_rejections(said(nlp, text, "NIL"))
    assert link(nlp, text).kb_id_ == "NIL"


def test_last_verdict_counts_and_each_is_undone(nlp):
    kb = find_linker(nlp).kb
    steps = [
        (kb.add_corrections, "D4", "D4"),
        (kb.add_rejections, "D4", None),
        (kb.add_corrections, "D4", "D4"),
        (kb.add_corrections, "D3", "D3"),
        (kb.add_rejections, "NIL", "NIL"),
        (kb.add_rejections, "D2", "NIL"),
        (kb.add_corrections, "D2", "D2"),
    ]
    answers = [answer(nlp)]
    for number, (add, kb_id, expected) in enumerate(steps):
        add(said(nlp, OWN, kb_id), source=str(number))
        found = link(nlp, OWN).kb_id_
        assert found == expected if expected else found != "D4"
        answers.append(answer(nlp))
    for number in reversed(range(len(steps))):
        assert kb.remove_verdicts(source=str(number)) == 1
        assert answer(nlp) == answers[number]


def test_composite_correction_links_the_best_of_its_entities(nlp):
    kb = find_linker(nlp).kb
    ranked = [each["id"] for each in link(nlp, OWN)._.krissel_candidates]
    kb.add_corrections(said(nlp, OWN, f"{ranked[3]}|{ranked[1]}"))
    assert link(nlp, OWN).kb_id_ == ranked[1]


def test_own_document_counts_more_than_others(nlp):
    kb = find_linker(nlp).kb
    texts = [OWN, AGAIN, f"As before. {OWN}"]
    kb.add_corrections(said(nlp, texts[0], "D4"))
    kb.add_corrections(said(nlp, texts[1], "D5"))
    assert [link(nlp, text).kb_id_ for text in texts] == ["D4", "D5", "D5"]


def test_verdict_of_one_document_holds_in_it_by_id_or_text(nlp):
    kb, others = find_linker(nlp).kb, (AGAIN, LIKE, f"{OWN} {LIKE}")
    before = answer(nlp, others)
    kb.add_corrections(said(nlp, OWN, "D4", doc_id="a"), same_document=True)
    assert link(nlp, OWN)._.krissel_candidates[0]["kind"] == "verdict"
    assert answer(nlp, others) == before
    # Like mentions of its document gain.
    kb.add_corrections(said(nlp, others[2], "D4"), same_document=True)
    assert [ent.kb_id_ for ent in nlp(others[2]).ents if ent.text == "cold"] == ["D4"] * 2


@pytest.mark.parametrize(
    "text, counts",
    [
        ("MS was seen.", True),
        ("Motor syndrome (MS) is rare. MS was seen.", False),
        ("Multiple sclerosis (MS) is rare. MS was seen.", False),
        ("Mass spectrometry (MS) is quick. MS was seen.", True),
        # The long form stands in the sentence of the correction, or is only part of its words.
        ("Slow measuring system (MS). MS was seen.", True),
        ("Slow measuring syst (MS). MS was seen.", False),
    ],
)
def test_a_defined_abbreviation_is_like_none_of_another_meaning(nlp, text, counts):
    def gain():
        found = [*nlp(text).ents][-1]._.krissel_candidates
        return sum(each.get("verdict", 0.0) for each in found if each["id"] == "C1")

    assert gain() == 0
    corrected = said(nlp, "A slow measuring system, the MS, was used.", "C1", "MS")
    find_linker(nlp).kb.add_corrections(corrected)
    assert (gain() > 0) is counts


def test_two_occurrences_in_a_sentence_are_corrected_apart(nlp):
    text = "A cold came after a cold."
    doc = nlp.make_doc(text)
    doc.ents = [Span(doc, 5, 6, label="X", kb_id="D4")]
    find_linker(nlp).kb.add_corrections(doc)
    first, second = nlp(text).ents
    assert second.kb_id_ == "D4" and first._.krissel_candidates[0]["kind"] != "verdict"


def test_like_mentions_gain_and_lose_in_score_and_confidence(nlp):
    kb = find_linker(nlp).kb

    def of(entity):
        found = {each["id"]: each for each in link(nlp, LIKE)._.krissel_candidates}
        return found.get(entity, {"score": -1.0, "confidence": 0.0})

    before, other = of("D2"), of("D3")
    kb.add_rejections(said(nlp, OWN, "D2"), source="rejected")
    after = of("D2")
    assert after["score"] < before["score"] and after["confidence"] < before["confidence"]
    assert after["verdict"] < 0
    # Twice is more.
    kb.add_rejections(said(nlp, "There was no cold here.", "D2"), source="rejected")
    assert of("D2")["confidence"] < after["confidence"]
    kb.remove_verdicts(source="rejected")
    assert of("D2") == before
    kb.add_corrections(said(nlp, OWN, "D3"))
    assert of("D3")["score"] > other["score"] and of("D3")["confidence"] > other["confidence"]
    assert of("D3")["verdict"] > 0 and link(nlp, LIKE).kb_id_ == "D3"
    assert of("D3")["match"] == "mention"
    assert of("D3")["confidence"] < 1


def test_rejections_of_one_document_count_once(nlp):
    kb = find_linker(nlp).kb

    def after(*starts):
        for start in starts:
            doc = nlp.make_doc("A cold is a cold, he said.")
            doc.ents = [doc.char_span(start, start + 4, label="X", kb_id="D2")]
            kb.add_rejections(doc, source="rejected")
        first = link(nlp, LIKE)._.krissel_candidates[0]
        kb.remove_verdicts(source="rejected")
        return first["score"], first["confidence"]

    nearest, other = sorted([after(2), after(12)])
    assert after(2, 12) == nearest <= other < after()


@pytest.mark.parametrize("name", ["min_confidence", "threshold"])
def test_rejections_in_other_documents_leave_the_link(nlp, name):
    """A link becomes NIL by rejections in its own document, or by mentions without an entity."""
    linker = find_linker(nlp)
    before = link(nlp, LIKE)._.krissel_candidates[0]
    least = before[{"min_confidence": "confidence", "threshold": "score"}[name]] - 1e-3
    linker.configure(**{"min_confidence": 0.0, name: least})
    assert link(nlp, LIKE).kb_id_ == "D2"
    for n in range(5):
        linker.kb.add_rejections(said(nlp, f"No {n} cold was here.", "D2"), source="rejected")
        found = link(nlp, LIKE)
        assert found.kb_id_ == "D2"
        now = found._.krissel_candidates[0]
        assert now["confidence"] < before["confidence"]
        if name == "min_confidence":
            assert now["score"] < before["score"] and now["confidence"] >= least
        else:
            assert least <= now["score"] <= before["score"]
    linker.kb.add_corrections(said(nlp, "No cold.", "NIL"), source="none")
    assert link(nlp, LIKE).kb_id_ == "NIL"
    linker.kb.remove_verdicts(source="none")
    linker.kb.remove_verdicts(source="rejected")
    twice = f"{LIKE} Then the cold was over."
    assert [ent.kb_id_ for ent in nlp(twice).ents] == ["D2", "D2"]
    linker.kb.add_rejections(said(nlp, twice, "D2"))
    assert [ent.kb_id_ for ent in nlp(twice).ents] == ["NIL", "NIL"]


def test_rejections_in_other_documents_let_another_candidate_overtake_or_keep_the_link(nlp):
    linker = find_linker(nlp)
    ids = [each["id"] for each in link(nlp, LIKE)._.krissel_candidates]
    linker.configure(confidence={}, min_confidence=0.0)
    scores = [each["score"] for each in link(nlp, LIKE)._.krissel_candidates]
    for n in range(30):
        linker.kb.add_rejections(said(nlp, f"No {n} cold was here.", ids[0]), source="rejected")
    assert link(nlp, LIKE).kb_id_ == ids[1]
    linker.configure(threshold=(scores[0] + scores[1]) / 2)
    found = link(nlp, LIKE)
    assert found.kb_id_ == ids[0] == found._.krissel_candidates[0]["id"]


def test_rejections_of_homonyms_count_in_their_document_alone(nlp):
    text = "Some MS was seen. Then the MS was over."
    before = [ent._.krissel_candidates for ent in nlp(text).ents]
    rejected = before[1][0]["id"]
    kb = find_linker(nlp).kb
    kb.add_rejections(said(nlp, "No MS was here.", rejected, mention="MS"), source="elsewhere")
    assert [ent._.krissel_candidates for ent in nlp(text).ents] == before
    kb.add_rejections(said(nlp, text, rejected, mention="MS"))
    found = {each["id"]: each for each in nlp(text).ents[1]._.krissel_candidates}
    assert found[rejected]["score"] < before[1][0]["score"]


def test_unlike_mentions_keep_all_that_was_said(nlp):
    # In batches of the same texts, since sums are rounded otherwise in others.
    kb, before = find_linker(nlp).kb, [answer(nlp)[-1], *answer(nlp, [UNLIKE])]
    for kb_id in ("D4", "C1", "NIL", "D6"):
        kb.add_corrections(said(nlp, OWN, kb_id))
        kb.add_rejections(said(nlp, LIKE, "D2"))
        assert [answer(nlp)[-1], *answer(nlp, [UNLIKE])] == before


def test_verdicts_do_not_leak_into_an_evaluation_of_their_documents(nlp):
    kb = find_linker(nlp).kb
    kb.add_corrections(said(nlp, OWN, "D4", doc_id="1"))
    gold = [GoldDoc("1", said(nlp, OWN, "D4", doc_id="1"), [])]
    with pytest.warns(KrisselWarning, match="KW703"), without_own_gold(nlp, gold) as count:
        assert count == 1 and not len(kb.verdicts)
    assert len(kb.verdicts) == 1


@pytest.mark.parametrize("add", [add_corrections, add_rejections])
def test_unknown_ids_are_refused_or_left_out(nlp, add):
    kb = find_linker(nlp).kb
    docs = [said(nlp, OWN, "D99"), said(nlp, LIKE, "D4")]
    with pytest.raises(KrisselError, match="K533.*D99"):
        add(kb, docs)
    assert not len(kb.verdicts)
    with pytest.warns(KrisselWarning, match="KW501"):
        assert add(kb, docs, skip_unknown=True) == 1
    # A second time adds nothing.
    assert add(kb, docs[1]) == 0


@pytest.mark.parametrize(
    "verdict, problem",
    [
        (Verdict(View("", " ", ""), ("D1",)), "mention is empty"),
        (Verdict(View("", "x", "")), "names no entity"),
        (Verdict(View("", "x", ""), ("D1",), no_entity=True), "names one"),
        (Verdict(View("", "x", ""), rejected=("D99",)), "has no 'D99'"),
    ],
)
def test_invalid_verdicts_raise(nlp, verdict, problem):
    kb = find_linker(nlp).kb
    with pytest.raises(KrisselError, match=f"K535.*Verdict 0.*{problem}"):
        kb.add_verdicts([verdict])
    with pytest.raises(KrisselError, match="K006"):
        kb.remove_verdicts()
    assert not len(kb.verdicts)


MENTIONS = ("cold", "MS", "flu")
VERDICTS = st.lists(
    st.tuples(
        st.sampled_from(["add_corrections", "add_rejections"]),
        st.sampled_from(TEXTS),
        st.sampled_from(MENTIONS),
        st.sampled_from(["D1", "D2", "D3", "D4", "C1", "NIL", "D1|D5"]),
        st.sampled_from(["", "a", "b"]),
        st.booleans(),
    ),
    max_size=8,
)


@pytest.fixture(scope="module")
def shared(saved):
    return loaded(saved)


@settings(deadline=None, max_examples=25, suppress_health_check=[HealthCheck.too_slow])
@given(VERDICTS, st.data())
def test_random_verdicts_hold_and_are_undone_exactly(shared, tmp_path_factory, verdicts, data):
    # Drawn first: a draw that is cut off would leave the verdicts in the knowledge base.
    undone = data.draw(st.permutations(range(len(verdicts))))
    kb = find_linker(shared).kb
    before = answer(shared)
    last = {}
    for number, (add, text, mention, kb_id, doc_id, same) in enumerate(verdicts):
        if mention not in text:
            continue
        getattr(kb, add)(
            said(shared, text, kb_id, mention, doc_id), source=str(number), same_document=same
        )
        ent = link(shared, text, mention)
        ids = set() if kb_id == "NIL" else {*kb_id.split("|")}
        # The document has no id here, but the same text.
        if kb_id == "NIL":
            assert ent.kb_id_ == "NIL"
        elif add == "add_corrections":
            assert ent.kb_id_ in ids
        else:
            assert ent.kb_id_ not in ids
        last[text, mention] = (add, ids)
    # What is saved and loaded says the same.
    folder = tmp_path_factory.mktemp("kb") / "kb"
    kb.to_disk(folder)
    linked, kept = answer(shared), [*kb.all_verdicts()]
    other = find_linker(shared).new_kb().from_disk(folder)
    assert [*other.all_verdicts()] == kept
    find_linker(shared).set_kb(other)
    assert answer(shared) == linked
    for source in undone:
        other.remove_verdicts(source=str(source))
    assert answer(shared) == before and not len(other.verdicts)


def test_only_the_latest_verdicts_on_a_form_are_compared(nlp):
    kb = find_linker(nlp).kb
    texts = [f"Case {number} is a cold." for number in range(MAX_ALIKE + 5)]
    views = [mention_view(text, text.index("cold"), len(text) - 1) for text in texts]
    kb.add_verdicts([Verdict(view, ("D4",)) for view in views])
    # All of them hold.
    assert {link(nlp, text).kb_id_ for text in (texts[0], texts[-1])} == {"D4"}


def test_threads_link_while_verdicts_come_and_go(nlp):
    kb, before = find_linker(nlp).kb, answer(nlp, [UNLIKE])
    docs, found, errors = [said(nlp, OWN, "D4"), said(nlp, LIKE, "NIL")], [], []

    def ask():
        try:
            for _ in range(10):
                ((unlike,), ((first, *_), *_)) = answer(nlp, [UNLIKE]), answer(nlp, [OWN])
                found.append(first[1])
                assert [unlike] == before
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=ask) for _ in range(2)]
    for thread in threads:
        thread.start()
    for _ in range(10):
        kb.add_corrections(docs[0], source="a")
        kb.add_rejections(docs[1], source="a")
        kb.remove_verdicts(source="a")
    for thread in threads:
        thread.join()
    assert not errors and set(found) <= {"D2", "D4", "NIL", "D3"}


def test_entities_of_verdicts_cannot_be_removed(nlp):
    kb = find_linker(nlp).kb
    kb.add_corrections(said(nlp, OWN, "D4"))
    more = [Entity("A0", "a new entity"), *ENTITIES]
    kb.set_entities(more)
    assert [each.right for each in kb.all_verdicts()] == [("D4",)]
    assert link(nlp, OWN).kb_id_ == "D4"
    kb.remove_prototypes(kind="name")
    with pytest.raises(KrisselError, match="K515.*D4"):
        kb.set_entities([each for each in ENTITIES if each.id != "D4"])


def test_damaged_verdicts_raise(nlp, tmp_path):
    linker = find_linker(nlp)
    linker.kb.add_corrections(said(nlp, OWN, "D4"))
    linker.kb.to_disk(tmp_path / "kb")
    read = partial(linker.new_kb().from_disk, tmp_path / "kb")
    assert len(read().verdicts) == 1
    for name in ("verdicts.arrow", "verdicts.npy"):
        content = (tmp_path / "kb" / name).read_bytes()
        (tmp_path / "kb" / name).write_bytes(content[:-9])
        with pytest.raises(KrisselError, match=f"K00.*{name}"):
            read()
        (tmp_path / "kb" / name).write_bytes(content)
