import numpy as np
import pytest
import spacy

from spacy_krissel.building.gold_prototypes import add_gold
from spacy_krissel.commands import build_prototypes as build_module
from spacy_krissel.commands.build_prototypes import add_gold_files, build_prototypes, prototypes
from spacy_krissel.corpora.convert import convert
from spacy_krissel.corpora.doc_bins import read_doc_bins
from spacy_krissel.errors import KrisselError
from spacy_krissel.index.exact import make_exact_index
from spacy_krissel.index.kinds import named_index
from spacy_krissel.pipeline.linker.component import KrisselLinker
from spacy_krissel.pipeline.pipeline_io import find_linker, save_pipeline


@pytest.fixture
def trained_dir(make_linker, tmp_path):
    """A pipeline as training leaves it: without a knowledge base."""
    make_linker().to_disk(tmp_path / "trained")
    return tmp_path / "trained"


def test_pipeline_gets_a_complete_kb(trained_dir, toy_store, toy_shards, tmp_path, make_docs):
    assert not (trained_dir / "krissel_linker" / "kb").exists()
    described = prototypes(
        trained_dir,
        tmp_path / "out",
        toy_store.path,
        toy_shards,
        mentions_per_entity=2,
        progress=False,
    )
    assert described["entities"] == 12 and set(described["prototype_kinds"]) == {
        "name",
        "mention",
        "replaced",
    }
    nlp = spacy.load(tmp_path / "out")
    linker = find_linker(nlp)
    assert linker.kb.description() == described
    assert (
        described["encoder"]
        == linker.fingerprint()
        == find_linker(spacy.load(trained_dir)).fingerprint()
    )
    docs = list(nlp.pipe(make_docs(nlp)))
    assert all(ent.kb_id_ for doc in docs for ent in doc.ents)


def test_names_alone_need_no_mentions(trained_dir, toy_store, tmp_path, toy_names):
    described = prototypes(trained_dir, tmp_path / "out", toy_store.path, progress=False)
    assert described["prototype_kinds"] == {"name": sum(map(len, toy_names.values()))}


def test_kb_can_be_saved_outside_the_pipeline(trained_dir, toy_store, tmp_path):
    prototypes(
        trained_dir, tmp_path / "out", toy_store.path, kb_path=tmp_path / "kb", progress=False
    )
    assert not (tmp_path / "out" / "krissel_linker" / "kb").exists()
    nlp = spacy.load(tmp_path / "out")
    assert nlp.config["components"]["krissel_linker"]["kb_path"] == str(tmp_path / "kb")
    assert find_linker(nlp).kb.n_entities == 12
    # Saved again, it still points there.
    nlp.to_disk(tmp_path / "again")
    assert find_linker(spacy.load(tmp_path / "again")).kb.n_entities == 12
    assert not (tmp_path / "again" / "krissel_linker" / "kb").exists()


def test_a_pipeline_replaces_a_pipeline_and_nothing_else(trained_dir, toy_store, tmp_path):
    out = tmp_path / "out"
    for _ in range(2):
        prototypes(trained_dir, out, toy_store.path, progress=False)
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes" / "mine.txt").write_text("mine")
    with pytest.raises(KrisselError, match="K005.*notes.*pipeline"):
        prototypes(trained_dir, tmp_path / "notes", toy_store.path, progress=False)
    assert [path.name for path in (tmp_path / "notes").iterdir()] == ["mine.txt"]
    for kb_path in (out, out / "kb"):
        with pytest.raises(KrisselError, match="K006.*kb_path.*outside"):
            prototypes(trained_dir, out, toy_store.path, kb_path=kb_path, progress=False)
    with pytest.raises(KrisselError, match="K005.*notes.*knowledge base"):
        prototypes(trained_dir, out, toy_store.path, kb_path=tmp_path / "notes", progress=False)
    nlp = spacy.load(out)
    # As a pipeline of an earlier version may have it.
    find_linker(nlp).kb_path = str(out / "kb")
    with pytest.raises(KrisselError, match="K006.*kb_path.*outside"):
        save_pipeline(nlp, out)
    assert find_linker(spacy.load(out)).kb.n_entities == 12
    assert sorted(path.name for path in tmp_path.iterdir()) == ["notes", "out", "trained"]


