"""Gold mentions of docs: where they stand, and the ontology's ids for what the corpus wrote."""

import hashlib
import warnings
from collections.abc import Sequence
from dataclasses import dataclass

from spacy.tokens import Doc, Span

from ..errors import KrisselWarning, Warnings
from .discontinuous import DISJOINT_KEY, DocMention, read_fragments
from .gold_ids import NIL, Resolver, is_nil, split_ids

SPANS_KEY = "krissel"
ID_KEY = "krissel_id"


@dataclass
class Corrections:
    """How `doc.ents` differ from `doc.spans["krissel"]` in documents that hold both.

    corrected: mentions of the group that an entity of the same offsets links otherwise. elsewhere: linked entities with
    other offsets than any of the group. docs: documents with either. place: the first of these.
    """

    corrected: int = 0
    elsewhere: int = 0
    docs: int = 0
    place: str = ""

    def warn(self) -> None:
        if self.docs:
            warnings.warn(Warnings.KW030.format(**vars(self)), KrisselWarning, stacklevel=3)


def gold_spans(doc: Doc, spans_key: str = "", corrections: Corrections | None = None) -> Sequence[Span]:
    """The gold mentions of a doc: `doc.spans[spans_key]` if a key is given, else all mentions of the corpus where the
    doc holds them (`doc.spans["krissel"]`, as `convert` writes it, overlapping ones included), else `doc.ents`.

    A mention of the corpus that `doc.ents` links otherwise was corrected there, and is read as it stands there.

    corrections: counts these.
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
    changed = {place: ent for place, ent in ents.items() if place in groups and not _agree(ent, groups[place])}
    elsewhere = [ent for place, ent in ents.items() if place not in groups]
    if corrections is not None and (changed or elsewhere):
        corrections.corrected += len(changed)
        corrections.elsewhere += len(elsewhere)
        corrections.docs += 1
        first = [*changed.values(), *elsewhere][0]
        corrections.place = corrections.place or f"{document_id(doc)} {first.start_char}-{first.end_char}"
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
    """Is the entity one of the spans? Several may have its offsets, of which `doc.ents` hold one."""
    return any((span.label_, span.kb_id_) == (ent.label_, ent.kb_id_) for span in spans)


def document_id(doc: Doc) -> str:
    """What names a document: its id in the corpus, or for one without an id a hash of its text."""
    given = doc.user_data.get(ID_KEY)
    return str(given) if given else text_hash(doc)


def text_hash(doc: Doc) -> str:
    """What the documents of one text share, whatever their ids."""
    return hash_of(doc.text)


def hash_of(text: str) -> str:
    """The `text_hash` of a document with this text."""
    return f"sha256:{hashlib.sha256(text.encode('utf8')).hexdigest()[:16]}"


def split_gold(kb_id: str, store: Resolver, *, gold_nil: bool = False) -> tuple[str, ...]:
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


def gold_mentions(doc: Doc) -> list[DocMention]:
    """All gold mentions of a doc as `convert` writes it: those in one fragment, then those in several."""
    whole = [DocMention(span.kb_id_, span.label_, ((span.start, span.end),)) for span in gold_spans(doc)]
    return whole + read_fragments(doc, DISJOINT_KEY)


def text_labels(doc: Doc) -> dict[str, float]:
    """1.0 for each entity that `doc` mentions, in one fragment or several, in the form of `doc.cats`.

    Each concept of a composite is one. Mentions without an id, or with one that says "no concept", add nothing. Those
    of mentions in one fragment come first, in order.
    """
    return {concept: 1.0 for mention in gold_mentions(doc) for concept in split_ids(mention.kb_id)}


def text_entities(doc: Doc) -> tuple[str, ...]:
    """The entities that a doc speaks of, sorted: its `cats`, or else the concepts of its gold mentions."""
    if doc.cats:
        return tuple(sorted(id_ for id_, value in doc.cats.items() if value >= 0.5))
    return tuple(sorted(text_labels(doc)))
