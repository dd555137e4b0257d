"""Pipes with a knowledge base: saved onto folders of other ones, and used by many threads."""

import pickle
import shutil
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
import spacy
from spacy.vocab import Vocab
from thinc.api import Adam

from spacy_krissel.building.gold_prototypes import add_gold
from spacy_krissel.building.sources import PrototypeSource
from spacy_krissel.commands.build_prototypes import build_prototypes, prototypes
from spacy_krissel.errors import KrisselError, KrisselWarning
from spacy_krissel.kb.prototype_kb import PrototypeKB
from spacy_krissel.pipeline.kb_pipe import skip_loading_kb
from spacy_krissel.pipeline.pipeline_io import find_linker, save_pipeline

MS = "Demyelinating lesions pointed to [MS|Disease] in this man."
KB = "components.krissel_linker.generate_empty_kb"


@pytest.fixture
def path(save_linker, tmp_path):
    """A copy of the trained pipeline."""
    return shutil.copytree(save_linker("small"), tmp_path / "pipeline")


@pytest.fixture
def nlp(path):
    return spacy.load(path)


@pytest.fixture
def linker(nlp):
    return find_linker(nlp)


def gold_doc(make_doc, nlp, id_="T12"):
    doc = make_doc(nlp, "It was [quite another thing|Disease] this time.")
    for token in doc.ents[0]:
        token.ent_kb_id_ = id_
    return doc


def linked(nlp, make_doc):
    return nlp(make_doc(nlp, "It was [quite another thing|Disease] this time.")).ents[0].kb_id_


def retrain(nlp, make_examples):
    with pytest.warns(KrisselWarning, match="KW601"):
        nlp.update(make_examples(nlp), sgd=Adam(0.01, use_averages=False))


# An old knowledge base in the folder --------------------------------------------------------------


def test_retrained_pipeline_loads_without_a_kb(nlp, path, make_examples, make_doc, toy_store):
    retrain(nlp, make_examples)
    nlp.to_disk(path)
    assert not (path / "krissel_linker" / "kb").exists()
    assert [
        each.name for each in (path / "krissel_linker").iterdir() if each.name.startswith(".")
    ] == []
    again = spacy.load(path)
    with pytest.raises(KrisselError, match="K603.*krissel prototypes"):
        again(make_doc(again, MS))
    prototypes(path, path, toy_store.path, progress=False)
    again = spacy.load(path)
    assert again(make_doc(again, MS)).ents[0].kb_id_


def test_remedy_named_by_k522_works(nlp, path, make_examples, make_doc, toy_store):
    """An earlier encoder made the knowledge base of the folder."""
    retrain(nlp, make_examples)
    linker = find_linker(nlp)
    linker.to_disk(path / "krissel_linker", exclude=["kb"])
    with pytest.raises(KrisselError, match="K522.*krissel prototypes"):
        spacy.load(path)
    prototypes(path, path, toy_store.path, progress=False)
    again = spacy.load(path)
    assert again(make_doc(again, MS)).ents[0].kb_id_


def test_damaged_kb_can_be_rebuilt(path, toy_store, make_doc):
    (path / "krissel_linker" / "kb" / "vectors.npy").write_bytes(b"x")
    with pytest.raises(KrisselError, match="K004"):
        spacy.load(path)
    prototypes(path, path, toy_store.path, progress=False)
    assert find_linker(spacy.load(path)).kb.n_entities == 12


def test_only_the_kb_of_the_named_pipe_is_left_out(path):
    with skip_loading_kb("another"):
        assert find_linker(spacy.load(path)).kb.n_entities == 12
    with skip_loading_kb("krissel_linker"):
        assert find_linker(spacy.load(path)).kb.n_entities == 0


def test_kb_backup_of_a_killed_process_is_removed(nlp, path, make_examples):
    """Nor is what stepped aside then put back in the place of none."""
    folder = path / "krissel_linker"
    (folder / "kb").rename(folder / ".kb.0123abcd.old")
    retrain(nlp, make_examples)
    nlp.to_disk(path)
    assert sorted(each.name for each in folder.iterdir()) == ["cfg", "checksums.json", "model"]
    spacy.load(path)


