"""Fixtures and skips shared by the whole suite."""

import os
from pathlib import Path

import pytest


def pytest_collection_modifyitems(items):
    missing = not os.environ.get("KRISSEL_DATA")
    for item in items:
        if missing and item.get_closest_marker("data"):
            item.add_marker(pytest.mark.skip(reason="needs the data folder: set KRISSEL_DATA"))
        if item.get_closest_marker("gpu") and not _has_gpu():
            item.add_marker(pytest.mark.skip(reason="needs a CUDA device"))


def _has_gpu() -> bool:
    import torch

    return torch.cuda.is_available()


@pytest.fixture(scope="session")
def data_dir() -> Path:
    path = os.environ.get("KRISSEL_DATA")
    if not path:
        pytest.skip("needs the data folder: set KRISSEL_DATA")
    return Path(path)
