"""`krissel serve` as a process: started, killed, started again, and refused."""

import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from command_line import invoke

from spacy_krissel.cli.app import INTERRUPTED
from spacy_krissel.commands import serve_pipeline
from spacy_krissel.commands.serve_pipeline import KEY, serve
from spacy_krissel.errors import KrisselError
from spacy_krissel.pipeline import pipeline_io
from spacy_krissel.serving.service import LinkProcess, LinkService

pytest.importorskip("fastapi")


class Served:
    """A running `krissel serve`, and requests to it."""

    def __init__(self, pipeline, *options, **environment):
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = str(free.getsockname()[1])
        command = [sys.executable, "-m", "spacy", "krissel", "serve", str(pipeline), "--port", port, *map(str, options)]
        self.address = f"http://127.0.0.1:{port}"
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        self.process = subprocess.Popen(command, env={**os.environ, **environment}, text=True, **pipes)
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
        request = urllib.request.Request(self.address + path, data, {"content-type": "application/json"})
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
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children")
    if not children.exists():
        pytest.skip("no /proc that tells a process's children")
    return [int(child) for child in children.read_text().split() if b"spawn_main" in commands(child)]


def commands(pid):
    """What a process was started with; nothing where it has ended."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""


TEXT = "He had a cold."


def test_a_killed_service_loses_a_correction_that_it_accepted(saved, tmp_path):
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
    assert [json.loads(line)["route"] for line in said.splitlines()][-2:] == ["/corrections", "/link"]
    assert "cold" not in said


def test_a_service_goes_on_without_a_linker(saved, tmp_path):
    corrections = tmp_path / "corrections.jsonl"
    service = Served(saved, "--corrections", corrections)
    made = service.ask("/corrections", {"text": TEXT, "start": 9, "end": 13, "right": ["D3"]})
    os.kill(service.linker(), signal.SIGKILL)
    assert service.process.wait(60) == 1
    assert "K685" in service.process.stderr.read()
    assert [json.loads(line)["id"] for line in corrections.read_text().splitlines()] == [made["id"]]


def test_the_end_of_all_loses_what_was_asked(saved):
    """As a supervisor ends a service: with its processes, at once."""
    service = Served(saved)
    linker, text = service.linker(), "a cold " * 20_000
    with ThreadPoolExecutor(1) as pool:
        asked = pool.submit(service.ask, "/link", {"text": text})
        time.sleep(1.0)
        os.kill(linker, signal.SIGTERM)
        service.process.send_signal(signal.SIGTERM)
        assert len(asked.result(60)["documents"][0]["mentions"]) == 20_000
    assert service.process.wait(60) in (0, -signal.SIGTERM) and not commands(linker)


def test_a_linker_that_ends_while_it_begins_ends_in_a_traceback(saved):
    command = [sys.executable, "-m", "spacy", "krissel", "serve", str(saved), "--port", "9", "--workers", "2"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    end = time.monotonic() + 60
    while len(found := linkers_of(process)) < 2:
        assert time.monotonic() < end
        time.sleep(0.01)
    os.kill(found[0], signal.SIGKILL)
    said = process.communicate(timeout=60)[1]
    assert process.returncode == 1 and "K685" in said and "Traceback" not in said


def test_a_linker_goes_on_without_its_service(saved):
    service = Served(saved)
    linker = service.linker()
    service.end(signal.SIGKILL)
    end = time.monotonic() + 60
    while commands(linker):
        assert time.monotonic() < end
        time.sleep(0.1)


def test_others_are_let_in_without_a_key(saved, monkeypatch):
    monkeypatch.delenv(KEY, raising=False)
    for host in ("0.0.0.0", "::", "example.org"):
        with pytest.raises(KrisselError, match=rf"K683.*{re.escape(host)}.*{KEY}"):
            serve(saved, host=host)


def test_a_file_that_cannot_be_written_is_refused_after_the_work(tmp_path):
    (tmp_path / "file").write_text("earlier")
    with pytest.raises(KrisselError, match="K026"):
        serve("nowhere", corrections=tmp_path / "file" / "corrections.jsonl")


def test_each_process_takes_its_share_of_the_processors(saved, monkeypatch):
    seen = []

    def start(*_, **__):
        seen.append(os.environ["OMP_NUM_THREADS"])
        raise KeyboardInterrupt

    monkeypatch.setattr(serve_pipeline, "LinkProcess", start)
    monkeypatch.setattr(os, "cpu_count", lambda: 8)
    for given, expected in (("5", "5"), ("", "2")):
        # Set, so that it is put back afterwards.
        monkeypatch.setenv("OMP_NUM_THREADS", given)
        if not given:
            monkeypatch.delenv("OMP_NUM_THREADS")
        with pytest.raises(KeyboardInterrupt):
            serve(saved, workers=3)
        assert seen.pop() == expected


def test_a_missing_extra_is_an_import_error(saved, monkeypatch):
    monkeypatch.setitem(sys.modules, "uvicorn", None)
    with pytest.raises(KrisselError, match=r"K684.*spacy-krissel\[serve\]"):
        serve(saved)


def test_each_process_chooses_its_own_gpu(saved):
    """The one that it is told, in the process that links: no machine has this one."""
    process = LinkProcess(saved, gpu_id=99)
    with pytest.raises(KrisselError, match="K675.*GPU 99"):
        LinkService([process.connection])
    process.process.join(60)


def test_processes_have_a_gpu_each_where_there_are_enough(saved, monkeypatch):
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
    monkeypatch.setattr(pipeline_io, "choose_gpu", choose)
    for gpus, gpu_id, expected in ((3, 1, [1, 2]), (2, 1, [1, 1]), (2, -1, [-1, -1])):
        monkeypatch.setattr("torch.cuda.device_count", lambda gpus=gpus: gpus)
        words = ("--workers", "2", "--gpu-id", gpu_id, "--index-device", "cuda:1")
        assert invoke("serve", saved, *words).exit_code == INTERRUPTED
        assert started == [(each, "cuda:1") for each in expected]
        started.clear()
