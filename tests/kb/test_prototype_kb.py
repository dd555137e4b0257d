import numpy as np
import pytest
from spacy.kb import InMemoryLookupKB, KnowledgeBase
from spacy.vocab import Vocab

from spacy_krissel.errors import KrisselError
from spacy_krissel.index.faiss_index import make_faiss_index
from spacy_krissel.kb.candidates import candidate_dicts
from spacy_krissel.kb.prototype_kb import PrototypeKB, empty_kb
from spacy_krissel.kb.prototype_table import Prototype
from spacy_krissel.ontology.entity import Entity
from spacy_krissel.views import View, evidence, name_view


def test_a_prototype_kb_is_a_spacy_knowledge_base(make_kb):
    kb = make_kb()
    assert isinstance(kb, KnowledgeBase)
    assert kb.entity_vector_length == 4
    assert (kb.n_entities, kb.n_prototypes) == (4, 5)
    assert list(kb.entity_ids) == ["D001", "D002", "D003", "D004"]
    assert kb.entities.row("D003") == 2 and kb.entities.row("D9") is None
    assert kb.entities.rows(["D9", "D002"]).tolist() == [-1, 1]
    assert kb.entities.at(0).types == ("T047", "T191")
    assert "D004" in kb.vocab.strings


def test_entities_are_found_by_id(make_kb):
    kb = make_kb()
    assert len(kb) == 4 and bool(PrototypeKB(Vocab(), 4))
    assert "D003" in kb and "D9" not in kb and 3 not in kb
    assert kb["D001"].id == "D001" and kb["D001"].types == ("T047", "T191")
    assert kb["D001"].name == kb.entities.names[0]
    with pytest.raises(KrisselError, match="K525.*'D9'"):
        kb["D9"]
    kb.set_entities(
        [
            Entity("D1", "one", types=("T1",), alt_ids=("OLD",), species="human"),
            *map(entity_of, kb.entity_ids),
        ]
    )
    assert (
        kb["OLD"]
        == kb["D1"]
        == Entity("D1", "one", types=("T1",), alt_ids=("OLD",), species="human")
    )
    assert "OLD" not in kb and kb.resolve("OLD") == "D1"


def entity_of(id_):
    return Entity(id_, f"entity {id_}")


def test_prototypes_keep_their_text(make_kb, prototypes):
    kb = make_kb()
    assert kb.prototypes_at(np.arange(5)) == prototypes
    assert kb.prototypes_at(np.array([[3, 0]])) == [prototypes[3], prototypes[0]]
    assert kb.prototypes.mentions([2, 4]) == ["MS", "Mitral stenosis"]
    view = prototypes[3].view
    rows = np.array([4, 3])
    expected = [
        (prototypes[row].view.left, prototypes[row].view.right) == (view.left, view.right)
        for row in rows
    ]
    assert kb.prototypes.in_context(rows, view.left, view.right).tolist() == expected
    assert kb.prototype_rows("D003").tolist() == [3, 4]
    assert kb.prototype_rows("D004").tolist() == kb.prototype_rows("D9").tolist() == []


def test_the_description_counts_entities_and_prototypes(make_kb):
    description = make_kb(index=make_faiss_index("ivf", nlist=2)).description()
    assert description["prototype_kinds"] == {"name": 2, "mention": 2, "gold": 1}
    assert (description["entities"], description["prototypes"], description["dimensions"]) == (
        4,
        5,
        4,
    )
    assert (description["metric"], description["normalized"]) == ("inner product", False)
    assert description["encoder"] == "fingerprint"
    assert description["index"]["settings"]["nlist"] == 2


def test_entity_vectors_are_means_of_their_prototypes(make_kb, vectors):
    kb = make_kb()
    np.testing.assert_allclose(kb.get_vector("D001"), vectors[:2].mean(axis=0), atol=1e-6)
    assert not kb.get_vector("D004").any() and not kb.get_vector("D9").any()
    assert kb.get_vectors(["D9", "D002"]).tolist() == [[0, 0, 0, 0], [0, 1, 0, 0]]
    assert kb.get_vectors([]).shape == (0, 4)


