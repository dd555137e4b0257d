"""Prototypes encoded by other processes."""

import os
import signal
import sys
from contextlib import contextmanager, suppress

import numpy as np
import pytest
import spacy
from ray_machines import two_machines
from tiers import nightly

from spacy_krissel.building import fill as build
from spacy_krissel.building.encoding import VectorWork
from spacy_krissel.commands import encoding_workers
from spacy_krissel.commands.build_prototypes import prototypes
from spacy_krissel.commands.encoding_workers import EncoderOf, encoding_processes
from spacy_krissel.errors import KrisselError
from spacy_krissel.pipeline.linker.component import KrisselLinker
from spacy_krissel.views import name_view

pytestmark = pytest.mark.slow


@pytest.fixture
def built(trained, toy_store, toy_shards, tmp_path, monkeypatch):
    """Builds a pipeline with its knowledge base in blocks of 7, and returns what is in that."""
    monkeypatch.setattr(build, "BLOCK_VIEWS", 7)

    def make(name="out", **settings):
        prototypes(trained, tmp_path / name, toy_store.path, toy_shards, progress=False, **settings)
        kb = spacy.load(tmp_path / name).get_pipe("krissel_linker").kb
        return kb.prototypes_at(np.arange(kb.n_prototypes)), kb.vectors

    return make


@pytest.fixture
def not_here(monkeypatch):
    """A context in which this process cannot encode, and those that it starts can."""

    @contextmanager
    def made():
        with monkeypatch.context() as patch:
            patch.setattr(KrisselLinker, "encode", None)
            yield

    return made


def assert_alike(found, expected):
    assert found[0] == expected[0]
    # Products of matrices may be added up in another order by so many threads.
    np.testing.assert_allclose(found[1], expected[1], atol=1e-6)


@pytest.mark.slow
def test_two_processes_build_the_same_as_one(built, tmp_path, not_here):
    with not_here():
        found = built(n_process=2)
    assert_alike(found, built("one"))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["one", "out"]


@pytest.mark.slow
def test_dead_process_raises_and_encoded_vectors_are_kept(built, tmp_path, monkeypatch):
    expected = built("whole")
    put = VectorWork.put
    encoded = []

    def killing(self, name, vectors):
        put(self, name, vectors)
        encoded.append(name)
        if len(encoded) == 2:
            for process in list(pools[0]._pool._processes.values()):
                os.kill(process.pid, signal.SIGKILL)

    pools = []
    init = encoding_workers.EncodingProcesses.__init__

    def noted(self, *args):
        init(self, *args)
        pools.append(self)

    monkeypatch.setattr(encoding_workers.EncodingProcesses, "__init__", noted)
    with monkeypatch.context() as patch, pytest.raises(KrisselError, match=r"K641.*n_process is 2"):
        patch.setattr(VectorWork, "put", killing)
        built(n_process=2)
    assert len(list((tmp_path / ".out.vectors.partial").glob("*.npy"))) == len(encoded)
    assert not (tmp_path / "out").exists()
    monkeypatch.setattr(
        VectorWork,
        "put",
        lambda self, name, vectors: (encoded.append(name), put(self, name, vectors)),
    )
    # The other way: this process goes on where several stopped.
    assert_alike(built(), expected)
    assert len(encoded) == len(set(encoded))


def test_more_processes_than_gpus_raise(trained, monkeypatch):
    monkeypatch.setattr(encoding_workers, "n_gpus", lambda: 3)
    with pytest.raises(KrisselError, match="K006.*'n_process' is 3.*at most 2, the GPUs from 1 on"):
        with encoding_processes(EncoderOf(trained, {}, "krissel_linker"), 3, gpu_id=1):
            pass


def test_invalid_settings_raise(built):
    with pytest.raises(KrisselError, match="K006.*'n_process'"):
        built(n_process=2, ray="local")


def test_encoding_by_workers_without_an_ontology_raises(trained, tmp_path):
    with pytest.raises(KrisselError, match="K614.*n_process, ray"):
        prototypes(trained, tmp_path / "out", gold=[tmp_path / "x"], n_process=2, ray="local")


def test_work_of_other_input_is_refused_or_restarted(built, tmp_path, monkeypatch):
    put = VectorWork.put

    def stopping(self, name, vectors):
        put(self, name, vectors)
        raise KeyboardInterrupt

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(VectorWork, "put", stopping)
        built()
    with pytest.raises(KrisselError, match="K529.*mentions_per_entity was None and is 3"):
        built(mentions_per_entity=3)
    with pytest.raises(KrisselError, match="K529.*overrides was {} and is .*use_abbreviations"):
        built(overrides={"components.krissel_linker.use_abbreviations": False})
    assert_alike(built(mentions_per_entity=3, restart=True), built("again", mentions_per_entity=3))