def test_kb_left_out_on_loading_is_kept_on_disk(nlp, linker, path):
    linker.from_disk(path / "krissel_linker", exclude=["kb"])
    linker._kb = None
    linker.cfg["threshold"] = -1000.0
    linker.to_disk(path / "krissel_linker")
    again = find_linker(spacy.load(path))
    assert again.kb.n_entities == 12 and again.cfg["threshold"] == -1000.0


def test_folder_of_an_excluded_linker_is_unchanged(nlp, linker, path, make_doc):
    """The linker that was there stays whole, settings and knowledge base."""
    doc = make_doc(nlp, MS)
    expected = nlp(doc).ents[0].kb_id_
    linker.cfg["threshold"] = 1000.0
    linker.kb.remove_prototypes(kind="name")
    nlp.to_disk(path, exclude=["krissel_linker"])
    again = spacy.load(path)
    assert again(make_doc(again, MS)).ents[0].kb_id_ == expected
    assert find_linker(again).kb.description()["prototype_kinds"]["name"] > 0


def test_removed_prototypes_stay_removed(nlp, linker, path, tmp_path, make_doc):
    for kind in ("name", "mention", "replaced"):
        linker.kb.remove_prototypes(kind=kind)
    assert linker.kb.n_prototypes == 0
    for target in (path, tmp_path / "new"):
        nlp.to_disk(target)
        again = spacy.load(target)
        kb = find_linker(again).kb
        assert (kb.n_entities, kb.n_prototypes) == (12, 0)
        with pytest.raises(KrisselError, match="K520.*12 entities, 0 prototypes"):
            again(make_doc(again, MS))
    other = spacy.blank("en").from_config(nlp.config).from_bytes(nlp.to_bytes())
    assert find_linker(other).kb.n_entities == 12


def test_entities_alone_are_saved(make_linker, toy_store, tmp_path):
    nlp = make_linker()
    find_linker(nlp).kb.set_entities(toy_store)
    nlp.to_disk(tmp_path / "pipeline")
    assert find_linker(spacy.load(tmp_path / "pipeline")).kb.n_entities == 12


# A knowledge base elsewhere -----------------------------------------------------------------------


@pytest.fixture
def outside(nlp, path, tmp_path):
    """The pipeline with its knowledge base at `kb_path`."""
    save_pipeline(nlp, path, kb_path=tmp_path / "kb")
    return spacy.load(path)


@pytest.mark.parametrize(
    "save", [lambda nlp, path: nlp.to_disk(path), lambda nlp, path: nlp.to_bytes()]
)
def test_unsaved_edits_of_an_external_kb_raise(outside, path, tmp_path, make_doc, save):
    kb = find_linker(outside).kb
    add_gold(kb, [gold_doc(make_doc, outside)])
    before = kb.n_prototypes
    with pytest.raises(KrisselError, match=r"K660.*kb\.to_disk\('.*kb'\)"):
        save(outside, path)
    # The remedy that it names.
    kb.to_disk(find_linker(outside).kb_path)
    save(outside, path)
    again = spacy.load(path)
    assert find_linker(again).kb.n_prototypes == before and linked(again, make_doc) == "T12"


def test_pipeline_with_an_unchanged_external_kb_can_be_saved(outside, path, tmp_path, make_doc):
    outside(make_doc(outside, MS))
    outside.to_disk(path)
    outside.to_bytes()
    add_gold(find_linker(outside).kb, [gold_doc(make_doc, outside)])
    find_linker(outside).to_disk(tmp_path / "pipe", exclude=["kb"])


def test_saving_another_kb_than_the_external_one_raises(outside, linker, path, tmp_path):
    shutil.copytree(tmp_path / "kb", tmp_path / "other")
    find_linker(outside).set_kb(linker.new_kb().from_disk(tmp_path / "other"))
    with pytest.raises(KrisselError, match="K660"):
        outside.to_disk(path)


def test_missing_external_kb_raises_on_saving(outside, path, tmp_path):
    shutil.rmtree(tmp_path / "kb")
    with pytest.raises(KrisselError, match="K660.*folder is gone"):
        outside.to_disk(path)
    find_linker(outside).kb.to_disk(tmp_path / "kb")
    outside.to_disk(path)
    assert find_linker(spacy.load(path)).kb.n_entities == 12


