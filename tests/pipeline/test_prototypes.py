import numpy as np
import pytest
import spacy

from spacy_krissel.errors import KrisselError
from spacy_krissel.index.kinds import named_index
from spacy_krissel.pipeline.prototypes import build_prototypes, find_linker, prototypes


@pytest.fixture
def trained_dir(make_linker, tmp_path):
    """A pipeline as training leaves it: without a knowledge base."""
    make_linker().to_disk(tmp_path / "trained")
    return tmp_path / "trained"


def test_pipeline_is_given_the_whole_kb(trained_dir, toy_store, toy_shards, tmp_path, make_docs):
    assert not (trained_dir / "krissel_linker" / "kb").exists()
    described = prototypes(
        trained_dir, tmp_path / "out", toy_store.path, toy_shards, mentions_per_entity=2, progress=False
    )
    assert described["entities"] == 12 and set(described["prototype_kinds"]) == {"name", "mention", "replaced"}
    nlp = spacy.load(tmp_path / "out")
    linker = find_linker(nlp)
    assert linker.kb.description() == described
    assert described["encoder"] == linker.fingerprint() == find_linker(spacy.load(trained_dir)).fingerprint()
    docs = list(nlp.pipe(make_docs(nlp)))
    assert all(ent.kb_id_ for doc in docs for ent in doc.ents)


def test_names_alone_need_no_mentions(trained_dir, toy_store, tmp_path, toy_names):
    described = prototypes(trained_dir, tmp_path / "out", toy_store.path, progress=False)
    assert described["prototype_kinds"] == {"name": sum(map(len, toy_names.values()))}


def test_kb_beside_the_pipeline(trained_dir, toy_store, tmp_path):
    prototypes(trained_dir, tmp_path / "out", toy_store.path, kb_path=tmp_path / "kb", progress=False)
    assert not (tmp_path / "out" / "krissel_linker" / "kb").exists()
    nlp = spacy.load(tmp_path / "out")
    assert nlp.config["components"]["krissel_linker"]["kb_path"] == str(tmp_path / "kb")
    assert find_linker(nlp).kb.n_entities == 12
    # Saved again, it still points there.
    nlp.to_disk(tmp_path / "again")
    assert find_linker(spacy.load(tmp_path / "again")).kb.n_entities == 12
    assert not (tmp_path / "again" / "krissel_linker" / "kb").exists()


def test_settings_of_the_config_can_be_overridden(trained_dir, toy_store, tmp_path):
    overrides = {"components.krissel_linker.threshold": 0.75}
    prototypes(trained_dir, tmp_path / "out", toy_store.path, overrides=overrides, progress=False)
    assert find_linker(spacy.load(tmp_path / "out")).cfg["threshold"] == 0.75


def test_index_by_name_is_what_is_loaded(trained_dir, toy_store, tmp_path):
    pytest.importorskip("faiss")
    prototypes(trained_dir, tmp_path / "out", toy_store.path, index=named_index("hnsw"), progress=False)
    index = find_linker(spacy.load(tmp_path / "out")).kb.description()["index"]
    assert (index["kind"], index["settings"]["type"]) == ("faiss", "hnsw")


def test_output_may_be_the_input(trained_dir, toy_store, toy_shards):
    prototypes(trained_dir, trained_dir, toy_store.path, progress=False)
    first = find_linker(spacy.load(trained_dir)).kb.n_prototypes
    prototypes(trained_dir, trained_dir, toy_store.path, toy_shards, progress=False)
    assert find_linker(spacy.load(trained_dir)).kb.n_prototypes > first


def test_encoder_without_weights(source):
    nlp = spacy.blank("en")
    nlp.add_pipe("krissel_linker")
    with pytest.raises(KrisselError, match="K604"):
        build_prototypes(nlp, source)


def test_pipeline_without_a_linker(source):
    nlp = spacy.blank("en")
    with pytest.raises(KrisselError, match="K610.*nothing"):
        build_prototypes(nlp, source)
    nlp.add_pipe("sentencizer")
    for name in ("krissel_linker", "sentencizer"):
        with pytest.raises(KrisselError, match=f"K610.*'{name}'.*sentencizer"):
            find_linker(nlp, name)


def test_pipeline_that_does_not_exist(toy_store, tmp_path):
    with pytest.raises(KrisselError, match="K611.*missing"):
        prototypes(tmp_path / "missing", tmp_path / "out", toy_store.path)
    assert not (tmp_path / "out").exists()


def test_references_follow_the_encoder(save_linker, toy_store, toy_shards, tmp_path):
    pipeline = save_linker("referenced")
    linker = find_linker(spacy.load(pipeline))
    assert linker.kb.use_references and linker.kb.description()["references"]["entities"] == 12
    settings = {"mentions": toy_shards, "progress": False}
    override = {"components.krissel_linker.generate_empty_kb.reference_weight": 0.5}
    described = prototypes(pipeline, tmp_path / "half", toy_store.path, overrides=override, **settings)
    assert described["references"]["weight"] == 0.5
    half = find_linker(spacy.load(tmp_path / "half")).kb
    expected = (
        half.own_vectors
        + 0.5 * half.references[half.entity_rows([p.entity for p in half.prototypes_at(np.arange(half.n_prototypes))])]
    )
    np.testing.assert_allclose(half.vectors, expected, atol=1e-6)
    described = prototypes(pipeline, tmp_path / "none", toy_store.path, use_references=False, **settings)
    assert described["references"] is None
    assert find_linker(spacy.load(tmp_path / "none")).kb.references is None