def test_settings_of_the_config_can_be_overridden(trained_dir, toy_store, tmp_path):
    overrides = {"components.krissel_linker.threshold": 0.75}
    prototypes(trained_dir, tmp_path / "out", toy_store.path, overrides=overrides, progress=False)
    assert find_linker(spacy.load(tmp_path / "out")).cfg["threshold"] == 0.75


@pytest.mark.parametrize("weight, with_gold", [(0.3, False), (0.0, True), (0.0, False)])
def test_lexical_index_is_saved_only_if_it_is_used(
    trained_dir, toy_store, gold_file, tmp_path, weight, with_gold
):
    overrides = {"components.krissel_linker.lexical_weight": weight}
    gold = [gold_file] if with_gold else []
    described = prototypes(
        trained_dir, tmp_path / "out", toy_store.path, gold=gold, overrides=overrides
    )
    saved = tmp_path / "out" / "krissel_linker" / "kb" / "lexical"
    assert described["lexical"] == saved.is_dir() == bool(weight or with_gold)


def test_index_chosen_by_name_is_loaded(trained_dir, toy_store, tmp_path):
    pytest.importorskip("faiss")
    prototypes(
        trained_dir, tmp_path / "out", toy_store.path, index=named_index("hnsw"), progress=False
    )
    index = find_linker(spacy.load(tmp_path / "out")).kb.description()["index"]
    assert (index["kind"], index["settings"]["type"]) == ("faiss", "hnsw")


def test_index_device_is_kept_by_the_saved_pipeline(trained_dir, toy_store, tmp_path):
    pytest.importorskip("faiss")
    built = {"index": "flat", "index_device": "cuda:0", "progress": False}
    prototypes(trained_dir, tmp_path / "out", toy_store.path, **built)
    kb = find_linker(spacy.load(tmp_path / "out")).kb
    assert (
        kb.index_device == kb.build_index().device == "cuda:0" and kb.build_index().type == "flat"
    )


def test_hnsw_on_a_gpu_raises_before_loading_the_pipeline(tmp_path):
    with pytest.raises(KrisselError, match="K006.*hnsw"):
        prototypes("nowhere", tmp_path / "out", tmp_path, index="hnsw", index_device="cuda:0")


@pytest.mark.parametrize("index", [None, make_exact_index()])
def test_kb_settings_of_the_config_apply_with_any_index(trained_dir, toy_store, tmp_path, index):
    """Another index changes nothing else that the config says of the knowledge base."""
    settings = {"normalize": True, "dtype": "float16", "n_candidates": 3, "reference_weight": 0.1}
    overrides = {
        f"components.krissel_linker.generate_empty_kb.{name}": value
        for name, value in settings.items()
    }
    prototypes(
        trained_dir,
        tmp_path / "out",
        toy_store.path,
        overrides=overrides,
        index=index,
        progress=False,
    )
    kb = find_linker(spacy.load(tmp_path / "out")).kb
    described = kb.description()
    assert (described["normalized"], described["dtype"], kb.n_candidates) == (True, "float16", 3)
    assert kb._reference_weight == 0.1


def test_output_may_be_the_input(trained_dir, toy_store, toy_shards):
    prototypes(trained_dir, trained_dir, toy_store.path, progress=False)
    first = find_linker(spacy.load(trained_dir)).kb.n_prototypes
    prototypes(trained_dir, trained_dir, toy_store.path, toy_shards, progress=False)
    assert find_linker(spacy.load(trained_dir)).kb.n_prototypes > first


def test_encoder_without_weights_raises(source):
    nlp = spacy.blank("en")
    nlp.add_pipe("krissel_linker")
    with pytest.raises(KrisselError, match="K604"):
        build_prototypes(nlp, source)


