"""A stand-in for GPU FAISS: its classes and functions over CPU indexes.

It refuses what GPU FAISS refuses (faiss/gpu/GpuCloner.cpp, GpuIndexIVF.cu, GpuIndexIVFPQ.cu), gives
an index on a card a quantizer of its own, and counts what moves. An IVF index on a card is a Python
object that has only what FAISS's has, so that a call that needs more fails.
"""

from dataclasses import dataclass, field
from types import SimpleNamespace

import numpy as np

MAX_SELECTED = 2048
SHARED_MEMORY = 48 * 1024
CODE_LENGTHS = {1, 2, 3, 4, 8, 12, 16, 20, 24, 28, 32, 40, 48, 56, 64, 96}


@dataclass
class Moved:
    """Counts of what moved between host and cards.

    clones: (type, vectors) per index copied as a whole. blocks: bytes per block added on a card.
    fetched: vectors of each index copied back.
    """

    clones: list = field(default_factory=list)
    blocks: list = field(default_factory=list)
    fetched: list = field(default_factory=list)
    searches: int = 0


def install(monkeypatch, faiss, n_cards=2):  # noqa: C901
    """Let the CPU `faiss` pass for one built for GPUs. Returns what will be moved."""
    import torch

    from spacy_krissel.index import faiss_cards

    moved = Moved()

    def refuse(condition, message):
        if condition:
            raise RuntimeError(f"Error: {message}")

    def copied(index):
        # Not `clone_index`, which leaves a mapped index mapped.
        return faiss.deserialize_index(faiss.serialize_index(index))

    def checked(k, params):
        refuse(k > MAX_SELECTED, f"GPU index only supports k <= {MAX_SELECTED}")
        refuse(params is not None, "passed unhandled SearchParameters class to search function")
        moved.searches += 1

    class GpuIndexFlat(faiss.IndexFlat):
        """A real index, since k-means takes C++ objects alone."""

        float16 = False

        def __init__(self, resources, d, config, metric=faiss.METRIC_INNER_PRODUCT):
            refuse(config.device >= n_cards, f"Invalid GPU device {config.device}")
            super().__init__(d, metric)
            self.float16 = config.useFloat16

        def add(self, vectors):
            moved.blocks.append(vectors.nbytes)
            super().add(self._stored(vectors))

        def search(self, queries, k, params=None):
            checked(k, params)
            return super().search(self._stored(queries), k)

        def _stored(self, vectors):
            return vectors.astype(np.float16).astype(np.float32) if self.float16 else vectors

    class GpuIndexIVF:
        def __init__(self, device, index, options):
            refuse(device >= n_cards, f"Invalid GPU device {device}")
            refuse(not 0 < index.nprobe <= MAX_SELECTED, f"nprobe should be <= {MAX_SELECTED}")
            refuse(options.use_cuvs, "this type of index is not implemented for cuVS")
            if isinstance(index, faiss.IndexIVFPQ):
                size, table = index.pq.M, 2 if options.useFloat16 else 4
                refuse(index.pq.nbits != 8, "only pq.nbits == 8 is supported")
                refuse(size not in CODE_LENGTHS, f"{size} bytes per code are not supported")
                refuse(table * size * 256 > SHARED_MEMORY, f"{size} bytes require more memory")
            self._cpu = copied(index)
            self.d, self.is_trained = index.d, index.is_trained

        ntotal = property(lambda self: self._cpu.ntotal)
        quantizer = property(lambda self: self._cpu.quantizer)

        @property
        def nprobe(self):
            return self._cpu.nprobe

        @nprobe.setter
        def nprobe(self, nprobe):
            refuse(not 0 < nprobe <= MAX_SELECTED, f"nprobe should be <= {MAX_SELECTED}")
            self._cpu.nprobe = nprobe

        def add(self, vectors):
            moved.blocks.append(vectors.nbytes)
            self._cpu.add(vectors)

        def add_with_ids(self, vectors, ids):
            moved.blocks.append(vectors.nbytes)
            self._cpu.add_with_ids(vectors, ids)

        def search(self, queries, k, params=None):
            checked(k, params)
            return self._cpu.search(queries, k)

    class IndexShards(faiss.IndexShards):
        """FAISS's own, which takes the Python objects above, too."""

        shards, ids_follow = (), True

        def __init__(self, d, threaded=False, successive_ids=True):
            super().__init__(d, threaded, successive_ids)
            self.shards, self.ids_follow = [], successive_ids

        def add_shard(self, shard):
            self.shards.append(shard)
            if isinstance(shard, faiss.Index):
                super().add_shard(shard)

        def count(self):
            return len(self.shards)

        def at(self, number):
            # FAISS gives the base class, which has no quantizer.
            return SimpleNamespace(downcast=self.shards[number])

        def rows(self):
            return sum(shard.ntotal for shard in self.shards)

        def add(self, vectors):
            refuse(self.ids_follow and self.rows(), "only add() in a single pass is supported")
            ids = np.arange(self.rows(), self.rows() + len(vectors))
            edges = [len(vectors) * number // self.count() for number in range(self.count() + 1)]
            for shard, first, last in zip(self.shards, edges, edges[1:], strict=False):
                if self.ids_follow:
                    shard.add(vectors[first:last])
                else:
                    shard.add_with_ids(vectors[first:last], ids[first:last])

        def search(self, queries, k, params=None):
            scores, rows, first = [], [], 0
            for shard in self.shards:
                found = shard.search(queries, k, params)
                scores.append(found[0])
                rows.append(np.where(found[1] < 0, -1, found[1] + first))
                first += shard.ntotal if self.ids_follow else 0
            scores, rows = np.concatenate(scores, axis=1), np.concatenate(rows, axis=1)
            order = np.argsort(-scores, axis=1, kind="stable")[:, :k]
            return tuple(np.take_along_axis(each, order, axis=1) for each in (scores, rows))

    def clone(device, index, options):
        if isinstance(index, faiss.IndexFlat):
            config = SimpleNamespace(device=device, useFloat16=options.useFloat16)
            flat = GpuIndexFlat(None, index.d, config, index.metric_type)
            if index.ntotal:
                faiss.IndexFlat.add(flat, flat._stored(index.reconstruct_n(0, index.ntotal)))
            return flat
        kinds = faiss.IndexIVFFlat, faiss.IndexIVFScalarQuantizer, faiss.IndexIVFPQ
        refuse(not isinstance(index, kinds), "This index type is not implemented on GPU.")
        return GpuIndexIVF(device, index, options)

    def index_cpu_to_gpu_multiple_py(resources, index, co=None, gpus=None):
        moved.clones.append((type(index).__name__, index.ntotal))
        gpus = list(range(len(resources)) if gpus is None else gpus)
        if len(gpus) == 1:
            return clone(gpus[0], index, co)
        refuse(not co.shard, "replicas are not what was asked for")
        is_flat = isinstance(index, faiss.IndexFlat)
        shards = IndexShards(index.d, True, is_flat)
        for number, device in enumerate(gpus):
            first, last = (index.ntotal * each // len(gpus) for each in (number, number + 1))
            if is_flat:
                part = faiss.IndexFlat(index.d, index.metric_type)
                if last > first:
                    part.add(index.reconstruct_n(first, last - first))
            else:
                refuse(not isinstance(index, faiss.IndexIVF), "IndexShards only for IVF and flat")
                part = copied(index)
                part.reset()
                index.copy_subset_to(part, 1, len(gpus), number)
            shards.add_shard(clone(device, part, co))
        return shards

    def index_gpu_to_cpu(index):
        parts = index.shards if isinstance(index, IndexShards) else [index]
        whole = copied(parts[0]._cpu)
        for part in parts[1:]:
            whole.merge_from(copied(part._cpu), 0)
        moved.fetched.append(whole.ntotal)
        return whole

    def downcast_index(index):
        return index.downcast if isinstance(index, SimpleNamespace) else downcast(index)

    downcast = faiss.downcast_index
    options = {"useFloat16": False, "shard": False, "use_cuvs": True}
    added = {
        "StandardGpuResources": SimpleNamespace,
        "GpuMultipleClonerOptions": lambda: SimpleNamespace(**options),
        "GpuIndexFlatConfig": lambda: SimpleNamespace(device=0, useFloat16=False, use_cuvs=True),
        "GpuIndexFlatIP": GpuIndexFlat,
        "IndexShards": IndexShards,
        "index_cpu_to_gpu_multiple_py": index_cpu_to_gpu_multiple_py,
        "index_gpu_to_cpu": index_gpu_to_cpu,
        "downcast_index": downcast_index,
        "get_num_gpus": lambda: n_cards,
    }
    for name, value in added.items():
        monkeypatch.setattr(faiss, name, value, raising=False)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: n_cards)
    monkeypatch.setattr(faiss_cards.devices, "note_cuda", lambda: None)
    return moved
