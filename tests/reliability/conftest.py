"""Pipelines of each kind, saved once, and how much of each test is run."""

import os

import pytest

# Fixtures of the pipelines' own tests.
from pipeline.conftest import (  # noqa: F401
    encoders,
    make_doc,
    make_docs,
    make_examples,
    make_extractor,
    make_linker,
    make_reranker,
    make_text_examples,
    names_source,
    rerankers,
    save_extractor,
    save_linker,
    save_reranker,
    source,
    token_encoders,
)

from .harness import SIZE, Size, markdown

os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")


@pytest.fixture(scope="session", autouse=True)
def one_thread():
    """A child that was forked from a process with many threads may wait for them for ever."""
    torch = pytest.importorskip("torch")
    torch.set_num_threads(1)


@pytest.fixture(scope="session")
def size(request) -> Size:
    return request.config.pluginmanager.get_plugin(SIZE) or Size()


@pytest.fixture(scope="module")
def table(request):
    """Takes rows; in a run by command it prints each as it comes, and all at the end of the
    file."""
    header, rows = request.module.HEADER, []
    if not request.config.pluginmanager.has_plugin(SIZE):
        yield rows.append
        return
    capture = request.config.pluginmanager.get_plugin("capturemanager")

    def show(text):
        with capture.global_and_fixture_disabled():
            print(f"\n{text}", flush=True)

    def take(row):
        rows.append(row)
        show(", ".join(map(str, row)))

    yield take
    show(markdown(header, rows) + "\n")
