"""Components disabled, renamed, copied or saved separately, and pipeline folders moved."""

import copy
import pickle
import shutil

import pytest
import spacy
from components import each_pipe

pytestmark = pytest.mark.slow


@pytest.fixture
def folder(component, tmp_path):
    """A copy of the saved pipeline, which a test may delete."""
    return shutil.copytree(component.save(), tmp_path / "loaded")


@pytest.fixture
def expected(component):
    return component.run(component.load())


# Folders ------------------------------------------------------------------------------------------


def run_from_disk(component, nlp, path):
    nlp.to_disk(path)
    return component.run(spacy.load(path))


def run_from_bytes(component, nlp, path):
    return component.run(spacy.blank("en").from_config(nlp.config).from_bytes(nlp.to_bytes()))


def run_pickled(component, nlp, path):
    return component.run(pickle.loads(pickle.dumps(nlp)))


def run_pickled_pipe(component, nlp, path):
    pipe = pickle.loads(pickle.dumps(nlp.get_pipe(component.name)))
    others = nlp.select_pipes(disable=component.name)
    with others:
        docs = list(nlp.pipe(component.docs(nlp)))
    return [component.links(pipe(doc)) for doc in docs]


def run_copied(component, nlp, path):
    return component.run(copy.deepcopy(nlp))


def run_itself(component, nlp, path):
    return component.run(nlp)


WAYS = [run_itself, run_from_disk, run_from_bytes, run_copied, run_pickled_pipe, run_pickled]


@each_pipe
@pytest.mark.parametrize("way", WAYS, ids=lambda way: way.__name__)
def test_a_loaded_pipeline_needs_no_folder(component, folder, expected, tmp_path, way):
    """Loaded from a folder that is gone since, as from a `TemporaryDirectory`."""
    nlp = spacy.load(folder)
    shutil.rmtree(folder)
    assert way(component, nlp, tmp_path / "saved") == expected


@each_pipe
def test_a_pipeline_from_bytes_is_independent(component, folder, expected, tmp_path):
    """Not its folder, nor anything that it unpacked."""
    nlp = spacy.load(folder)
    data, config = nlp.to_bytes(), nlp.config.copy()
    del nlp
    shutil.rmtree(folder)
    other = spacy.blank("en").from_config(config).from_bytes(data)
    pickled = pickle.dumps(other.get_pipe(component.name))
    assert component.run(other) == expected
    assert run_from_disk(component, other, tmp_path / "saved") == expected
    with other.select_pipes(disable=component.name):
        docs = list(other.pipe(component.docs(other)))
    del other
    pipe = pickle.loads(pickled)
    assert [component.links(pipe(doc)) for doc in docs] == expected


@each_pipe
def test_a_saved_pipeline_can_be_moved(component, folder, expected, tmp_path):
    """A pipeline that was moved after it was saved links as before."""
    spacy.load(folder).to_disk(tmp_path / "saved")
    shutil.rmtree(folder)
    (tmp_path / "saved").rename(tmp_path / "elsewhere")
    assert component.run(spacy.load(tmp_path / "elsewhere")) == expected


# Components ---------------------------------------------------------------------------------------


@each_pipe
def test_a_disabled_component_does_not_annotate(component, nlp, expected):
    for off in ({"disable": [component.name]}, {"enable": []}):
        with nlp.select_pipes(**off):
            assert component.name not in nlp.pipe_names
            assert component.run(nlp) != expected
        assert component.run(nlp) == expected
    docs = list(nlp.pipe(component.docs(nlp), disable=[component.name]))
    assert [component.links(doc) for doc in docs] != expected
    for option in ("disable", "exclude"):
        assert component.run(spacy.load(component.save(), **{option: [component.name]})) != expected


@each_pipe
def test_a_component_disabled_when_saved_works_again(component, expected, tmp_path):
    nlp = spacy.load(component.save(), disable=[component.name])
    nlp.to_disk(tmp_path / "saved")
    again = spacy.load(tmp_path / "saved")
    again.enable_pipe(component.name)
    assert component.run(again) == expected


@each_pipe
def test_a_renamed_component_links_and_saves(component, nlp, expected, tmp_path):
    nlp.rename_pipe(component.name, "another name")
    assert component.run(nlp) == expected
    nlp.to_disk(tmp_path / "renamed")
    again = spacy.load(tmp_path / "renamed")
    assert "another name" in again.pipe_names and component.run(again) == expected


