"""Mining by Ray, on this machine."""

import contextlib
import os
import signal
import sys
from unittest.mock import Mock

import pytest
from ray_machines import two_machines
from tiers import first_of

from spacy_krissel.errors import KrisselError, KrisselWarning
from spacy_krissel.mining import reading as reading_module
from spacy_krissel.mining import workers
from spacy_krissel.mining.mine import mine
from spacy_krissel.mining.shards import MentionShards
from spacy_krissel.mining.work import WorkDirectory

# Texts of other files bear these, too.
SAME = {f"same{i}": f"glioma {i}" for i in range(3)}


@pytest.fixture(scope="module")
def cluster():
    """Ray on two processors, for all tests."""
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    ray = pytest.importorskip("ray")
    ray.init(address="local", num_cpus=2, include_dashboard=False, log_to_driver=False)
    yield ray
    ray.shutdown()


@pytest.fixture
def folder(write_texts, tmp_path, monkeypatch):
    """30 files of 50 texts, each a unit."""
    monkeypatch.setattr(reading_module, "UNIT_BYTES", 1)
    for i in range(30):
        texts = {f"t{i}-{j}": f"{i} {j} tumor, lung cancer, AIDS and glioma" for j in range(50)}
        path = write_texts({**SAME, **texts}, f"in/{i:02}.jsonl")
        path.write_text(path.read_text() + "no JSON\n")
    return tmp_path / "in"


SETTINGS = {"cap": 20, "chunk_chars": 400}


@pytest.fixture
def expected(ontology, folder, tmp_path, read_bytes):
    """Return the files and warnings of a run in one process."""
    with pytest.warns(KrisselWarning) as found:
        mine(ontology, folder, tmp_path / "expected", **SETTINGS)
    return read_bytes(tmp_path / "expected"), [str(each.message) for each in found]


@pytest.mark.slow
def test_ray_writes_the_same_shards_as_one_process(
    cluster, ontology, folder, tmp_path, expected, read_bytes
):
    with pytest.warns(KrisselWarning) as found:
        report = mine(ontology, folder, tmp_path / "s", ray="local", **SETTINGS)
    assert (read_bytes(tmp_path / "s"), [str(each.message) for each in found]) == expected
    assert report.manifest["counts"]["repeated_ids"] == 29 * len(SAME)
    assert cluster.is_initialized(), "the program's own connection is left alone"


@pytest.mark.slow
@pytest.mark.parametrize("task", first_of(["_read_on_ray", "_mine_on_ray"]))
def test_worker_killed_in_a_task_changes_no_shards(
    cluster, ontology, folder, tmp_path, expected, read_bytes, monkeypatch, task
):
    killed = tmp_path / "killed"
    read, mine_ = workers._read_on_ray, workers._mine_on_ray

    def end_once():
        with contextlib.suppress(FileExistsError):
            killed.touch(exist_ok=False)
            os.kill(os.getpid(), signal.SIGKILL)

    # Local functions are sent to the workers, which cannot import this module.
    def read_and_end(unit, number, chunk_chars):
        for place, part in enumerate(read(unit, number, chunk_chars)):
            # Between the second chunk and its texts.
            if number == 12 and place == 3:
                end_once()
            yield part

    def mine_and_end(miner, limits, texts, new):
        if texts and texts[0].id.startswith("t12-"):
            end_once()
        return mine_(miner, limits, texts, new)

    monkeypatch.setattr(
        workers, task, {"_read_on_ray": read_and_end, "_mine_on_ray": mine_and_end}[task]
    )
    with pytest.warns(KrisselWarning):
        mine(ontology, folder, tmp_path / "s", ray="local", **SETTINGS)
    assert killed.exists()
    assert read_bytes(tmp_path / "s") == expected[0]


class Stop(Exception):
    pass


