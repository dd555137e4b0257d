"""Annotated texts as spaCy documents with entities, spans and ids; every data-quality problem is
counted.
"""

import re
import unicodedata
from bisect import bisect_right
from collections.abc import Iterable, Iterator
from itertools import chain, pairwise

from spacy.language import Language
from spacy.tokens import Doc, Span
from spacy.util import filter_spans

from ..mentions.annotations import NIL
from ..mentions.contexts import sentence_starts
from ..mentions.discontinuous import DISJOINT_KEY, DocMention, join_fragments, write_fragments
from ..mentions.gold_ids import is_composite, split_ids, to_kb_id
from ..mentions.gold_mentions import ID_KEY, SPANS_KEY, document_id, gold_mentions
from ..mentions.token_edges import split_at
from ..util.folding import GREEK_NAMES
from .annotation import AnnotatedText, Fragments, Mention
from .report import CorpusReport

DEFAULT_LABEL = "ENTITY"
# Separators between the fragments of a mention in sources.
_BETWEEN = re.compile(r"\s+|\.{3}|…")
# Letters that no normalisation decomposes.
_LATIN = {"ø": "o", "ł": "l", "đ": "d", "æ": "ae", "œ": "oe", "ı": "i"}
# Replacements for Greek letters in plain-text files, each used consistently: names, their first
# letters, keys of the font Symbol, and unit prefixes. Files with a lost encoding have ß for β.
_WITHOUT_GREEK = [
    str.maketrans({**_LATIN, **letters})
    for letters in (
        {**GREEK_NAMES, "ß": "beta"},
        {**{char: name[0] for char, name in GREEK_NAMES.items()}, "ß": "b"},
        dict(zip("αβχδεφγηικλμνοπθρστυωξψζς", "abcdefghiklmnopqrstuwxyzs", strict=True)),
        {**GREEK_NAMES, "μ": "u", "ß": "ss"},
    )
]


def to_doc(annotated: AnnotatedText, nlp: Language, *, report: CorpusReport) -> Doc:
    """Return a document with the mentions of `annotated`, tokenised by `nlp` unless the corpus sets
    its words.

    `doc.spans["krissel"]` holds every mention in order of its offsets, including nested and
    overlapping ones. `doc.ents` holds the longest that do not overlap (the first of two of one
    length). Both carry label and id: composites as in the source, "NIL" for `-1` and `-`, "" if the
    source has no id. `doc.user_data["krissel_id"]` is the id of the document. Discontinuous
    mentions are only in `doc.spans["krissel_disjoint"]` (`mentions.discontinuous`), which exists if
    there are any; fragments with only white space between them are joined.

    A token is split at the edges of mentions inside the token. White space at the edges of a
    mention is dropped. A mention is kept if the text at its offsets and its stated text have the
    same letters and digits, in any case (some files lost their quote marks), with or without
    accents and Greek letters ("TNF-a" for TNF-α). It is left out otherwise, since either of the two
    may be wrong. The fragments of a mention may be stated in the order of the source or of the
    text.

    For a weakly annotated text, `doc.cats` is `{entity: 1.0}` for all of its entities, and each
    concept of a composite is a mention of its own. Tokens are those of the tokenizer, as a pipeline
    will see them: fragments are widened to whole tokens, and joined if they then touch. Entities
    without a concept (`-1`, `NIL`) are left out.

    report: counts, see `CorpusReport`.
    """
    if annotated.words is None:
        # `nlp.make_doc` is not used, since articles may exceed its limit, which protects parsers.
        doc = nlp.tokenizer(annotated.text)
    else:
        n_words = len(annotated.words)
        doc = Doc(
            nlp.vocab, words=annotated.words, spaces=[i < n_words - 1 for i in range(n_words)]
        )
    doc.user_data[ID_KEY] = annotated.id
    mentions = (_weak_mentions if annotated.weak else _exact_mentions)(doc, annotated, report)
    write_gold_mentions(doc, mentions)
    disjoint = [mention for mention in mentions if mention.is_discontinuous]
    report.count("documents")
    report.count("mentions_read", len(annotated.mentions))
    report.count("mentions", len(mentions))
    report.count("ents", len(doc.ents))
    report.count("disjoint", len(disjoint))
    report.count("disjoint_fragments", sum(len(mention.fragments) for mention in disjoint))
    report.count("nil", sum(mention.kb_id == NIL for mention in mentions))
    report.count("composite", sum(is_composite(mention.kb_id) for mention in mentions))
    report.labels.update(mention.label for mention in mentions)
    return doc


