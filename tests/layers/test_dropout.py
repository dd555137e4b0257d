import pytest
import torch
from torch import nn

from spacy_krissel.layers.hf.dropout import CheapDropout, use_cheap_dropout


@pytest.mark.parametrize("p", [0.1, 0.5, 0.9])
def test_rate_and_scale(p):
    torch.manual_seed(0)
    x = torch.ones(1000, 301, requires_grad=True)
    y = CheapDropout(p)(x)
    assert abs((y == 0).float().mean().item() - p) < 0.005
    assert abs(y.mean().item() - 1) < 0.01, "the expectation is kept"
    y.sum().backward()
    assert torch.equal(x.grad, y.detach()), "the gradient passes where the value passed, with the same scale"


@pytest.mark.parametrize("p", [0.0, 1.0])
def test_extremes(p):
    x = torch.ones(3, 5)
    assert torch.equal(CheapDropout(p)(x), x * (1 - p))


def test_no_dropout_in_evaluation():
    x = torch.randn(4, 4)
    assert torch.equal(CheapDropout(0.5).eval()(x), x)


def test_seed_decides():
    x = torch.ones(50, 3, dtype=torch.bfloat16)
    torch.manual_seed(3)
    first = CheapDropout(0.3)(x)
    second = CheapDropout(0.3)(x)
    torch.manual_seed(3)
    assert torch.equal(CheapDropout(0.3)(x), first)
    assert not torch.equal(first, second)
    assert first.dtype == torch.bfloat16


def test_neighbouring_elements_are_independent():
    """Four elements share one draw of 64 bits."""
    torch.manual_seed(0)
    kept = (CheapDropout(0.5)(torch.ones(200_000, 4)) > 0).float()
    correlations = torch.corrcoef(kept.T) - torch.eye(4)
    assert correlations.abs().max() < 0.01


def test_replaces_plain_dropout_only():
    class Own(nn.Dropout):
        pass

    module = nn.Sequential(nn.Linear(2, 2), nn.Sequential(nn.Dropout(0.2)), Own(0.3))
    names = list(module.state_dict())
    use_cheap_dropout(module)
    assert isinstance(module[1][0], CheapDropout) and module[1][0].p == 0.2
    assert type(module[2]) is Own
    assert list(module.state_dict()) == names
