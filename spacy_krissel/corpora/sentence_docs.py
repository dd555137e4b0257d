"""Sentences as documents of their own."""

from bisect import bisect_right
from collections.abc import Iterator
from itertools import pairwise

from spacy.tokens import Doc, Span

from ..mentions.contexts import sentence_starts
from ..mentions.discontinuous import DocMention
from ..mentions.gold_mentions import ID_KEY, document_id, gold_mentions
from .docs import write_gold_mentions
from .report import CorpusReport


def sentence_docs(doc: Doc, *, report: CorpusReport) -> Iterator[Doc]:
    """A doc for each sentence of `doc`, with its tokens, gold mentions and the id `DOCUMENT:number`, from 1.

    Sentences start at `sentence_starts`, and after a blank line, since headings have no full stop. Sentences that a
    mention or its fragments cross are joined: such a border is far more often wrong than the mention ("E. coli"), and
    no mention is lost. White space at the edges of a sentence is dropped, and so are sentences of white space.

    Gold mentions are those of `gold_mentions`, written as by `to_doc`; `doc.ents` stay the same.

    report: counts `sentences`, `joined_sentences` (borders removed) and `across_sentences` (mentions that cross one).
    """
    mentions = gold_mentions(doc)
    sentences = list(_sentences(doc, mentions, report))
    starts = [start for start, _ in sentences]
    within: list[list[DocMention]] = [[] for _ in sentences]
    for mention in mentions:
        within[bisect_right(starts, mention.fragments[0][0]) - 1].append(mention)
    name = document_id(doc)
    report.count("sentences", len(sentences))
    for i, (start, end) in enumerate(sentences):
        yield _cut(doc, start, end, within[i], f"{name}:{i + 1}")


def _sentences(doc: Doc, mentions: list[DocMention], report: CorpusReport) -> Iterator[tuple[int, int]]:
    """Where each begins and ends, in tokens."""
    offsets = set(sentence_starts(doc))
    borders = {token.i for token in doc if token.idx in offsets}
    borders.update(token.i + 1 for token in doc if token.is_space and token.text.count("\n") > 1)
    borders -= {0, len(doc)}
    extents = [(mention.fragments[0][0], mention.fragments[-1][1]) for mention in mentions]
    extents.extend((ent.start, ent.end) for ent in doc.ents)
    given_up = set()
    for i, (start, end) in enumerate(extents):
        if crossed := borders.intersection(range(start + 1, end)):
            given_up |= crossed
            report.count("across_sentences", int(i < len(mentions)))
    report.count("joined_sentences", len(given_up))
    mentioned = {i for start, end in extents for i in range(start, end)}
    edges = [0, *sorted(borders - given_up), len(doc)]
    for start, end in pairwise(edges):
        while start < end and doc[start].is_space and start not in mentioned:
            start += 1
        while start < end and doc[end - 1].is_space and end - 1 not in mentioned:
            end -= 1
        if start < end:
            yield start, end


def _cut(doc: Doc, start: int, end: int, mentions: list[DocMention], name: str) -> Doc:
    tokens = doc[start:end]
    spaces = [bool(token.whitespace_) for token in tokens]
    cut = Doc(doc.vocab, words=[token.text for token in tokens], spaces=[*spaces[:-1], False])
    cut.user_data[ID_KEY] = name
    inside = [
        mention._replace(fragments=tuple((first - start, last - start) for first, last in mention.fragments))
        for mention in mentions
    ]
    write_gold_mentions(cut, inside)
    cut.ents = [
        Span(cut, ent.start - start, ent.end - start, label=ent.label_, kb_id=ent.kb_id_) for ent in tokens.ents
    ]
    return cut
