"""Texts with the entities they speak of, with the places of these or without: JSON lines, as hNLP's texts can be
written, and docs."""

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Iterable, Iterator, List, Optional, Tuple, Union

from spacy.language import Language
from spacy.tokens import Doc, Span
from spacy.util import filter_spans

from ...errors import Errors, KrisselError
from ...mentions.discontinuous import DISJOINT_KEY, DocMention, join_fragments, write_fragments
from ...mentions.gold_ids import split_ids
from ...util.inputs import JSON_CLOSING
from ..docs import DEFAULT_LABEL, ID_KEY, SPANS_KEY
from ..files import open_lines
from ..report import CorpusReport

EXPECTED = 'JSON lines: {"id": …, "text": …, "entities": [{"id": …, "spans": [[start, end], …]}, …]}'


@dataclass(frozen=True)
class TextEntity:
    """An entity that a text speaks of, and where.

    fragments: (start, end) in characters of the text, end exclusive: all of one mention; none where the place is
        unknown.
    phrase: the mention's words, where the source states them apart from the text.
    """

    id: str
    label: str = ""
    fragments: Tuple[Tuple[int, int], ...] = ()
    phrase: str = ""


@dataclass
class LabelledText:
    """A text with its entities, one for each mention. `source` and `line` say where it stands, for messages."""

    id: str
    text: str
    entities: List[TextEntity] = field(default_factory=list)
    source: str = ""
    line: int = 0


def read_text_labels(path: Union[str, Path], *, report: Optional[CorpusReport] = None) -> Iterator[LabelledText]:
    """The texts of a file of JSON lines, `{"id", "text", "entities": [{"id", "spans": [[start, end], …]}, …]}`.

    "spans" are the fragments of one mention, in characters; without them the entity is known to be in the text alone.
    An entity mentioned twice is listed twice. A text's "id" is optional, and so is an entity's "label". The file may be
    compressed with gzip.

    report: counts `bad_records`, lines that are not of this form. Without one, the reader warns of them at the end.
    Raises KrisselError K201 (no file), K202 (truncated gzip), K203 (UTF-16), K204 (no text).
    """
    own_report = report is None
    report = CorpusReport() if report is None else report
    path = Path(path)
    found, number, first_bad = False, 0, ""

    def bad(line: int, problem: str) -> None:
        nonlocal first_bad
        first_bad = first_bad or f" that can be used (line {line}: {problem})"
        report.blemish("bad_records", str(path), line, problem)

    with open_lines(path, EXPECTED, report=report, skip=bad, closing=JSON_CLOSING) as lines:
        for number, line in lines:
            if not line.strip():
                continue
            try:
                record = json.loads(line)
                # JSON can spell half of a character, which no doc can hold.
                json.dumps(record, ensure_ascii=False).encode("utf8")
                text = _labelled_text(record, path, number)
            except (ValueError, RecursionError) as error:
                bad(number, "not JSON" if isinstance(error, json.JSONDecodeError) else str(error)[:80])
                continue
            found = True
            yield text
    if not found:
        raise KrisselError(Errors.K204.format(path=path, what="text" + first_bad, line=number, expected=EXPECTED))
    if own_report:
        report.warn()


def _labelled_text(record: Any, path: Path, number: int) -> LabelledText:
    if not isinstance(record, dict) or not isinstance(record.get("text"), str) or not record["text"].strip():
        raise ValueError('no object with a "text"')
    entities = record.get("entities") or []
    if not isinstance(entities, list) or not all(map(_is_entity, entities)):
        raise ValueError('"entities" is no list of {"id": …, "spans": [[start, end], …]}')
    id_ = record.get("id")
    return LabelledText(
        f"{path.name}:{number}" if id_ in (None, "") else str(id_),
        record["text"],
        [
            TextEntity(
                each["id"].strip(), each.get("label") or "", tuple((s, e) for s, e in sorted(each.get("spans") or ()))
            )
            for each in entities
        ],
        str(path),
        number,
    )