@pytest.mark.parametrize("index", [None, make_faiss_index("flat"), make_faiss_index("hnsw")])
def test_prototypes_added_later_are_found(make_kb, index):
    pytest.importorskip("faiss")
    kb = make_kb(index)
    query = np.array([[0, 0, 0, 1]], dtype=np.float32)
    assert kb.search(query, 1).scores[0, 0] == 0
    vector = query.copy()
    kb.add_prototypes([Prototype("D004", "gold", name_view("seen"))], vector)
    # The knowledge base keeps its own copy.
    vector[:] = 0
    result = kb.search(query, 1)
    assert kb.entity_ids[result.entities[0, 0]] == "D004"
    assert kb.prototypes_at(result.prototypes) == [Prototype("D004", "gold", name_view("seen"))]
    kb.add_prototypes([], np.zeros((0, 4), dtype=np.float32))
    assert kb.n_prototypes == 6


def test_new_entities_keep_the_prototypes(make_kb, entities, prototypes):
    kb = make_kb()
    query = np.array([[0, 1, 0, 0]], dtype=np.float32)
    assert kb.search(query, 1).entities.tolist() == [[1]]
    kb.set_entities(
        [*entities[:3], entities[0]._replace(id="D000"), entities[0]._replace(id="D0015")]
    )
    assert list(kb.entity_ids) == ["D000", "D001", "D0015", "D002", "D003"]
    assert kb.prototypes_at(np.arange(5)) == prototypes
    result = kb.search(query, 1)
    assert kb.entity_ids[result.entities[0, 0]] == "D002"
    with pytest.raises(KrisselError, match="K515.*1 entities.*'D002'"):
        kb.set_entities([entity for entity in entities if entity.id != "D002"])
    assert kb.n_entities == 5


def test_masks_filter_before_ranking(make_kb):
    kb = make_kb()
    query = np.array([[0, 1, 0, 0]], dtype=np.float32)
    found = kb.search(query, 4, allowed=kb.entity_mask(types=["T047"])).entities
    assert [kb.entity_ids[row] for row in found[0] if row >= 0] == ["D001", "D003"]


def test_candidate_dicts_have_plain_values(make_kb):
    kb = make_kb()
    queries = np.array([[0, 1, 0, 0], [1, 0, 0, 0], [0, 1, 0, 0]], dtype=np.float32)
    first, second, third = candidate_dicts(kb, kb.search(queries, 4), 2)
    assert first == third
    assert first[0] == {
        "id": "D002",
        "name": "Mass spectrometry",
        "score": 1.0,
        "kind": "mention",
        "evidence": "Proteins were found by ⟦MS⟧",
        "doc": "",
        "source": "",
    }
    assert [candidate["id"] for candidate in second] == ["D001", "D002"]
    # Plain values, which msgpack takes.
    assert type(first[0]["score"]) is float
    # An entity without prototypes is found by nobody, and no candidate stands for it.
    assert [len(candidates) for candidates in candidate_dicts(kb, kb.search(queries, 4))] == [
        3,
        3,
        3,
    ]
    assert candidate_dicts(kb, kb.search(queries, 4, allowed=np.zeros(4, dtype=bool))) == [
        [],
        [],
        [],
    ]
    assert candidate_dicts(kb, kb.search(queries[:0], 4)) == []


def test_candidates_show_their_prototypes_correctly(make_kb):
    kb = make_kb()
    reference = View("disease", "Mitral stenosis", "narrow valve", reference=True)
    kb.add_prototypes([Prototype("D003", "reference", reference)], np.eye(4, dtype=np.float32)[:1])
    rows = np.array([[5, 0], [3, 5]])
    shown, prototypes = kb.prototypes.display_fields(rows), kb.prototypes_at(rows)
    assert [list(kb.entity_ids)[row] for row in shown["entity"]] == [
        each.entity for each in prototypes
    ]
    assert shown["kind"] == [each.kind for each in prototypes]
    assert shown["evidence"] == [evidence(each.view) for each in prototypes]
    assert shown["doc"] == [each.origin.doc for each in prototypes]
    assert shown["source"] == [each.origin.source for each in prototypes]


