"""Verdicts from annotated docs."""

from collections.abc import Iterable
from operator import itemgetter

from spacy.tokens import Doc

from ..mentions.gold_ids import Resolver, is_nil
from ..mentions.gold_mentions import document_id, gold_spans, split_gold, text_hash
from ..mentions.own_sentence import sentence_key
from ..views import MINED_CHARS, mention_view
from .prototype_table import Origin
from .snapshot import KBSnapshot
from .verdicts import Verdict


def doc_verdicts(
    docs: Doc | Iterable[Doc],
    resolver: Resolver,
    *,
    rejects: bool,
    source: str = "",
    spans_key: str = "",
    same_document: bool = False,
) -> tuple[list[Verdict], list[str]]:
    """Return a verdict per mention with a `kb_id_`, and the mentions left out for unknown ids.

    rejects: the ids are those of entities that the mention is not, instead of its own. "NIL" means
        in both cases that it has none. The rest as in `PrototypeKB.add_corrections`.
    """
    found: list[Verdict] = []
    unknown: list[str] = []
    for doc in [docs] if isinstance(docs, Doc) else docs:
        text, id_, hash_ = doc.text, document_id(doc), text_hash(doc)
        for span in gold_spans(doc, spans_key):
            start, end = span.start_char, span.end_char
            ids = split_gold(span.kb_id_, resolver)
            no_entity = is_nil(span.kb_id_)
            if not (ids or no_entity):
                continue
            if missing := [each for each in ids if resolver.resolve(each) is None]:
                unknown.append(f"{id_} {start}-{end} {missing[0]}")
                continue
            right, rejected = ((), ids) if rejects else (ids, ())
            origin = Origin(source, id_, start, end, hash_)
            view = mention_view(text, start, end, MINED_CHARS)
            found.append(Verdict(view, right, rejected, no_entity, same_document, origin))
    return found, unknown


def not_repeated(verdicts: Iterable[Verdict], kb: KBSnapshot) -> list[Verdict]:
    """Return the verdicts that say something else than the last one of the same origin, which may
    be inactive."""
    last: dict[tuple[Origin, int], Verdict] = {}
    new = []
    for each in verdicts:
        key = each.origin, sentence_key(each.view)
        if key not in last:
            known = _last(kb, *key)
            last |= {} if known is None else {key: known}
        if key not in last or last[key][1:] != each[1:]:
            last[key] = each
            new.append(each)
    return new


def _last(kb: KBSnapshot, origin: Origin, sentence: int) -> Verdict | None:
    """Return the last verdict of an origin on a mention in its sentence (`sentence_key`); of one
    that is inactive in part, that part."""
    found = [
        (number, said)
        for part in ([kb] if kb.inactive is None else [kb, kb.inactive])
        for number, said in part.verdicts_on(sentence)
        if said.origin == origin
    ]
    # Of the same numbers, the later one is inactive.
    return max(reversed(found), key=itemgetter(0))[1] if found else None
