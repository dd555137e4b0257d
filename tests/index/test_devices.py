import sys

import pytest

from spacy_krissel.errors import KrisselError
from spacy_krissel.index.devices import check_device, require_device

torch = pytest.importorskip("torch")


@pytest.mark.parametrize("device", ["cpu", "cuda", "cuda:0", "cuda:1", "cuda:all"])
def test_an_available_device_is_accepted_without_starting_cuda(device, monkeypatch):
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    # Neither may start CUDA, which forked children could not use any more.
    for starts in ("init", "_lazy_init", "is_available"):
        monkeypatch.setattr(torch.cuda, starts, lambda: pytest.fail("CUDA was started"))
    assert check_device(device) == device
    require_device(device)


MISSING = [("cuda", 0), ("cuda:all", 0), ("cuda:0", 0), ("cuda:2", 2)]


@pytest.mark.parametrize("device,count", MISSING)
def test_a_missing_device_raises(device, count, monkeypatch):
    monkeypatch.setattr(torch.cuda, "device_count", lambda: count)
    with pytest.raises(KrisselError, match=f"K502.*'{device}'.*CUDA device"):
        require_device(device)


def test_a_gpu_without_torch_raises(monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", None)
    require_device("cpu")
    with pytest.raises(KrisselError, match="K502.*torch is not installed"):
        require_device("cuda:0")


def test_a_misspelt_device_raises():
    with pytest.raises(KrisselError, match="K006.*'cuda:x'"):
        require_device("cuda:x")