def test_pipeline_without_a_linker_raises(source):
    nlp = spacy.blank("en")
    with pytest.raises(KrisselError, match="K610.*nothing"):
        build_prototypes(nlp, source)
    nlp.add_pipe("sentencizer")
    for name in ("krissel_linker", "sentencizer"):
        with pytest.raises(KrisselError, match=f"K610.*'{name}'.*sentencizer"):
            find_linker(nlp, name)


def test_missing_pipeline_raises(toy_store, tmp_path):
    with pytest.raises(KrisselError, match="K611.*missing"):
        prototypes(tmp_path / "missing", tmp_path / "out", toy_store.path)
    assert not (tmp_path / "out").exists()


def test_references_follow_the_encoder(save_linker, toy_store, toy_shards, tmp_path):
    pipeline = save_linker("referenced")
    linker = find_linker(spacy.load(pipeline))
    assert linker.kb.description()["references"]["entities"] == 12
    settings = {"mentions": toy_shards, "progress": False}
    override = {"components.krissel_linker.generate_empty_kb.reference_weight": 0.5}
    described = prototypes(
        pipeline, tmp_path / "half", toy_store.path, overrides=override, **settings
    )
    assert described["references"]["weight"] == 0.5
    half = find_linker(spacy.load(tmp_path / "half")).kb
    expected = (
        half.prototypes.base_vectors(np.arange(half.n_prototypes))
        + 0.5 * half.prototypes.references.vectors[half.prototypes.entity_rows]
    )
    np.testing.assert_allclose(half.vectors, expected, atol=1e-6)
    described = prototypes(
        pipeline, tmp_path / "none", toy_store.path, use_references=False, **settings
    )
    assert described["references"] is None
    assert find_linker(spacy.load(tmp_path / "none")).kb.prototypes.references is None


@pytest.fixture
def gold_file(toy_files, tmp_path):
    convert(toy_files / "gold.pubtator", tmp_path / "toy-gold.spacy")
    return tmp_path / "toy-gold.spacy"


def test_gold_mentions_are_added_to_names(trained_dir, toy_store, gold_file, tmp_path):
    described = prototypes(
        trained_dir, tmp_path / "out", toy_store.path, gold=[gold_file], progress=False
    )
    assert set(described["prototype_kinds"]) == {"name", "gold"}
    assert described["prototype_sources"] == {"toy-gold": described["prototype_kinds"]["gold"]}


def test_gold_mentions_can_be_the_only_prototypes(trained_dir, toy_store, gold_file, tmp_path):
    described = prototypes(
        trained_dir, tmp_path / "out", toy_store.path, gold=[gold_file], names=False,
        mentions_per_entity=0,
        progress=False,
    )  # fmt: skip
    assert described["prototype_kinds"] == {"gold": 18} and described["entities"] == 12


def test_gold_is_added_to_an_existing_knowledge_base(save_linker, gold_file, tmp_path, monkeypatch):
    before = find_linker(spacy.load(save_linker("small"))).kb
    encoded = []
    encode = KrisselLinker.encode
    monkeypatch.setattr(
        KrisselLinker, "encode", lambda self, views: encoded.extend(views) or encode(self, views)
    )
    described = prototypes(save_linker("small"), tmp_path / "out", gold=[gold_file], progress=False)
    # Nothing but the gold mentions is encoded.
    assert len(encoded) == described["prototype_kinds"].pop("gold") > 11
    assert described["prototype_kinds"] == before.description()["prototype_kinds"]
    kb = find_linker(spacy.load(tmp_path / "out")).kb
    assert (kb.vectors[: before.n_prototypes] == before.vectors).all()
    assert kb.remove_prototypes(kind="gold") == len(encoded)


def test_gold_added_to_an_external_kb_is_saved_inside(trained_dir, toy_store, gold_file, tmp_path):
    outside = tmp_path / "kb"
    first = prototypes(
        trained_dir, tmp_path / "out", toy_store.path, kb_path=outside, progress=False
    )
    prototypes(tmp_path / "out", tmp_path / "more", gold=[gold_file], progress=False)
    # The folder that others may point to stays as it was.
    assert find_linker(spacy.load(tmp_path / "out")).kb.description() == first
    nlp = spacy.load(tmp_path / "more")
    assert nlp.config["components"]["krissel_linker"]["kb_path"] is None
    assert "gold" in find_linker(nlp).kb.description()["prototype_kinds"]


