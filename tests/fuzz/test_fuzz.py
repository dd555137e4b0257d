"""The fuzzer itself, and a short run of it; the long one is by command."""

import gzip
import json
import os
import subprocess
import sys
from pathlib import Path
from random import Random

import pytest
from tiers import nightly

from . import containers, mutators

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not hasattr(os, "fork"), reason="the fuzzer forks its workers"),
]
TESTS = Path(__file__).parents[1]


def fuzz(*arguments):
    # From here, so that the package that is installed is tested. A process of its own: workers are
    # forked from it.
    command = [sys.executable, "-m", "fuzz", *arguments]
    return subprocess.run(command, cwd=TESTS, capture_output=True, encoding="utf8", timeout=1200)


@pytest.mark.parametrize("inputs", ["1000", nightly("5000")])
def test_damaged_input_raises_coded_errors(inputs):
    run = fuzz("--inputs", inputs, "--seed", "1", "--jobs", "1")
    assert not run.returncode, f"{run.stdout}\n{run.stderr}"


@pytest.mark.nightly
def test_truncated_files_are_detected():
    run = fuzz("truncation")
    assert not run.returncode, f"{run.stdout}\n{run.stderr}"


@pytest.mark.nightly
def test_small_bombs_are_refused():
    """Bombs of 400 MB are tried by command only."""
    run = fuzz("bombs", "--small")
    assert not run.returncode, f"{run.stdout}\n{run.stderr}"


@pytest.fixture(scope="module")
def targets():
    from .targets import all_targets

    return {target.name: target for target in all_targets()}


def test_undamaged_seeds_are_read(targets, tmp_path):
    """Else the fuzzer would damage what is refused anyway."""
    import warnings

    from .attempt import write_files

    for target in targets.values():
        for files in target.seeds:
            path = write_files(tmp_path / "input", files)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                for thorough in (False, True):
                    target.read(path, thorough)


def test_an_input_depends_on_seed_and_index_only(targets):
    from .targets import make_case

    for target in targets.values():
        last = make_case(target, 3, 9)
        for i in range(5):
            make_case(target, 3, i)
        assert make_case(target, 3, 9) == last, target.name
        assert any(make_case(target, seed, 9) != last for seed in range(4, 8)), target.name


def _read_badly(path, thorough):
    how = path.read_bytes()
    if how == b"uncoded":
        raise KeyError("x")
    if how == b"hang":
        while True:
            pass
    if how == b"memory":
        bytearray(2**30 + 2**28)
    if how == b"too much memory":
        bytearray(2**40)
    if how == b"crash":
        import signal

        os.kill(os.getpid(), signal.SIGSEGV)
    if how == b"coded":
        from spacy_krissel.errors import KrisselError

        raise KrisselError("[K000] x")
    if how == b"open":
        open(path)  # noqa: SIM115
    if how == b"warned":
        import warnings

        from spacy_krissel.errors import KrisselWarning

        warnings.warn("x", KrisselWarning, stacklevel=1)
        warnings.warn("y", UserWarning, stacklevel=1)


KINDS = (
    "ok",
    "uncoded",
    "hang",
    "memory",
    "too much memory",
    "crash",
    "coded",
    "warned",
    "open",
    "ok",
)


@pytest.mark.nightly
def test_every_outcome_is_recorded(tmp_path):
    """A worker that dies takes no other input with it."""
    from .run import Fuzzer
    from .targets import Target

    order = iter(KINDS)
    kinds = {}

    def make(rng, seeds):
        # Numbers are drawn by name and index, so that workers agree on what an index is.
        return {"a": kinds[rng.random()].encode()}

    for index in range(len(KINDS)):
        rng = Random(f"0:bad:{index}")
        rng.random()
        kinds[rng.random()] = next(order)
    fuzzer = Fuzzer([Target("bad", (), _read_badly, make)], 0, jobs=2, keep=tmp_path)
    fuzzer.run(inputs=len(KINDS))
    found = {key: n for key, n in fuzzer.counts["bad"].items() if n}
    outcomes = {"ok": 3, "uncoded": 1, "hang": 1, "memory": 2, "crash": 1, "coded": 1, "warned": 1}
    assert found == {**outcomes, "other warnings": 1, "left open": 1}
    assert {path.name for path in tmp_path.iterdir()} == {f"bad-0-{i}" for i in range(1, 6)}
    assert (tmp_path / "bad-0-5" / "a").read_bytes() == b"crash"
    assert "| bad | 10 | 3 | 1 | 1 |" in fuzzer.table() and "--seed 0 --index 5" in fuzzer.causes()


def test_a_gzip_bomb_is_a_valid_file():
    from .bombs import gzip_bomb

    data = gzip_bomb(b"ab", b"before", b"after", 2**20)
    assert gzip.decompress(data) == b"before" + b"ab" * 2**19 + b"after"


def test_containers_are_valid():
    """Damage inside a container has to reach the reader."""
    import io
    import tarfile

    files = {"a/1.txt": b"x" * 700, "2.txt": b""}
    with tarfile.open(fileobj=io.BytesIO(containers.tarred(files))) as archive:
        assert {member.name: archive.extractfile(member).read() for member in archive} == files
    header = containers.tar_header(b"1.txt", containers.base256(2**36))
    assert tarfile.TarInfo.frombuf(header, "utf8", "strict").size == 2**36


@pytest.mark.parametrize("name", ["a.json", "a.xml", "a.txt", "a.arrow"])
def test_mutators_accept_any_bytes(name):
    rng = Random(0)
    for data in (b"", b"\n", b"x", b"<a>", b"{}", b'{"a": [1, "x"]}\n' * 3, bytes(range(256))):
        for mutator in mutators.mutators_of(name):
            for _ in range(20):
                assert isinstance(mutator(rng, data, [data]), bytes)


def test_mutated_trees_can_be_serialized():
    rng = Random(0)
    for _ in range(500):
        json.loads(mutators.dump(mutators.change_tree(rng, {"a": [1, "x", {"b": None}], "c": 2.5})))
