import numpy as np
import pytest
from spacy.vocab import Vocab

from spacy_krissel.building import fill as build
from spacy_krissel.building.fill import fill_kb
from spacy_krissel.building.sources import PrototypeSource
from spacy_krissel.errors import KrisselError
from spacy_krissel.kb.prototype_kb import empty_kb
from spacy_krissel.kb.prototype_table import Prototype
from spacy_krissel.mining.shards import MentionShards
from spacy_krissel.ontology.entity import Entity
from spacy_krissel.ontology.store import write_store
from spacy_krissel.util.hashing import stable_hash
from spacy_krissel.views import PEL_PARTS, ReferenceParts, name_view, reference_view

WIDTH = 6


def encode(views):
    """A vector of unit length that depends on the view alone."""
    rows = [np.random.default_rng(stable_hash(*view)).standard_normal(WIDTH) for view in views]
    vectors = np.array(rows, dtype=np.float32).reshape(-1, WIDTH)
    return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


@pytest.fixture
def source(toy_store, toy_shards):
    return PrototypeSource(toy_store, MentionShards(toy_shards), mentions_per_entity=2)


@pytest.mark.parametrize("block", [5, 10_000])
def test_every_prototype_gets_its_vector_encoded_in_bounded_blocks(source, monkeypatch, block):
    monkeypatch.setattr(build, "BLOCK_VIEWS", block)
    sizes = []

    def counted(views):
        sizes.append(len(views))
        return encode(views)

    kb = fill_kb(empty_kb()(Vocab(), WIDTH), source, counted, encoder="made by this")
    prototypes = list(source.prototypes())
    assert (kb.n_entities, kb.n_prototypes, kb.encoder) == (12, len(prototypes), "made by this")
    assert max(sizes) <= block and sum(sizes) == len(prototypes)
    assert kb.prototypes_at(np.arange(len(prototypes))) == prototypes
    found = kb.search(encode([prototype.view for prototype in prototypes]), 1)
    np.testing.assert_allclose(found.scores[:, 0], 1, atol=1e-5)
    assert [kb.entity_ids[row] for row in found.entities[:, 0]] == [
        prototype.entity for prototype in prototypes
    ]


def test_class_names_weigh_less_than_names(tmp_path):
    members = [Entity(f"K{i}", f"Nephropathy, {i}th", parents=("K",)) for i in range(4)]
    entities = [
        Entity("K", "Kidney Diseases"),
        *members,
        *(Entity(f"O{i}", f"Other {i}", parents=("X",)) for i in range(95)),
    ]
    store = write_store([*entities, Entity("X", "Others")], tmp_path / "store")
    kb = fill_kb(empty_kb()(Vocab(), WIDTH), PrototypeSource(store, class_weight=0.75), encode)
    of_class = np.array([each.kind == "class" for each in kb.prototypes_at(range(kb.n_prototypes))])
    assert of_class.sum() == 1
    np.testing.assert_allclose(
        np.linalg.norm(kb.vectors, axis=1), np.where(of_class, 0.75, 1), atol=1e-6
    )


@pytest.mark.parametrize("weight", [[1.0], [1.0, 2.0, 3.0], [], 0.0, [1.0, -1.0]])
def test_invalid_prototype_weights_raise(source, weight):
    kb = empty_kb()(Vocab(), WIDTH)
    kb.set_entities(source.entities())
    with pytest.raises(KrisselError, match="K006.*weight"):
        kb.add_prototypes(
            [Prototype("T01", "name", name_view(name)) for name in "ab"],
            np.eye(2, WIDTH),
            weight=weight,
        )
    assert not kb.n_prototypes


def test_entities_without_prototypes_are_kept_in_the_kb(toy_store):
    kb = fill_kb(empty_kb()(Vocab(), WIDTH), PrototypeSource(toy_store, names=False), encode)
    assert (kb.n_entities, kb.n_prototypes) == (12, 0)
    assert kb.is_empty()


