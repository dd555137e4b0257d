"""`krissel serve` as a process: started, killed, started again, and refused."""

import json
import os
import queue
import re
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace

import pytest
import spacy
from command_line import invoke
from tiers import nightly

from spacy_krissel.cli.app import INTERRUPTED
from spacy_krissel.commands import serve_pipeline
from spacy_krissel.commands.serve_pipeline import serve
from spacy_krissel.errors import KrisselError
from spacy_krissel.pipeline import pipeline_io
from spacy_krissel.serving.listening import KEY, bound_sockets
from spacy_krissel.serving.processes import LinkProcess
from spacy_krissel.serving.service import LinkService

pytest.importorskip("fastapi")


def free_port():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return free.getsockname()[1]


RUNNING = []


@pytest.fixture(autouse=True)
def ended():
    yield
    while RUNNING:
        RUNNING.pop().process.kill()


class Served:
    """A running `krissel serve`, and requests to it."""

    def __init__(self, pipeline, *options, **environment):
        port = str(free_port())
        command = [
            sys.executable,
            "-m",
            "spacy",
            "krissel",
            "serve",
            str(pipeline),
            "--port",
            port,
            *map(str, options),
        ]
        self.address = f"http://127.0.0.1:{port}"
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        RUNNING.append(self)
        self.process = subprocess.Popen(
            command, env={**os.environ, **environment}, text=True, **pipes
        )
        end = time.monotonic() + 120
        while time.monotonic() < end and self.process.poll() is None:
            try:
                self.ask("/health")
                return
            except urllib.error.URLError:
                time.sleep(0.1)
        raise AssertionError(self.process.stderr.read())

    def ask(self, path, content=None):
        data = None if content is None else json.dumps(content).encode()
        request = urllib.request.Request(
            self.address + path, data, {"content-type": "application/json"}
        )
        with urllib.request.urlopen(request, timeout=30) as answer:
            return json.load(answer)

    def linker(self):
        """The process that links."""
        (found,) = linkers_of(self.process)
        return found

    def end(self, how):
        self.process.send_signal(how)
        return self.process.wait(60), self.process.stderr.read()


def linkers_of(process):
    # Each thread has children of its own.
    tasks = [*Path(f"/proc/{process.pid}/task").glob("*/children")]
    if not tasks:
        pytest.skip("no /proc that tells a process's children")
    children = " ".join(path.read_text() for path in tasks).split()
    return [int(child) for child in children if b"spawn_main" in commands(child)]


def commands(pid):
    """Return the command line of a process, or nothing if it has ended."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""


TEXT = "He had a cold."


@pytest.mark.slow
def test_accepted_corrections_survive_a_kill(saved, tmp_path):
    corrections = tmp_path / "corrections.jsonl"
    first = Served(saved, "--corrections", corrections)
    made = first.ask("/corrections", {"text": TEXT, "start": 9, "end": 13, "right": ["D3"]})
    linked = first.ask("/link", {"text": TEXT})
    assert linked["documents"][0]["mentions"][0]["kb_id"] == "D3"
    first.end(signal.SIGKILL)
    again = Served(saved, "--corrections", corrections)
    assert again.ask("/corrections")["corrections"] == [made]
    assert again.ask("/link", {"text": TEXT}) == linked
    code, said = again.end(signal.SIGTERM)
    assert code in (0, -signal.SIGTERM) and "Traceback" not in said
    # A line of JSON for each request, without its text.
    assert [json.loads(line)["route"] for line in said.splitlines()][-2:] == [
        "/corrections",
        "/link",
    ]
    assert "cold" not in said


def answered(service, text=TEXT):
    """The links of a text, when they are made again."""
    end = time.monotonic() + 60
    while True:
        try:
            return service.ask("/link", {"text": text})
        except urllib.error.HTTPError as error:
            assert error.code == 503 and time.monotonic() < end


@pytest.mark.nightly
@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_listening_process_loads_no_linking_library(saved, tmp_path):
    service = Served(saved, "--corrections", tmp_path / "corrections.jsonl")
    service.ask("/link", {"text": TEXT})
    service.ask("/corrections", {"text": TEXT, "start": 9, "end": 13, "right": ["D3"]})
    libraries = ("libtorch_cpu", "_multiarray_umath", "libarrow", "spacy/")
    listens, links = (
        Path(f"/proc/{pid}/maps").read_text() for pid in (service.process.pid, service.linker())
    )
    assert not any(each in listens for each in libraries) and all(
        each in links for each in libraries
    )
    assert b"spacy_krissel.cli.alone" in commands(service.process.pid)


@pytest.mark.slow
@pytest.mark.parametrize("kept", [True, nightly(False)])
def test_killed_linker_is_replaced(saved, tmp_path, kept):
    """Accepted corrections also count for its replacement, kept in a file or not."""
    service = Served(saved, *(["--corrections", tmp_path / "corrections.jsonl"] if kept else []))
    service.ask("/corrections", {"text": TEXT, "start": 9, "end": 13, "right": ["D3"]})
    linked, first = service.ask("/link", {"text": TEXT}), service.linker()
    assert linked["documents"][0]["mentions"][0]["kb_id"] == "D3"
    os.kill(first, signal.SIGKILL)
    assert answered(service) == linked and service.linker() != first
    assert service.ask("/health")["answering"] == 1
    service.end(signal.SIGTERM)


@pytest.mark.nightly
def test_service_ends_if_its_linker_cannot_be_replaced(saved, tmp_path):
    pipeline = shutil.copytree(saved, tmp_path / "pipeline")
    service = Served(pipeline)
    linker = service.linker()
    (pipeline / "config.cfg").unlink()
    os.kill(linker, signal.SIGKILL)
    assert service.process.wait(60) == 1
    said = service.process.stderr.read()
    assert "K685" in said and "config.cfg" in said and "Traceback" not in said


# A component that holds the interpreter until it is killed, as C code does.
HANGING = """
import ctypes
from spacy.language import Language

