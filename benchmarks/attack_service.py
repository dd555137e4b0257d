"""Attacks on a service, while another client sends a normal request every second.

    python benchmarks/attack_service.py PIPELINE

The attacks run one after the other, each from several clients at once: long runs of brackets, a
text of short forms only, annotations of INCEpTION within one word, headers and bodies that do not
end. At the end the service is told to shut down while it links brackets. Prints the longest wait of
the other client, the peak memory of all processes (shared pages once; `max_rss` counts them per
process), `/health`, the seconds until the service has ended, and the number of its remaining
processes. Exits with code 1 if a limit is exceeded: 5 s, 1.5 GB, 10 s, none. Needs Linux (/proc).
"""

import http.client
import json
import os
import signal
import socket
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Any

import typer
from serving_load import start_service

RESULT = Path(__file__).parent / "results" / "attack_service.json"
MAX_WAIT, MAX_BYTES, MAX_END = 5.0, 1_500_000_000, 10.0
# Seconds for which connections are held.
HELD = 12.0
QUESTION = json.dumps({"text": "She had multiple sclerosis and a myocardial infarction."}).encode()
LAYER = "custom.Span"


def main(
    pipeline: Annotated[Path, typer.Argument(help="A pipeline with a linker")],
    workers: Annotated[int, typer.Option(help="Number of worker processes")] = 2,
    timeout: Annotated[int, typer.Option(help="Timeout of the service, in seconds")] = 30,
    scale: Annotated[float, typer.Option(help="Scale of the attacks; 1 is full size")] = 1.0,
    clients: Annotated[int, typer.Option(help="Number of clients that attack at once")] = 4,
    output: Annotated[Path, typer.Option(help="Result (JSON)")] = RESULT,
) -> None:
    """Attack the service, and print the results."""
    process, port = start_service(pipeline, "--workers", str(workers), "--timeout", str(timeout))
    watch = Watch(process.pid, port)
    statuses: dict[str, dict[str, int]] = {}
    try:
        for name, attack in attacks(scale).items():
            print(f"{name} …", flush=True)
            statuses[name] = dict(at_once(attack, port, clients))
            watch.next(name)
        at_last = threading.Thread(
            target=at_once, args=(attacks(scale)["brackets"], port, clients), daemon=True
        )
        at_last.start()
        time.sleep(0.5)
        result = watch.end()
        pids = processes(process.pid)
        start = time.monotonic()
        process.send_signal(signal.SIGTERM)
        with suppress(Exception):
            process.wait(60)
        result["seconds_to_end"] = time.monotonic() - start
        # One process more: Python's resource tracker.
        time.sleep(1)
        left = [pid for pid in pids if is_running(pid)]
        result |= {"left": len(left), "statuses": statuses}
    finally:
        for pid in processes(process.pid):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
    result["setup"] = {
        "pipeline": pipeline.name,
        "workers": workers,
        "timeout": timeout,
        "scale": scale,
        "cpus": os.cpu_count(),
    }
    output.parent.mkdir(parents=True, exist_ok=True)
    output.write_text(json.dumps(result, indent=2) + "\n", encoding="utf8")
    for key, value in result.items():
        print(f"{key}: {json.dumps(value)}")
    held = {
        "longest wait": result["longest_wait"] <= MAX_WAIT and set(result["answered"]) == {"200"},
        "memory": result["max_bytes"] < MAX_BYTES,
        "end": result["seconds_to_end"] < MAX_END and not result["left"],
    }
    if not all(held.values()):
        sys.exit(
            f"Beyond its limit: {', '.join(name for name, is_held in held.items() if not is_held)}"
        )


def attacks(scale: float) -> dict[str, Callable[[int], str]]:
    """Return the attacks by name: functions of the port that return a status."""
    n = int(100_000 * scale)
    texts = {"brackets": "(" * n, "short forms": "MS " * int(333_000 * scale)}
    asked = {name: (json.dumps({"text": text}).encode(), "/link") for name, text in texts.items()}
    asked["annotations"] = (
        json.dumps(annotations(int(2_000 * scale))).encode(),
        "/inception/iri/predict",
    )
    found: dict[str, Callable[[int], str]] = {
        name: lambda port, body=body, path=path: ask(port, path, body)
        for name, (body, path) in asked.items()
    }
    found["headers"] = lambda port: unfinished(
        port, int(250 * scale), b"GET /health HTTP/1.1\r\nHost: local"
    )
    size = int(12_000_000 * scale)
    head = (
        "POST /link HTTP/1.1\r\nHost: localhost\r\ncontent-type: application/json\r\n"
        f"content-length: {size}\r\n\r\n"
    )
    found["bodies"] = lambda port: unfinished(
        port, int(25 * min(1, scale * 10)), head.encode() + b" " * (size - 1)
    )
    return found


