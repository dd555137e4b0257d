"""Knowledge bases that are filled later: by a linker's `initialize`, or from disk."""

import functools
from typing import Callable, Optional

from spacy.vocab import Vocab

from ..index.protocol import MakeIndex
from .prototype_kb import PrototypeKB


def empty_kb(
    index: Optional[MakeIndex] = None,
    normalize: bool = False,
    dtype: str = "float32",
    n_candidates: int = 16,
    reference_weight: float = 1.0,
    verify: bool = True,
) -> Callable[[Vocab, int], PrototypeKB]:
    """Registered as `spacy-krissel.EmptyKB.v1`: makes a `PrototypeKB` of a vocabulary and a width of vectors.

    index, normalize, dtype, n_candidates, reference_weight, verify: as in `PrototypeKB`.
    """
    return functools.partial(
        PrototypeKB,
        index=index,
        normalize=normalize,
        dtype=dtype,
        n_candidates=n_candidates,
        reference_weight=reference_weight,
        verify=verify,
    )