def _is_entity(each: Any) -> bool:
    if not isinstance(each, dict) or not isinstance(each.get("id"), str) or not each["id"].strip():
        return False
    spans = each.get("spans") or []
    return (
        isinstance(each.get("label") or "", str)
        and isinstance(spans, list)
        and all(isinstance(span, list) and len(span) == 2 and all(type(i) is int for i in span) for span in spans)
    )


def to_labelled_doc(text: LabelledText, nlp: Language, *, report: Optional[CorpusReport] = None) -> Doc:
    """A doc with the entities of `text` as its text-level labels, tokenised by `nlp`.

    `doc.cats` is `{entity id: 1.0}`. Mentions in one fragment are in `doc.spans["krissel"]` (and the longest of them
    that do not overlap in `doc.ents`), those in several in `doc.spans["krissel_disjoint"]`; an entity without a place
    is in `doc.cats` alone. Tokens are the tokenizer's own, as a pipeline will see them: a fragment whose edge falls
    inside a token is widened to the whole of it, and fragments that then touch are one. An entity without a concept
    (`-1`, `NIL`) is left out.

    report: counts `documents`, `mentions_read`, `mentions`, `disjoint`, `without_place`, `nil`, `widened_mentions`,
        `outside_text` (the entity stays a label of the text) and `duplicate_mentions`. Without one, warns of blemishes.
    """
    own_report = report is None
    report = CorpusReport() if report is None else report
    doc = nlp.tokenizer(text.text)
    doc.user_data[ID_KEY] = text.id
    doc.cats = {}
    mentions: List[DocMention] = []
    for entity in text.entities:
        report.count("mentions_read")
        concepts = split_ids(entity.id)
        report.count("nil", not concepts)
        doc.cats.update(dict.fromkeys(concepts, 1.0))
        if not concepts or not (fragments := _token_fragments(doc, entity, text, report)):
            continue
        for concept in concepts:
            mention = DocMention(concept, entity.label or DEFAULT_LABEL, fragments)
            if mention in mentions:
                report.blemish("duplicate_mentions", text.source, text.line, f"{concept} in {text.id}")
            else:
                mentions.append(mention)
    write_gold_mentions(doc, mentions)
    report.count("documents")
    report.count("mentions", len(mentions))
    report.count("disjoint", sum(mention.is_discontinuous for mention in mentions))
    report.labels.update(mention.label for mention in mentions)
    if own_report:
        report.warn()
    return doc


def _token_fragments(
    doc: Doc, entity: TextEntity, text: LabelledText, report: CorpusReport
) -> Tuple[Tuple[int, int], ...]:
    if not entity.fragments:
        report.count("without_place")
        return ()
    fragments, widened = [], False
    for start, end in entity.fragments:
        covered = text.text[max(0, start) : max(0, end)]
        if not 0 <= start < end <= len(text.text) or not covered.strip():
            report.blemish("outside_text", text.source, text.line, f"{entity.id} at {start}-{end} in {text.id}")
            return ()
        start, end = start + len(covered) - len(covered.lstrip()), end - len(covered) + len(covered.rstrip())
        span = doc.char_span(start, end, alignment_mode="expand")
        assert span is not None, "every character but white space is of a token"
        widened |= (span.start_char, span.end_char) != (start, end)
        fragments.append((span.start, span.end))
    report.count("widened_mentions", widened)
    return join_fragments(fragments)


def write_gold_mentions(doc: Doc, mentions: Iterable[DocMention]) -> None:
    """Make `mentions` the gold of `doc`: those in one fragment as `convert` writes them, those in several beside
    them."""
    ordered = sorted(mentions, key=lambda mention: (mention.fragments[0][0], -mention.fragments[-1][1]))
    whole = [
        Span(doc, *mention.fragments[0], label=mention.label, kb_id=mention.kb_id)
        for mention in ordered
        if not mention.is_discontinuous
    ]
    doc.ents = filter_spans(whole)
    doc.spans[SPANS_KEY] = whole
    write_fragments(doc, [mention for mention in ordered if mention.is_discontinuous], DISJOINT_KEY)
