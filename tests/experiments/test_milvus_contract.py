"""The contract of every index (`tests/index/test_index_contract.py`), kept by the plugin of
`experiments/milvus`."""

from functools import partial

import pytest
from index.conftest import clustered  # noqa: F401
from index.test_index_contract import *  # noqa: F403
from spacy_krissel_milvus.index import MilvusIndex

KINDS = {
    "milvus-flat": {},
    "milvus-hnsw": {"type": "HNSW", "index_params": {"M": 16, "efConstruction": 200}},
}


@pytest.fixture(scope="module", params=KINDS)
def kind(request):
    return request.param


@pytest.fixture(scope="module")
def make(kind, milvus_uri):
    return partial(MilvusIndex, milvus_uri, **KINDS[kind])


@pytest.fixture(scope="module")
def is_exact(kind):
    return kind == "milvus-flat"
