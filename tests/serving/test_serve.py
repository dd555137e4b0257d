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
from pathlib import Path

import pytest

from spacy_krissel.commands.serve_pipeline import KEY, serve
from spacy_krissel.errors import KrisselError

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
        pid = self.process.pid
        children = Path(f"/proc/{pid}/task/{pid}/children")
        if not children.exists():
            pytest.skip("no /proc that tells a process's children")
        found = [child for child in children.read_text().split() if b"spawn_main" in commands(child)]
        assert len(found) == 1
        return int(found[0])

    def end(self, how):
        self.process.send_signal(how)
        return self.process.wait(60), self.process.stderr.read()


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


def test_a_missing_extra_is_an_import_error(saved, monkeypatch):
    monkeypatch.setitem(sys.modules, "uvicorn", None)
    with pytest.raises(KrisselError, match=r"K684.*spacy-krissel\[serve\]"):
        serve(saved)
