"""Documents as the shorter texts that text-level labels are about: sentences, or the lines of a
clinical note."""

from collections.abc import Iterator
from itertools import pairwise

from spacy.tokens import Doc

from spacy_krissel.corpora.docs import ID_KEY, write_gold_mentions
from spacy_krissel.mentions.contexts import sentence_starts
from spacy_krissel.mentions.gold_mentions import document_id, gold_mentions

from ..errors import Errors, KrisselError

UNITS = ("doc", "sentence", "line")


def text_units(doc: Doc, unit: str) -> Iterator[Doc]:
    """Yield the units of a doc as docs of their own, named `<id of the doc>:<number>` from 1, with
    their gold mentions.

    unit: "doc", the whole doc; "sentence", see `sentence_starts`; "line", as hNLP's notes are
        divided (OSLAT, section 5.3). Units that a mention spans, from its first fragment to its
        last, are merged. White space at the ends of a unit is dropped, and so are empty units and
        the doc's `cats`, which do not say which unit they describe: a unit has the entities that
        are mentioned in it.
    Raises KrisselError K006 for another unit.
    """
    if unit not in UNITS:
        raise KrisselError(
            Errors.K006.format(setting="unit", found=unit, expected=f"one of {', '.join(UNITS)}")
        )
    if unit == "doc":
        yield doc
        return
    mentions = gold_mentions(doc)
    inside = {
        i
        for mention in mentions
        for i in range(mention.fragments[0][0] + 1, mention.fragments[-1][1])
    }
    edges = [0, *(i for i in _starts(doc, unit) if 0 < i < len(doc) and i not in inside), len(doc)]
    for number, (start, end) in enumerate(pairwise(edges), 1):
        while start < end and doc[start].is_space:
            start += 1
        while end > start and doc[end - 1].is_space:
            end -= 1
        if start == end:
            continue
        tokens = doc[start:end]
        part = Doc(
            doc.vocab,
            words=[token.text for token in tokens],
            spaces=[bool(t.whitespace_) for t in tokens],
        )
        part.user_data[ID_KEY] = f"{document_id(doc)}:{number}"
        own = [
            mention
            for mention in mentions
            if start <= mention.fragments[0][0] and mention.fragments[-1][1] <= end
        ]
        write_gold_mentions(
            part,
            (
                m._replace(fragments=tuple((s - start, e - start) for s, e in m.fragments))
                for m in own
            ),
        )
        yield part


def _starts(doc: Doc, unit: str) -> list[int]:
    """Return the tokens that units begin with."""
    if unit == "line":
        return [token.i + 1 for token in doc if "\n" in token.text]
    offsets = set(sentence_starts(doc))
    return [token.i for token in doc if token.idx in offsets]