@pytest.mark.parametrize(
    "other", [{}, nightly({"mentions_per_entity": 3}), nightly({"restart": True})]
)
def test_second_run_into_the_same_output_is_refused(built, monkeypatch, other):
    """The second begins before the first has a block, and when it has one."""
    put, n_refused = VectorWork.put, []

    def second(self, name, vectors):
        if len(n_refused) < 2:
            n_refused.append(name)
            with pytest.raises(
                KrisselError, match=r"K045.*\.out\.vectors\.partial.*choose another output"
            ):
                built(**other)
        put(self, name, vectors)

    expected = built("alone")
    monkeypatch.setattr(VectorWork, "put", second)
    assert_alike(built(), expected)
    assert len(n_refused) == 2


def test_missing_ray_raises(built, monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(KrisselError, match=r"K023.*spacy-krissel\[ray\]"):
        built(ray="local")


@pytest.mark.nightly
def test_ray_builds_the_same_as_one_process(built, trained, not_here):
    ray = pytest.importorskip("ray")
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    ray.init(address="local", num_cpus=2, include_dashboard=False, log_to_driver=False)
    try:
        with not_here():
            found = built(ray="local")
        assert_alike(found, built("one"))
        with pytest.raises(KrisselError, match="K024.*has no free GPU"):
            built("on_gpu", ray="local", gpu_id=0)
        with pytest.raises(KrisselError, match="K611"):
            encoder = EncoderOf(trained.parent / "nowhere", {}, "krissel_linker")
            with encoding_workers.encoding_actors(encoder, "local", -1) as encoders:
                encoders.begin([name_view("lung")])()
    finally:
        ray.shutdown()


@pytest.mark.nightly
def test_lost_actor_or_machine_leaves_the_kb_unchanged(built, tmp_path, not_here, monkeypatch):
    pytest.importorskip("ray")
    killed, lost = tmp_path / "killed", []

    def files(name):
        found = [path for path in (tmp_path / name).rglob("*") if path.is_file()]
        return {path.relative_to(tmp_path / name): path.read_bytes() for path in found}

    # Local classes are sent to the workers, which cannot import this module.
    class Mortal(encoding_workers.RayEncoder):
        n_begun = 0

        def encode(self, views):
            self.n_begun += 1
            if self.n_begun == 2:
                with suppress(FileExistsError):
                    killed.touch(exist_ok=False)
                    os.kill(os.getpid(), signal.SIGKILL)
            return super().encode(views)

    put = VectorWork.put
    with two_machines() as (_, lose_second):

        def losing(self, name, vectors):
            put(self, name, vectors)
            if not lost:
                lost.append(name)
                lose_second()

        with not_here():
            built("undisturbed", ray="local")
            with monkeypatch.context() as patch:
                patch.setattr(encoding_workers, "RayEncoder", Mortal)
                built("killed_actor", ray="local")
            with monkeypatch.context() as patch:
                patch.setattr(VectorWork, "put", losing)
                built("lost_machine", ray="local")
    assert killed.exists() and lost
    assert files("killed_actor") == files("undisturbed")
    assert files("lost_machine") == files("undisturbed")


def test_vectors_lost_with_their_machine_are_encoded_again():
    """They were made, and not fetched yet."""
    ray = pytest.importorskip("ray")

    class Fake:
        exceptions = ray.exceptions
        fetched = []  # noqa: RUF012 (of one test)

        def wait(self, answers, timeout, **settings):
            # No lost actor answers; what is to be fetched is done.
            return (answers, []) if settings else ([], answers)

        def get(self, vectors):
            self.fetched.append(vectors)
            if len(self.fetched) == 1:
                raise ray.exceptions.ObjectLostError("id", None, "")
            return vectors

    actors = object.__new__(encoding_workers.EncodingActors)
    actors._ray, actors._lost = Fake(), {}
    actors._actors = encoding_workers.deque([Actor("first"), Actor("second")])
    first = actors._actors[0]
    assert actors._result([name_view("asthma")], first, "lost") == "encoded by second"
    assert first in actors._lost.values()


class Actor:
    """Stands for one of Ray's."""

    def __init__(self, name):
        self.name = name
        self.encode = self.answer = self

    def options(self, **settings):
        return self

    def remote(self, *views):
        return f"encoded by {self.name}"
