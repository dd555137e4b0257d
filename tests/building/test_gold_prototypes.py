import json
from collections import Counter

import numpy as np
import pytest
import spacy
from spacy.tokens import Span
from spacy.vocab import Vocab

from spacy_krissel.building.gold_prototypes import GOLD_WEIGHT, add_gold, gold_prototypes
from spacy_krissel.corpora.convert import convert
from spacy_krissel.corpora.doc_bins import read_doc_bins
from spacy_krissel.errors import KrisselError, KrisselWarning
from spacy_krissel.evaluation.gold import read_gold
from spacy_krissel.index.faiss_index import make_faiss_index
from spacy_krissel.kb.candidates import candidate_dicts
from spacy_krissel.kb.prototype_kb import PrototypeKB
from spacy_krissel.kb.prototype_table import NO_ORIGIN, Origin, Prototype
from spacy_krissel.mentions.gold_mentions import text_hash
from spacy_krissel.ontology.entity import Entity
from spacy_krissel.views import View, name_view

TEXT = "MS in MS or stenosis"
ENTITIES = [
    Entity("D1", "Multiple sclerosis", alt_ids=("OMIM:1",)),
    Entity("D2", "Mitral stenosis"),
    Entity("D3", "x"),
]


def make_doc(mentions, doc_id="", key="", text=TEXT):
    doc = spacy.blank("en")(text)
    spans = [Span(doc, start, end, label="Disease", kb_id=kb_id) for start, end, kb_id in mentions]
    if key:
        doc.spans[key] = spans
    else:
        doc.ents = spans
    if doc_id:
        doc.user_data["krissel_id"] = doc_id
    return doc


def encode(views):
    """Words of the mention, and whether there is context: enough to tell views apart."""
    return np.array(
        [["M" in v.mention, "s" in v.mention, bool(v.left), bool(v.right)] for v in views],
        dtype="f4",
    )


@pytest.fixture
def kb():
    kb = PrototypeKB(Vocab(), 4)
    kb.set_entities(ENTITIES)
    kb.add_prototypes([Prototype("D3", "name", name_view("x"))], np.full((1, 4), 0.1))
    kb.attach_encoder(encode)
    return kb


def test_mentions_become_prototypes_with_their_origin(kb):
    doc = make_doc([(0, 1, "D1"), (2, 3, "NIL"), (4, 5, "")], "d")
    prototypes, counts = gold_prototypes([doc], kb, source="corpus")
    origin = Origin("corpus", "d", 0, 2, text_hash(doc))
    assert prototypes == [
        Prototype("D1", "gold", View("", "MS", " in MS or stenosis"), origin),
        Prototype("D1", "gold", name_view("MS"), origin),
    ]
    assert (counts.mentions, counts.entities, counts.prototypes, counts.unknown) == (1, 1, 2, 0)


def test_gold_ids_are_resolved_like_in_the_evaluation(kb):
    doc = make_doc([(0, 1, "OMIM:1"), (2, 3, "MESH:D1+D2"), (4, 5, "D3|D99|-1")])
    prototypes, counts = gold_prototypes([doc], kb, surface_forms=False)
    assert [(p.entity, p.view.mention) for p in prototypes] == [
        ("D1", "MS"),
        ("D1", "MS"),
        ("D2", "MS"),
        ("D3", "stenosis"),
    ]
    assert counts.unknown == 0


def test_skipped_unknown_ids_are_counted_in_one_warning(kb):
    docs = [make_doc([(0, 1, "D98"), (2, 3, "D1")], "a"), make_doc([(0, 1, "D97|D98")], "b")]
    with pytest.warns(KrisselWarning, match=r"KW501\] 2 of 3 .*a 0-2 D98; b 0-2 D97") as caught:
        assert add_gold(kb, docs, skip_unknown=True).unknown == 2
    assert len(caught) == 1


def test_an_unknown_id_raises_and_adds_nothing(kb):
    before = kb.n_prototypes
    with pytest.raises(KrisselError, match=r"K533\] 1 of 2 .*a 0-2 D98"):
        add_gold(kb, make_doc([(0, 1, "D98"), (2, 3, "D1")], "a"))
    assert kb.n_prototypes == before


@pytest.mark.parametrize("ids, spans", [(["", "NIL"], 2), ([], 0)])
def test_docs_without_a_linked_mention_warn_and_add_nothing(kb, ids, spans):
    doc = make_doc([(2 * i, 2 * i + 1, id_) for i, id_ in enumerate(ids)])
    with pytest.warns(KrisselWarning, match=f"KW502.* {spans} gold mentions"):
        assert add_gold(kb, [doc]).prototypes == 0