def write_gold_mentions(doc: Doc, mentions: Iterable[DocMention]) -> None:
    """Set `mentions` as the gold of `doc`: `doc.spans["krissel"]`, `doc.ents` and
    `doc.spans["krissel_disjoint"]`.
    """
    ordered = sorted(
        mentions, key=lambda mention: (mention.fragments[0][0], -mention.fragments[-1][1])
    )
    continuous = [
        Span(doc, *mention.fragments[0], label=mention.label, kb_id=mention.kb_id)
        for mention in ordered
        if not mention.is_discontinuous
    ]
    doc.ents = filter_spans(continuous)
    doc.spans[SPANS_KEY] = continuous
    if disjoint := [mention for mention in ordered if mention.is_discontinuous]:
        write_fragments(doc, disjoint, DISJOINT_KEY)


def _exact_mentions(doc: Doc, annotated: AnnotatedText, report: CorpusReport) -> list[DocMention]:
    # Mentions in characters; a dictionary keeps order and is fast for the thousands in a long
    # article.
    located: dict[DocMention, None] = {}
    for mention in annotated.mentions:
        fragments = _locate(mention, annotated, report)
        if fragments is None:
            continue
        found = DocMention(to_kb_id(mention.kb_id), mention.label or DEFAULT_LABEL, fragments)
        if found in located:
            report.record_issue(
                "duplicate_mentions",
                annotated.file_of(mention),
                mention.line,
                repr(mention.text[:60]),
            )
        located[found] = None
    _cut_tokens(doc, list(located), report)
    return [
        mention._replace(fragments=tuple(_tokens(doc, *each) for each in mention.fragments))
        for mention in located
    ]


def _tokens(doc: Doc, start: int, end: int) -> tuple[int, int]:
    span = doc.char_span(start, end)
    assert span is not None, "the tokens were cut at the edges of every mention"
    return span.start, span.end


def _weak_mentions(doc: Doc, annotated: AnnotatedText, report: CorpusReport) -> list[DocMention]:
    doc.cats = {}
    mentions: dict[DocMention, None] = {}
    for mention in annotated.mentions:
        concepts = split_ids(mention.kb_id)
        report.count("nil", not concepts)
        doc.cats.update(dict.fromkeys(concepts, 1.0))
        fragments = _whole_tokens(doc, mention, annotated, report) if concepts else ()
        for concept in concepts if fragments else ():
            found = DocMention(concept, mention.label or DEFAULT_LABEL, fragments)
            if found in mentions:
                report.record_issue(
                    "duplicate_mentions",
                    annotated.source,
                    mention.line,
                    f"{concept} in {annotated.id}",
                )
            mentions[found] = None
    return list(mentions)


def _whole_tokens(
    doc: Doc, mention: Mention, annotated: AnnotatedText, report: CorpusReport
) -> Fragments:
    """Return the token offsets of the fragments of a mention; empty if they are not in the text."""
    if not mention.fragments:
        report.count("without_offsets")
        return ()
    found, widened = [], False
    for start, end in mention.fragments:
        trimmed = (
            _trimmed(annotated.text, start, end)
            if 0 <= start < end <= len(annotated.text)
            else None
        )
        if trimmed is None:
            detail = f"{mention.kb_id} at {start}-{end} in {annotated.id}"
            report.record_issue("outside_text", annotated.source, mention.line, detail)
            return ()
        span = doc.char_span(*trimmed, alignment_mode="expand")
        assert span is not None, "every character but white space is part of a token"
        widened |= (span.start_char, span.end_char) != trimmed
        found.append((span.start, span.end))
    report.count("widened_mentions", widened)
    return join_fragments(found)


def _trimmed(text: str, start: int, end: int) -> tuple[int, int] | None:
    """Strip white space from a fragment; None if nothing remains."""
    covered = text[start:end]
    if not covered.strip():
        return None
    return start + len(covered) - len(covered.lstrip()), end - len(covered) + len(covered.rstrip())


