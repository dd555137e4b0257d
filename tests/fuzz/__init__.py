"""A fuzzer of every reader: `python -m tests.fuzz --minutes 30`, see README.md."""

import sys
from pathlib import Path

# Readers of the laboratory are among its targets.
sys.path.insert(0, str(Path(__file__).parents[2] / "experiments"))