def test_each_document_adds_a_surface_form_once(kb):
    docs = [make_doc([(0, 1, "D1"), (2, 3, "D1")], "a"), make_doc([(0, 1, "D1")], "b")]
    prototypes, _ = gold_prototypes(docs, kb)
    bare = [p.origin.doc for p in prototypes if p.view == name_view("MS")]
    # Once for each: taking out one document leaves the other's.
    assert len(prototypes) == 5 and bare == ["a", "b"]


def test_mentions_are_selected_by_spans_key_and_label(kb):
    doc = make_doc([(0, 3, "D1"), (2, 3, "D2")], key="nested")
    assert gold_prototypes([doc], kb)[0] == []
    assert len(gold_prototypes([doc], kb, spans_key="nested", surface_forms=False)[0]) == 2
    assert gold_prototypes([doc], kb, spans_key="nested", labels=["Chemical"])[0] == []
    with pytest.raises(KrisselError, match="K006.*labels"):
        gold_prototypes([doc], kb, labels="Disease")


def test_corrected_entities_are_added_as_gold(kb, tmp_path):
    """Converted, put right in `doc.ents`, added."""
    source = tmp_path / "corpus.pubtator"
    source.write_text(
        f"1|t|{TEXT}\n1|a|\n1\t0\t2\tMS\tDisease\tD1\n1\t12\t20\tstenosis\tDisease\tD2\n"
    )
    convert(source, tmp_path / "corpus.spacy")
    (doc,) = read_doc_bins(tmp_path / "corpus.spacy", Vocab())
    assert (
        [ent.kb_id_ for ent in doc.ents]
        == [span.kb_id_ for span in doc.spans["krissel"]]
        == ["D1", "D2"]
    )
    doc.ents = [Span(doc, 0, 1, label="Disease", kb_id="D3"), doc.ents[1]]
    with pytest.warns(KrisselWarning, match="KW030.*1 mentions"):
        counts = add_gold(kb, [doc], surface_forms=False)
    assert counts.corrections.corrected == 1
    assert {each.entity for each in kb.prototypes_at(np.arange(1, 3))} == {"D3", "D2"}
    with pytest.warns(KrisselWarning, match="KW030.*1 mentions"):
        (gold,) = read_gold([doc], spacy.blank("en"))
    assert [mention.kb_id_ for mention in gold.mentions] == ["D3", "D2"]


@pytest.mark.parametrize("docs", ["12", "abc", [12], [None]])
def test_document_ids_must_be_a_collection_of_strings(kb, docs):
    add_gold(kb, [make_doc([(0, 1, "D1")], id_) for id_ in ("1", "2", "12")])
    before = kb.n_prototypes
    with pytest.raises(KrisselError, match="K006.*'docs'.*list"):
        kb.remove_prototypes(docs=docs)
    with pytest.raises(KrisselError, match="K006.*'source'"):
        kb.remove_prototypes(source=7)
    assert kb.n_prototypes == before
    assert kb.remove_prototypes(docs=["12"]) == kb.remove_prototypes(docs={"1"}) > 0


@pytest.mark.parametrize("n", [1, 2, 3])
def test_few_shot_examples_depend_on_the_seed_only_and_are_nested(kb, n):
    docs = [make_doc([(0, 1, "D1"), (2, 3, "D1"), (4, 5, "D2")], str(i)) for i in range(4)]
    drawn = [
        gold_prototypes(docs, kb, per_entity=n, seed=seed, surface_forms=False)[0]
        for seed in range(6)
    ]
    assert all(Counter(p.entity for p in found) == {"D1": n, "D2": n} for found in drawn)
    assert drawn[0] == gold_prototypes(docs, kb, per_entity=n, seed=0, surface_forms=False)[0]
    assert any(found != drawn[0] for found in drawn)
    # More shots hold what fewer hold, so that a curve over them compares like with like.
    more = gold_prototypes(docs, kb, per_entity=n + 1, seed=0, surface_forms=False)[0]
    assert {p.origin for p in drawn[0]} < {p.origin for p in more}
    # The order of the documents does not matter.
    again = gold_prototypes(docs[::-1], kb, per_entity=n, seed=0, surface_forms=False)[0]
    assert {p.origin for p in again} == {p.origin for p in drawn[0]}
    with pytest.raises(KrisselError, match="K006.*per_entity"):
        gold_prototypes(docs, kb, per_entity=-n)


