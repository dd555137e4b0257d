"""Annotated texts as spaCy documents: ents, spans and ids, with every doubt counted."""

import re
from bisect import bisect_right
from dataclasses import replace
from itertools import pairwise
from typing import Container, Dict, Iterable, Iterator, List, NamedTuple, Optional, Set, Tuple

from spacy.language import Language
from spacy.tokens import Doc, Span
from spacy.util import filter_spans

from ..mentions.discontinuous import DISJOINT_KEY, DocMention, write_fragments
from ..mentions.gold_ids import NIL, is_composite, to_kb_id
from ..mentions.gold_mentions import ID_KEY, SPANS_KEY
from .readers.annotation import AnnotatedText, Mention
from .report import CorpusReport

DEFAULT_LABEL = "ENTITY"
# What sources put between the fragments of a mention.
_BETWEEN = re.compile(r"\s+|\.{3}|…")
Places = Tuple[Tuple[int, int], ...]


class _Found(NamedTuple):
    """A mention that is kept. fragments: in characters, in order; something stands between them."""

    fragments: Places
    label: str
    kb_id: str


def drop_duplicates(texts: Iterable[AnnotatedText], report: CorpusReport) -> Iterator[AnnotatedText]:
    """`texts` without those whose id was met before, counted as `duplicate_documents`."""
    seen: Set[str] = set()
    for annotated in texts:
        if annotated.id in seen:
            report.blemish("duplicate_documents", annotated.source, annotated.line, f"document {annotated.id}")
        else:
            seen.add(annotated.id)
            yield annotated


def keep_labels(
    texts: Iterable[AnnotatedText], labels: Container[str], report: CorpusReport
) -> Iterator[AnnotatedText]:
    """`texts` without mentions of other labels, counted as `other_labels`; a text that loses all of them stays."""
    for annotated in texts:
        wanted = [mention for mention in annotated.mentions if mention.label in labels]
        n_others = len(annotated.mentions) - len(wanted)
        report.count("mentions_read", n_others)
        report.count("other_labels", n_others)
        yield replace(annotated, mentions=wanted)


def to_doc(annotated: AnnotatedText, nlp: Language, *, report: Optional[CorpusReport] = None) -> Doc:
    """A document with the mentions of `annotated`, tokenised by `nlp` unless the corpus sets its words.

    `doc.spans["krissel"]` holds every mention in order of its offsets, nested and overlapping ones included;
    `doc.ents` holds the longest that do not overlap (the first of two as long). Both carry label and id: composites
    as in the source, "NIL" for `-1` and `-`, "" where the source has no id. `doc.user_data["krissel_id"]` is the id of
    the document. Mentions in several fragments are in neither, but in `doc.spans["krissel_disjoint"]`, see `fragments`,
    where there are any; fragments with nothing or only white space between them are one.

    A mention whose edge falls inside a token cuts that token in two. White space at the edges of a mention is given
    up. A mention is kept when the text at its offsets and the text it states have the same letters and digits, in any
    case (a file that lost its quote marks), and left out otherwise: which of the two is wrong cannot be told. The
    fragments of a mention may be stated in the source's order or the text's.

    report: counts `documents`, `mentions_read`, `mentions`, `ents`, `disjoint`, `disjoint_fragments`,
        `joined_fragments`, `nil`, `composite`, `split_tokens`, `misfit_mentions`, `trimmed_mentions`,
        `text_mismatches`, `text_differences`, `outside_text` and `duplicate_mentions`. Without one, warns of blemishes.
    """
    own_report = report is None
    report = CorpusReport() if report is None else report
    if annotated.words is None:
        # Not `nlp.make_doc`: its limit on length protects parsers, and articles may pass it.
        doc = nlp.tokenizer(annotated.text)
    else:
        n_words = len(annotated.words)
        doc = Doc(nlp.vocab, words=annotated.words, spaces=[i < n_words - 1 for i in range(n_words)])
    doc.user_data[ID_KEY] = annotated.id
    # In order, and looked up: a long article has thousands.
    found: Dict[_Found, None] = {}
    for mention in annotated.mentions:
        fragments = _locate(mention, annotated, report)
        if fragments is None:
            continue
        key = _Found(fragments, mention.label or DEFAULT_LABEL, to_kb_id(mention.kb_id))
        if key in found:
            report.blemish("duplicate_mentions", annotated.file_of(mention), mention.line, repr(mention.text[:60]))
        else:
            found[key] = None
    kept = sorted(found, key=lambda key: (key.fragments[0][0], -key.fragments[-1][1]))
    _cut_tokens(doc, kept, report)
    spans = [_span(doc, *key.fragments[0], key.label, key.kb_id) for key in kept if len(key.fragments) == 1]
    doc.ents = filter_spans(spans)
    doc.spans[SPANS_KEY] = spans
    disjoint = [_fragmented(doc, key) for key in kept if len(key.fragments) > 1]
    if disjoint:
        write_fragments(doc, disjoint, DISJOINT_KEY)
    report.count("documents")
    report.count("mentions_read", len(annotated.mentions))
    report.count("mentions", len(kept))
    report.count("ents", len(doc.ents))
    report.count("disjoint", len(disjoint))
    report.count("disjoint_fragments", sum(len(mention.fragments) for mention in disjoint))
    report.count("nil", sum(key.kb_id == NIL for key in kept))
    report.count("composite", sum(is_composite(key.kb_id) for key in kept))
    report.labels.update(key.label for key in kept)
    if own_report:
        report.warn()
    return doc


