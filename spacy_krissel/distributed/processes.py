"""Several processes that train one model: each reads a share of every batch, all of them make the same step.

A launcher starts them (`torchrun`, `accelerate launch`), `joined` brings them together. Whatever is drawn, chosen or
computed outside an encoder is the same in all of them; what encoders make of a batch is divided (`begin_shared`), and
the gradients are added up before the step (`gradients.sum_gradients`). In one process all of this does nothing.
"""

import math
import os
import sys
import zlib
from contextlib import contextmanager
from datetime import timedelta
from typing import Any, Callable, Iterator, List, Optional, Sequence, Tuple, TypeVar

import numpy as np
from thinc.api import Model, PyTorchShim, fix_random_seed, get_array_module

from ..errors import Errors, KrisselError
from .random_state import capture_rng, replay_rng

T = TypeVar("T")
Backprop = Callable[[Any], Any]
# Numbers of items to what is made of them, rows of an array, and the backprop of their gradient.
Begin = Callable[[List[int]], Tuple[Any, Backprop]]


def n_launched() -> int:
    """Processes that a launcher started this one among; 1 without a launcher."""
    return int(os.environ.get("WORLD_SIZE") or 1)


def launched_number() -> int:
    """The number of this process among them, from 0."""
    return int(os.environ.get("RANK") or 0) if n_launched() > 1 else 0


def own_gpu(first: int) -> int:
    """The GPU of this process, where the first process of a machine has GPU `first`; -1, the CPU, for -1.

    Raises KrisselError K022 where the machine has not as many.
    """
    if first < 0 or n_launched() == 1:
        return first
    found, own = n_gpus(), first + int(os.environ.get("LOCAL_RANK") or 0)
    if own >= found:
        problem = f"process {launched_number()} is to use GPU {own}, and torch finds {found} here"
        raise KrisselError(Errors.K022.format(count=n_launched(), problem=problem))
    return own


def n_gpus() -> int:
    """GPUs of this machine, by torch."""
    import torch

    return torch.cuda.device_count()


@contextmanager
def joined(use_gpu: int = -1, timeout: float = 60.0) -> Iterator[None]:
    """Join the processes that the launcher started, until the end of the block: over NCCL for what is on GPUs, over
    Gloo otherwise. Without a launcher this is nothing.

    timeout: minutes after which a process that waits for the others gives up.
    Raises KrisselError K022 when they do not come together.
    """
    if n_launched() == 1:
        yield
        return
    from torch import distributed

    try:
        backend = "cpu:gloo,cuda:nccl" if use_gpu >= 0 else "gloo"
        distributed.init_process_group(backend, timeout=timedelta(minutes=timeout))
    except (RuntimeError, ValueError) as error:
        raise KrisselError(Errors.K022.format(count=n_launched(), problem=error)) from error
    yield
    # Not after an error: the process is to end then, and taking leave in order might wait for the others.
    distributed.destroy_process_group()


def n_processes() -> int:
    """Processes that are joined; 1 for one alone."""
    distributed = _distributed()
    return 1 if distributed is None else distributed.get_world_size()


def process_number() -> int:
    """The number of this process among those that are joined, from 0."""
    distributed = _distributed()
    return 0 if distributed is None else distributed.get_rank()


def begin_shared(begin: Begin, sizes: Sequence[int], rows: Optional[Sequence[Sequence[int]]] = None) -> Tuple[Any, Any]:
    """`begin(range(n))` of n items, the work divided among the processes.

    begin: what to make of some of the items, by number: their rows of an array, item by item, and the backprop of
        these rows' gradient, which leaves gradients in a model and is not used for what it returns. It may draw random
        numbers: no other process has the same, and all processes draw alike again afterwards.
    sizes: (n,) how much work each item is.
    rows: (n,) the rows of the whole array that each item makes, all together 0 to the last; None: one each, in order.

    RETURNS: the whole array, the same in every process, and a backprop that takes the gradient of the whole array and
    runs that of this process's share.
    Raises KrisselError K021 when the processes do not have the same items, K020 when one of them is gone.
    """
    n = len(sizes)
    if n_processes() == 1 or not n:
        return begin(list(range(n)))
    if not alike(zlib.crc32(np.asarray(sizes, dtype=np.int64).tobytes())):
        raise KrisselError(Errors.K021)
    # Dealt out from the largest down, so that all shares are about as much work.
    order = sorted(range(n), key=lambda i: -sizes[i])
    own = order[process_number() :: n_processes()]
    idle = not own
    if idle:
        # It reads an item all the same, to know the width of what it gathers; nothing of it counts.
        own = order[:1]
    if rows is None:
        rows = [[i] for i in range(n)]
    places = [row for i in own for row in rows[i]]
    with own_draws():
        Y, backprop = begin(own)
    whole: Any = get_array_module(Y).zeros((sum(map(len, rows)), *Y.shape[1:]), dtype=Y.dtype)
    if not idle:
        whole[places] = Y
    add_up([whole])

    def backprop_own(d_whole: Any) -> Any:
        d_own = d_whole[places]
        with own_draws():
            return backprop(0 * d_own if idle else d_own)

    return whole, backprop_own