def test_gold_prototypes_have_a_higher_weight(kb):
    add_gold(kb, [make_doc([(4, 5, "D2")])], surface_forms=False)
    assert kb.vectors[1].tolist() == pytest.approx([0, GOLD_WEIGHT, GOLD_WEIGHT, 0])
    normalized = PrototypeKB(Vocab(), 4, normalize=True)
    normalized.set_entities(ENTITIES)
    normalized.attach_encoder(encode)
    add_gold(normalized, [make_doc([(4, 5, "D2")])], surface_forms=False, weight=2.0)
    assert np.linalg.norm(normalized.vectors[0]) == pytest.approx(2.0)
    for weight in (0, -1.0, float("nan")):
        with pytest.raises(KrisselError, match="K006.*weight"):
            add_gold(kb, [make_doc([(0, 1, "D1")])], weight=weight)


@pytest.mark.parametrize(
    "kind, view", [("name", name_view("ms")), ("replaced", View("some ", "MS", " context"))]
)
@pytest.mark.parametrize(
    "other, n_docs, weighted", [("D2", 1, False), ("D2", 2, True), ("D1", 1, True)]
)
def test_shared_names_need_gold_of_two_documents(kb, kind, view, other, n_docs, weighted):
    """Gold says that MS is D1, the knowledge base that it is a name of `other`."""
    kb.add_prototypes([Prototype(other, kind, view)], np.ones((1, 4)))
    # Without ids: it is the texts that tell documents apart.
    docs = [make_doc([(0, 1, "D1"), (2, 3, "D1")], text=f"{TEXT} {i}") for i in range(n_docs)]
    counts = add_gold(kb, docs, weight=2.0)
    rows = [row for row in kb.prototype_rows("D1") if kb.prototypes_at([row])[0].kind == "gold"]
    found = kb.prototypes_at(rows)
    bare = [prototype for prototype in found if prototype.view == name_view("MS")]
    assert len(bare) == (n_docs if weighted else 0) and len(found) - len(bare) == 2 * n_docs
    assert (counts.prototypes, counts.shared) == (len(found), 0 if weighted else 2)
    own = encode([prototype.view for prototype in found])
    assert kb.vectors[rows] == pytest.approx(own * (2 if weighted else 1), abs=1e-6)


def gold_of(kb, entity):
    rows = kb.prototype_rows(entity)
    return [prototype for prototype in kb.prototypes_at(rows) if prototype.kind == "gold"]


def test_gold_added_one_document_at_a_time_settles_a_shared_name(kb):
    kb.add_prototypes([Prototype("D2", "name", name_view("MS"))], np.ones((1, 4)))
    shared = [
        add_gold(kb, [make_doc([(0, 1, "D1")], text=f"{TEXT} {i}")]).shared for i in (0, 0, 1, 2)
    ]
    # The second is the first again, which is there already.
    assert shared == [1, 0, 0, 0]
    assert [prototype.view == name_view("MS") for prototype in gold_of(kb, "D1")] == [False] + [
        False,
        True,
    ] * 2


def test_gold_of_other_entities_makes_a_name_shared(kb):
    """Nothing but gold says that MS is D1, in two documents, and D2, in one."""
    docs = [make_doc([(0, 1, "D1")], text=f"{TEXT} {i}") for i in range(2)] + [
        make_doc([(0, 1, "D2")])
    ]
    assert add_gold(kb, docs).shared == 1
    assert len(gold_of(kb, "D1")) == 4 and len(gold_of(kb, "D2")) == 1
    # D3 comes when they are there.
    assert add_gold(kb, [make_doc([(2, 3, "D3")], text=f"{TEXT} 3")]).shared == 1


def test_entities_of_a_composite_mention_do_not_make_its_name_shared(kb):
    counts = add_gold(kb, [make_doc([(0, 1, "D1|D2")])])
    assert (counts.prototypes, counts.shared) == (4, 0)


def test_a_mention_that_is_its_whole_document_is_always_kept(kb):
    """Ten of D1, which two documents settle, and one of D2, which stays a prototype like others."""
    docs = [make_doc([(0, 1, "D1")], f"p{i}", text="MS") for i in range(10)]
    counts = add_gold(kb, [*docs, make_doc([(0, 1, "D2")], "q", text="MS")], weight=2.0)
    assert (counts.prototypes, counts.shared) == (11, 1)
    (row,) = kb.prototype_rows("D2")
    assert np.linalg.norm(kb.vectors[row]) == pytest.approx(
        np.linalg.norm(encode([name_view("MS")]))
    )


