"""Annotated texts as spaCy documents: ents, spans and ids, with every doubt counted."""

from bisect import bisect_right
from dataclasses import replace
from typing import Container, Dict, Iterable, Iterator, List, Optional, Set, Tuple

from spacy.language import Language
from spacy.tokens import Doc, Span
from spacy.util import filter_spans

from .annotation import AnnotatedText, Mention
from .ids import NIL, is_composite, to_kb_id
from .report import CorpusReport

SPANS_KEY = "krissel"
ID_KEY = "krissel_id"
DEFAULT_LABEL = "ENTITY"


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
    the document.

    A mention whose edge falls inside a token cuts that token in two. White space at the edges of a mention is given
    up. A mention is kept when the text at its offsets and the text it states have the same letters and digits, in any
    case (a file that lost its quote marks), and left out otherwise: which of the two is wrong cannot be told.

    report: counts `documents`, `mentions_read`, `mentions`, `ents`, `nil`, `composite`, `split_tokens`,
        `misfit_mentions`, `trimmed_mentions`, `text_mismatches`, `text_differences`, `outside_text` and
        `duplicate_mentions`. Without one, warns of blemishes.
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
    found: List[Tuple[int, int, str, str]] = []
    for mention in annotated.mentions:
        offsets = _locate(mention, annotated, report)
        if offsets is None:
            continue
        key = (*offsets, mention.label or DEFAULT_LABEL, to_kb_id(mention.kb_id))
        if key in found:
            report.blemish("duplicate_mentions", annotated.source, mention.line, repr(mention.text[:60]))
        else:
            found.append(key)
    found.sort(key=lambda key: (key[0], -key[1]))
    _cut_tokens(doc, found, report)
    spans = [_span(doc, *key) for key in found]
    doc.ents = filter_spans(spans)
    doc.spans[SPANS_KEY] = spans
    report.count("documents")
    report.count("mentions_read", len(annotated.mentions))
    report.count("mentions", len(spans))
    report.count("ents", len(doc.ents))
    report.count("nil", sum(span.kb_id_ == NIL for span in spans))
    report.count("composite", sum(is_composite(span.kb_id_) for span in spans))
    report.labels.update(span.label_ for span in spans)
    if own_report:
        report.warn()
    return doc


def _span(doc: Doc, start: int, end: int, label: str, kb_id: str) -> Span:
    span = doc.char_span(start, end, label=label, kb_id=kb_id)
    assert span is not None, "the tokens were cut at the edges of every mention"
    return span


def _locate(mention: Mention, annotated: AnnotatedText, report: CorpusReport) -> Optional[Tuple[int, int]]:
    """The offsets of a mention without white space at its edges, or None when it cannot be kept."""
    start, end = mention.start, mention.end
    covered = annotated.text[max(0, start) : max(0, end)]
    if not 0 <= start < end <= len(annotated.text) or not covered.strip():
        detail = f"{mention.text[:60]!r} at {start}-{end}"
        report.blemish("outside_text", annotated.source, mention.line, detail)
        return None
    if covered != mention.text:
        detail = f"{mention.text[:60]!r} at {start}-{end} is {covered[:60]!r}"
        if _letters(covered) != _letters(mention.text) or not _letters(covered):
            report.blemish("text_mismatches", annotated.source, mention.line, detail)
            return None
        report.blemish("text_differences", annotated.source, mention.line, detail)
    if covered != covered.strip():
        report.count("trimmed_mentions")
    return start + len(covered) - len(covered.lstrip()), end - len(covered) + len(covered.rstrip())


def _letters(text: str) -> str:
    return "".join(char for char in text.casefold() if char.isalnum())


def _cut_tokens(doc: Doc, found: List[Tuple[int, int, str, str]], report: CorpusReport) -> None:
    """Split every token that an edge of a mention falls into, so that each mention is a run of whole tokens."""
    starts = [token.idx for token in doc] if found else []
    cuts: Dict[int, List[int]] = {}
    for edge in sorted({offset for start, end, _, _ in found for offset in (start, end)}):
        i = bisect_right(starts, edge) - 1
        if 0 < edge - starts[i] < len(doc[i]):
            cuts.setdefault(i, []).append(edge)
    if not cuts:
        return
    cut_offsets = {edge for edges in cuts.values() for edge in edges}
    report.count("split_tokens", len(cuts))
    report.count("misfit_mentions", sum(start in cut_offsets or end in cut_offsets for start, end, _, _ in found))
    with doc.retokenize() as retokenizer:
        for i, edges in cuts.items():
            token = doc[i]
            places = [0, *(edge - token.idx for edge in edges), len(token)]
            orths = [token.text[start:end] for start, end in zip(places, places[1:])]
            # Each part is its own head: the document has no parse that could be kept.
            retokenizer.split(token, orths, heads=[(token, part) for part in range(len(orths))])
