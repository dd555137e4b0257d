"""Gold mentions of docs, and the ontology ids of their annotations."""

import hashlib
import warnings
from collections.abc import Sequence
from dataclasses import dataclass

from spacy.tokens import Doc, Span

from ..errors import KrisselWarning, Warnings
from .annotations import NIL
from .discontinuous import DISJOINT_KEY, DocMention, read_fragments
from .gold_ids import Resolver, is_nil, split_ids

SPANS_KEY = "krissel"
ID_KEY = "krissel_id"


@dataclass
class Corrections:
    """Differences between `doc.ents` and `doc.spans["krissel"]` in documents that hold both.

    corrected: mentions of the group that an entity of the same offsets links otherwise.
    elsewhere: linked entities whose offsets no mention of the group has.
    docs: number of documents with differences.
    first: document and offsets of the first difference.
    """

    corrected: int = 0
    elsewhere: int = 0
    docs: int = 0
    first: str = ""

    def warn(self) -> None:
        if self.docs:
            warnings.warn(Warnings.KW030.format(**vars(self)), KrisselWarning, stacklevel=3)


def gold_spans(
    doc: Doc, spans_key: str = "", corrections: Corrections | None = None
) -> Sequence[Span]:
    """Return the gold mentions of a doc.

    These are `doc.spans[spans_key]` if a key is given. Otherwise they are all mentions of the
    corpus, overlapping ones included, if the doc holds them in `doc.spans["krissel"]` (as `convert`
    writes them), else `doc.ents`. A mention of the corpus that `doc.ents` links otherwise was
    corrected; the entity replaces it.

    corrections: updated with the differences.
    """
    if spans_key:
        return tuple(doc.spans[spans_key]) if spans_key in doc.spans else ()
    if SPANS_KEY not in doc.spans:
        return tuple(doc.ents)
    ents = {(ent.start, ent.end): ent for ent in doc.ents if ent.kb_id_}
    if not ents:
        return tuple(doc.spans[SPANS_KEY])
    groups: dict[tuple[int, int], list[Span]] = {}
    for span in doc.spans[SPANS_KEY]:
        groups.setdefault((span.start, span.end), []).append(span)
    changed = {
        key: ent for key, ent in ents.items() if key in groups and not _agree(ent, groups[key])
    }
    elsewhere = [ent for key, ent in ents.items() if key not in groups]
    if corrections is not None and (changed or elsewhere):
        corrections.corrected += len(changed)
        corrections.elsewhere += len(elsewhere)
        corrections.docs += 1
        span = [*changed.values(), *elsewhere][0]
        corrections.first = (
            corrections.first or f"{document_id(doc)} {span.start_char}-{span.end_char}"
        )
    found: list[Span] = []
    for span in doc.spans[SPANS_KEY]:
        ent = changed.get((span.start, span.end))
        if ent is None:
            found.append(span)
            continue
        labels = {other.label_ for other in groups[ent.start, ent.end]}
        if ent.label_ in labels and span.label_ != ent.label_:
            found.append(span)
        elif ent not in found:
            found.append(ent)
    return tuple(found)


def _agree(ent: Span, spans: Sequence[Span]) -> bool:
    """Return whether the entity equals one of the spans with its offsets."""
    return any((span.label_, span.kb_id_) == (ent.label_, ent.kb_id_) for span in spans)


def document_id(doc: Doc) -> str:
    """Return the document's id in the corpus, or a hash of its text if it has none."""
    given = doc.user_data.get(ID_KEY)
    return str(given) if given else text_hash(doc)


def text_hash(doc: Doc) -> str:
    """Return a hash of the document's text, independent of its id."""
    return hash_of(doc.text)


def hash_of(text: str) -> str:
    """Return the `text_hash` of a document with this text."""
    return f"sha256:{hashlib.sha256(text.encode('utf8')).hexdigest()[:16]}"


def split_gold(kb_id: str, store: Resolver, *, gold_nil: bool = False) -> tuple[str, ...]:
    """Return the primary ids of a gold annotation; empty if it names no concept.

    Composite ids are joined with `|` or `+`. `-1`, `-` and `NIL` mean that there is no concept:
    such a mention gives `()`, or `("NIL",)` with `gold_nil`. An id unknown to the ontology is kept.
    """
    kb_id = kb_id.strip()
    if is_nil(kb_id):
        return (NIL,) if gold_nil else ()
    if kb_id and store.resolve(whole := primary_id(kb_id, store)) is not None:
        return (whole,)
    return tuple(dict.fromkeys(primary_id(part, store) for part in split_ids(kb_id)))


def primary_id(kb_id: str, store: Resolver) -> str:
    """Return `kb_id` as the ontology writes it.

    Alternative ids become primary, and an unused prefix is dropped.
    """
    if (primary := store.resolve(kb_id)) is not None:
        return primary
    _, colon, local = kb_id.partition(":")
    if colon and local and (primary := store.resolve(local)) is not None:
        return primary
    return kb_id


def gold_mentions(doc: Doc) -> list[DocMention]:
    """Return all gold mentions of a doc written by `convert`: first contiguous, then
    discontinuous.
    """
    whole = [
        DocMention(span.kb_id_, span.label_, ((span.start, span.end),)) for span in gold_spans(doc)
    ]
    return whole + read_fragments(doc, DISJOINT_KEY)


def text_labels(doc: Doc) -> dict[str, float]:
    """Return 1.0 for each entity mentioned in `doc`, in the form of `doc.cats`.

    Each concept of a composite counts. Mentions without an id, or with one that means "no concept",
    add nothing. Concepts of contiguous mentions come first, in order.
    """
    return {concept: 1.0 for mention in gold_mentions(doc) for concept in split_ids(mention.kb_id)}


def document_entities(doc: Doc) -> tuple[str, ...]:
    """Return the document-level entity labels, sorted: `doc.cats`, or else the gold concepts."""
    if doc.cats:
        return tuple(sorted(id_ for id_, value in doc.cats.items() if value >= 0.5))
    return tuple(sorted(text_labels(doc)))