def make_shared(make: Callable[[List[int]], Any], rows: Sequence[Sequence[int]]) -> Any:
    """`begin_shared` where nothing is to be learnt, of items that are as much work as they make rows: the whole array
    alone."""
    return begin_shared(lambda own: (make(own), _nothing), [len(each) for each in rows], rows)[0]


@contextmanager
def own_draws() -> Iterator[None]:
    """Draw random numbers that no other process draws, and go on afterwards as if none had been drawn but one, which
    all processes draw alike."""
    seed = int(np.random.randint(2**31))
    with replay_rng(capture_rng()):
        fix_random_seed(seed + process_number())
        yield


def add_up(arrays: Sequence[Any]) -> None:
    """Put the sum over all processes in the place of each array or tensor. All processes get the same bits."""
    import torch

    with _together():
        tensors = [each if torch.is_tensor(each) else torch.from_dlpack(each) for each in arrays]
        under_way = [torch.distributed.all_reduce(tensor, async_op=True) for tensor in tensors]
        for each in under_way:
            each.wait()


def alike(number: int) -> bool:
    """Has every process the same number? Of 64 bits."""
    numbers = np.zeros(n_processes(), dtype=np.int64)
    numbers[process_number()] = number
    if len(numbers) > 1:
        add_up([numbers])
    return bool((numbers == number).all())


def from_first(make: Callable[[], T]) -> T:
    """What the first process makes, in all of them; the others make nothing."""
    distributed = _distributed()
    if distributed is None:
        return make()
    found = [make() if process_number() == 0 else None]
    with _together():
        distributed.broadcast_object_list(found, src=0)
    return found[0]  # type: ignore[return-value]


def _distributed() -> Any:
    # Imported by whoever joins the processes: until then there is one.
    distributed = sys.modules.get("torch.distributed")
    if distributed is None or not distributed.is_available() or not distributed.is_initialized():
        return None
    return distributed


@contextmanager
def _together() -> Iterator[None]:
    """Around what all processes take part in."""
    try:
        yield
    except RuntimeError as error:
        problem = str(error).partition("\n")[0]
        found = Errors.K020.format(number=process_number(), count=n_processes(), problem=problem)
        raise KrisselError(found) from error


def _nothing(gradient: Any) -> None:
    return None


def gradient_norm(model: Model) -> float:
    """The l2 norm of all gradients that a model holds, before any clipping (PEL, appendix E). Asked for before the
    update that uses them up."""
    total = 0.0
    for node in model.walk():
        for name in node.param_names:
            if node.has_grad(name):
                gradient: Any = node.get_grad(name)
                total += float((gradient * gradient).sum())
        for shim in node.shims:
            total += shim.squared_gradient()  # type: ignore[attr-defined]
    return math.sqrt(total)


def sum_gradients(model: Model) -> None:
    """Put the sum over all processes in the place of each gradient that they hold in their copies of `model`, so that
    all of them make the same step. In one process, nothing.

    A weight that has a gradient in one process and none in another, such as those of an encoder of references in a
    process that read none, has one in both afterwards; one without a gradient in any has none.
    """
    if n_processes() == 1:
        return
    nodes = list(model.walk())
    params = [(node, name) for node in nodes for name in node.param_names]
    shims = [shim for node in nodes for shim in node.shims]
    weights = [p for shim in shims if isinstance(shim, PyTorchShim) for p in shim._model.parameters()]
    held = np.array(
        [*(node.has_grad(name) is True for node, name in params), *(p.grad is not None for p in weights)], dtype="int32"
    )
    add_up([held])
    gradients: List[Any] = []
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
    add_up(gradients)
    for shim in shims:
        # Those that are none of torch's and know what gradients they hold.
        if hasattr(shim, "sum_gradients"):
            shim.sum_gradients()
