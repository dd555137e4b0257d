import numpy as np
import pytest
import spacy
from numpy.testing import assert_allclose

from spacy_krissel.building.sources import PrototypeSource
from spacy_krissel.commands.build_prototypes import build_prototypes
from spacy_krissel.commands.distill_encoder import distill
from spacy_krissel.errors import KrisselError
from spacy_krissel.pipeline.pipeline_io import find_linker, save_pipeline

pytestmark = pytest.mark.slow


@pytest.mark.slow
def test_small_encoder_replaces_the_transformer(save_linker, make_docs, tmp_path):
    source = save_linker("transformer")
    before = spacy.load(source)
    cosine = distill(source, tmp_path / "small", passes=60)
    assert cosine > 0.9
    nlp = spacy.load(tmp_path / "small")
    large, small = find_linker(before), find_linker(nlp)
    assert (
        nlp.config["components"]["krissel_linker"]["model"]["@architectures"]
        == "spacy-krissel.SmallEncoder.v1"
    )
    assert (
        nlp.pipe_names == before.pipe_names
        and small.kb.encoder == small.fingerprint() != large.fingerprint()
    )
    assert [small.kb[id_] for id_ in small.kb.entity_ids] == [
        large.kb[id_] for id_ in large.kb.entity_ids
    ]
    rows = np.arange(large.kb.n_prototypes)
    assert (
        small.kb.prototypes_at(rows) == large.kb.prototypes_at(rows)
        and small.kb.ontology == large.kb.ontology
    )
    # Both see the same prototypes as near to each other.
    near = [linker.kb.vectors @ linker.kb.vectors.T for linker in (large, small)]
    assert np.corrcoef(*(each.ravel() for each in near))[0, 1] > 0.8
    linked = list(nlp.pipe(make_docs(nlp)))
    assert all(ent.kb_id_ for doc in linked for ent in doc.ents)
    # A byte a weight.
    assert (tmp_path / "small" / "krissel_linker" / "model").stat().st_size < 15_000_000
    # The same at each run.
    distill(source, tmp_path / "again", passes=60)
    assert find_linker(spacy.load(tmp_path / "again")).fingerprint() == small.fingerprint()


def test_settings_are_kept_except_fitted_ones(make_linker, source):
    nlp = make_linker("transformer", threshold=0.7, n_candidates=3)
    build_prototypes(nlp, source)
    # Those of now count, not those of the config.
    cfg = find_linker(nlp).cfg
    cfg.lexical_weight, cfg.types_by_label = 0.2, {"Disease": ["Disease"]}
    cfg.confidence, cfg.min_confidence = {"trust": 0.9, "bias": -1.0, "lexical": 1.0}, 0.3
    facts = nlp.meta["krissel"]
    for kind in ("confidence", "calibration", "training"):
        facts[kind] = {"krissel_linker": {"max_steps": 7}, "other": {"max_steps": 7}}
    distill(nlp, passes=1)
    linker = find_linker(nlp)
    assert (linker.cfg.lexical_weight, linker.cfg.n_candidates, linker.cfg.context) == (
        0.2,
        3,
        "window",
    )
    assert linker.cfg.types_by_label == {"Disease": ["Disease"]}
    assert (linker.cfg.threshold, linker.cfg.confidence, linker.cfg.min_confidence) == (None, {}, 0)
    assert all([*facts[kind]] == ["other"] for kind in ("confidence", "calibration", "training"))
    assert linker.kb.prototypes.saves_lexical_index


def test_model_card_names_the_distilled_encoder(save_linker, tiny_bert, tmp_path):
    distill(save_linker("transformer"), tmp_path / "small", passes=1)
    meta = spacy.load(tmp_path / "small").meta
    assert f"SmallEncoder.v1 of {tiny_bert.name}, distilled" in meta["notes"]
    assert tiny_bert.name in [each["name"] for each in meta["sources"]]
    # Also after a second time.
    distill(tmp_path / "small", tmp_path / "smaller", passes=1)
    assert f"of {tiny_bert.name}, distilled" in spacy.load(tmp_path / "smaller").meta["notes"]


def test_encoder_of_names_alone_reads_no_context(make_linker, toy_store):
    nlp = make_linker("transformer")
    build_prototypes(nlp, PrototypeSource(toy_store, None))
    distill(nlp, passes=1)
    assert find_linker(nlp).cfg.context == "none"


@pytest.mark.parametrize("encoder", ["transformer", "referenced"])
def test_gold_mentions_and_class_names_keep_their_weight(make_linker, source, encoder):
    nlp = make_linker(encoder)
    build_prototypes(nlp, source)
    linker = find_linker(nlp)
    prototypes = linker.kb.prototypes_at(np.arange(2))
    for kind, weight in (("class", 0.9), ("gold", 1.05)):
        linker.kb.add_prototypes([each._replace(kind=kind) for each in prototypes], weight=weight)
    n, kinds = linker.kb.n_prototypes, linker.kb.prototypes.kind_counts()
    distill(nlp, passes=2)
    kb = find_linker(nlp).kb
    assert kb.prototypes.kind_counts() == kinds
    lengths = np.linalg.norm(kb.vectors, axis=1)
    assert_allclose(lengths[: n - 4], 1, atol=1e-5)
    assert_allclose(lengths[n - 4 :], [0.9, 0.9, 1.05, 1.05], rtol=1e-4)


def test_distillation_includes_the_references(make_linker, source):
    nlp = make_linker("referenced")
    build_prototypes(nlp, source)
    wanted = np.array(find_linker(nlp).kb.vectors)
    assert distill(nlp, passes=60) > 0.9
    kb = find_linker(nlp).kb
    assert kb.prototypes.references is None and kb.vectors.shape[1] == 256
    near = [
        each @ each.T
        for each in (wanted / np.linalg.norm(wanted, axis=1, keepdims=True), kb.vectors)
    ]
    assert np.corrcoef(*(each.ravel() for each in near))[0, 1] > 0.8


def test_undistillable_pipelines_raise(make_linker, source, save_linker, toy_store, tmp_path):
    empty = make_linker("transformer")
    find_linker(empty)._dev = None
    empty.to_disk(tmp_path / "empty")
    with pytest.raises(KrisselError, match="K520"):
        distill(tmp_path / "empty", tmp_path / "small")
    nlp = make_linker("referenced")
    build_prototypes(nlp, PrototypeSource(toy_store, source.mentions, reference_prototypes=True))
    save_pipeline(nlp, tmp_path / "references")
    with pytest.raises(KrisselError, match="K686.*12 prototypes"):
        distill(tmp_path / "references", tmp_path / "small")
    nlp.add_pipe("krissel_reranker", name="second", config={"objective": None})
    with pytest.raises(KrisselError, match="K687.*'second'"):
        distill(nlp)
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "notes").touch()
    with pytest.raises(KrisselError, match="K005"):
        distill(save_linker("small"), tmp_path / "other")
    assert not (tmp_path / "small").exists()
