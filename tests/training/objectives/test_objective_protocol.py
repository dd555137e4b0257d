import warnings

import pytest

from spacy_krissel.errors import KrisselWarning
from spacy_krissel.training.objectives.protocol import BatchCount


def test_skipped_batches_warn_at_1_10_and_100():
    """Their number is told when it has grown tenfold."""
    batches = BatchCount("gold", "Dig deeper")
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        empty = [batches.is_empty([1] * (i % 5 == 0)) for i in range(200)]
    assert sum(empty) == 160 and not empty[0] and empty[1]
    assert [str(each.message).split(" training")[0] for each in told] == [
        "[KW625] 1 of 2",
        "[KW625] 10 of 13",
        "[KW625] 100 of 125",
    ]
    assert all(each.category is KrisselWarning for each in told)


def test_no_warning_without_a_skipped_batch():
    batches = BatchCount("gold", "Dig deeper")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert not any(batches.is_empty("ab") for _ in range(20))
    with pytest.warns(KrisselWarning, match="KW625.* 1 of 21 .* had no gold.* Dig deeper."):
        assert batches.is_empty("")
