"""A service of a small pipeline, in the process and over HTTP."""

import multiprocessing
import socket
import threading
import time

import pytest
import spacy

from spacy_krissel import Entity, build
from spacy_krissel.serving.corrected import CorrectedLinker
from spacy_krissel.serving.service import LinkService, answer_requests

ENTITIES = [
    Entity("D1", "multiple sclerosis", ("MS",), types=("Disease",), definition="Myelin is lost."),
    Entity("C1", "mass spectrometry", ("MS",), types=("Method",)),
    Entity("D2", "common cold", ("cold",), types=("Disease",), parents=("D0",)),
    Entity("D3", "cold injury", types=("Disease",), parents=("D0",)),
    Entity("D0", "disease", types=("Disease",)),
]


@pytest.fixture(scope="session")
def saved(tmp_path_factory):
    """A linker behind a component that finds a few words."""
    folder = tmp_path_factory.mktemp("serving")
    finder = spacy.blank("en")
    finder.add_pipe("entity_ruler").add_patterns(
        [{"label": "X", "pattern": each} for each in ("MS", "cold", "multiple sclerosis")]
    )
    finder.to_disk(folder / "finder")
    return build(ENTITIES, folder / "linker", ner=str(folder / "finder"), precision=0.01).output


@pytest.fixture
def nlp(saved):
    return spacy.load(saved)


@pytest.fixture
def linker(nlp):
    return CorrectedLinker(nlp)


@pytest.fixture
def make_service():
    """Serves linkers by a thread each, where `krissel serve` has processes: a function that gives what asks them."""
    services = []

    def make(*linkers, **settings):
        ours = []
        for linker in linkers:
            one, other = multiprocessing.Pipe()
            ours.append(one)
            threading.Thread(target=run, args=(other, linker), daemon=True).start()
        services.append(LinkService(ours, **settings))
        return services[-1]

    def run(connection, linker):
        with connection:
            answer_requests(connection, linker)

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

    def start(app):
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        server = uvicorn.Server(uvicorn.Config(app, port=port, log_level="error"))
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
