"""Each step of a build, killed: nothing half-written is ever loaded, and the step run again completes."""

import json
import os
import signal
import sys
from pathlib import Path
from typing import Any, Callable, NamedTuple

import pytest
import spacy

from spacy_krissel.corpora.convert import convert
from spacy_krissel.corpora.doc_bins import read_doc_bins
from spacy_krissel.corpora.text_split import text_split
from spacy_krissel.errors import KrisselError
from spacy_krissel.kb import build
from spacy_krissel.kb.tune import Tuning
from spacy_krissel.mining.mine import mine
from spacy_krissel.mining.shards import MentionShards
from spacy_krissel.ontology.build import build_ontology
from spacy_krissel.ontology.store import OntologyStore
from spacy_krissel.pipeline import save
from spacy_krissel.pipeline.find import find_linker
from spacy_krissel.pipeline.prototypes import prototypes
from spacy_krissel.pipeline.save import copy_whole
from spacy_krissel.pipeline.train import train
from spacy_krissel.pipeline.tune import tune_index
from spacy_krissel.util.manifest import read_manifest

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="needs processes that can be forked")
POINTS = 10
MODELS = ("model-best", "model-last")
CHANGES = ("os.mkdir", "os.rename", "os.remove", "os.rmdir", "shutil.rmtree")


class Step(NamedTuple):
    """make: writes at a path. load: RETURNS what is there, to be compared; raises KrisselError where nothing is."""

    make: Callable[[Path], Any]
    load: Callable[[Path], Any]


def store_of(path):
    store = OntologyStore(path, verify=True)
    return [*store], [*store.names()]


def shards_of(path):
    return list(MentionShards(path, verify=True))


def docs_of(path):
    return [
        (doc.text, [(ent.start, ent.kb_id_) for ent in doc.ents])
        for doc in read_doc_bins(path, spacy.blank("en").vocab)
    ]


def links_of(path):
    try:
        nlp = spacy.load(path)
    except (OSError, ValueError) as error:  # spaCy's own files
        raise KrisselError(f"no pipeline: {error}") from error
    kb = nlp.get_pipe("krissel_linker").kb
    assert not kb.is_empty(), "a pipeline that loads has its knowledge base"
    assert kb.search(kb.own_vectors[:3], 1).entities.shape == (3, 1)
    return list(kb.entity_ids), kb.prototype_entities.tolist(), kb.own_vectors.tolist()


def split_of(path):
    read_manifest(path, "text-level split", 1, verify=True)
    return [docs_of(path / f"{part}.spacy") for part in ("train", "test")]


@pytest.fixture
def step(request, toy_files, toy_store, toy_shards, trained, tmp_path, monkeypatch):
    # Several blocks of views, of which an earlier run may have encoded some.
    monkeypatch.setattr(build, "BLOCK", 16)
    # Of so few vectors no index is faster than the exact one.
    monkeypatch.setattr(Tuning, "chosen", property(lambda tuning: tuning.trials[-1]))

    def split(path):
        convert(toy_files / "gold.pubtator", tmp_path / "gold.spacy")
        text_split(tmp_path / "gold.spacy", path, min_train=0)

    def tuned(path):
        if not (tmp_path / "pipeline").exists():
            prototypes(trained, tmp_path / "pipeline", toy_store.path, toy_shards, progress=False)
        if not path.exists():
            copy_whole(tmp_path / "pipeline", path)
        tune_index(path, types=["ivf"], n_queries=5)

    return {
        "ontology": Step(lambda path: build_ontology(toy_files / "ontology.jsonl", path), store_of),
        "mine": Step(lambda path: mine(toy_store, toy_files / "texts.jsonl", path, chunk_chars=300), shards_of),
        "convert": Step(lambda path: convert(toy_files / "gold.pubtator", path), docs_of),
        "prototypes": Step(
            lambda path: prototypes(trained, path, toy_store.path, toy_shards, progress=False), links_of
        ),
        "split": Step(split, split_of),
        "tune": Step(tuned, links_of),
    }[request.param]


