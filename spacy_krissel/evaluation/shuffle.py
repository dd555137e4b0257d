"""Exchange the contexts of mentions that look alike, to see whether a system uses them."""

import random
from collections import defaultdict
from dataclasses import replace
from typing import Dict, Iterable, List, Optional, Sequence, Union, overload

from spacy.tokens import Doc, Span

from ..ontology.folding import fold_name
from .records import LinkRecord


@overload
def shuffle_contexts(items: Sequence[LinkRecord], seed: int = 0) -> List[LinkRecord]: ...
@overload
def shuffle_contexts(items: Sequence[Doc], seed: int = 0, *, spans_key: Optional[str] = None) -> List[Doc]: ...
def shuffle_contexts(
    items: Union[Sequence[LinkRecord], Sequence[Doc]], seed: int = 0, *, spans_key: Optional[str] = None
) -> Union[List[LinkRecord], List[Doc]]:
    """Give every gold mention the context of a mention with the same surface form, drawn at random (perhaps its own).

    Since the surface form is the same, putting a mention into another's context is the same as taking over the other's
    gold, and that is what is done: docs come back as copies with their gold ids exchanged (of `doc.ents`, or of
    `doc.spans[spans_key]`), records with their gold exchanged and what the system said about each place kept.
    """
    if all(isinstance(item, LinkRecord) for item in items):
        return _shuffle_records(items, seed)  # type: ignore[arg-type]
    return _shuffle_docs(items, seed, spans_key)  # type: ignore[arg-type]


def _shuffle_records(records: Sequence[LinkRecord], seed: int) -> List[LinkRecord]:
    order = _exchange((record.text for record in records), seed)
    return [replace(record, gold=records[other].gold) for record, other in zip(records, order, strict=True)]


def _shuffle_docs(docs: Sequence[Doc], seed: int, spans_key: Optional[str]) -> List[Doc]:
    copies = [doc.copy() for doc in docs]
    spans = [list(doc.ents if spans_key is None else doc.spans.get(spans_key, ())) for doc in copies]
    flat = [span for in_doc in spans for span in in_doc]
    order = _exchange((span.text for span in flat), seed)
    new_ids = iter([flat[other].kb_id_ for other in order])
    for doc, in_doc in zip(copies, spans, strict=True):
        renamed = [Span(doc, span.start, span.end, label=span.label, kb_id=next(new_ids)) for span in in_doc]
        if spans_key is None:
            doc.ents = renamed
        elif spans_key in doc.spans:
            doc.spans[spans_key] = renamed
    return copies


def _exchange(texts: Iterable[str], seed: int) -> List[int]:
    """For each text the index of the one whose place it takes, a random permutation within equal folded texts."""
    groups: Dict[str, List[int]] = defaultdict(list)
    for i, text in enumerate(texts):
        groups[fold_name(text)].append(i)
    rng = random.Random(seed)
    order = [0] * sum(len(group) for group in groups.values())
    for group in groups.values():
        for i, other in zip(group, rng.sample(group, len(group)), strict=True):
            order[i] = other
    return order
