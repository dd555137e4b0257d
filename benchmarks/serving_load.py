"""Load test of `krissel serve` with concurrent clients: throughput, latency, and behaviour under
overload.

    python benchmarks/serving_load.py PIPELINE --gold dev.spacy

Each request is a document with its gold mentions. The service has its own processes and the clients
are threads of this one, so they share the processor. For comparison, the pipeline links the same
texts and mentions by `nlp.pipe` in one process. Then ten times as many clients ask a service with a
short queue, and after that a single client. Writes `results/serving_load.json`.
"""

import http.client
import json
import os
import socket
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import spacy
import typer
from kb_at_size import processor
from spacy.tokens import DocBin

from spacy_krissel.pipeline.pipeline_io import mention_setters
from spacy_krissel.serving.corrected import CorrectedLinker, Document, Mention

RESULT = Path(__file__).parent / "results" / "serving_load.json"
TOO_MANY, FEW = 10, 8


def main(
    pipeline: Annotated[Path, typer.Argument(help="A pipeline with a linker")],
    gold: Annotated[list[Path], typer.Option(help=".spacy file with mentions, repeatable")],
    clients: Annotated[int, typer.Option()] = 16,
    seconds: Annotated[float, typer.Option()] = 60.0,
    workers: Annotated[int, typer.Option(help="Number of worker processes")] = 2,
    output: Annotated[Path, typer.Option(help="Result (JSON)")] = RESULT,
) -> None:
    """Send requests, and print the results."""
    documents = read(pipeline, gold)
    bodies = [json.dumps({"documents": [document]}).encode() for document in documents]
    result: dict[str, Any] = {"pipe_documents_per_second": pipe_rate(pipeline, documents)}
    for name, n in (("one_worker", 1), ("load", workers)):
        with served(pipeline, "--workers", str(n)) as port:
            asked(port, bodies, clients, min(seconds, 5.0))
            result[name] = asked(port, bodies, clients, seconds)
            result[name]["ratio"] = result[name]["per_second"] / result["pipe_documents_per_second"]
    with served(pipeline, "--workers", str(workers), "--max-waiting", str(FEW)) as port:
        result["overload"] = asked(port, bodies, TOO_MANY * clients, min(seconds, 10.0))
        result["after"] = asked(port, bodies, 1, 2.0)
    result["setup"] = {
        "pipeline": pipeline.name,
        "clients": clients,
        "workers": workers,
        "seconds": seconds,
        "documents": len(documents),
        "mentions": sum(len(document["mentions"]) for document in documents),
        "processor": processor(),
        "cpus": os.cpu_count(),
    }
    output.parent.mkdir(parents=True, exist_ok=True)
    output.write_text(json.dumps(result, indent=2) + "\n", encoding="utf8")
    print(f"nlp.pipe: {result['pipe_documents_per_second']:,.0f} documents per second")
    for name in ("one_worker", "load", "overload", "after"):
        print(f"{name}: {json.dumps(result[name])}")


def read(pipeline: Path, gold: list[Path]) -> list[dict[str, Any]]:
    vocab = spacy.load(pipeline).vocab
    docs = (
        doc for path in gold for doc in DocBin(store_user_data=True).from_disk(path).get_docs(vocab)
    )
    found = []
    for number, doc in enumerate(docs):
        mentions = [
            {"start": ent.start_char, "end": ent.end_char, "label": ent.label_} for ent in doc.ents
        ]
        if mentions:
            found.append({"id": str(number), "text": doc.text, "mentions": mentions})
    return found


def pipe_rate(pipeline: Path, documents: list[dict[str, Any]]) -> float:
    """Return documents per second, tokenized and linked: the best of three passes."""
    linker = CorrectedLinker(spacy.load(pipeline))
    wanted = [
        Document(
            each["text"], each["id"], tuple(Mention(**mention) for mention in each["mentions"])
        )
        for each in documents
    ]
    best = float("inf")
    for _ in range(3):
        start = time.perf_counter()
        docs = [layer.doc for each in wanted for layer in linker._layers(each, 0)]
        for _ in linker.nlp.pipe(docs, disable=mention_setters(linker.nlp)):
            pass
        best = min(best, time.perf_counter() - start)
    return len(documents) / best


@contextmanager
def served(pipeline: Path, *options: str) -> Iterator[int]:
    """Start a service inside this context, and yield its port."""
    process, port = start_service(pipeline, *options)
    try:
        yield port
    finally:
        process.terminate()
        process.wait()


def start_service(pipeline: Path, *options: str) -> "tuple[subprocess.Popen[bytes], int]":
    """Start a service. RETURNS: the service, once it answers, and its port."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [
        sys.executable,
        "-m",
        "spacy",
        "krissel",
        "serve",
        str(pipeline),
        "--port",
        str(port),
        *options,
    ]
    process = subprocess.Popen(command, stderr=subprocess.DEVNULL)
    while True:
        try:
            socket.create_connection(("127.0.0.1", port)).close()
            return process, port
        except OSError:
            if process.poll() is not None:
                raise RuntimeError(f"The service ended with code {process.returncode}") from None
            time.sleep(0.1)


def asked(port: int, bodies: list[bytes], clients: int, seconds: float) -> dict[str, Any]:
    """Return the answers to concurrent clients, each of which sends its next request after an
    answer."""
    end = time.perf_counter() + seconds
    times: list[float] = []
    statuses: Counter[str] = Counter()

    def client(number: int) -> None:
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=120)
        index = number * 37
        while time.perf_counter() < end:
            start = time.perf_counter()
            try:
                connection.request(
                    "POST",
                    "/link",
                    bodies[index % len(bodies)],
                    {"content-type": "application/json"},
                )
                answer = connection.getresponse()
                answer.read()
                status = str(answer.status)
            except (OSError, http.client.HTTPException) as error:
                status = type(error).__name__
                connection.close()
            statuses[status] += 1
            if status == "200":
                times.append(time.perf_counter() - start)
            index += 1

    threads = [threading.Thread(target=client, args=(number,)) for number in range(clients)]
    start = time.perf_counter()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    spent = time.perf_counter() - start
    p50, p99 = (1000 * np.percentile(times, [50, 99])).tolist() if times else (None, None)
    return {
        "per_second": len(times) / spent,
        "p50_ms": p50,
        "p99_ms": p99,
        "statuses": dict(statuses),
    }


if __name__ == "__main__":
    typer.run(main)