@Language.component("hang")
def hang(doc):
    if "hang" in doc.text:
        print("hangs", flush=True)
        # PyDLL keeps the lock of the interpreter.
        ctypes.PyDLL(None).sleep(600)
    return doc
"""


@pytest.fixture
def hanging(saved, tmp_path, monkeypatch):
    """A pipeline that never ends with some texts."""
    (tmp_path / "hanging.py").write_text(HANGING)
    monkeypatch.setenv(
        "PYTHONPATH", os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")])
    )
    # Read by each process before it loads the pipeline.
    (tmp_path / "sitecustomize.py").write_text(
        "import sys\nif 'spawn_main' in str(sys.orig_argv): import hanging\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    import hanging  # noqa: F401

    nlp = spacy.load(saved)
    nlp.add_pipe("hang", first=True)
    nlp.to_disk(tmp_path / "pipeline")
    return tmp_path / "pipeline"


def hang(service):
    """Ask for what never ends, and wait until it has begun. RETURNS: a function that gives its
    status."""
    statuses = queue.Queue()

    def ask():
        try:
            service.ask("/link", {"text": "hang"})
        except urllib.error.HTTPError as error:
            statuses.put(error.code)
        except OSError:
            statuses.put(0)

    threading.Thread(target=ask, daemon=True).start()
    while "hangs" not in service.process.stdout.readline():
        assert service.process.poll() is None
    return lambda: statuses.get(timeout=60)


@pytest.mark.nightly
def test_work_is_ended_after_its_timeout(hanging):
    service = Served(hanging, "--timeout", "2")
    linker = service.linker()
    status = hang(service)
    assert status() == 503
    assert (
        answered(service)["documents"][0]["mentions"]
        and service.linker() != linker
        and not commands(linker)
    )
    service.end(signal.SIGTERM)


@pytest.mark.slow
@pytest.mark.parametrize("how", [nightly(signal.SIGTERM), signal.SIGKILL])
def test_busy_linker_ends_with_its_service(hanging, how):
    service = Served(hanging, "--grace", "1")
    linker = service.linker()
    hang(service)
    start = time.monotonic()
    service.process.send_signal(how)
    service.process.wait(10)
    while commands(linker):
        assert time.monotonic() - start < 10
        time.sleep(0.05)


def test_port_in_use_raises(saved):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        done = invoke("serve", saved, "--port", port)
    assert done.exit_code == 1 and "[K693]" in done.output and "Serving" not in done.output
    with pytest.raises(KrisselError, match="K693.*192.0.2.1"):
        bound_sockets("192.0.2.1", port)


@pytest.mark.slow
def test_termination_finishes_accepted_requests(saved):
    """A supervisor ends a service together with its processes."""
    service = Served(
        saved,
        "--max-mentions",
        "20000",
        "--max-answer",
        "100000000",
        "--grace",
        "60",
        "--timeout",
        "60",
    )
    linker, text = service.linker(), "a cold " * 20_000
    with ThreadPoolExecutor(1) as pool:
        asked = pool.submit(service.ask, "/link", {"text": text})
        time.sleep(1.0)
        os.kill(linker, signal.SIGTERM)
        service.process.send_signal(signal.SIGTERM)
        assert len(asked.result(60)["documents"][0]["mentions"]) == 20_000
    assert service.process.wait(60) in (0, -signal.SIGTERM) and not commands(linker)


@pytest.mark.slow
def test_linker_that_dies_on_start_gives_a_coded_error(saved):
    command = [
        sys.executable,
        "-m",
        "spacy",
        "krissel",
        "serve",
        str(saved),
        "--port",
        str(free_port()),
        "--workers",
        "2",
    ]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    end = time.monotonic() + 60
    while len(found := linkers_of(process)) < 2:
        assert time.monotonic() < end
        time.sleep(0.01)
    os.kill(found[0], signal.SIGKILL)
    said = process.communicate(timeout=60)[1]
    assert process.returncode == 1 and "K685" in said and "Traceback" not in said


@pytest.mark.nightly
def test_linker_ends_when_its_service_is_killed(saved):
    service = Served(saved)
    linker = service.linker()
    service.end(signal.SIGKILL)
    end = time.monotonic() + 60
    while commands(linker):
        assert time.monotonic() < end
        time.sleep(0.1)


def test_other_hosts_without_a_key_raise(saved, monkeypatch):
    monkeypatch.delenv(KEY, raising=False)
    for host in ("0.0.0.0", "::", "example.org"):
        with pytest.raises(KrisselError, match=rf"K683.*{re.escape(host)}.*{KEY}"):
            serve(saved, host=host)


@pytest.mark.parametrize("key", ["", "secret"])
def test_only_known_host_names_are_answered_without_a_key(saved, monkeypatch, key):
    seen = []

    def make_app(*_, hosts, **__):
        seen.append(hosts)
        raise KeyboardInterrupt

    monkeypatch.setenv(KEY, key)
    # Set, so that it is put back afterwards.
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    monkeypatch.setattr("spacy_krissel.serving.app.make_app", make_app)
    monkeypatch.setattr(
        serve_pipeline, "LinkService", lambda *_, **__: SimpleNamespace(close=lambda: None)
    )
    for user_header in ("", "X-User"):
        with pytest.raises(KeyboardInterrupt):
            serve(
                saved, port=free_port(), user_header=user_header, server_names=["links.example.org"]
            )
        names = {"localhost", "127.0.0.1", "[::1]", "links.example.org"}
        assert set(seen.pop()) == (set() if key else names)


def test_unwritable_corrections_file_raises_before_loading(tmp_path):
    (tmp_path / "file").write_text("earlier")
    with pytest.raises(KrisselError, match="K026"):
        serve("nowhere", corrections=tmp_path / "file" / "corrections.jsonl")


def start_all(starts, *_, **__):
    """In place of a service."""
    for start in starts:
        start()


def test_each_process_takes_its_share_of_the_cpus(saved, monkeypatch):
    seen = []

    def start(*_, **__):
        seen.append(os.environ["OMP_NUM_THREADS"])
        raise KeyboardInterrupt

    monkeypatch.setattr(serve_pipeline, "LinkProcess", start)
    monkeypatch.setattr(serve_pipeline, "LinkService", start_all)
    monkeypatch.setattr(os, "cpu_count", lambda: 8)
    for given, expected in (("5", "5"), ("", "2")):
        # Set, so that it is put back afterwards.
        monkeypatch.setenv("OMP_NUM_THREADS", given)
        if not given:
            monkeypatch.delenv("OMP_NUM_THREADS")
        with pytest.raises(KeyboardInterrupt):
            serve(saved, port=free_port(), workers=3)
        assert seen.pop() == expected


def test_missing_extra_raises(saved, monkeypatch):
    monkeypatch.setitem(sys.modules, "uvicorn", None)
    with pytest.raises(KrisselError, match=r"K684.*spacy-krissel\[serve\]"):
        serve(saved)


def test_linking_process_chooses_its_own_gpu(saved):
    """The one that it is told, in the process that links: no machine has this one."""
    process = LinkProcess(saved, gpu_id=99)
    with pytest.raises(KrisselError, match="K675.*GPU 99"):
        LinkService([lambda: process])
    assert not process.process.is_alive()


def test_each_process_gets_its_own_gpu_if_there_are_enough(saved, monkeypatch):
    started = []
    # Set, so that it is put back afterwards.
    monkeypatch.setenv("OMP_NUM_THREADS", "1")

    def start(*_, gpu_id, index_device, **__):
        started.append((gpu_id, index_device))
        if len(started) == 2:
            raise KeyboardInterrupt

    def choose(*_, **__):
        raise AssertionError("the process that only listens takes memory of a GPU")

    monkeypatch.setattr(serve_pipeline, "LinkProcess", start)
    monkeypatch.setattr(serve_pipeline, "LinkService", start_all)
    monkeypatch.setattr(pipeline_io, "choose_gpu", choose)
    for gpus, gpu_id, expected in ((3, 1, [1, 2]), (2, 1, [1, 1]), (2, -1, [-1, -1])):
        monkeypatch.setattr("torch.cuda.device_count", lambda gpus=gpus: gpus)
        words = (
            "--port",
            free_port(),
            "--workers",
            "2",
            "--gpu-id",
            gpu_id,
            "--index-device",
            "cuda:1",
        )
        assert invoke("serve", saved, *words).exit_code == INTERRUPTED
        assert started == [(each, "cuda:1") for each in expected]
        started.clear()