def annotations(n: int) -> dict[str, Any]:
    """Return a document of INCEpTION: a word with `n` nested annotations."""
    import cassis

    types = cassis.TypeSystem()
    layer = types.create_type(LAYER, "uima.tcas.Annotation")
    types.create_feature(layer, "identifier", "uima.cas.String")
    cas = cassis.Cas(typesystem=types)
    cas.sofa_string, cas.sofa_mime = "a" * 2 * n, "text"
    for i in range(n):
        cas.add(layer(begin=i, end=2 * n - i))
    metadata = {"layer": LAYER, "feature": "identifier"}
    return {"metadata": metadata, "document": {"xmi": cas.to_xmi()}, "typeSystem": types.to_xml()}


def at_once(attack: Callable[[int], str], port: int, clients: int) -> Counter[str]:
    """Return the statuses of clients that attack at once."""
    statuses: Counter[str] = Counter()
    threads = [
        threading.Thread(target=lambda: statuses.update([attack(port)])) for _ in range(clients)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return statuses


def ask(port: int, path: str, body: bytes | None = None, seconds: float = 120.0) -> str:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=seconds)
    try:
        method = "GET" if body is None else "POST"
        connection.request(method, path, body, {"content-type": "application/json"})
        answer = connection.getresponse()
        answer.read()
        return str(answer.status)
    except (OSError, http.client.HTTPException) as error:
        return type(error).__name__
    finally:
        connection.close()


def unfinished(port: int, n: int, content: bytes) -> str:
    """Open `n` connections, send `content` on each, and hold them for `HELD` seconds."""
    held = []
    for _ in range(n):
        with suppress(OSError):
            held.append(socket.create_connection(("127.0.0.1", port), timeout=2))
            held[-1].sendall(content)
    time.sleep(HELD)
    for each in held:
        each.close()
    return f"{len(held)} opened"


class Watch:
    """The other client, and the memory of the service."""

    def __init__(self, pid: int, port: int) -> None:
        self.pid, self.port = pid, port
        self.waits: dict[str, float] = {}
        self.answered: Counter[str] = Counter()
        self.health: Counter[str] = Counter()
        self.bytes: dict[str, tuple[int, int]] = {}
        self._most = (0, 0)
        self._longest, self._is_open = 0.0, True
        self._threads = [
            threading.Thread(target=each, daemon=True) for each in (self._ask, self._measure)
        ]
        for thread in self._threads:
            thread.start()

    def next(self, name: str) -> None:
        """Record the end of an attack."""
        self.waits[name], self._longest = self._longest, 0.0
        self.bytes[name], self._most = self._most, (0, 0)

    def end(self) -> dict[str, Any]:
        self._is_open = False
        for thread in self._threads:
            thread.join()
        self.next("end")
        return {
            "longest_wait": max(self.waits.values()),
            "waits": self.waits,
            "max_rss": max(rss for rss, _ in self.bytes.values()),
            "max_bytes": max(pss for _, pss in self.bytes.values()),
            "bytes": self.bytes,
            "answered": dict(self.answered),
            "health": dict(self.health),
        }

    def _ask(self) -> None:
        while self._is_open:
            start = time.monotonic()
            self.answered[ask(self.port, "/link", QUESTION)] += 1
            wait = time.monotonic() - start
            self._longest = max(self._longest, wait)
            self.health[ask(self.port, "/health")] += 1
            time.sleep(max(0.0, 1.0 - wait))

    def _measure(self) -> None:
        while self._is_open:
            found = [own_bytes(pid) for pid in processes(self.pid)]
            rss, pss = (sum(each) for each in zip(*found, strict=True))
            self._most = max(self._most[0], rss), max(self._most[1], pss)
            time.sleep(0.1)


def processes(pid: int) -> list[int]:
    """Return a process and all its descendants."""
    found = [pid]
    for each in found:
        for path in Path(f"/proc/{each}/task").glob("*/children"):
            with suppress(OSError):
                found.extend(map(int, path.read_text().split()))
    return [each for each in found if is_running(each)]


def is_running(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def own_bytes(pid: int) -> tuple[int, int]:
    """Return resident memory, and the process's part of shared memory (Pss), such as libraries and
    the mapped pipeline."""
    found = {"Rss": 0, "Pss": 0}
    with suppress(OSError):
        for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
            name, _, rest = line.partition(":")
            if name in found:
                found[name] = 1024 * int(rest.split()[0])
    return found["Rss"], found["Pss"]


if __name__ == "__main__":
    typer.run(main)
