import pytest

from spacy_krissel.evaluation.wilson import wilson_interval


@pytest.mark.parametrize(
    ("right", "n", "expected"),
    [
        (3, 4, (0.3006, 0.9544)),
        (10, 10, (0.7225, 1)),
        (0, 10, (0, 0.2775)),
        (81, 263, (0.2553, 0.3662)),
    ],
)
def test_the_interval_differs_from_published_values(right, n, expected):
    """The last is of Newcombe (1998), table I."""
    assert wilson_interval(right, n) == pytest.approx(expected, abs=1e-4)


def test_an_end_of_the_interval_is_not_a_root_of_its_equation():
    for p in wilson_interval(7, 9):
        assert abs(7 / 9 - p) == pytest.approx(1.959964 * (p * (1 - p) / 9) ** 0.5, abs=1e-6)