@pytest.mark.parametrize(
    "kind, form, shared", [("name", "Tumour", 1), ("name", "tumours", 0), ("class", "tumor", 0)]
)
def test_shared_names_match_spelling_variants_of_names_only(kb, kind, form, shared):
    kb.add_prototypes([Prototype("D2", kind, name_view(form))], np.ones((1, 4)))
    assert add_gold(kb, [make_doc([(0, 1, "D1")], text="tumor of something")]).shared == shared


def test_the_attached_encoder_makes_missing_vectors(kb):
    kb.add_prototypes([Prototype("D2", "name", name_view("MS"))])
    assert kb.vectors[-1].tolist() == [1, 0, 0, 0]
    bare = PrototypeKB(Vocab(), 4)
    bare.set_entities(ENTITIES)
    for add in (
        lambda: add_gold(bare, [make_doc([(0, 1, "D1")])]),
        lambda: bare.add_prototypes(kb.prototypes_at([0])),
    ):
        with pytest.raises(KrisselError, match="K521"):
            add()


def test_a_document_added_twice_counts_once(kb):
    doc = make_doc([(0, 1, "D1")], "d")
    add_gold(kb, [doc], source="mine")
    before = kb.prototypes_at(range(kb.n_prototypes))
    # One more mention, and the first again; one document as it is.
    more = make_doc([(0, 1, "D1"), (4, 5, "D2")], "d")
    assert add_gold(kb, doc, source="mine").prototypes == 0
    assert add_gold(kb, [more], source="mine").prototypes == 2
    after = kb.prototypes_at(range(kb.n_prototypes))
    assert after[: len(before)] == before and {
        prototype.entity for prototype in after[len(before) :]
    } == {"D2"}
    # From elsewhere it is another one.
    assert add_gold(kb, [doc], source="theirs").prototypes == 2


def test_adding_docs_as_prototypes_raises(kb):
    for items in ([make_doc([(4, 5, "D2")])], [kb.prototypes_at([0])[0], make_doc([(4, 5, "D2")])]):
        with pytest.raises(KrisselError, match="K006.*prototypes.*add_gold"):
            kb.add_prototypes(items)
    assert kb.n_prototypes == 1


@pytest.mark.parametrize("index", [None, make_faiss_index("flat"), make_faiss_index("hnsw")])
def test_removed_prototypes_are_gone_and_the_rest_is_unchanged(index, tmp_path):
    pytest.importorskip("faiss")
    kb = PrototypeKB(Vocab(), 4, index=index)
    kb.set_entities(ENTITIES)
    kb.add_prototypes([Prototype("D3", "name", name_view("x"))], np.full((1, 4), 0.1))
    kb.attach_encoder(encode)
    query = encode([View("a", "MS", "b")])
    before = kb.search(query, 3)
    kb.to_disk(tmp_path / "before")
    add_gold(kb, [make_doc([(0, 1, "D1")], "a"), make_doc([(4, 5, "D2")], "b")], source="one")
    add_gold(kb, [make_doc([(2, 3, "D1")], "c")], source="two")
    assert kb.description()["prototype_sources"] == {"one": 4, "two": 2}
    best = kb.search(query, 3)
    assert (
        kb.entity_ids[best.entities[0, 0]] == "D1"
        and candidate_dicts(kb, best)[0][0]["kind"] == "gold"
    )
    assert kb.remove_prototypes(source="two") == 2
    assert kb.remove_prototypes(kind="gold", docs=["a", "c"]) == 2
    assert [p.origin.doc for p in kb.prototypes_at(np.arange(1, 3))] == ["b", "b"]
    assert kb.remove_prototypes(kind="mention") == 0
    assert kb.remove_prototypes(kind="gold") == 2
    after = kb.search(query, 3)
    assert (
        after.entities.tolist() == before.entities.tolist()
        and after.scores.tolist() == before.scores.tolist()
    )
    kb.to_disk(tmp_path / "after")
    manifests = [
        json.loads((tmp_path / name / "manifest.json").read_text()) for name in ("before", "after")
    ]
    assert manifests[0]["files"] == manifests[1]["files"]
    with pytest.raises(KrisselError, match="K006.*kind"):
        kb.remove_prototypes(kind="golden")
    with pytest.raises(KrisselError, match="K006"):
        kb.remove_prototypes()


