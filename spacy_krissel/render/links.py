"""Page of linked mentions, and a table whose last two columns are filled in by a person."""

from collections.abc import Iterable, Sequence
from typing import Any

from spacy.displacy.render import EntityRenderer
from spacy.displacy.templates import TPL_ENT
from spacy.tokens import Doc, Span
from spacy.util import filter_spans

from ..kb.candidates import matched_name
from ..mentions.annotations import fragments_of, spans_of
from ..mentions.discontinuous import holds_fragments, join_fragments
from ..mentions.gold_mentions import ID_KEY, document_id
from ..ontology.entity import entity_url
from ..util.escape import cell_text, html_text
from ..views import MINED_CHARS, evidence, mention_view

COLUMNS = tuple(
    "doc start end mention context id name match matched_name score confidence alternatives "
    "verdict right_id".split()
)
_ENTITY = TPL_ENT.replace("<mark ", '<mark title="{title}" ', 1)


def link_rows(doc: Doc, spans_key: str = "") -> list[dict[str, str]]:
    """Return a row per mention, with `COLUMNS`."""
    text, id_ = doc.text, document_id(doc)
    return [link_row(span, text, id_) for span in spans_of(doc, spans_key)]


def link_row(span: Span, text: str, doc_id: str) -> dict[str, str]:
    """Return the row of a mention in a document with this text and id. The context is as wide as
    that of a mined mention; the mention is in brackets."""
    candidates = span._.krissel_candidates
    best: dict[str, Any] = next((each for each in candidates if each["id"] == span.kb_id_), {})
    context = evidence(mention_view(text, span.start_char, span.end_char, MINED_CHARS))
    numbers = [f"{best[key]:.3f}" if key in best else "" for key in ("score", "confidence")]
    others = " | ".join(candidate_text(each) for each in candidates if each is not best)
    position = [cell_text(doc_id), str(span.start_char), str(span.end_char)]
    name = matched_name(best, span.text) if best else ""
    about = span.text, context, span.kb_id_, best.get("name", ""), best.get("match", ""), name
    texts = map(cell_text, about)
    return dict(zip(COLUMNS, [*position, *texts, *numbers, cell_text(others), "", ""], strict=True))


def links_page(docs: Iterable[Doc], spans_key: str = "") -> str:
    """Return displaCy's page of the mentions with their entities, with candidates in the tooltip.
    Of overlapping mentions the longest is shown. Ids are links if `entity_url` returns an address.
    """
    parsed = []
    for doc in docs:
        ents = []
        for span in filter_spans(spans_of(doc, spans_key)):
            candidates = span._.krissel_candidates
            name = next(
                (each["name"] for each in candidates if each["id"] == span.kb_id_), span.label_
            )
            # displaCy escapes only the text.
            shown = {
                "label": html_text(name),
                "title": html_text("\n".join(map(candidate_text, candidates))),
            }
            url = entity_url(span.kb_id_)
            link = {
                "kb_id": html_text(span.kb_id_),
                "kb_url": html_text(url) if url.startswith("http") else "#",
            }
            ents.append(
                {
                    "start": span.start_char,
                    "end": span.end_char,
                    "label": span.label_,
                    **link,
                    "params": shown,
                }
            )
        parsed.append(
            {"text": doc.text, "ents": ents, "title": html_text(str(doc.user_data.get(ID_KEY, "")))}
        )
    return EntityRenderer({"template": _ENTITY}).render(parsed, page=True).strip() + "\n"


def doc_to_dict(doc: Doc, spans_key: str = "") -> dict[str, Any]:
    """Return a linked doc as JSON: its id and text, and each mention with its link and
    candidates. A discontinuous one has its "fragments" too."""
    return {
        "id": doc.user_data.get(ID_KEY, ""),
        "text": doc.text,
        "mentions": whole_mentions(doc, spans_key),
    }


def whole_mentions(doc: Doc, spans_key: str = "") -> list[dict[str, Any]]:
    """Return the mentions of `mention_dicts`, those in several fragments as one: from the first to
    the last, with the (start, end) of each as "fragments"."""
    text, spans, found = doc.text, spans_of(doc, spans_key), mention_dicts(doc, spans_key)
    if not spans_key:
        pairs = zip(map(fragments_of, spans), found, strict=True)
        return [_whole(text, mention, fragments) for fragments, mention in pairs]
    if not holds_fragments(doc, spans_key):
        return found
    groups = dict[tuple[str, ...], list[tuple[Span, dict[str, Any]]]]()
    for number, (span, mention) in enumerate(zip(spans, found, strict=True)):
        own = ("shared", span.id_, span.kb_id_, span.label_) if span.id_ else (str(number),)
        groups.setdefault(own, []).append((span, mention))
    return [_joined(doc, text, group) for group in groups.values()]


def _joined(doc: Doc, text: str, group: Sequence[tuple[Span, dict[str, Any]]]) -> dict[str, Any]:
    mention = dict(group[0][1])
    tokens = join_fragments((span.start, span.end) for span, _ in group)
    fragments = [[doc[start].idx, doc[end - 1].idx + len(doc[end - 1])] for start, end in tokens]
    # Candidates belong to offsets, which fragments of several mentions may share.
    of_fragments = [each["candidates"] for _, each in group]
    mention["candidates"] = next(
        (
            candidates
            for candidates in of_fragments
            if any(each["id"] == mention["kb_id"] for each in candidates)
        ),
        of_fragments[0],
    )
    return _whole(text, mention, fragments)


def _whole(
    text: str, mention: dict[str, Any], fragments: Sequence[Sequence[int]]
) -> dict[str, Any]:
    start, end = fragments[0][0], fragments[-1][1]
    whole = {**mention, "start": start, "end": end, "text": text[start:end]}
    return {**whole, "fragments": fragments} if len(fragments) > 1 else whole


def mention_dicts(doc: Doc, spans_key: str = "") -> list[dict[str, Any]]:
    """Return the mentions of `doc_to_dict`, without the text: spaCy takes as long to build it as to
    link a mention."""
    return [
        {
            "start": span.start_char,
            "end": span.end_char,
            "text": span.text,
            "label": span.label_,
            "kb_id": span.kb_id_,
            "candidates": span._.krissel_candidates,
        }
        for span in spans_of(doc, spans_key)
    ]


def candidate_text(candidate: dict[str, Any]) -> str:
    """Return a candidate on one line: id, name, score and, if known, match."""
    shown = f"{candidate['id']} {candidate['name']} {candidate['score']:.3f}"
    return f"{shown} {candidate['match']}" if "match" in candidate else shown