def test_linker_made_with_a_kb_path_loads_its_knowledge_base(toy_store, tmp_path, make_doc):
    model = {
        "@architectures": "spacy-krissel.SmallEncoder.v1",
        "width": 8,
        "rows": 512,
        "context_rows": 64,
        "hidden": 4,
    }
    config = {"model": model, "objective": None}

    def made(**settings):
        nlp = spacy.blank("en")
        nlp.add_pipe("krissel_linker", config={**config, **settings})
        return nlp

    first = made()
    first.initialize()
    build_prototypes(first, PrototypeSource(toy_store))
    find_linker(first).kb.to_disk(tmp_path / "kb")
    nlp = made(kb_path=str(tmp_path / "kb"))
    with pytest.raises(KrisselError, match="K604"):
        nlp(make_doc(nlp, MS))
    find_linker(nlp).model.from_bytes(find_linker(first).model.to_bytes())
    assert linked(nlp, make_doc) == linked(first, make_doc)
    assert find_linker(nlp).kb.n_entities == 12
    wrong = made(kb_path=str(tmp_path))
    find_linker(wrong).model.from_bytes(find_linker(first).model.to_bytes())
    with pytest.raises(KrisselError, match="K00"):
        wrong(make_doc(wrong, MS))


def test_relative_kb_path_is_independent_of_the_working_directory(nlp, path, tmp_path, monkeypatch):
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path)
    save_pipeline(nlp, path, kb_path=type(tmp_path)("kb"))
    monkeypatch.chdir(tmp_path / "elsewhere")
    again = spacy.load(path)
    assert (
        find_linker(again).kb_path
        == str(tmp_path / "kb")
        == again.config["components"]["krissel_linker"]["kb_path"]
    )


def test_loaded_pipeline_works_without_its_folder(nlp, linker, path, tmp_path, make_doc):
    expected = nlp(make_doc(nlp, MS)).ents[0].kb_id_
    shutil.rmtree(path)
    assert nlp(make_doc(nlp, MS)).ents[0].kb_id_ == expected
    nlp.to_disk(tmp_path / "again")
    for other in (spacy.load(tmp_path / "again"), pickle.loads(pickle.dumps(nlp))):
        assert other(make_doc(other, MS)).ents[0].kb_id_ == expected


# Files --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("component", ["krissel_linker", "krissel_reranker"])
@pytest.mark.parametrize("name", ["cfg", "model"])
def test_changed_file_raises_on_loading(save_reranker, tmp_path, component, name):
    path = shutil.copytree(save_reranker("list"), tmp_path / "pipeline")
    file_ = path / component / name
    data = bytearray(file_.read_bytes())
    data[len(data) - 1 if name == "cfg" else len(data) - 3] ^= 1
    file_.write_bytes(bytes(data))
    with pytest.raises(KrisselError, match=f"K605.*'{component}'.*SHA-256 of '{name}'"):
        spacy.load(path)
    (path / component / "checksums.json").write_text("{")
    with pytest.raises(KrisselError, match="K605"):
        spacy.load(path)


def test_excluded_file_keeps_its_checksum(linker, path):
    folder = path / "krissel_linker"
    linker.cfg["threshold"] = 0.25
    linker.to_disk(folder, exclude=["model", "kb"])
    assert find_linker(spacy.load(path)).cfg["threshold"] == 0.25
    (folder / "model").write_bytes(b"x" * 100)
    linker.to_disk(folder, exclude=["model", "kb"])
    with pytest.raises(KrisselError, match="K605.*'model'"):
        spacy.load(path)


def test_verify_setting_reaches_the_kb(path, monkeypatch):
    from spacy_krissel.kb import storage

    asked, read = [], storage.read_manifest
    monkeypatch.setattr(
        storage,
        "read_manifest",
        lambda *args, verify, **shape: asked.append(verify) or read(*args, verify=verify, **shape),
    )
    spacy.load(path)
    spacy.load(path, config={f"{KB}.verify": False})
    PrototypeKB(Vocab(), 0).from_disk(path / "krissel_linker" / "kb", verify=False)
    assert asked == [True, False, False]


# Setting it ---------------------------------------------------------------------------------------