@pytest.mark.nightly
def test_ray_and_processes_can_resume_each_other(
    cluster, ontology, folder, tmp_path, expected, read_bytes, monkeypatch
):
    add = WorkDirectory.add

    def stopping(self, *args):
        if len(self) == 70:
            raise Stop
        add(self, *args)

    for first, then in (({"ray": "local"}, {"n_process": 2}), ({}, {"ray": "local"})):
        with monkeypatch.context() as patch, pytest.raises(Stop):
            patch.setattr(WorkDirectory, "add", stopping)
            mine(ontology, folder, tmp_path / "s", **SETTINGS, **first)
        with pytest.warns(KrisselWarning):
            report = mine(ontology, folder, tmp_path / "s", **SETTINGS, **then)
        assert report.matched_bytes < report.manifest["counts"]["bytes"]
        assert read_bytes(tmp_path / "s") == expected[0]


@pytest.mark.slow
def test_reader_error_keeps_its_code_in_ray(cluster, ontology, folder, tmp_path):
    (folder / "07.jsonl").write_text("no JSON at all\n")
    with pytest.raises(KrisselError, match=r"^\[K209\].*07\.jsonl"):
        mine(ontology, folder, tmp_path / "s", ray="local", **SETTINGS)
    assert not (tmp_path / "s").exists()


@pytest.mark.slow
def test_repeatedly_lost_work_raises(cluster, ontology, folder, tmp_path, monkeypatch):
    monkeypatch.setattr("spacy_krissel.mining.workers._mine_on_ray", lambda *args: os._exit(9))
    monkeypatch.setattr("spacy_krissel.mining.workers.MAX_RETRIES", 0)
    with pytest.raises(KrisselError, match=r"^\[K025\]"):
        mine(ontology, folder, tmp_path / "s", ray="local", **SETTINGS)
    assert not (tmp_path / "s").exists()


def test_missing_ray_raises(ontology, write_texts, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(KrisselError, match=r"K023.*spacy-krissel\[ray\]"):
        mine(ontology, write_texts({"a": "glioma"}), tmp_path / "s", ray="local")


def test_n_process_with_ray_raises(ontology, write_texts, tmp_path):
    with pytest.raises(KrisselError, match="K006.*'n_process'"):
        mine(ontology, write_texts({"a": "glioma"}), tmp_path / "s", ray="local", n_process=2)


@pytest.mark.nightly
def test_temporary_cluster_ends_and_a_missing_one_raises(
    cluster, ontology, write_texts, tmp_path, monkeypatch
):
    """After the others, since it ends their connection."""
    cluster.shutdown()
    texts = write_texts({"a": "glioma"})
    mine(ontology, texts, tmp_path / "s", ray="local")
    assert [m.doc for m in MentionShards(tmp_path / "s")] == ["a"]
    assert not cluster.is_initialized()
    # Where no other program has noted the address of its cluster, nor is seen to run one, as a test
    # beside this may.
    monkeypatch.setenv("RAY_TMPDIR", str(tmp_path))
    monkeypatch.setattr("ray._private.services.find_gcs_addresses", Mock(return_value=frozenset()))
    with pytest.raises(KrisselError, match=r"K024.*'auto'"):
        mine(ontology, texts, tmp_path / "s", ray="auto")


@pytest.mark.nightly
def test_lost_machine_changes_no_shards(
    ontology, folder, tmp_path, expected, read_bytes, monkeypatch
):
    """Last, since a program has one connection."""
    # The connection of the tests before, unless another process of pytest ran the one that ends it.
    pytest.importorskip("ray").shutdown()
    add = WorkDirectory.add
    with two_machines() as (_, lose_second):

        def losing(self, *args):
            if len(self) == 60:  # of some 180
                lose_second()
            add(self, *args)

        monkeypatch.setattr(WorkDirectory, "add", losing)
        with pytest.warns(KrisselWarning):
            mine(ontology, folder, tmp_path / "s", ray="local", **SETTINGS)
    assert read_bytes(tmp_path / "s") == expected[0]