def _locate(mention: Mention, annotated: AnnotatedText, report: CorpusReport) -> Fragments | None:
    """Return the fragments of a mention without white space at their edges; None if it cannot be
    kept.
    """
    text = annotated.text
    covered = [text[max(0, start) : max(0, end)] for start, end in mention.fragments]
    at = ", ".join(f"{start}-{end}" for start, end in mention.fragments)
    is_inside = all(0 <= start < end <= len(text) for start, end in mention.fragments)
    fragments = _join(text, mention.fragments) if is_inside else ()
    if not fragments:
        detail = f"{mention.text[:60]!r} at {at}"
        report.record_issue("outside_text", annotated.file_of(mention), mention.line, detail)
        return None
    if not _is_stated(mention, covered):
        detail = f"{mention.text[:60]!r} at {at} is {' ... '.join(covered)[:60]!r}"
        stated, *others = map(
            _letters,
            (mention.text, "".join(covered), "".join(text[start:end] for start, end in fragments)),
        )
        if not any(stated) or all(stated.isdisjoint(other) for other in others):
            report.record_issue("text_mismatches", annotated.file_of(mention), mention.line, detail)
            return None
        report.record_issue("text_differences", annotated.file_of(mention), mention.line, detail)
    if any(fragment != fragment.strip() for fragment in covered):
        report.count("trimmed_mentions")
    if len(fragments) < 2 <= len(mention.fragments):
        report.count("joined_fragments")
    return fragments


def _join(text: str, fragments: Fragments) -> Fragments:
    """Sort `fragments`, drop blank ones, and join those with only white space between them."""
    joined: list[tuple[int, int]] = []
    for start, end in filter(None, (_trimmed(text, *fragment) for fragment in sorted(fragments))):
        if joined and not text[joined[-1][1] : start].strip():
            joined[-1] = joined[-1][0], max(end, joined[-1][1])
        else:
            joined.append((start, end))
    return tuple(joined)


def _is_stated(mention: Mention, covered: list[str]) -> bool:
    """Return whether the stated text of a mention equals the text that it covers."""
    if len(covered) == 1:
        return covered[0] == mention.text
    in_order = [fragment for _, fragment in sorted(zip(mention.fragments, covered, strict=True))]
    return _BETWEEN.sub("", mention.text) in (
        _BETWEEN.sub("", "".join(each)) for each in (covered, in_order)
    )


def _letters(text: str) -> set[str]:
    """Return the letters and digits of a text without accents, once per way to write Greek letters
    in plain text.
    """
    # `casefold` would turn ß into two letters.
    lower = unicodedata.normalize("NFKD", unicodedata.normalize("NFKC", text).lower())
    # Some apostrophes are letters by category (modifier letters).
    plain = "".join(char for char in lower if char.isalnum() and unicodedata.category(char) != "Lm")
    return {plain} if plain.isascii() else {plain.translate(table) for table in _WITHOUT_GREEK}


def _cut_tokens(doc: Doc, found: list[DocMention], report: CorpusReport) -> None:
    """Split every token at the edges of mentions inside it, so that each mention consists of whole
    tokens.
    """
    split = split_at(
        doc, (offset for mention in found for fragment in mention.fragments for offset in fragment)
    )
    cuts = set(chain.from_iterable(split))
    n_misfit = sum(
        any(not cuts.isdisjoint(fragment) for fragment in mention.fragments) for mention in found
    )
    report.count("misfit_mentions", n_misfit)
    report.count("split_tokens", len(split))


def sentence_docs(doc: Doc, *, report: CorpusReport) -> Iterator[Doc]:
    """Yield a doc per sentence of `doc`, with its tokens, gold mentions and the id
    `DOCUMENT:number`, from 1.

    Sentences start at `sentence_starts`, and after a blank line, since headings have no full stop.
    Sentences that a mention or its fragments cross are joined: the boundary is far more often wrong
    than the mention ("E. coli"), and no mention is lost. White space at the edges of a sentence is
    dropped, and so are blank sentences.

    Gold mentions are those of `gold_mentions`, written as in `to_doc`; `doc.ents` stay the same.

    report: counts `sentences`, `joined_sentences` (boundaries removed) and `across_sentences`
        (mentions that cross one).
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


def _sentences(
    doc: Doc, mentions: list[DocMention], report: CorpusReport
) -> Iterator[tuple[int, int]]:
    """Yield the token offsets of the sentences."""
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
        mention._replace(
            fragments=tuple((first - start, last - start) for first, last in mention.fragments)
        )
        for mention in mentions
    ]
    write_gold_mentions(cut, inside)
    cut.ents = [
        Span(cut, ent.start - start, ent.end - start, label=ent.label_, kb_id=ent.kb_id_)
        for ent in tokens.ents
    ]
    return cut
