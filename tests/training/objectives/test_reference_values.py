"""Losses and gradients of every objective stay what they were on fixed batches, those of
`test_data_parallel`."""

import json
from pathlib import Path

import numpy as np
import pytest
from test_data_parallel import update

VALUES = json.loads(Path(__file__).with_name("reference_values.json").read_text(encoding="utf8"))


def summary(loss, gradients):
    """The loss, the L2 norm of all gradients, and the largest of them."""
    norm = np.sqrt(
        sum(float((gradient.astype("float64") ** 2).sum()) for gradient in gradients.values())
    )
    return {
        "loss": loss,
        "norm": float(norm),
        "largest": float(max(np.abs(g).max() for g in gradients.values())),
    }


@pytest.mark.parametrize("case", VALUES)
def test_losses_and_gradients_match_their_reference_values(toy_store, case):
    found = summary(*update(case, str(toy_store.path), None, 8))
    assert found == pytest.approx(VALUES[case], rel=1e-5)