@pytest.mark.slow
@pytest.mark.parametrize("step", ["ontology", "mine", "convert", "split", "prototypes", "tune"], indirect=True)
@pytest.mark.parametrize("earlier", [False, True])
def test_killed_at_ten_points(step, earlier, tmp_path):
    """At changes of folders all through a first run and one that replaces earlier work, and in between at calls."""
    name = "out.spacy" if step.load is docs_of else "out"
    whole = tmp_path / "whole" / name
    n_calls, n_changes = run_until(lambda: step.make(whole))
    expected = step.load(whole)
    points = [(0, change) for change in spread(n_changes, POINTS)]
    if not earlier:
        points += [(call, 0) for call in spread(n_calls, POINTS // 2)]
    for number, point in enumerate(points):
        path = tmp_path / str(number) / name
        if earlier:
            step.make(path)
        run_until(lambda path=path: step.make(path), *point)
        try:
            found = step.load(path)
        except KrisselError:
            pass
        else:
            assert found == expected
        step.make(path)
        assert step.load(path) == expected
        assert not list(path.parent.rglob("*.tmp"))
        assert [each.name for each in path.parent.iterdir()] == [name], "and nothing is left beside it"


@pytest.mark.slow
def test_killed_training(configs, toy_overrides, tmp_path, monkeypatch):
    """`model-best` and `model-last` are one of those that were saved, all of it, whenever training is killed."""
    saved = []
    put_in_place = save.put_in_place

    def noted(temporary, path):
        put_in_place(temporary, path)
        saved.append(state_of(path))

    def make(path):
        train(configs / "small.cfg", path, overrides=toy_overrides["small"])

    with monkeypatch.context() as patch:
        patch.setattr(save, "put_in_place", noted)
        make(tmp_path / "whole")
    assert len(saved) > len(set(saved)) > 1
    expected = [state_of(tmp_path / "whole" / name) for name in MODELS]
    # Of a run that begins with removing what is there.
    _, n_changes = run_until(lambda: make(tmp_path / "whole"))
    for number, change in enumerate(spread(n_changes, POINTS)):
        path = tmp_path / str(number)
        for _ in range(2):
            # The second time with what the first one left in its place.
            run_until(lambda path=path: make(path), 0, change)
            assert {state_of(path / name) for name in MODELS if (path / name).exists()} <= set(saved)
        make(path)
        assert [state_of(path / name) for name in MODELS] == expected
        assert sorted(each.name for each in path.iterdir()) == sorted(MODELS), "and nothing is left beside them"


def state_of(path):
    nlp = spacy.load(path)
    return json.dumps(nlp.meta["performance"]), find_linker(nlp).fingerprint(), len(nlp.vocab.strings)


def spread(n, points):
    """So many of the numbers 1 to n, as evenly as can be."""
    return sorted({round(n * (i + 0.5) / points) or 1 for i in range(points)})


def run_until(make, calls=0, changes=0):
    """Run `make` in another process, and kill that at its so manieth call of a function, or change of a folder.

    RETURNS: how many there were of both, of one that ran to its end.
    """
    reader, writer = os.pipe()
    child = os.fork()
    if not child:
        counts = {"call": 0, "change": 0}

        def count(what, last):
            counts[what] += 1
            if counts[what] == last:
                os.kill(os.getpid(), signal.SIGKILL)

        def audit(event, arguments):
            if event in CHANGES or (event == "open" and arguments[1] and set("wxa+") & set(str(arguments[1]))):
                count("change", changes)

        status = 1
        try:
            sys.addaudithook(audit)
            sys.setprofile(lambda frame, event, argument: count("call", calls) if event == "call" else None)
            make()
            sys.setprofile(None)
            os.write(writer, f"{counts['call']} {counts['change']}".encode())
            status = 0
        finally:
            os._exit(status)
    os.close(writer)
    with os.fdopen(reader) as told:
        found = told.read()
    _, status = os.waitpid(child, 0)
    if calls or changes:
        assert os.WIFSIGNALED(status) or not status
        return None
    assert not status
    return tuple(map(int, found.split()))