def test_vectors_and_queries_are_normalized_on_request(make_kb, entities):
    kb = PrototypeKB(Vocab(), 2, normalize=True)
    kb.set_entities(entities)
    prototypes = [
        Prototype("D001", "name", name_view("a")),
        Prototype("D002", "name", name_view("b")),
    ]
    kb.add_prototypes(prototypes, np.array([[3, 4], [0, 0]], dtype=np.float32))
    np.testing.assert_allclose(kb.vectors, [[0.6, 0.8], [0, 0]], atol=1e-6)
    assert kb.search(np.array([[30, 40]], dtype=np.float32), 1).scores[0, 0] == pytest.approx(1)
    # Both entities tie at 0 for a query without direction.
    assert kb.search(np.array([[0, 0]], dtype=np.float32), 1).tied(0).tolist() == [0, 1]


def test_vectors_can_be_stored_as_float16(make_kb):
    kb = make_kb(dtype="float16")
    assert kb.vectors.dtype == np.float16
    assert kb.search(np.array([[0, 1, 0, 0]], dtype=np.float32), 1).entities.tolist() == [[1]]
    assert kb.get_vector("D001").dtype == np.float32


def test_the_width_can_be_set_by_the_first_vectors(entities, prototypes, vectors):
    kb = PrototypeKB(Vocab(), 0)
    kb.set_entities(entities)
    kb.add_prototypes(prototypes, vectors)
    assert kb.entity_vector_length == 4
    assert "D001" in kb.vocab.strings


def test_invalid_prototypes_raise(make_kb):
    kb = make_kb()
    good, row = Prototype("D001", "name", name_view("a")), np.ones((1, 4), dtype=np.float32)
    cases = [
        (
            "K510.*1 of 2 prototypes.*'D9', number 1",
            [good, good._replace(entity="D9")],
            np.repeat(row, 2, axis=0),
        ),
        ("K511.*1 prototypes and 2 vectors", [good], np.repeat(row, 2, axis=0)),
        ("K512.*'nickname'.*name, mention", [good._replace(kind="nickname")], row),
        ("K503.*4.*(1, 3)", [good], row[:, :3]),
        ("K503.*int64", [good], row.astype(np.int64)),
        ("K504.*1 of 1", [good], row * np.nan),
    ]
    for message, prototypes, vectors in cases:
        with pytest.raises(KrisselError, match=message):
            kb.add_prototypes(prototypes, vectors)
    assert kb.n_prototypes == 5
    with pytest.raises(KrisselError, match="K006.*dtype"):
        PrototypeKB(Vocab(), 4, dtype="float8")


def test_invalid_queries_and_masks_raise(make_kb):
    kb = make_kb()
    with pytest.raises(KrisselError, match="K503"):
        kb.search(np.ones((1, 5), dtype=np.float32), 1)
    with pytest.raises(KrisselError, match="K505.*per entity"):
        kb.search(np.ones((1, 4), dtype=np.float32), 1, allowed=np.ones(5, dtype=bool))
    with pytest.raises(KrisselError, match="K525"):
        kb.entity_mask(types=["T0"])


def test_searching_an_empty_kb_raises(entities):
    kb = PrototypeKB(Vocab(), 4)
    assert kb.is_empty()
    with pytest.raises(KrisselError, match="K520.*0 entities, 0 prototypes"):
        kb.search(np.ones((1, 4), dtype=np.float32), 1)
    kb.set_entities(entities)
    assert kb.is_empty()
    with pytest.raises(KrisselError, match="K520.*4 entities, 0 prototypes"):
        kb.search(np.ones((1, 4), dtype=np.float32), 1)