def test_settings_without_ontology_or_gold_raise(trained_dir, gold_file, toy_shards, tmp_path):
    for settings in (
        {},
        {"mentions": toy_shards},
        {"index": named_index("exact")},
        {"names": False},
    ):
        gold, unread = ([gold_file] if settings else []), "|".join(settings)
        with pytest.raises(KrisselError, match=f"K614.*{unread}"):
            prototypes(trained_dir, tmp_path / "out", gold=gold, progress=False, **settings)
    with pytest.raises(KrisselError, match="K520"):
        prototypes(trained_dir, tmp_path / "out", gold=[gold_file], progress=False)
    assert not (tmp_path / "out").exists()


def test_gold_files_of_the_same_name_raise(save_linker, gold_file, toy_store, tmp_path):
    """Their prototypes could not be told from each other."""
    other = tmp_path / "bc5cdr" / gold_file.name
    other.parent.mkdir()
    other.write_bytes(gold_file.read_bytes())
    nlp = spacy.load(save_linker("small"))
    before = find_linker(nlp).kb.n_prototypes
    for gold in ([gold_file, other], [gold_file, gold_file]):
        with pytest.raises(KrisselError, match="K619.*'toy-gold'.*same name.*Rename"):
            add_gold_files(nlp, gold)
        with pytest.raises(KrisselError, match="K619"):
            prototypes(tmp_path / "not read yet", tmp_path / "out", toy_store.path, gold=gold)
    assert find_linker(nlp).kb.n_prototypes == before


def test_adding_a_file_twice_raises(save_linker, gold_file, tmp_path):
    nlp = spacy.load(save_linker("small"))
    kb = find_linker(nlp).kb
    n_added = add_gold_files(nlp, [gold_file])["toy-gold"].prototypes
    n_prototypes = kb.n_prototypes
    renamed = tmp_path / "renamed.spacy"
    renamed.write_bytes(gold_file.read_bytes())
    with pytest.raises(
        KrisselError,
        match=rf"K619.*has {n_added} prototypes.*remove_prototypes\(source='toy-gold'\)",
    ):
        add_gold_files(nlp, [renamed, gold_file])
    assert kb.n_prototypes == n_prototypes, "nor is the other file"
    assert kb.remove_prototypes(source="toy-gold") == n_added
    assert list(add_gold_files(nlp, [renamed, gold_file])) == ["renamed", "toy-gold"]


def test_added_gold_changes_links_and_can_be_removed(nlp, make_docs, gold_file, links_of):
    linker = find_linker(nlp)
    before = [links_of(doc) for doc in nlp.pipe(make_docs(nlp))]
    docs = list(read_doc_bins(gold_file, nlp.vocab))
    add_gold(linker.kb, docs)
    kinds = {
        c["kind"]
        for doc in nlp.pipe(make_docs(nlp))
        for ent in doc.ents
        for c in ent._.krissel_candidates
    }
    assert "gold" in kinds
    linker.kb.remove_prototypes(kind="gold")
    assert [links_of(doc) for doc in nlp.pipe(make_docs(nlp))] == before


@pytest.mark.parametrize(
    "settings, n_gpus, expected",
    [({}, 1, [0]), ({"ray": "local"}, 0, []), ({"ray": "local"}, 1, [0])],
)
def test_gpu_is_chosen_except_with_ray_and_without_a_local_gpu(
    tmp_path, monkeypatch, settings, n_gpus, expected
):
    """A machine that has Ray's cluster encode may have none."""
    chosen = []
    monkeypatch.setattr(build_module, "choose_gpu", lambda gpu_id, **_: chosen.append(gpu_id))
    monkeypatch.setattr(build_module, "n_gpus", lambda: n_gpus)
    with pytest.raises(KrisselError, match="K611"):
        prototypes("nowhere", tmp_path / "out", tmp_path, gpu_id=0, **settings)
    assert chosen == expected
