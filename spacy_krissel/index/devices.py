"""Devices for searches (the CPU, one CUDA device, all of them), and their use after a fork."""

import os
import sys
import warnings

from ..errors import Errors, KrisselError, KrisselWarning, Warnings, wrong_setting

ALL_CARDS = "cuda:all"
# Warnings given in this process: each is given once, however many indexes it concerns.
_warned: set[str] = set()
_guarded = False
_cuda_used = False
_cuda_lost = False


def check_device(device: str) -> str:
    """Return `device` if it is "cpu", "cuda", "cuda:N" or "cuda:all". Raises KrisselError K006."""
    name, _, card = device.partition(":")
    if device not in ("cpu", "cuda", ALL_CARDS) and not (name == "cuda" and card.isdigit()):
        raise wrong_setting("device", device, "'cpu', 'cuda', 'cuda:N' or 'cuda:all'")
    return device


def require_device(device: str) -> None:
    """Raise an error for a device that torch does not find on this machine.

    CUDA is not initialized.

    Raises KrisselError K502 (no such device) and K006 (no name of a device).
    """
    if problem := missing_device(check_device(device)):
        library = "torch with CUDA"
        raise KrisselError(Errors.K502.format(device=device, problem=problem, library=library))


def missing_device(device: str) -> str:
    """Return why torch cannot use the device, "" if it can. CUDA is not initialized."""
    if device == "cpu":
        return ""
    try:
        import torch
    except ImportError:
        return "torch is not installed"
    count = torch.cuda.device_count()
    if not count:
        return "torch finds no CUDA device"
    if device != ALL_CARDS and card_number(device) >= count:
        return f"the number of CUDA devices that torch finds is {count}"
    return ""


def card_number(device: str) -> int:
    """Return the N of "cuda:N", 0 for "cuda"."""
    return int(device.partition(":")[2] or 0)


def warn_cpu(device: str, problem: str) -> None:
    """Warn once per process that an index for the device searches on the CPU (KW503)."""
    message = Warnings.KW503.format(device=device, problem=problem)
    if message not in _warned:
        _warned.add(message)
        warnings.warn(message, KrisselWarning, stacklevel=4)


def guard_forks() -> None:
    """Let forked children of this process use FAISS and torch.

    Call it before the first search or encoding. The threads of an OpenMP pool do not survive a
    fork, and a child that waits for them never ends (faiss#5206). Children therefore run on one
    thread, which is also best if several workers share the cores. NumPy's own BLAS restarts its
    threads by itself.
    """
    global _guarded
    if not _guarded and hasattr(os, "register_at_fork"):
        os.register_at_fork(before=_prepare, after_in_child=_settle_in_child)
        _guarded = True


def note_cuda() -> None:
    """Record that this process uses a CUDA device, so that its forked children cannot."""
    global _cuda_used
    _cuda_used = True


def cuda_lost() -> bool:
    """Return whether this process was forked from one that had used CUDA.

    Then it must search on the CPU.
    """
    return _cuda_lost


def _prepare() -> None:
    if "torch" in sys.modules and sys.modules["torch"].cuda.is_initialized():
        note_cuda()


def _settle_in_child() -> None:
    global _cuda_lost
    _cuda_lost = _cuda_used
    # Libraries that were not imported before the fork have no threads to lose.
    if "faiss" in sys.modules:
        sys.modules["faiss"].omp_set_num_threads(1)
    if "torch" in sys.modules:
        sys.modules["torch"].set_num_threads(1)
