"""The FAISS indexes that are tried on a knowledge base, and the settings of their searches."""

from typing import Any, Dict, Iterator, List, Sequence, Tuple

from ...index.faiss_settings import DEFAULTS, estimated_bytes

# Of each type: what it is built with, and how wide it may search, narrowest first.
BUILT: Dict[str, Dict[str, Any]] = {
    "ivf": {"float16": True},
    "ivf_sq8": {},
    "ivf_pq": {},
    "hnsw": {"float16": True},
}
WIDTHS: Dict[str, Tuple[str, Sequence[int]]] = {
    "ivf": ("nprobe", (1, 2, 4, 8, 16, 32, 64, 128, 256, 512)),
    "ivf_sq8": ("nprobe", (1, 2, 4, 8, 16, 32, 64, 128, 256, 512)),
    "ivf_pq": ("nprobe", (1, 2, 4, 8, 16, 32, 64, 128, 256, 512)),
    "hnsw": ("ef_search", (16, 32, 64, 128, 256, 512)),
}
REFINE: Dict[str, Sequence[int]] = {"ivf_sq8": (1, 2), "ivf_pq": (1, 2, 4, 8)}


def planned(types: Sequence[str], n: int, width: int, memory: float) -> Tuple[List[str], List[str]]:
    """The types to build, least time first, and those that would take more than `memory` bytes (0: any)."""
    known = [type_ for type_ in BUILT if type_ in types]
    sizes = {type_: estimated_bytes(type_, {**DEFAULTS[type_], **BUILT[type_]}, n, width) for type_ in known}
    fitting = [type_ for type_ in known if not memory or sizes[type_] <= memory]
    return fitting, [type_ for type_ in known if type_ not in fitting]


def searches(type_: str) -> Iterator[List[Dict[str, int]]]:
    """Settings of searches by an index of this type: lists of which each goes from narrow to wide."""
    name, widths = WIDTHS[type_]
    for refine in REFINE.get(type_, (None,)):  # type: ignore[arg-type]
        yield [{name: width} if refine is None else {name: width, "refine": refine} for width in widths]
