"""A service of a small pipeline, in the process and over HTTP."""

import multiprocessing
import os
import socket
import threading
import time
from contextlib import suppress
from functools import partial

import pytest
import spacy

from spacy_krissel import Entity, build
from spacy_krissel.serving.corrected import CorrectedLinker
from spacy_krissel.serving.service import LinkService
from spacy_krissel.serving.worker import answer_requests

ENTITIES = [
    Entity("D1", "multiple sclerosis", ("MS",), types=("Disease",), definition="Myelin is lost."),
    Entity("C1", "mass spectrometry", ("MS",), types=("Method",)),
    Entity("D2", "common cold", ("cold",), types=("Disease",), parents=("D0",)),
    Entity("D3", "cold injury", types=("Disease",), parents=("D0",)),
    Entity("D0", "disease", types=("Disease",)),
]


@pytest.fixture(scope="session")
def saved(make_once):
    """The folder of a linker behind a component that finds a few words."""
    return make_once("serving", build_linker) / "linker"


def build_linker(folder):
    finder = spacy.blank("en")
    finder.add_pipe("entity_ruler").add_patterns(
        [{"label": "X", "pattern": each} for each in ("MS", "cold", "multiple sclerosis")]
    )
    finder.to_disk(folder / "finder")
    build(ENTITIES, folder / "linker", ner=str(folder / "finder"), precision=0.01)


@pytest.fixture
def nlp(saved):
    return spacy.load(saved)


@pytest.fixture
def linker(nlp):
    return CorrectedLinker(nlp)


class ThreadWorker:
    """A worker in a thread, where `krissel serve` has processes. What it does when it is killed
    goes on in vain."""

    def __init__(self, linker):
        self.connection, self._other = multiprocessing.Pipe()
        self._thread = threading.Thread(target=self._run, args=(linker,), daemon=True)
        self._thread.start()
        self._is_killed = False

    def _run(self, linker):
        with self._other:
            answer_requests(self._other, linker)

    def kill(self):
        self._is_killed = True
        with suppress(OSError), socket.socket(fileno=os.dup(self._other.fileno())) as end:
            end.shutdown(socket.SHUT_RDWR)

    def leave(self):
        self.connection.close()
        if not self._is_killed:
            self._thread.join(10)
        return "left"


@pytest.fixture
def make_service():
    """Serves linkers by a thread each: a function that gives what asks them."""
    services = []

    def make(*linkers, log=None, **settings):
        starts = [partial(ThreadWorker, linker) for linker in linkers]
        services.append(LinkService(starts, log, **settings))
        return services[-1]

    yield make
    for service in services:
        service.close()


@pytest.fixture
def service(linker, make_service):
    return make_service(linker)


@pytest.fixture
def served():
    """Serves an app on a free port: a function that gives its address."""
    import uvicorn

    servers = []

    def start(app, **settings):
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        server = uvicorn.Server(uvicorn.Config(app, port=port, log_level="error", **settings))
        thread = threading.Thread(target=server.run, daemon=True)
        thread.start()
        while not server.started and thread.is_alive():
            time.sleep(0.01)
        servers.append((server, thread))
        return f"http://127.0.0.1:{port}"

    yield start
    for server, thread in servers:
        server.should_exit = True
        thread.join()
