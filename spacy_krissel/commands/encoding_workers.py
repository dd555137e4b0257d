"""Worker processes that encode with a pipeline's encoder, on this machine or on a Ray cluster."""

import multiprocessing
import os
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ..building.encoding import Encode, Encoders
from ..distributed.processes import n_gpus
from ..distributed.workers import (
    first_done,
    follow_parent,
    n_free_slots,
    ray_cluster,
)
from ..errors import Errors, KrisselError, wrong_setting
from ..pipeline.kb_pipe import skip_loading_kb
from ..pipeline.pipeline_io import choose_gpu, find_kb_pipe, load_pipeline
from ..views import View

# Maximum number of restarts of a lost actor, and of repetitions of its blocks.
MAX_RETRIES = 5
_encode: Encode | None = None


class EncoderOf(NamedTuple):
    """The encoder of a pipeline, as loaded by a worker.

    pipeline: contains the pipe `name`, which encodes; at the same path on every machine. overrides:
        of its config.
    """

    pipeline: Path
    overrides: dict[str, Any]
    name: str

    def load(self, gpu_id: int) -> Encode:
        """Load the encoder.

        gpu_id: the GPU to encode on, or -1 for the CPU.
        """
        if gpu_id >= 0:
            choose_gpu(gpu_id, silent=True)
        with skip_loading_kb(self.name):
            nlp = load_pipeline(self.pipeline, self.overrides)
        pipe = find_kb_pipe(nlp, self.name)
        pipe.require_weights()
        return pipe.encode


class EncodingProcesses(Encoders):
    """Processes of this machine, each with the encoder on its own device."""

    def __init__(self, pool: ProcessPoolExecutor, n_process: int) -> None:
        self._pool = pool
        # Each process encodes one block while another waits.
        self.n_ahead = 2 * n_process

    def begin(self, views: list[View]) -> Callable[[], np.ndarray]:
        return self._pool.submit(_encode_in_worker, views).result


@contextmanager
def encoding_processes(encoder: EncoderOf, n_process: int, gpu_id: int) -> Iterator[Encoders]:
    """Start processes that encode, and stop them at the end of this context.

    gpu_id: of the first process, the next having the next one; -1: all of them share the
        processors.

    Raises KrisselError K006 (fewer GPUs than processes), K641 (a process died).
    """
    if gpu_id >= 0 and gpu_id + n_process > n_gpus():
        expected = f"at most {n_gpus() - gpu_id}, the GPUs from {gpu_id} on"
        raise wrong_setting("n_process", n_process, expected)
    # A CUDA device cannot be used by a process that was forked from one that used it.
    context = multiprocessing.get_context("spawn")
    devices = context.SimpleQueue()
    for number in range(n_process):
        devices.put(gpu_id + number if gpu_id >= 0 else -1)
    n_threads = max(1, (os.cpu_count() or 1) // n_process)
    pool = ProcessPoolExecutor(n_process, context, _start_worker, (encoder, devices, n_threads))
    try:
        yield EncodingProcesses(pool, n_process)
    except BrokenProcessPool as error:
        raise KrisselError(Errors.K641.format(problem=error, n_process=n_process)) from error
    except BaseException:
        # They ignore Ctrl-C, and a block takes minutes. Unsent results are lost either way.
        for process in list((pool._processes or {}).values()):
            process.terminate()
        raise
    finally:
        pool.shutdown(cancel_futures=True)


class EncodingActors(Encoders):
    """Actors of a Ray cluster, one for each of its free GPUs, or else processors.

    If an actor is lost, its block is sent to another. Ray restarts the lost actor, but waits
    forever for resources if its machine is lost too. Once it answers, it is sent blocks again.
    """

    def __init__(self, ray: Any, encoder: EncoderOf, use_gpu: bool, n_actors: int) -> None:
        self._ray = ray
        make = ray.remote(
            num_cpus=0 if use_gpu else 1, num_gpus=int(use_gpu), max_restarts=MAX_RETRIES
        )
        actor = make(RayEncoder)
        self._actors = deque(actor.remote(encoder, use_gpu) for _ in range(n_actors))
        # Lost actors, by the pending answer of each.
        self._lost: dict[Any, Any] = {}
        self.n_ahead = 2 * n_actors

    def begin(self, views: list[View]) -> Callable[[], np.ndarray]:
        actor = self._next()
        return partial(self._result, views, actor, actor.encode.remote(views))

    def close(self) -> None:
        """End the actors, whose processors or GPUs the next run of this program may use."""
        # The cluster may be gone.
        with suppress(self._ray.exceptions.RayError):
            for actor in (*self._actors, *self._lost.values()):
                self._ray.kill(actor)

    def _result(self, views: list[View], actor: Any, vectors: Any) -> np.ndarray:
        for _ in range(MAX_RETRIES):
            try:
                return self._ray.get(first_done(self._ray, [vectors]))
            # An actor was lost while encoding, or a machine with vectors that were not fetched yet.
            except (self._ray.exceptions.RayActorError, self._ray.exceptions.ObjectLostError):
                if actor in self._actors:
                    self._actors.remove(actor)
                    self._lost[actor.answer.options(max_task_retries=-1).remote()] = actor
                actor = self._next()
                vectors = actor.encode.remote(views)
        return self._ray.get(first_done(self._ray, [vectors]))

    def _next(self) -> Any:
        """Return the next actor that is not lost; wait for one if all are."""
        if self._actors:
            answers, _ = self._ray.wait(list(self._lost), timeout=0)
        else:
            answers = [first_done(self._ray, self._lost)]
        for answer in answers:
            actor = self._lost.pop(answer)
            try:
                self._ray.get(answer)
                self._actors.append(actor)
            except self._ray.exceptions.RayActorError:
                if not self._actors and not self._lost:
                    raise
        if not self._actors:
            return self._next()
        self._actors.rotate()
        return self._actors[0]


class RayEncoder:
    """Actor that encodes."""

    def __init__(self, encoder: EncoderOf, use_gpu: bool) -> None:
        # Ray exposes only its own GPU to an actor.
        self._encode = encoder.load(0 if use_gpu else -1)

    def encode(self, views: list[View]) -> np.ndarray:
        return self._encode(views)

    def answer(self) -> None:
        """Return, to show that the actor is alive."""


@contextmanager
def encoding_actors(encoder: EncoderOf, address: str, gpu_id: int) -> Iterator[Encoders]:
    """Start Ray actors that encode, and stop them at the end of this context.

    address: see `util.ray_cluster`. gpu_id: -1 for actors on CPUs.

    Raises KrisselError K023 to K025, K029 (Ray).
    """
    kind = "GPU" if gpu_id >= 0 else "CPU"
    with ray_cluster(address, MAX_RETRIES) as ray:
        # Free resources only: an actor would wait forever for others.
        n_actors = n_free_slots(ray, kind, address)
        actors = EncodingActors(ray, encoder, gpu_id >= 0, n_actors)
        try:
            yield actors
        finally:
            actors.close()


def _start_worker(encoder: EncoderOf, devices: Any, n_threads: int) -> None:
    from threadpoolctl import threadpool_limits

    global _encode
    follow_parent()
    _encode = encoder.load(devices.get())
    threadpool_limits(n_threads)


def _encode_in_worker(views: list[View]) -> np.ndarray:
    assert _encode is not None
    return _encode(views)
