"""`python -m tests.reliability faults | flips | threads | machine`: the long runs, a table each.

Further options are pytest's: -k prototypes
"""

import argparse
import os
import sys
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")
FILES = {
    "faults": "test_faults.py",
    "flips": "test_flips.py",
    "threads": "test_threads.py",
    "machine": "test_kb_machine.py",
}


def main(arguments: list[str] | None = None) -> int:
    import pytest

    from .harness import SIZE, Size

    parser = argparse.ArgumentParser(prog="python -m tests.reliability", description=__doc__)
    parser.add_argument("name", choices=FILES)
    parser.add_argument(
        "--points", type=int, default=0, help="faults: points per kind (0: every operation)"
    )
    parser.add_argument("--offsets", type=int, default=20, help="flips: bits per file")
    parser.add_argument("--seconds", type=float, default=60, help="threads: of each round")
    parser.add_argument("--threads", type=int, default=16)
    parser.add_argument("--no-full-disk", action="store_true", help="faults: mount no small disk")
    given, others = parser.parse_known_args(arguments)
    full_disk = not given.no_full_disk and hasattr(os, "geteuid") and os.geteuid() == 0
    size = Size(given.points, given.offsets, given.seconds, given.threads, full_disk)

    class Plugin:
        def pytest_configure(self, config):
            config.pluginmanager.register(size, SIZE)

    file_ = Path(__file__).parent / FILES[given.name]
    # The nightly rows of faults are all of them.
    marks = "nightly" if given.name == "faults" else ""
    options = ["-q", "--tb=short", "-p", "no:cacheprovider", "-m", marks]
    return pytest.main([*options, *others, str(file_)], plugins=[Plugin()])


if __name__ == "__main__":
    sys.exit(main())
