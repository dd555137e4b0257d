"""`python experiments/lab COMMAND`, from any folder."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from lab.app import lab  # noqa: E402
from lab.cli import (  # noqa: E402, F401
    ablation,
    evaluate_spans,
    few_shot,
    out_of_kb,
    projection,
    psytar_names,
    sample,
    text_labels,
    text_split,
    zero_shot,
)

lab()
