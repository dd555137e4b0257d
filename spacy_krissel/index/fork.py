"""Support for searches in forked workers."""

import os
import sys

_guarded = False
_cuda_used = False
_cuda_lost = False


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