def test_another_encoder_raises(make_kb):
    kb = make_kb()
    kb.check_encoder("fingerprint", 4)
    with pytest.raises(KrisselError, match="K522.*fingerprint.*other"):
        kb.check_encoder("other")
    with pytest.raises(KrisselError, match="K528.*width 4.*width 8"):
        kb.check_encoder("fingerprint", 8)
    PrototypeKB(Vocab(), 4).check_encoder("any", 4)


def test_the_maker_of_an_empty_kb_can_be_pickled(make_kb):
    import pickle

    make = pickle.loads(
        pickle.dumps(empty_kb(index=make_faiss_index("flat"), normalize=True, n_candidates=3))
    )
    kb = make(Vocab(), 4)
    assert kb.is_empty() and kb.description()["normalized"] and kb.n_candidates == 3
    assert kb.description()["index"]["settings"]["type"] == "flat"


def test_the_text_of_a_view_is_kept_unchanged(entities):
    kb = PrototypeKB(Vocab(), 1)
    kb.set_entities(entities)
    view = View("\n\tβ-thal… ", "MS\u2028𝛼", "", reference=True)
    kb.add_prototypes([Prototype("D001", "reference", view)], np.ones((1, 1)))
    assert kb.prototypes_at([0])[0].view == view


# As spaCy's own knowledge base --------------------------------------------------------------------


def test_lookup_methods_of_spacy_are_supported(make_kb):
    kb = make_kb()
    assert len(kb) == kb.get_size_entities() == 4 and bool(PrototypeKB(Vocab(), 4))
    assert kb.get_entity_strings() == ["D001", "D002", "D003", "D004"]
    assert kb.contains_entity("D004") and not kb.contains_entity("D005")
    assert (
        kb.get_alias_strings() == ["Multiple sclerosis", "MS", "Mitral stenosis"]
        and kb.get_size_aliases() == 3
    )
    assert all(map(kb.contains_alias, kb.get_alias_strings())) and not kb.contains_alias("ms")
    found = [kb.get_prior_prob(id_, "MS") for id_ in kb.get_entity_strings()]
    assert found == pytest.approx([1 / 3, 1 / 3, 1 / 3, 0])
    assert kb.get_prior_prob("D001", "x") == kb.get_prior_prob("D9", "MS") == 0
    assert kb.get_prior_prob("D003", "Mitral stenosis") == 1
    kb.remove_prototypes(kind="mention")
    assert kb.get_prior_prob("D003", "MS") == 1


def test_lookups_agree_with_spacys_in_memory_kb():
    """The same entities and names in both."""
    theirs = InMemoryLookupKB(Vocab(), 2)
    theirs.set_entities(["A", "B"], [1, 1], [[1, 0], [0, 1]])
    theirs.add_alias("x", ["A", "B"], [0.5, 0.5])
    theirs.add_alias("y", ["B"], [1.0])
    ours = PrototypeKB(Vocab(), 2)
    ours.set_entities([type("E", (), {"id": id_, "name": id_, "types": ()}) for id_ in "AB"])
    pairs = [("A", "x"), ("B", "x"), ("B", "y")]
    ours.add_prototypes(
        [Prototype(id_, "name", name_view(name)) for id_, name in pairs], np.eye(3, 2, dtype="f4")
    )
    for ask in (
        len,
        lambda kb: kb.get_size_entities(),
        lambda kb: kb.get_size_aliases(),
        lambda kb: sorted(kb.get_entity_strings()),
        lambda kb: sorted(kb.get_alias_strings()),
        lambda kb: [kb.contains_entity(id_) for id_ in "ABC"],
        lambda kb: [kb.contains_alias(name) for name in "xyz"],
        lambda kb: [kb.get_prior_prob(id_, name) for id_ in "ABC" for name in "xyz"],
    ):
        assert ask(ours) == ask(theirs)
