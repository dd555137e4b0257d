"""Data-parallel training: each process encodes a part of every batch, all make the same step.

A launcher starts the processes (`torchrun`, `accelerate launch`), and `process_group` connects
them. Draws, choices and computations outside an encoder are the same in all processes. The
encoders' work on a batch is divided (`begin_shared`), and gradients are summed before the step
(`sum_gradients`). In a single process, none of this has an effect.
"""

import math
import os
import sys
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta
from typing import Any, TypeVar

import numpy as np
from thinc.api import Model, PyTorchShim, fix_random_seed, get_array_module

from ..errors import Errors, KrisselError
from .random_state import capture_rng, replay_rng

T = TypeVar("T")
Backprop = Callable[[Any], Any]
# Item numbers to their rows of an array, and the backprop of these rows.
Begin = Callable[[list[int]], tuple[Any, Backprop]]


def _n_launched_processes() -> int:
    """Return the number of processes of the launcher; 1 without one."""
    return int(os.environ.get("WORLD_SIZE") or 1)


def local_gpu(first: int) -> int:
    """Return the GPU of this process if the first process of a machine has GPU `first`.

    -1 (CPU) for -1. Raises KrisselError K022 if the machine has too few.
    """
    if first < 0 or _n_launched_processes() == 1:
        return first
    found, own = n_gpus(), first + int(os.environ.get("LOCAL_RANK") or 0)
    if own >= found:
        problem = (
            f"process {os.environ.get('RANK')} is to use GPU {own}, and torch finds {found} here"
        )
        raise KrisselError(Errors.K022.format(count=_n_launched_processes(), problem=problem))
    return own


def n_gpus() -> int:
    """Return the number of GPUs of this machine, according to torch."""
    import torch

    return torch.cuda.device_count()


def use_tf32() -> None:
    """Round float32 matrix products to TF32 from now on, in this process, on cards that support
    it.
    """
    import torch

    torch.set_float32_matmul_precision("high")


@contextmanager
def process_group(use_gpu: int, timeout: float) -> Iterator[None]:
    """Connect the launcher's processes within the block: by NCCL for GPUs, else by Gloo.

    timeout: minutes that a process waits for the others.
    Raises KrisselError K022 if they cannot connect.
    """
    if _n_launched_processes() == 1:
        yield
        return
    from torch import distributed

    try:
        backend = "cpu:gloo,cuda:nccl" if use_gpu >= 0 else "gloo"
        distributed.init_process_group(backend, timeout=timedelta(minutes=timeout))
    except (RuntimeError, ValueError) as error:
        raise KrisselError(
            Errors.K022.format(count=_n_launched_processes(), problem=error)
        ) from error
    yield
    # Not after an error: the process must end then, and this call might wait for the others.
    distributed.destroy_process_group()


def n_processes() -> int:
    """Return the number of connected processes; 1 for a single one."""
    distributed = _distributed()
    return 1 if distributed is None else distributed.get_world_size()


def process_rank() -> int:
    """Return the rank of this process among the connected ones."""
    distributed = _distributed()
    return 0 if distributed is None else distributed.get_rank()


def begin_shared(
    begin: Begin, sizes: Sequence[int], rows: Sequence[Sequence[int]] | None = None
) -> tuple[Any, Any]:
    """Run `begin(range(n))` of n items, divided among the processes.

    begin: takes item numbers; returns their rows of an array, item by item, and the backprop of
        these rows, which accumulates gradients in a model (its return value is ignored). It may
        draw random numbers, which differ between processes (`per_process_draws`).
    sizes: (n,) the amount of work per item.
    rows: (n,) the rows of the whole array that each item produces; None: one each, in order.

    RETURNS: the whole array, the same in every process, and a backprop that takes the gradient of
        the whole array and runs this process's part.
    Raises KrisselError K021 if the processes have different items, K020 if one of them is gone.
    """
    n = len(sizes)
    if n_processes() == 1 or not n:
        return begin(list(range(n)))
    if not all_equal(zlib.crc32(np.asarray(sizes, dtype=np.int64).tobytes())):
        raise KrisselError(Errors.K021)
    # Distribute by size, so that all parts need about the same work.
    order = sorted(range(n), key=lambda i: -sizes[i])
    own = order[process_rank() :: n_processes()]
    idle = not own
    if idle:
        # Encode one item to know the width of the array; the result is not used.
        own = order[:1]
    rows = rows or [[i] for i in range(n)]
    own_rows = [row for i in own for row in rows[i]]
    with per_process_draws():
        Y, backprop = begin(own)
    whole: Any = get_array_module(Y).zeros((sum(map(len, rows)), *Y.shape[1:]), dtype=Y.dtype)
    if not idle:
        whole[own_rows] = Y
    sum_over_processes([whole])

    def backprop_own(d_whole: Any) -> Any:
        d_own = d_whole[own_rows]
        with per_process_draws():
            return backprop(0 * d_own if idle else d_own)

    return whole, backprop_own


def make_shared(make: Callable[[list[int]], Any], rows: Sequence[Sequence[int]]) -> Any:
    """Return the whole array as in `begin_shared`, without backprop.

    rows: (n,) of each item, whose work is proportional to them.
    """
    return begin_shared(lambda own: (make(own), no_backprop), [len(each) for each in rows], rows)[0]