@each_pipe
def test_a_sourced_component_works_without_its_source(component, folder, expected, tmp_path):
    source = spacy.load(folder)
    nlp = spacy.blank("en")
    nlp.add_pipe("sentencizer")
    for name in source.pipe_names:
        nlp.add_pipe(name, source=source)
    del source
    shutil.rmtree(folder)
    assert component.run(nlp) == expected
    assert run_from_disk(component, nlp, tmp_path / "saved") == expected


@each_pipe
def test_another_vocab_gives_the_same_links(component, expected):
    vocab = spacy.blank("en").vocab
    vocab.strings.add("a string that the pipeline has not")
    nlp = spacy.load(component.save(), vocab=vocab)
    assert nlp.get_pipe(component.name).vocab is vocab
    assert component.run(nlp) == expected


# Excluded -----------------------------------------------------------------------------------------


@each_pipe
def test_a_component_excluded_from_saving_is_not_written(component, nlp, expected, tmp_path):
    """`exclude` of spaCy's own methods takes a component's name: what was there of it stays as it
    is."""
    nlp.to_disk(tmp_path / "without", exclude=[component.name])
    assert not (tmp_path / "without" / component.name).exists()
    nlp.to_disk(tmp_path / "whole")
    pipe = nlp.get_pipe(component.name)
    before = {
        path: path.read_bytes()
        for path in (tmp_path / "whole" / component.name).rglob("*")
        if path.is_file()
    }
    changes = {"threshold": 0.125, "weight": 0.125, "label": "X"}
    key = next(key for key in changes if key in pipe.cfg)
    pipe.cfg[key] = changes[key]
    nlp.to_disk(tmp_path / "whole", exclude=[component.name])
    assert all(path.read_bytes() == data for path, data in before.items())
    assert component.run(spacy.load(tmp_path / "whole")) == expected


@each_pipe
def test_a_component_excluded_from_loading_is_not_read(component, nlp, expected, folder, tmp_path):
    """The component that is there keeps what it has."""
    shutil.rmtree(folder / component.name)
    assert component.run(nlp.from_disk(folder, exclude=[component.name])) == expected
    data = nlp.to_bytes(exclude=[component.name])
    assert len(data) < len(nlp.to_bytes())
    assert component.run(nlp.from_bytes(data, exclude=[component.name])) == expected
    # As spaCy's own components have it: bytes without a component leave the one that is there.
    assert component.run(nlp.from_bytes(data)) == expected


@each_pipe
def test_parts_of_a_component_can_be_excluded(component, pipe, tmp_path):
    for part in ("cfg", "names" if component.name == "krissel_finder" else "model"):
        pipe.to_disk(tmp_path / part, exclude=[part])
        assert not (tmp_path / part / part).exists()
        assert len(pipe.to_bytes(exclude=[part])) < len(pipe.to_bytes())


# The front page -----------------------------------------------------------------------------------


def test_settings_of_the_front_page_survive_saving(save_linker, make_docs, tmp_path):
    nlp = spacy.load(save_linker("small"), config={"components.krissel_linker.threshold": 0.6})
    nlp.get_pipe("krissel_linker").cfg["types_by_label"] = {"Disease": ["T047"]}
    nlp.to_disk(tmp_path / "saved")
    cfg = spacy.load(tmp_path / "saved").get_pipe("krissel_linker").cfg
    assert (cfg["threshold"], cfg["types_by_label"]) == (0.6, {"Disease": ["T047"]})
    linked = {
        ent.kb_id_
        for doc in nlp.pipe(make_docs(nlp))
        for ent in doc.ents
        if ent.label_ == "Disease"
    }
    assert linked and all(id_ == "NIL" or id_ < "T07" for id_ in linked)


def test_a_sourced_reranker_reranks(save_linker, save_reranker, make_docs, links_of):
    """Trained over one linker, and sourced into the pipeline of another with more candidates."""
    candidates = {"components.krissel_linker.n_candidates": 32}
    nlp = spacy.load(save_linker("small"), config=candidates)
    nlp.add_pipe("krissel_reranker", source=spacy.load(save_reranker("list")))
    trained = spacy.load(save_reranker("list"), config=candidates)
    found, expected = (
        [links_of(doc) for doc in each.pipe(make_docs(each))] for each in (nlp, trained)
    )
    assert found == expected
    alone = [links_of(doc) for doc in nlp.pipe(make_docs(nlp), disable=["krissel_reranker"])]
    assert found != alone and all(len(link[4]) > 5 for doc in found for link in doc)