def test_nan_vectors_of_a_diverged_encoder_raise(source):
    with pytest.raises(KrisselError, match="K504"):
        fill_kb(empty_kb()(Vocab(), WIDTH), source, lambda views: encode(views) * np.nan)


def test_progress_bar_is_shown_only_on_request(source, terminal):
    fill_kb(empty_kb()(Vocab(), WIDTH), source, encode, progress=True)
    assert "Prototypes: 100%" in terminal.readouterr().err
    fill_kb(empty_kb()(Vocab(), WIDTH), source, encode)
    assert not terminal.readouterr().err


def test_references_use_the_requested_parts_and_are_added_to_prototypes(source, toy_store):
    parts = ReferenceParts(types=False)
    kb = fill_kb(empty_kb()(Vocab(), WIDTH), source, encode, references=parts)
    expected = encode([reference_view(entity, parts) for entity in toy_store])
    np.testing.assert_allclose(kb.prototypes.references.vectors, expected, atol=1e-6)
    own = encode([prototype.view for prototype in source.prototypes()])
    rows = kb.entities.rows([prototype.entity for prototype in source.prototypes()])
    np.testing.assert_allclose(kb.vectors, own + expected[rows], atol=1e-6)
    assert "reference" not in kb.description()["prototype_kinds"]


def test_reference_prototypes_are_not_added_to_themselves(toy_store):
    source = PrototypeSource(toy_store, names=False, reference_prototypes=True)
    kb = fill_kb(
        empty_kb(reference_weight=0.5)(Vocab(), WIDTH), source, encode, references=ReferenceParts()
    )
    references = encode([reference_view(entity) for entity in toy_store])
    assert kb.description()["prototype_kinds"] == {"reference": 12}
    np.testing.assert_allclose(kb.vectors, references, atol=1e-6)
    assert [prototype.view for prototype in kb.prototypes_at(range(12))] == list(
        map(reference_view, toy_store)
    )


def test_an_entity_without_mentions_has_its_reference_as_only_prototype(toy_store, toy_shards):
    """KRISSBERT's own knowledge base: mentions with their references, and no bare name."""
    shards = MentionShards(toy_shards)
    source = PrototypeSource(
        toy_store, shards, mentions_only=True, mentions_per_entity=2, contexts_per_shared_name=3
    )
    kb = fill_kb(empty_kb()(Vocab(), WIDTH), source, encode, references=ReferenceParts())
    mined = {mention.entity for mention in shards}
    assert 0 < len(mined) < len(toy_store)
    views = dict(source.references(ReferenceParts()))
    for entity, view in views.items():
        rows = kb.prototype_rows(entity)
        found, (reference,) = kb.prototypes_at(rows), encode([view])
        assert {each.kind for each in found} == ({"mention"} if entity in mined else {"reference"})
        own = encode([each.view for each in found])
        np.testing.assert_allclose(
            kb.vectors[rows], own + reference if entity in mined else own, atol=1e-6
        )
        assert entity in mined or [each.view for each in found] == [view]
    alone = fill_kb(empty_kb()(Vocab(), WIDTH), source, encode)
    assert set(alone.description()["prototype_kinds"]) == {"mention"}


def test_references_need_both_the_source_setting_and_reference_parts(toy_store):
    off = PrototypeSource(toy_store, use_references=False)
    for source, parts in ((off, ReferenceParts()), (PrototypeSource(toy_store), None)):
        kb = fill_kb(empty_kb()(Vocab(), WIDTH), source, encode, references=parts)
        assert kb.prototypes.references is None and set(kb.description()["prototype_kinds"]) == {
            "name"
        }


def test_references_can_be_the_only_prototypes(toy_store):
    source = PrototypeSource(
        toy_store, names=False, use_references=False, reference_prototypes=True
    )
    kb = fill_kb(empty_kb()(Vocab(), WIDTH), source, encode, references=PEL_PARTS)
    assert kb.prototypes.references is None and kb.description()["prototype_kinds"] == {
        "reference": 12
    }
    expected = encode([reference_view(entity, PEL_PARTS) for entity in toy_store])
    np.testing.assert_allclose(kb.vectors, expected, atol=1e-6)
