"""The types of FAISS index, and what may be set of each."""

import math
from typing import Any, Dict

from ..errors import Errors, KrisselError

# Each type's settings with their defaults. `nlist` 0 stands for four times the root of the number of vectors,
# `pq_bytes` 0 for half the width, `refine` 0 for no second look.
DEFAULTS: Dict[str, Dict[str, int]] = {
    "flat": {},
    "hnsw": {"m": 16, "ef_construction": 200, "ef_search": 64},
    "ivf": {"nlist": 0, "nprobe": 16},
    "ivf_sq8": {"nlist": 0, "nprobe": 16, "refine": 2},
    "ivf_pq": {"nlist": 0, "nprobe": 16, "pq_bytes": 0, "refine": 4},
}
# What may change after an index was built, with what stands for nothing there.
SEARCH_SETTINGS = ("ef_search", "nprobe", "refine")
FROM_ZERO = ("nlist", "pq_bytes", "refine")
# k-means asks for at least 39 vectors a list (or code) and uses at most 256.
MIN_TRAIN, MAX_TRAIN = 39, 256
# Of many lists it makes do with fewer vectors each: the time of k-means grows with their product.
MANY_TRAIN, MAX_TRAIN_OF_MANY = 2**18, 64
# The number of codes of a byte.
CODES = 256


def checked_settings(type: str, device: str, float16: bool, settings: Dict[str, int]) -> Dict[str, int]:
    """All settings of an index of the `type`, those given and the defaults. Raises KrisselError K006."""
    if type not in DEFAULTS:
        known = [repr(name) for name in DEFAULTS]
        expected = f"{', '.join(known[:-1])} or {known[-1]}"
        raise KrisselError(Errors.K006.format(setting="type", found=type, expected=expected))
    for name, value in settings.items():
        if name not in DEFAULTS[type]:
            known_names = ", ".join(DEFAULTS[type]) or "none"
            expected = f"nothing: it is no setting of a {type!r} index (those are: {known_names})"
            raise KrisselError(Errors.K006.format(setting=name, found=value, expected=expected))
        least = 0 if name in FROM_ZERO else 1
        if not isinstance(value, int) or value < least:
            raise KrisselError(Errors.K006.format(setting=name, found=value, expected=f"an integer from {least}"))
    if type == "hnsw" and device != "cpu":
        expected = "'cpu' with type 'hnsw'; for a CUDA device choose type 'flat' or one of the 'ivf' types"
        raise KrisselError(Errors.K006.format(setting="device", found=device, expected=expected))
    if float16 and type in ("ivf_sq8", "ivf_pq"):
        expected = f"False with type {type!r}, which holds the vectors in less than half the space"
        raise KrisselError(Errors.K006.format(setting="float16", found=float16, expected=expected))
    return {**DEFAULTS[type], **settings}


def factory_string(type: str, float16: bool, settings: Dict[str, Any], n: int, width: int) -> str:
    """What FAISS calls an index for `n` vectors of this width. Raises KrisselError K006 (pq_bytes)."""
    storage = "SQfp16" if float16 else "Flat"
    if type == "hnsw":
        return f"HNSW{settings['m']}_{storage}"
    if not type.startswith("ivf"):
        return storage
    nlist = settings["nlist"] or 4 * math.isqrt(n)
    # A byte has more codes than few vectors can teach.
    if type == "ivf_sq8" or (type == "ivf_pq" and n < CODES * MIN_TRAIN):
        storage = "SQ8"
    elif type == "ivf_pq":
        # Not polysemous: the order of codes would be trained for minutes, and nothing reads it.
        storage = f"PQ{_pq_bytes(settings['pq_bytes'], width)}np"
    return f"IVF{max(1, min(nlist, n // MIN_TRAIN))},{storage}"


def training_rows(nlist: int) -> int:
    """How many vectors an index of so many lists is trained on, at most."""
    return min(MAX_TRAIN * nlist, max(MANY_TRAIN, MAX_TRAIN_OF_MANY * nlist))


def estimated_bytes(type: str, settings: Dict[str, Any], n: int, width: int) -> float:
    """About what an index of `n` vectors holds, with row numbers and links of 8 and 4 bytes."""
    value = 2 if settings.get("float16") else 4
    if type == "hnsw":
        # Twice `m` links on the lowest level, and few above it.
        return n * (value * width + 4 * (2 * settings["m"] + 2))
    codes = {"ivf_sq8": width, "ivf_pq": settings.get("pq_bytes") or width / 2}
    return n * codes.get(type, value * width) + (8 * n if type.startswith("ivf") else 0)


def _pq_bytes(given: int, width: int) -> int:
    divisors = [number for number in range(1, width + 1) if width % number == 0]
    if given and given not in divisors:
        expected = f"a divisor of the width of the vectors ({', '.join(map(str, divisors))})"
        raise KrisselError(Errors.K006.format(setting="pq_bytes", found=given, expected=expected))
    return given or max(number for number in divisors if number <= max(1, width // 2))
