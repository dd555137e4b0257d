"""Gold mentions of docs: where they stand, and the ontology's ids for what the corpus wrote."""

import hashlib
from typing import Sequence, Tuple

from spacy.tokens import Doc, Span

from .ids import NIL, Resolver, is_nil, split_ids

SPANS_KEY = "krissel"
ID_KEY = "krissel_id"


def gold_spans(doc: Doc, spans_key: str = "") -> Sequence[Span]:
    """The gold mentions of a doc: `doc.spans[spans_key]` if a key is given, else all mentions of the corpus where the
    doc holds them (`doc.spans["krissel"]`, as `convert` writes it, overlapping ones included), else `doc.ents`."""
    key = spans_key or (SPANS_KEY if SPANS_KEY in doc.spans else "")
    if not key:
        return tuple(doc.ents)
    return tuple(doc.spans[key]) if key in doc.spans else ()


def document_id(doc: Doc) -> str:
    """What names a document: its id in the corpus, or for one without an id a hash of its text."""
    given = doc.user_data.get(ID_KEY)
    return str(given) if given else text_hash(doc)


def text_hash(doc: Doc) -> str:
    """What the documents of one text share, whatever their ids."""
    return f"sha256:{hashlib.sha256(doc.text.encode('utf8')).hexdigest()[:16]}"


def split_gold(kb_id: str, store: Resolver, *, gold_nil: bool = False) -> Tuple[str, ...]:
    """The primary ids that a gold annotation stands for; empty when it names no concept.

    Composite ids are joined with `|` or `+`. `-1`, `-` and `NIL` mean that there is no concept: such a mention is left
    out, or is `("NIL",)` with `gold_nil`. An id that the ontology does not hold stays as it is.
    """
    kb_id = kb_id.strip()
    if is_nil(kb_id):
        return (NIL,) if gold_nil else ()
    if kb_id and store.resolve(whole := primary_id(kb_id, store)) is not None:
        return (whole,)
    return tuple(dict.fromkeys(primary_id(part, store) for part in split_ids(kb_id)))


def primary_id(kb_id: str, store: Resolver) -> str:
    """`kb_id` as the ontology writes it: alternative ids become primary, and a prefix it does not use is dropped."""
    if (primary := store.resolve(kb_id)) is not None:
        return primary
    _, colon, local = kb_id.partition(":")
    if colon and local and (primary := store.resolve(local)) is not None:
        return primary
    return kb_id
