"""Each step of a build, killed: nothing half-written is ever loaded, and the step run again completes."""

import os
import signal
import sys
from pathlib import Path
from typing import Any, Callable, NamedTuple

import pytest
import spacy

from spacy_krissel.corpora.convert import convert
from spacy_krissel.corpora.doc_bins import read_doc_bins
from spacy_krissel.errors import KrisselError
from spacy_krissel.mining.mine import mine
from spacy_krissel.mining.shards import MentionShards
from spacy_krissel.ontology.build import build_ontology
from spacy_krissel.ontology.store import OntologyStore
from spacy_krissel.pipeline.prototypes import prototypes

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="needs processes that can be forked")
POINTS = 10
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
    return list(kb.entity_ids), kb.prototype_entities.tolist(), kb.own_vectors.tolist()


@pytest.fixture
def step(request, toy_files, toy_store, toy_shards, trained):
    return {
        "ontology": Step(lambda path: build_ontology(toy_files / "ontology.jsonl", path), store_of),
        "mine": Step(lambda path: mine(toy_store, toy_files / "texts.jsonl", path, chunk_chars=300), shards_of),
        "convert": Step(lambda path: convert(toy_files / "gold.pubtator", path), docs_of),
        "prototypes": Step(
            lambda path: prototypes(trained, path, toy_store.path, toy_shards, progress=False), links_of
        ),
    }[request.param]


@pytest.mark.slow
@pytest.mark.parametrize("step", ["ontology", "mine", "convert", "prototypes"], indirect=True)
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
