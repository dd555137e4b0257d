"""Makes torch's tensors on the CPU pass for tensors on a card, and counts their traffic.

A tensor of host data (`torch.from_numpy`, `torch.tensor`) is marked as the host's until it is
copied by `to`; what is computed from host tensors alone is too. Every other tensor is the device's.
"""

import threading
from collections.abc import Iterator
from typing import Any

import thinc.util
import torch
from torch.overrides import TorchFunctionMode
from traffic import note

HOST = "_standin_host"
FROM_HOST = {torch.tensor, torch.as_tensor}
COPIES = {torch.Tensor.to, torch.Tensor.cuda}
# These copy what they are given of the host: indices, and what is copied into a tensor.
TAKE_HOST = {torch.Tensor.__getitem__, torch.Tensor.__setitem__, torch.Tensor.copy_}
TO_HOST = {torch.Tensor.cpu, torch.Tensor.numpy}
WAITS = {
    torch.Tensor.item,
    torch.Tensor.tolist,
    torch.Tensor.__bool__,
    torch.Tensor.__float__,
    torch.Tensor.__int__,
    torch.Tensor.__index__,
    torch.Tensor.nonzero,
    torch.nonzero,
    torch.argwhere,
    torch.masked_select,
    torch.Tensor.masked_select,
    torch.unique,
    torch.Tensor.unique,
    torch.unique_consecutive,
    torch.equal,
    torch.Tensor.equal,
    torch.allclose,
}


class Traffic(TorchFunctionMode):
    """Counts copies and waits of torch's functions. Raises RuntimeError, as torch does, where a
    function takes tensors of both sides."""

    def __torch_function__(
        self, function: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        kwargs = kwargs or {}
        if not _in_use() or getattr(function, "__name__", "") == "__get__":
            return function(*args, **kwargs)
        tensors = list(_tensors((*args, *kwargs.values())))
        of_host = [is_host(tensor) for tensor in tensors]
        on_host = bool(tensors) and all(of_host)
        if function in COPIES and _moves(args[1:], kwargs):
            result = function(*args, **kwargs)
            return _copied(args[0], result, *args[1:], **kwargs)
        if not on_host and (function in TO_HOST):
            note("to_host")
            found = function(*args, **kwargs)
            # Another tensor, so that the device's stays the device's.
            return _marked(found.view_as(found) if found is args[0] else found)
        if not on_host and (function in WAITS or _by_mask(function, args)):
            note("waits")
        if function in FROM_HOST:
            found = function(*args, **kwargs)
            if kwargs.get("device") is None:
                return _marked(found)
            note("to_device")
            return found
        mixed = not on_host and any(
            host and tensor.ndim for tensor, host in zip(tensors, of_host, strict=True)
        )
        if mixed and function in TAKE_HOST:
            note("to_device")
        elif mixed:
            raise RuntimeError(
                "Expected all tensors to be on the same device, found the host's and the device's"
            )
        found = function(*args, **kwargs)
        return _marked(found) if on_host else found


def is_host(tensor: Any) -> bool:
    """Tell whether a tensor is the host's."""
    return getattr(tensor, HOST, False)


def _tensors(values: Any) -> Iterator[torch.Tensor]:
    for value in values:
        if isinstance(value, torch.Tensor):
            yield value
        elif isinstance(value, (list, tuple)):
            yield from _tensors(value)


def _marked(found: Any) -> Any:
    for tensor in _tensors((found,)):
        setattr(tensor, HOST, True)
    return found


def _moves(args: Any, kwargs: Any) -> bool:
    """Tell whether `to` was called with a device, and not with a dtype alone."""
    return (
        "device" in kwargs
        or not args
        or isinstance(args[0], (torch.device, torch.Tensor, str, int))
    )


def _copied(tensor: torch.Tensor, result: torch.Tensor, *args: Any, **kwargs: Any) -> torch.Tensor:
    if not is_host(tensor):
        return result
    note("to_device")
    # Another tensor, so that the host's stays the host's.
    return result.detach() if result is tensor else result


def _by_mask(function: Any, args: Any) -> bool:
    """Tell whether a tensor is indexed by a mask; to fill by one needs no count."""
    if function not in (torch.Tensor.__getitem__, torch.Tensor.__setitem__):
        return False
    if function is torch.Tensor.__setitem__ and not (
        isinstance(args[2], torch.Tensor) and args[2].ndim
    ):
        return False
    return any(tensor.dtype == torch.bool for tensor in _tensors((args[1],)))


def _in_use() -> bool:
    from thinc.api import CupyOps, get_current_ops

    return isinstance(get_current_ops(), CupyOps)


def install() -> None:
    """Count from here on, in all threads, and let thinc take torch's tensors for those of a
    card."""
    # In place, since modules have imported them by name.
    thinc.util.get_torch_default_device.__code__ = _default_device.__code__
    thinc.util.is_torch_cuda_array.__code__ = _is_cuda_array.__code__
    from_numpy = torch.from_numpy
    # No mode hears of it.
    torch.from_numpy = lambda array: _marked(from_numpy(array)) if _in_use() else from_numpy(array)
    # Modules have all of their weights on one side, and there is one memory.
    torch.nn.Module.cuda = lambda self, device=None: self  # type: ignore[method-assign]
    torch.nn.Module.cpu = lambda self: self  # type: ignore[method-assign]
    Traffic().__enter__()
    run = threading.Thread.run

    def run_counted(thread: threading.Thread) -> None:
        with Traffic():
            run(thread)

    threading.Thread.run = run_counted  # type: ignore[method-assign]


def _default_device() -> Any:
    import torch

    return torch.device("cpu")


def _is_cuda_array(obj: Any) -> bool:
    from torch_device import _in_use, is_host

    return is_torch_array(obj) and _in_use() and not is_host(obj)  # type: ignore[name-defined] # noqa: F821
