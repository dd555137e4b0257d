"""`benchmarks/kb_at_size.py` at toy size, in this process."""

import importlib.util
import sys
from pathlib import Path

import numpy as np
import pytest
from spacy.vocab import Vocab

from spacy_krissel.kb.prototype_kb import PrototypeKB

pytest.importorskip("faiss")
SCRIPT = Path(__file__).parents[2] / "benchmarks" / "kb_at_size.py"
pytestmark = pytest.mark.skipif(not SCRIPT.is_file(), reason="needs the repository's benchmarks")
SIZE = (300, 1000, 16)


@pytest.fixture(scope="module")
def benchmark():
    spec = importlib.util.spec_from_file_location("kb_at_size", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    sys.modules["kb_at_size"] = module
    spec.loader.exec_module(module)
    yield module
    del sys.modules["kb_at_size"]


class Pipe:
    def __init__(self):
        self.sent, self.asked = [], iter(["measure", "end"])

    def send(self, value):
        self.sent.append(value)

    def recv(self):
        return next(self.asked)


def test_each_step_of_the_benchmark_works(benchmark, tmp_path):
    entities, prototypes, width = SIZE
    built = benchmark.build(tmp_path / "kb", *SIZE, "float16", 0)
    assert built["disk_mib"] > 0 and built["seconds"] >= built["fill_seconds"]
    kb = PrototypeKB(Vocab(), width).from_disk(tmp_path / "kb")
    assert (kb.n_entities, kb.n_prototypes, kb.prototypes.dtype) == (
        entities,
        prototypes,
        "float16",
    )
    assert np.linalg.norm(kb.vectors.astype(np.float32), axis=1) == pytest.approx(1, abs=1e-3)
    assert (np.bincount(kb.prototypes.entity_rows) >= prototypes // entities).all()
    tuned = benchmark.tuned(tmp_path / "kb", ["ivf_sq8"], 20, 0.9, 0)
    assert len(tuned["trials"]) > 1 and tuned["chosen"] in tuned["trials"]
    assert kb.from_disk(tmp_path / "kb").description()["tuning"]["queries"] == 20
    pipe = Pipe()
    benchmark.serve(pipe, tmp_path / "kb", *SIZE, 0)
    times, memory = pipe.sent
    assert times["first_link_seconds"] > 0 and memory["rss_mib"] >= memory["private_mib"]


def test_vectors_without_noise_do_not_depend_on_the_block_size(benchmark):
    entities, prototypes, width = SIZE
    source = benchmark.MadeSource(entities, prototypes)
    made = list(source.prototypes())
    assert len(made) == prototypes
    numbers = np.arange(prototypes)

    def centres():
        vectors = benchmark.Vectors(source, width, 0)
        vectors._noise = lambda rng, rows, spread, draw=vectors._noise: (
            draw(rng, rows, spread) * (spread != benchmark.PROTOTYPE_SPREAD)
        )
        return vectors

    whole = centres().at(numbers, np.random.default_rng(0))
    parts = centres()
    np.testing.assert_array_equal(
        whole[400:410], parts.at(numbers[400:410], np.random.default_rng(1))
    )
    # Prototypes of one entity share a centre, and a name of two entities has one of them.
    by_name = {}
    for number, prototype in enumerate(made):
        by_name.setdefault(
            prototype.view.mention if prototype.kind == "name" else prototype.entity, []
        ).append(number)
    for rows in by_name.values():
        np.testing.assert_array_equal(whole[rows], whole[rows[:1]].repeat(len(rows), axis=0))
    first = [source.first(row) for row in range(entities)]
    assert [made[number].kind for number in first] == ["name"] * entities
