"""OSLAT's learning rates."""

from itertools import islice, pairwise

import pytest

from spacy_krissel.errors import KrisselError
from spacy_krissel.training.optimizers import delayed_decay, noam


def test_rate_is_constant_for_a_tenth_then_decays_exponentially():
    rates = list(islice(delayed_decay(0.2, 100, final=0.01), 101))
    assert rates[:11] == [0.2] * 11
    # Half of the way to a hundredth is a tenth.
    assert rates[55] == pytest.approx(0.02)
    assert rates[100] == pytest.approx(0.002)
    ratios = [second / first for first, second in pairwise(rates[10:])]
    assert max(ratios) == pytest.approx(min(ratios)) and max(ratios) < 1


def test_invalid_settings_raise():
    with pytest.raises(KrisselError, match="K006.*delay"):
        delayed_decay(0.1, 10, delay=1.0)


def test_noam_has_a_tenth_of_its_factor_after_warmup():
    rates = list(islice(noam(0.002, 100), 400))
    assert max(rates) == rates[99] == pytest.approx(0.0002)
    assert rates[49] == pytest.approx(0.0001) and rates[399] == pytest.approx(0.0001)
    with pytest.raises(KrisselError, match="warmup_steps"):
        noam(0.002, 0)