def test_without_prototypes_restores_everything_after_an_error(kb):
    add_gold(kb, [make_doc([(0, 1, "D1")], "a")])
    index, vectors = kb.build_index(), kb.vectors
    with pytest.raises(ZeroDivisionError), kb.without_prototypes(kind="gold") as count:
        assert count == 2 and kb.n_prototypes == 1
        assert kb.search(np.ones((1, 4)), 1).entities.tolist() == [[2]]
        add_gold(kb, [make_doc([(0, 1, "D2")], "b")])
        raise ZeroDivisionError
    assert kb.vectors is vectors and kb.build_index() is index
    assert kb.description()["prototype_kinds"] == {"name": 1, "gold": 2}


def test_changes_inside_without_prototypes_are_reverted(kb):
    add_gold(kb, [make_doc([(0, 1, "D1")], "a")])
    kb.set_references([(["D1"], np.ones((1, 4)))])
    before, description = kb.search(np.eye(4), 3), kb.description()
    for change in (
        lambda: setattr(kb, "encoder", "another"),
        lambda: kb.set_references([(["D3"], np.full((1, 4), 2.0))]),
        lambda: kb.set_entities([Entity("D0", "before"), *ENTITIES]),
    ):
        for which in ({"kind": "gold"}, {"kind": "mention"}):
            with kb.without_prototypes(**which):
                change()
                kb.search(np.eye(4), 3)
            after = kb.search(np.eye(4), 3)
            assert (
                kb.description() == description
                and kb.prototypes.references.vectors.tolist()
                == [
                    [1] * 4,
                    [0] * 4,
                    [0] * 4,
                ]
            )
            assert after.entities.tolist() == before.entities.tolist()
            assert after.scores.tolist() == before.scores.tolist()
    # What is added later has the sums of the weight that is stated.
    kb.add_prototypes([Prototype("D1", "name", name_view("y"))], np.zeros((1, 4)))
    assert kb.vectors[-1].tolist() == [1.0] * 4


@pytest.mark.parametrize("index", [None, make_faiss_index("flat")])
def test_prototypes_added_inside_without_prototypes_are_reverted(index):
    """Also where there was nothing to take out, and the same number is added afterwards."""
    pytest.importorskip("faiss")
    kb = PrototypeKB(Vocab(), 4, index=index)
    kb.set_entities(ENTITIES)
    kb.add_prototypes([Prototype("D3", "name", name_view("x"))], np.full((1, 4), 0.1))
    kb.build_index()
    with kb.without_prototypes(kind="gold") as count:
        assert count == 0
        kb.add_prototypes([Prototype("D1", "gold", name_view("y"))], np.eye(4)[:1])
        assert kb.search(np.eye(4), 1).entities[:, 0].tolist() == [0, 2, 2, 2]
    assert kb.n_prototypes == 1
    kb.add_prototypes([Prototype("D2", "gold", name_view("z"))], np.eye(4)[1:2])
    assert kb.search(np.eye(4), 1).entities[:, 0].tolist() == [2, 1, 2, 2]


def test_origins_survive_saving(kb, tmp_path):
    add_gold(kb, [make_doc([(0, 1, "OMIM:1")], "a")], source="corpus")
    kb.to_disk(tmp_path / "kb")
    for loaded in (
        PrototypeKB(Vocab(), 4).from_disk(tmp_path / "kb"),
        PrototypeKB(Vocab(), 4).from_bytes(kb.to_bytes()),
    ):
        assert loaded.prototypes_at(np.arange(3)) == kb.prototypes_at(np.arange(3))
        assert loaded.prototypes_at([0])[0].origin == NO_ORIGIN
        assert loaded.description() == kb.description()
        assert (loaded.resolve("OMIM:1"), loaded.resolve("D2"), loaded.resolve("D9")) == (
            "D1",
            "D2",
            None,
        )
        assert loaded.remove_prototypes(source="corpus", docs={"a"}) == 2
    manifest = json.loads((tmp_path / "kb" / "manifest.json").read_text())
    assert manifest["prototype_kinds"] == {"name": 1, "gold": 2} and manifest[
        "prototype_sources"
    ] == {"corpus": 2}


def test_primary_ids_win_over_alternative_ones():
    kb = PrototypeKB(Vocab(), 4)
    kb.set_entities(
        [Entity("B", "b", alt_ids=("A", "C")), Entity("D", "d", alt_ids=("C",)), Entity("A", "a")]
    )
    assert (kb.resolve("A"), kb.resolve("C"), kb.resolve("E")) == ("A", "B", None)