def no_backprop(gradient: Any) -> None:
    return None


@contextmanager
def per_process_draws() -> Iterator[None]:
    """Context in which random numbers differ between processes.

    On exit all processes draw the same again.
    """
    seed = int(np.random.randint(2**31))
    with replay_rng(capture_rng()):
        fix_random_seed(seed + process_rank())
        yield


def sum_over_processes(arrays: Sequence[Any]) -> None:
    """Replace each array or tensor by its sum over all processes, bitwise equal in each."""
    import torch

    with _collective():
        tensors = [each if torch.is_tensor(each) else torch.from_dlpack(each) for each in arrays]
        works = [torch.distributed.all_reduce(tensor, async_op=True) for tensor in tensors]
        for work in works:
            work.wait()


def all_equal(number: int) -> bool:
    """Return whether all processes have the same 64-bit number."""
    numbers = np.zeros(n_processes(), dtype=np.int64)
    numbers[process_rank()] = number
    if len(numbers) > 1:
        sum_over_processes([numbers])
    return bool((numbers == number).all())


def broadcast_from_rank_zero(make: Callable[[], T]) -> T:
    """Return the first process's `make()`, in all processes."""
    distributed = _distributed()
    if distributed is None:
        return make()
    found = [make() if process_rank() == 0 else None]
    with _collective():
        distributed.broadcast_object_list(found, src=0)
    return found[0]  # type: ignore[return-value]


def _distributed() -> Any:
    # Imported by `process_group`; until then there is one process.
    distributed = sys.modules.get("torch.distributed")
    if distributed is None or not distributed.is_available() or not distributed.is_initialized():
        return None
    return distributed


@contextmanager
def _collective() -> Iterator[None]:
    """Context of collective operations that turns their errors into K020."""
    try:
        yield
    except RuntimeError as error:
        problem = str(error).partition("\n")[0]
        found = Errors.K020.format(number=process_rank(), count=n_processes(), problem=problem)
        raise KrisselError(found) from error


def gradient_norm(model: Model[Any, Any]) -> float:
    """Return the L2 norm of all accumulated gradients of a model.

    Call it before clipping (PEL, appendix E) and before the update.
    """
    return math.sqrt(float(_squared_gradient(model)))


def clip_gradients(model: Model[Any, Any], bound: float) -> Any:
    """Scale all accumulated gradients of a model to an L2 norm of at most `bound`; 0 for any.

    RETURNS: the norm before, an array of one number on the device, without waiting for the device.
    """
    xp: Any = model.ops.xp
    norm = xp.sqrt(_squared_gradient(model)).reshape(1)
    if bound:
        scale_gradients(model, xp.minimum(1.0, bound / xp.maximum(norm, 1e-30)).astype(xp.float32))
    return norm


def scale_gradients(model: Model[Any, Any], factor: Any) -> None:
    """Multiply all accumulated gradients of a model.

    factor: a number, or an array of one on the device.
    """
    for node in model.walk():
        for name in node.param_names:
            if node.has_grad(name):
                node.set_grad(name, factor * node.get_grad(name))
        for shim in _trained_shims(node):
            shim.scale_gradients(factor)


def _squared_gradient(model: Model[Any, Any]) -> Any:
    """Return the sum of squares of all gradients, 0-dimensional, on the device."""
    xp: Any = model.ops.xp
    total = xp.zeros((), dtype=xp.float32)
    for node in model.walk():
        gradients: list[Any] = [
            node.get_grad(name) for name in node.param_names if node.has_grad(name)
        ]
        total = sum(((gradient * gradient).sum() for gradient in gradients), total)
        total = sum((shim.squared_gradient() for shim in _trained_shims(node)), total)
    return total


def _trained_shims(node: Model[Any, Any]) -> list[Any]:
    """Return the shims with weights; a shim may be a cache."""
    return [shim for shim in node.shims if hasattr(shim, "squared_gradient")]


def sum_gradients(model: Model[Any, Any]) -> None:
    """Replace each gradient in `model` by its sum over all processes.

    Then all make the same step. A weight with a gradient in any process (references may be encoded
    in one only) has one in all afterwards.
    """
    if n_processes() == 1:
        return
    nodes = list(model.walk())
    params = [(node, name) for node in nodes for name in node.param_names]
    shims = [shim for node in nodes for shim in node.shims]
    weights = [
        p for shim in shims if isinstance(shim, PyTorchShim) for p in shim._model.parameters()
    ]
    held = np.array(
        [
            *(node.has_grad(name) is True for node, name in params),
            *(p.grad is not None for p in weights),
        ],
        dtype="int32",
    )
    sum_over_processes([held])
    gradients: list[Any] = []
    for (node, name), anywhere in zip(params, held, strict=False):
        if anywhere:
            if not node.has_grad(name):
                weight: Any = node.get_param(name)
                node.set_grad(name, 0 * weight)
            gradients.append(node.get_grad(name))
    for p, anywhere in zip(weights, held[len(params) :], strict=True):
        if anywhere:
            p.grad = p.new_zeros(p.shape) if p.grad is None else p.grad.contiguous()
            gradients.append(p.grad)
    sum_over_processes(gradients)
    for shim in shims:
        # Shims other than torch's, such as hashed tables.
        if hasattr(shim, "sum_gradients"):
            shim.sum_gradients()
