"""An ablation of the small encoder on the toy data, every training a few steps."""

import copy
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import srsly
from evaluation.conftest import gold_linker  # noqa: F401

from spacy_krissel.corpora.convert import convert
from spacy_krissel.mining.mine import mine

# The plugin is a distribution of its own.
sys.path.insert(0, str(Path(__file__).parents[2] / "experiments" / "milvus"))
MILVUS_SERVER = """
import sys
from milvus_lite.adapter.grpc.server import start_server_in_thread
server, db, port = start_server_in_thread(sys.argv[1])
print(port, flush=True)
sys.stdin.read()
server.stop(grace=0)
db.close()
"""
LINKER = "components.krissel_linker"
RERANKER = "components.krissel_reranker"
TINY_RERANKER = {
    f"{RERANKER}.model.encoder.width": 16,
    f"{RERANKER}.model.encoder.rows": 1024,
    f"{RERANKER}.model.encoder.context_rows": 512,
    f"{RERANKER}.objective.n_candidates": 4,
    f"{RERANKER}.temperature": 1.0,
    "corpora.train.held_out": 0.3,
    "training.batcher.size": 16,
    "training.max_steps": 2,
    "training.eval_frequency": 2,
}


@pytest.fixture(scope="session")
def milvus_uri(tmp_path_factory):
    """The address of Milvus Lite in a process of its own, which stands for a server."""
    pytest.importorskip("pymilvus")
    pytest.importorskip("milvus_lite")
    folder = tmp_path_factory.mktemp("server") / "milvus.db"
    command = [sys.executable, "-c", MILVUS_SERVER, str(folder)]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as server:
        yield f"http://127.0.0.1:{int(server.stdout.readline())}"
        server.stdin.close()


@pytest.fixture(scope="session")
def toy_gold(toy_files, toy_store, make_once):
    """The toy gold corpus and, as examples, other documents of nearly the same text."""

    def make(folder):
        lines = (toy_files / "gold.pubtator").read_text(encoding="utf8").splitlines()
        lines = [line and f"9{line}{' Again.' if '|a|' in line else ''}" for line in lines]
        (folder / "examples.pubtator").write_text("\n".join(lines) + "\n", encoding="utf8")
        convert([toy_files / "gold.pubtator"], folder / "gold.spacy", ontology=toy_store.path)
        convert([folder / "examples.pubtator"], folder / "examples.spacy", ontology=toy_store.path)

    folder = make_once("toy_gold", make)
    return folder / "gold.spacy", folder / "examples.spacy"


@pytest.fixture(scope="session")
def toy_preferred(toy_files, toy_store, make_once):
    """Mentions mined by preferred names alone."""
    texts = toy_files / "texts.jsonl"
    mined = make_once(
        "toy_preferred",
        lambda path: mine(toy_store, texts, path / "shards", cap=None, aliases=False),
    )
    return mined / "shards"


@pytest.fixture(scope="session")
def toy_copies(toy_store, toy_shards, tmp_path_factory):
    """Ontology and mentions that a set has for itself."""
    path = tmp_path_factory.mktemp("copies")
    return {
        "ontology": str(shutil.copytree(toy_store.path, path / "store")),
        "mentions": str(shutil.copytree(toy_shards, path / "shards")),
    }


@pytest.fixture
def toy_ablation(
    configs, toy_overrides, toy_store, toy_shards, toy_preferred, toy_gold, toy_copies
):
    """An ablation file's content: two rows that train, one with another switch, one with
    examples."""
    knowledge = {
        "ontology": str(toy_store.path),
        "mentions": str(toy_shards),
        "mentions_without_aliases": str(toy_preferred),
    }
    few_steps = {
        key: value for key, value in toy_overrides["small"].items() if not key.startswith("paths.")
    }
    few_steps.update({"training.max_steps": 4, "training.eval_frequency": 4})
    gold, examples = map(str, toy_gold)
    return copy.deepcopy(
        {
            "train": {"config": str(configs / "small.cfg"), **knowledge, "overrides": few_steps},
            "reranker": {
                "config": str(configs / "reranker.cfg"),
                "held_out": 0.3,
                "overrides": TINY_RERANKER,
            },
            "sets": {
                "with": {"gold": gold, "examples": examples, **knowledge},
                "without": {"gold": gold, **knowledge, **toy_copies},
            },
            "seeds": [0],
            "rows": {
                "full": {"title": "full"},
                "re-ranking": {
                    "title": "− re-ranking",
                    "of": "full",
                    "pipeline": {f"{RERANKER}.weight": 0.0},
                },
                "aliases": {
                    "title": "− aliases",
                    "mined_aliases": False,
                    "train": {
                        f"{LINKER}.objective.p_replace": 0.0,
                        "corpora.train.names_per_entity": 1,
                    },
                    "reranker": {f"{RERANKER}.max_names": 1},
                    "prototypes": {"aliases": False},
                    "seeds": [3],
                },
                "lazy": {"title": "+ gold", "of": "full", "examples": True},
            },
            "curves": {
                "top_k": ["full", "lazy"],
                "max_k": 8,
                "shots": [0, 1, "all"],
                "draws": [0, 1],
            },
        }
    )


@pytest.fixture
def write_ablation(tmp_path):
    """Writes an ablation file."""

    def write(content):
        path = tmp_path / "ablation.yml"
        srsly.write_yaml(path, content)
        return path

    return write
