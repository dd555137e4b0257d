"""FAISS's indexes on CUDA devices, and the limits of these."""

from typing import Any

import numpy as np

from . import devices
from .devices import ALL_CARDS, card_number, missing_device

# The highest k and nprobe that FAISS's kernels select.
MAX_SELECTED = 2048
# Bytes per code of product quantization that FAISS's kernels take. Tables of all scores per byte
# have to fit into 48 KB of shared memory: those of longer codes do in float16 alone.
PQ_BYTES = (1, 2, 3, 4, 8, 12, 16, 20, 24, 28, 32, 40, 48)
PQ_BYTES_FLOAT16 = (56, 64, 96)
CARD_PQ_BYTES = (*PQ_BYTES, *PQ_BYTES_FLOAT16)
# Vectors added at a time, so that float16 or mapped ones are never all copied at once.
ADD_ROWS = 65_536


class FaissCards:
    """One or all CUDA devices, with FAISS's memory on them.

    device: "cuda", "cuda:N" or "cuda:all", which divides vectors among all devices.
    """

    def __init__(self, faiss: Any, device: str) -> None:
        devices.note_cuda()
        self._faiss = faiss
        all_numbers = range(faiss.get_num_gpus())
        self._numbers = list(all_numbers) if device == ALL_CARDS else [card_number(device)]
        self._resources = [faiss.StandardGpuResources() for _ in self._numbers]

    def clone(self, index: Any) -> Any:
        """Copy a CPU index, flat or IVF, to the cards."""
        options = self._faiss.GpuMultipleClonerOptions()
        options.shard = True
        # Lookup tables alone. With `refine`, the vectors decide on what they find.
        options.useFloat16 = _code_bytes(index) in PQ_BYTES_FLOAT16
        # Not the kernels of cuVS, which some builds prefer: they train and assign in their own way.
        options.use_cuvs = False
        cards = self._resources, index, options, self._numbers
        return self._faiss.index_cpu_to_gpu_multiple_py(*cards)

    def flat_float16(self, index: Any) -> Any:
        """Copy the vectors of a CPU index to flat float16 ones on the cards, in blocks of ADD_ROWS.

        FAISS's own cloner would need all of them in float32.
        """
        faiss = self._faiss
        edges = np.linspace(0, index.ntotal, len(self._numbers) + 1).astype(np.int64).tolist()
        filled = []
        for card, number in enumerate(self._numbers):
            config = faiss.GpuIndexFlatConfig()
            config.device, config.useFloat16, config.use_cuvs = number, True, False
            part = faiss.GpuIndexFlatIP(self._resources[card], index.d, config)
            for start in range(edges[card], edges[card + 1], ADD_ROWS):
                stop = min(start + ADD_ROWS, edges[card + 1])
                part.add(index.reconstruct_n(start, stop - start))
            filled.append(part)
        if len(filled) == 1:
            return filled[0]
        # Threads search the cards at the same time. Rows follow each other from card to card.
        shards = faiss.IndexShards(index.d, True, True)
        for part in filled:
            shards.add_shard(part)
        return shards


def cards_problem(faiss: Any, device: str, index: Any) -> str:
    """Return why FAISS cannot search the CPU index on the device, "" if it can."""
    # Torch is asked first: without a driver, FAISS ends the process.
    if problem := missing_device(device):
        return problem
    if not hasattr(faiss, "StandardGpuResources"):
        return "the installed FAISS is built for the CPU (pip install 'spacy-krissel[gpu]')"
    count = faiss.get_num_gpus()
    if count <= (0 if device == ALL_CARDS else card_number(device)):
        return f"the number of CUDA devices that FAISS finds is {count}"
    if (size := _code_bytes(index)) and size not in CARD_PQ_BYTES:
        sizes = ", ".join(map(str, CARD_PQ_BYTES))
        return f"the codes of this index have {size} bytes and cards take {sizes}"
    return ""


def parts_of(faiss: Any, index: Any) -> list[Any]:
    """Return the indexes that an index on several cards consists of, or the index itself."""
    if not isinstance(index, faiss.IndexShards):
        return [index]
    return [faiss.downcast_index(index.at(number)) for number in range(index.count())]


def _code_bytes(index: Any) -> int:
    """Return the bytes per code of an index with product quantization, 0 for another."""
    return index.pq.M if hasattr(index, "pq") else 0
