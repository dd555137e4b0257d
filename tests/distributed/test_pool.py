"""Workers that are lost, and errors in them."""

import os
import signal
import subprocess
import sys
import textwrap
import time
from functools import partial

import pytest

from spacy_krissel.distributed import workers as distributed_workers
from spacy_krissel.distributed.pool import Event, Pool, workers
from spacy_krissel.distributed.workers import first_done, n_free_slots
from spacy_krissel.errors import Errors, KrisselError

pytestmark = pytest.mark.slow


def start(name):
    return partial(answer, name)


def answer(name, request):
    if request == "die":
        os.kill(os.getpid(), signal.SIGKILL)
    if request == "coded":
        raise KrisselError(Errors.K201.format(path=name, expected="a file"))
    if request == "other":
        raise ZeroDivisionError("by zero")
    return f"{name} {request} {os.getpid()}"


def refuse(name):
    raise KrisselError(Errors.K201.format(path=name, expected="a file"))


def ready(pool):
    """Wait until all workers are ready."""
    found = set()
    while len(found) < pool.n:
        worker, event = pool.receive()
        assert event is Event.READY
        found.add(worker)


def check_losses_and_errors(pool):
    ready(pool)
    pool.send(0, "die")
    pool.send(1, "a")
    found = dict([pool.receive(), pool.receive()])
    if found[0] is Event.LOST and 1 not in found:
        found.update([pool.receive()])
    assert found[0] is Event.LOST and found[1].startswith("w a ")
    # The lost one is replaced.
    assert pool.receive() == (0, Event.READY)
    pool.send(0, "b")
    worker, text = pool.receive()
    assert worker == 0 and text.startswith("w b ") and not text.endswith(found[1].split()[-1])
    pool.send(0, "coded")
    with pytest.raises(KrisselError, match="K201.*'w'"):
        pool.receive()
    pool.send(1, "other")
    with pytest.raises(RuntimeError, match="(?s)answer.*ZeroDivisionError: by zero"):
        pool.receive()
    # They go on after errors.
    pool.send(1, "c")
    worker, text = pool.receive()
    assert worker == 1 and text.startswith("w c ")
    pool.renew(1)
    assert pool.receive() == (1, Event.READY)
    pool.send(1, "d")
    worker, renewed = pool.receive()
    assert worker == 1 and renewed.startswith("w d ") and renewed.split()[-1] != text.split()[-1]


def test_lost_processes_are_replaced_and_errors_are_raised():
    with workers(partial(start, "w"), 2, None) as pool:
        check_losses_and_errors(pool)
        pids = pool.pids()
    for pid in pids:
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)
    with pytest.raises(KrisselError, match="K201"), workers(partial(refuse, "w"), 2, None) as pool:
        pool.receive()


@pytest.mark.nightly
def test_lost_actors_are_replaced_and_errors_are_raised():
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    ray = pytest.importorskip("ray")
    ray.shutdown()
    ray.init(address="local", num_cpus=2, include_dashboard=False, log_to_driver=False)
    try:
        with workers(partial(_start_by_value(), "w"), 1, "local") as pool:
            check_losses_and_errors(pool)
    finally:
        ray.shutdown()


def _start_by_value():
    """`start`, as functions that are sent whole: Ray's workers cannot import this module."""

    def answer_(name, request):
        if request == "die":
            os._exit(9)
        if request == "coded":
            raise KrisselError(Errors.K201.format(path=name, expected="a file"))
        if request == "other":
            raise ZeroDivisionError("by zero")
        return f"{name} {request} {os.getpid()}"

    answer_.__name__ = "answer"
    return lambda name: partial(answer_, name)


def test_worker_of_this_process_answers():
    pool = Pool(partial(start, "w"))
    assert pool.receive() == (0, Event.READY)
    pool.send(0, "a")
    assert pool.receive() == (0, f"w a {os.getpid()}")
    pool.renew(0)
    assert pool.receive() == (0, Event.READY)


@pytest.mark.nightly
def test_processes_end_with_a_killed_parent(tmp_path):
    code = f"""
        import sys
        sys.path.insert(0, {os.path.dirname(__file__)!r})
        from functools import partial
        from test_pool import ready, start
        from spacy_krissel.distributed.pool import workers
        with workers(partial(start, "w"), 2, None) as pool:
            ready(pool)
            print(*pool.pids(), flush=True)
            pool.receive()
    """
    driver = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(code)], stdout=subprocess.PIPE, text=True
    )
    pids = list(map(int, driver.stdout.readline().split()))
    assert len(pids) == 2
    driver.kill()
    driver.wait()
    until = time.monotonic() + 60
    while any(os.path.exists(f"/proc/{pid}") for pid in pids) and time.monotonic() < until:
        time.sleep(0.1)
    assert not any(os.path.exists(f"/proc/{pid}") for pid in pids)


class Cluster:
    """Stands for Ray, with two processors: `n_free` of them each time, the last number for good."""

    def __init__(self, *n_free):
        self.n_free = [*n_free]

    def available_resources(self):
        free = self.n_free.pop(0) if len(self.n_free) > 1 else self.n_free[0]
        # Ray leaves out what there is none of.
        return {"CPU": float(free)} if free else {}

    def cluster_resources(self):
        return {"CPU": 2.0}


def test_places_of_an_ended_run_are_waited_for(monkeypatch):
    monkeypatch.setattr(distributed_workers.time, "sleep", lambda seconds: None)
    assert n_free_slots(Cluster(0, 0, 1, 2), "CPU", "auto") == 2
    monkeypatch.setattr(distributed_workers, "SETTLED", 0.0)
    assert n_free_slots(Cluster(0, 1), "CPU", "auto") == 1
    monkeypatch.setattr(distributed_workers, "RELEASE", 0.0)
    with pytest.raises(KrisselError, match="K024.*10.0.0.1:6379.*no free CPU"):
        n_free_slots(Cluster(0), "CPU", "10.0.0.1:6379")
    monkeypatch.setattr(distributed_workers, "RELEASE", float("inf"))
    with pytest.raises(KrisselError, match="K024.*no free GPU"):
        n_free_slots(Cluster(2), "GPU", "auto")


class Node:
    """Ray with one machine, which is lost when its looks are used up."""

    def __init__(self, looks, done):
        self.looks, self.done = looks, done

    def wait(self, references, *, num_returns, timeout, fetch_local):
        self.looks -= 1
        done = references[:1] if self.looks == self.done else []
        return done, references[len(done) :]

    def get_runtime_context(self):
        return self

    def get_node_id(self):
        return "own"

    def nodes(self):
        return [{"NodeID": "other", "Alive": True}, {"NodeID": "own", "Alive": self.looks > 0}]


def test_a_run_does_not_wait_for_a_lost_node():
    assert first_done(Node(3, 1), {"a": 0, "b": 1}) == "a"
    with pytest.raises(KrisselError) as error:
        first_done(Node(3, -1), ["a"])
    assert error.value.code == "K029"
