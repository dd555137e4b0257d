import pytest
from thinc.api import Adam

from spacy_krissel.training.optimizers import make_adamw


class Seen:
    """Sums the squares of the gradients that an optimizer is given."""

    def __init__(self, monkeypatch, sgd):
        self.total = 0.0
        step = type(sgd).__call__

        def call(optimizer, key, weights, gradient, **settings):
            self.total += float((gradient**2).sum())
            return step(optimizer, key, weights, gradient, **settings)

        monkeypatch.setattr(type(sgd), "__call__", call)


def test_gradients_are_clipped_by_their_total_norm(make_linker, make_examples, monkeypatch):
    """So that the step of a transformer has another direction than the paper's."""
    nlp = make_linker("transformer")
    linker, examples = nlp.get_pipe("krissel_linker"), make_examples(nlp)
    linker.log_gradients = True
    sgd = make_adamw(1e-9, clip_norm=0.001)
    seen = Seen(monkeypatch, sgd)
    linker.update(examples, sgd=sgd)
    assert linker.last_step["gradient_norm"] > 0.002 and seen.total**0.5 == pytest.approx(
        0.001, rel=1e-4
    )
    seen.total = 0.0
    linker.update(examples, sgd=make_adamw(1e-9, clip_norm=1e9))
    assert seen.total**0.5 == pytest.approx(linker.last_step["gradient_norm"], rel=1e-4)


def test_thincs_optimizer_is_not_clipped_again(make_linker, make_examples):
    nlp = make_linker("small")
    linker = nlp.get_pipe("krissel_linker")
    linker.update(make_examples(nlp), sgd=Adam(1e-9, grad_clip=0.01, use_averages=False))
    assert "gradient_norm" not in linker.last_step
