import gc
import multiprocessing
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

import spacy_krissel
from spacy_krissel.errors import KrisselError
from spacy_krissel.util import disk
from spacy_krissel.util import work_folder as module
from spacy_krissel.util.work_folder import STATE, FolderLock, WorkFolder

LOCKS = pytest.mark.skipif(not hasattr(os, "fork"), reason="needs folders that can be locked")


class Work(WorkFolder):
    def has_work(self):
        return (self.path / "work").exists()

    def refusal(self, difference):
        return KrisselError(f"other state: {difference}")


def started(path, state=None, restart=False):
    work = Work(path)
    work.start(state or {}, restart=restart)
    return work


def unlock(monkeypatch):
    """Make locking unavailable."""
    monkeypatch.setattr(module, "try_lock", lambda path: None)


@LOCKS
def test_second_run_in_one_process_is_refused(tmp_path):
    with started(tmp_path / "w") as work:
        work.write("work", b"1")
        for restart in (False, True):
            with pytest.raises(
                KrisselError, match="K045.*'.*/w'.*same output.*choose another output"
            ):
                started(tmp_path / "w", restart=restart)
        assert (tmp_path / "w" / "work").read_bytes() == b"1"
    with started(tmp_path / "w"):
        assert (tmp_path / "w" / "work").read_bytes() == b"1"


@LOCKS
def test_only_one_thread_gets_the_folder(tmp_path):
    outcomes, barrier, done = [], threading.Barrier(8), threading.Event()

    def run():
        barrier.wait()
        try:
            with started(tmp_path / "w"):
                outcomes.append("at work")
                done.wait(30)
        except KrisselError as error:
            outcomes.append(error.code)

    threads = [threading.Thread(target=run) for _ in range(8)]
    for thread in threads:
        thread.start()
    while len(outcomes) < 8 and any(thread.is_alive() for thread in threads):
        time.sleep(0.01)
    done.set()
    for thread in threads:
        thread.join()
    assert sorted(outcomes) == ["K045"] * 7 + ["at work"]


SCRIPT = """
import sys, time
from pathlib import Path
from spacy_krissel.util.work_folder import FolderLock
lock = FolderLock(Path(sys.argv[1]))
print("held", flush=True)
time.sleep(60)
"""


@LOCKS
def test_killed_process_releases_its_folder(tmp_path):
    environment = {**os.environ, "PYTHONPATH": str(Path(spacy_krissel.__file__).parent.parent)}
    command = [sys.executable, "-c", SCRIPT, str(tmp_path / "w")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, env=environment) as process:
        assert process.stdout.readline() == b"held\n"
        with pytest.raises(KrisselError, match="K045"):
            FolderLock(tmp_path / "w")
        process.send_signal(signal.SIGKILL)
    assert FolderLock(tmp_path / "w").held


@LOCKS
def test_forked_worker_does_not_hold_the_folder(tmp_path):
    lock = FolderLock(tmp_path / "w")
    context = multiprocessing.get_context("fork")
    started = context.Event()
    worker = context.Process(target=lambda: (started.set(), time.sleep(60)))
    worker.start()
    try:
        assert started.wait(60)
        with pytest.raises(KrisselError, match="K045"):
            FolderLock(tmp_path / "w")
        lock.release()
        assert FolderLock(tmp_path / "w").held
    finally:
        worker.kill()
        worker.join()


@LOCKS
def test_folder_removed_while_locking_is_created_again(tmp_path, monkeypatch):
    """The lock would be on what is no longer there, and a third run could have the folder too."""
    first = started(tmp_path / "w")
    try_lock = disk.try_lock

    def too_late(path):
        # Between the folder's being found and locked.
        if path.name == "w" and first._lock.held:
            handle = os.open(path, os.O_RDONLY)
            first.remove()
            import fcntl

            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return handle
        return try_lock(path)

    monkeypatch.setattr(module, "try_lock", too_late)
    with started(tmp_path / "w"):
        with pytest.raises(KrisselError, match="K045"):
            started(tmp_path / "w")


@pytest.mark.parametrize("locks", [pytest.param(True, marks=LOCKS), False])
def test_work_of_another_state_is_kept(tmp_path, monkeypatch, locks):
    if not locks:
        unlock(monkeypatch)
    with started(tmp_path / "w", {"a": 1, "b": [1]}) as work:
        work.write("work", b"1")
    with pytest.raises(KrisselError, match="other state: a was 1 and is 2; b changed"):
        started(tmp_path / "w", {"a": 2, "b": [2]})
    # The refused run does not keep the folder.
    with started(tmp_path / "w", {"a": 1, "b": (1,)}):
        assert (tmp_path / "w" / "work").read_bytes() == b"1"
    with started(tmp_path / "w", {"a": 2}, restart=True):
        assert [path.name for path in (tmp_path / "w").iterdir()] == [STATE]


def test_state_without_work_is_replaced(tmp_path):
    for number in range(3):
        with started(tmp_path / "w", {"a": number}):
            pass
        gc.collect()
    (tmp_path / "w").mkdir(exist_ok=True)
    (tmp_path / "w" / STATE).write_text('{"a": 7}')
    (tmp_path / "w" / "left").mkdir()
    (tmp_path / "w" / "left" / "x.tmp").write_text("half")
    with started(tmp_path / "w", {"a": 8}):
        assert [path.name for path in (tmp_path / "w").iterdir()] == [STATE]


@LOCKS
def test_run_without_work_removes_its_folder(tmp_path):
    with pytest.raises(ZeroDivisionError), started(tmp_path / "w"):
        raise ZeroDivisionError
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    "content", ["", "{", "[]", "null", "[" * 100_000, '{"a":' * 100_000, '{"a": 1}\0', "\xff"]
)
def test_damaged_state_raises(tmp_path, content):
    (tmp_path / "w").mkdir()
    (tmp_path / "w" / STATE).write_bytes(content.encode("latin1"))
    (tmp_path / "w" / "work").write_text("1")
    with pytest.raises(KrisselError, match=f"other state: its {STATE} cannot be read"):
        started(tmp_path / "w", {"a": 1})
    (tmp_path / "w" / "work").unlink()
    started(tmp_path / "w", {"a": 1})


def test_half_removed_folder_is_reused(tmp_path):
    """By a run that was killed when all was done."""
    with started(tmp_path / "w", {"a": 1}) as work:
        work.write("work", b"1")
    (tmp_path / "w" / STATE).unlink()
    with started(tmp_path / "w", {"a": 2}):
        assert [path.name for path in (tmp_path / "w").iterdir()] == [STATE]


def test_run_without_locks_detects_that_its_folder_was_taken(tmp_path, monkeypatch):
    unlock(monkeypatch)
    first = started(tmp_path / "w", {"a": 1})
    assert not first._lock.held
    first.check()
    started(tmp_path / "w", {"a": 1})
    first.check()
    started(tmp_path / "w", {"a": 2})
    with pytest.raises(KrisselError, match="K045"):
        first.check()
    assert first.temporary("x") != first.temporary("x")


def test_disk_errors_are_coded(tmp_path):
    (tmp_path / "file").write_text("mine")
    with pytest.raises(KrisselError, match="K026"):
        started(tmp_path / "file")
    with pytest.raises(KrisselError, match="K026"):
        started(tmp_path / "file" / "w")
