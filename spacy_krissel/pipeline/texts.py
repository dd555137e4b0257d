"""Texts that a pipeline can read."""

import warnings
from typing import Callable, Iterable, Iterator, List, Tuple, TypeVar

from spacy.language import Language

from ..errors import KrisselWarning, Warnings

Item = TypeVar("Item")
MAX_IDS = 3


def of_length(nlp: Language, items: Iterable[Item], text_and_id: Callable[[Item], Tuple[str, str]]) -> Iterator[Item]:
    """The items whose text is within `nlp.max_length`: at a longer one spaCy would end the whole run (E088).

    Warns KW620 of the others at the end, once.
    """
    total = 0
    longer: List[str] = []
    for item in items:
        text, id_ = text_and_id(item)
        total += 1
        if len(text) > nlp.max_length:
            longer.append(id_)
        else:
            yield item
    if longer:
        first = ", ".join(longer[:MAX_IDS])
        message = Warnings.KW620.format(count=len(longer), total=total, limit=nlp.max_length, first=first)
        warnings.warn(message, KrisselWarning, stacklevel=2)