def _fragmented(doc: Doc, found: _Found) -> DocMention:
    spans = [_span(doc, start, end) for start, end in found.fragments]
    return DocMention(found.kb_id, found.label, tuple((span.start, span.end) for span in spans))


def _span(doc: Doc, start: int, end: int, label: str = "", kb_id: str = "") -> Span:
    span = doc.char_span(start, end, label=label, kb_id=kb_id)
    assert span is not None, "the tokens were cut at the edges of every mention"
    return span


def _locate(mention: Mention, annotated: AnnotatedText, report: CorpusReport) -> Optional[Places]:
    """The fragments of a mention without white space at their edges, or None when it cannot be kept."""
    text = annotated.text
    covered = [text[max(0, start) : max(0, end)] for start, end in mention.fragments]
    place = ", ".join(f"{start}-{end}" for start, end in mention.fragments)
    is_inside = all(0 <= start < end <= len(text) for start, end in mention.fragments)
    fragments = _join(text, mention.fragments) if is_inside else ()
    if not fragments:
        detail = f"{mention.text[:60]!r} at {place}"
        report.blemish("outside_text", annotated.file_of(mention), mention.line, detail)
        return None
    if not _is_stated(mention, covered):
        detail = f"{mention.text[:60]!r} at {place} is {' ... '.join(covered)[:60]!r}"
        stated = _letters(mention.text)
        if not stated or stated not in (_letters("".join(covered)), _letters("".join(text[s:e] for s, e in fragments))):
            report.blemish("text_mismatches", annotated.file_of(mention), mention.line, detail)
            return None
        report.blemish("text_differences", annotated.file_of(mention), mention.line, detail)
    if any(fragment != fragment.strip() for fragment in covered):
        report.count("trimmed_mentions")
    if mention.more and len(fragments) == 1:
        report.count("joined_fragments")
    return fragments


def _join(text: str, fragments: Places) -> Places:
    """`fragments` in order, those that hold only white space given up, and those that nothing else parts joined."""
    joined: List[Tuple[int, int]] = []
    for start, end in sorted(fragments):
        covered = text[start:end]
        if not covered.strip():
            continue
        start, end = start + len(covered) - len(covered.lstrip()), end - len(covered) + len(covered.rstrip())
        if joined and not text[joined[-1][1] : start].strip():
            joined[-1] = joined[-1][0], max(end, joined[-1][1])
        else:
            joined.append((start, end))
    return tuple(joined)


def _is_stated(mention: Mention, covered: List[str]) -> bool:
    """Does a mention state the text that it covers, letter for letter?"""
    if not mention.more:
        return covered[0] == mention.text
    in_order = [fragment for _, fragment in sorted(zip(mention.fragments, covered, strict=True))]
    return _BETWEEN.sub("", mention.text) in (_BETWEEN.sub("", "".join(each)) for each in (covered, in_order))


def _letters(text: str) -> str:
    return "".join(char for char in text.casefold() if char.isalnum())


def _cut_tokens(doc: Doc, found: List[_Found], report: CorpusReport) -> None:
    """Split every token that an edge of a mention falls into, so that each mention is a run of whole tokens."""
    starts = [token.idx for token in doc] if found else []
    cuts: Dict[int, List[int]] = {}
    for edge in sorted({offset for key in found for fragment in key.fragments for offset in fragment}):
        i = bisect_right(starts, edge) - 1
        if 0 < edge - starts[i] < len(doc[i]):
            cuts.setdefault(i, []).append(edge)
    if not cuts:
        return
    cut_offsets = {edge for edges in cuts.values() for edge in edges}
    report.count("split_tokens", len(cuts))
    n_misfit = sum(any(offset in cut_offsets for fragment in key.fragments for offset in fragment) for key in found)
    report.count("misfit_mentions", n_misfit)
    with doc.retokenize() as retokenizer:
        for i, edges in cuts.items():
            token = doc[i]
            places = [0, *(edge - token.idx for edge in edges), len(token)]
            orths = [token.text[start:end] for start, end in pairwise(places)]
            # Each part is its own head: the document has no parse that could be kept.
            retokenizer.split(token, orths, heads=[(token, part) for part in range(len(orths))])