def test_set_kb_accepts_a_loader(linker, path):
    """`EntityLinker.set_kb` takes a loader, too."""
    linker.set_kb(lambda vocab: PrototypeKB(vocab, 0).from_disk(path / "krissel_linker" / "kb"))
    assert linker.kb.n_entities == 12 and linker.kb.vocab is linker.vocab
    for wrong in (None, "kb", lambda vocab: None):
        with pytest.raises(KrisselError, match="K006.*'kb'"):
            linker.set_kb(wrong)


def test_invalid_setting_changed_in_place_raises(nlp, linker, make_doc, tmp_path):
    linker.cfg["types_by_label"]["Disease"] = "T047"
    with pytest.raises(KrisselError, match="K006.*types_by_label"):
        nlp(make_doc(nlp, MS))
    with pytest.raises(KrisselError, match="K006.*types_by_label"):
        nlp.to_disk(tmp_path / "saved")


@pytest.mark.parametrize("made", ["loaded", "added", "sourced"])
def test_setting_changed_in_place_is_saved(made, nlp, make_linker, path, tmp_path):
    if made == "added":
        nlp = make_linker()
    elif made == "sourced":
        other = spacy.blank("en")
        other.add_pipe("krissel_linker", source=nlp)
        nlp = other
    cfg = find_linker(nlp).cfg
    cfg["types"].append("T047")
    cfg["types_by_label"]["DRUG"] = ["T121"]
    nlp.to_disk(tmp_path / "saved")
    again = find_linker(spacy.load(tmp_path / "saved")).cfg
    assert again["types"] == ["T047"] and again["types_by_label"] == {"DRUG": ["T121"]}


# Threads ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("settings", [{}, {"lexical_weight": 0.3, "gold_prior": 0.03}])
def test_linking_never_sees_part_of_a_change(nlp, linker, make_docs, links_of, make_doc, settings):
    """While gold is added and removed, threads find what one thread finds with it or without."""
    linker.cfg.update(settings)
    gold = [gold_doc(make_doc, nlp, "T10"), gold_doc(make_doc, nlp, "T12")]

    def links():
        return [links_of(doc) for doc in nlp.pipe(make_docs(nlp), batch_size=100)]

    known = [links()]
    add_gold(linker.kb, gold, source="gold")
    known.append(links())
    linker.kb.remove_prototypes(source="gold")
    stop, found, errors = threading.Event(), [], []

    def change():
        try:
            for _ in range(8):
                add_gold(linker.kb, gold, source="gold")
                linker.kb.remove_prototypes(source="gold")
        except Exception as error:
            errors.append(error)
        finally:
            stop.set()

    def read(_):
        while not stop.is_set():
            found.append(links())

    changing = threading.Thread(target=change)
    changing.start()
    with ThreadPoolExecutor(4) as threads:
        list(threads.map(read, range(4)))
    changing.join()
    assert errors == [] and found
    assert [each for each in found if each not in known] == []


def test_development_kb_is_built_once_for_all_threads(make_linker, make_docs, monkeypatch):
    nlp = make_linker()
    linker, built = find_linker(nlp), []
    build = linker._build_dev_kb
    monkeypatch.setattr(linker, "_build_dev_kb", lambda source: built.append(1) or build(source))
    with ThreadPoolExecutor(4) as threads:
        list(threads.map(lambda _: nlp(make_docs(nlp)[0]), range(8)))
    assert built == [1]


def test_extractor_uses_one_version_of_its_kb(save_extractor, monkeypatch):
    """A change between two of its questions shows in the next call."""
    nlp = spacy.load(save_extractor("words"))
    pipe = nlp.get_pipe("krissel_span_extractor")
    pipe.cfg["candidates"] = "all"
    text = "The smoker's chest film showed lung cancer in the upper lobe."
    expected = [each["id"] for each in nlp(text)._.krissel_entities]
    candidates = pipe._candidates

    def removed_meanwhile(*args):
        rows = candidates(*args)
        pipe.kb.remove_prototypes(kind="name")
        return rows

    monkeypatch.setattr(pipe, "_candidates", removed_meanwhile)
    assert [each["id"] for each in nlp(text)._.krissel_entities] == expected != []
    assert pipe.kb.n_prototypes == 0
