"""The injector sees what it is to see: a writer that is careless is found out, and a careful one is
not."""

import os
from contextlib import suppress

import pytest
from tiers import nightly

from spacy_krissel.errors import KrisselError
from spacy_krissel.util.disk import coded_io

from .harness import Fault, Injector, bits_to_flip, flip, in_child
from .steps import Command
from .test_faults import Trial

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not hasattr(os, "fork"), reason="needs processes that can be forked"),
]


def content(version):
    # More than a buffer holds.
    return f"{version}{'x' * 50_000}"


def read(path):
    if not path.exists():
        raise KrisselError("nothing there")
    return path.read_text()


def in_place(path, version):
    with coded_io(path):
        path.write_text(content(version))


def renamed(path, version):
    with coded_io(path):
        temporary = path.with_name(".out.tmp")
        try:
            temporary.write_text(content(version))
            os.replace(temporary, path)
        finally:
            temporary.unlink(missing_ok=True)


def uncoded(path, version):
    renamed_without_code = path.with_name(".out.tmp")
    renamed_without_code.write_text(content(version))
    os.replace(renamed_without_code, path)


def silent(path, version):
    with suppress(KrisselError):
        renamed(path, version)


@pytest.mark.parametrize("earlier", [nightly(False), True])
@pytest.mark.parametrize(
    "make, found",
    [
        (renamed, set()),
        (in_place, {"half"}),
        (uncoded, {"left over", "uncoded"}),
        (silent, {"silent"}),
    ],
)
def test_careless_writers_are_found(make, found, earlier, tmp_path):
    trial = Trial(Command("out", make, {"": read}), earlier, tmp_path)
    for fault in trial.faults(2):
        trial.run(fault)
    bad = ("half", "left over", "uncoded", "silent", "not rerun", "crashed")
    assert found <= {what for what in bad if trial.seen[what]}
    assert bool(trial.problems) == bool(found)
    assert found or (trial.seen["old"] if earlier else trial.seen["nothing"]), "no fault hit"


@pytest.mark.parametrize("kind", ["ENOSPC", "EIO", "KILL", "FSIZE"])
def test_injected_fault_stops_a_write(kind, tmp_path):
    at = 1000 if kind == "FSIZE" else 2

    def work():
        injector = Injector(tmp_path, Fault(kind, at))
        (tmp_path / "file").write_bytes(b"x" * 100_000)
        return injector.operations

    ended = in_child(work)
    assert (ended.how, bool(ended.value)) == ("killed" if kind == "KILL" else "uncoded", True)
    assert (tmp_path / "file").stat().st_size < 100_000


def test_files_elsewhere_are_not_counted(tmp_path):
    (tmp_path / "out").mkdir()

    def work():
        injector = Injector(tmp_path / "out", Fault("EIO", 1))
        (tmp_path / "beside").write_text("x")
        return len(injector.operations)

    assert in_child(work) == ("returned", 0, "")


def test_crash_hang_and_error_of_a_child_are_reported():
    import signal
    import time

    assert in_child(lambda: os.kill(os.getpid(), signal.SIGSEGV)).how == "crashed"
    assert in_child(lambda: time.sleep(9), seconds=1).how == "hung"
    assert in_child(lambda: 1 / 0)[:2] == ("uncoded", "ZeroDivisionError: division by zero")


def test_flipping_a_bit_twice_restores_the_file(tmp_path):
    (tmp_path / "file").write_bytes(bytes(range(256)))
    places = bits_to_flip(256, 20, seed=0)
    assert (
        places == bits_to_flip(256, 20, seed=0)
        and {0, 255} <= {byte for byte, _ in places}
        and len(places) > 15
    )
    for byte, bit in places:
        flip(tmp_path / "file", byte, bit)
        assert (tmp_path / "file").read_bytes() != bytes(range(256))
        flip(tmp_path / "file", byte, bit)
    assert (tmp_path / "file").read_bytes() == bytes(range(256))
    assert len(bits_to_flip(100, 20, seed=0)) == 100, "all of a small file"
