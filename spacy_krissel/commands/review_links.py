"""Choice of linked mentions for a person to review."""

import random
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path
from typing import Any, NamedTuple

from scipy.special import expit
from spacy.language import Language
from spacy.tokens import Doc, Span
from spacy.util import filter_spans, minibatch

from ..corpora.link_table import RANDOM, WHY
from ..errors import Errors, KrisselError, wrong_setting
from ..mentions.annotations import FOUND, NIL, set_spans, spans_of
from ..mentions.gold_mentions import ID_KEY, document_id
from ..pipeline.pipeline_io import find_linker, finders_of, load_pipeline, mention_setters
from ..pipeline.settings import LINKER
from ..render.formats.own import table_lines
from ..render.links import COLUMNS, link_row
from ..util.atomic import atomic_file, check_file
from ..util.escape import cell_text
from ..util.outputs import writes
from ..util.settings import Count, PositiveInt, checked
from .link_texts import LinkedDocs
from .review_names import review_names

# Scale of score margins, for links without confidence: a link with this margin is estimated to be
# wrong in 27 of 100 cases. It orders links and is not fitted to data.
MARGIN = 0.1
# Id and name predicted by the second pipeline, by the character offsets of each mention.
Answers = dict[tuple[int, int], tuple[str, str]]


class Mention(NamedTuple):
    """A linked mention. number: of the linked mentions, in the order of the texts. reason: for its
    review."""

    number: int
    link: "Link"
    reason: str
    row: dict[str, str]


@dataclass(slots=True, eq=False)
class Link:
    """All mentions of one form with one link.

    disagreements: number of mentions that the second pipeline links differently. doubt: expected
        number of wrong links. example: the most doubtful mention, among those of `disagreements` if
        there are any; rank: what it is chosen by.
    """

    n_mentions: int = 0
    disagreements: int = 0
    doubt: float = 0.0
    rank: tuple[bool, float] = (False, -1.0)
    example: Mention | None = None


@writes("output")
@checked
def review(
    pipeline: str | Path,
    texts: Path,
    output: Path,
    *,
    rows: PositiveInt = 100,
    names: bool = False,
    also: str | Path | None = None,
    seed: Count = 0,
    name: str = LINKER,
    batch_size: PositiveInt = 128,
    progress: bool = False,
) -> dict[str, int]:
    """Choose links to review, in a table to fill in.

    pipeline: A pipeline with a linker, and with a component that finds mentions
    texts: Docs with mentions (.spacy), or text: JSONL, plain, .gz
    output: The table to write (.tsv), for "krissel precision" and "krissel correct"
    rows: Number of mentions in the table; all, if there are fewer
    names: Choose found names instead, the most frequent first: one row for all mentions of a form
    also: A second pipeline that links the same mentions; links on which they disagree come first
    seed: Random seed of the random rows
    name: Name of the linker in the pipelines
    batch_size: Number of docs per batch

    Half of the rows (more, if there are few distinct links) are drawn at random from all mentions
    linked to an entity: their `why` is "random", and their precision estimates that of the texts.
    They alternate with links to review first, one row per mention form and entity. Links on which
    the pipelines disagree lead, by the number of such mentions. Links with the highest expected
    number of errors follow: the sum of 1 - confidence over the mentions of the link (without
    confidence, of σ(-margin / 0.1), by the margin to the best other candidate). Reviewing may stop
    after any row. `rows` mentions and an example per distinct link, of 3 kB each, are held in
    memory.

    With `names`, each row is a form of the mentions that `krissel_finder` found (`review_names`).

    RETURNS: the numbers of `docs`, `mentions`, `linked` mentions, distinct `links`, `rows` and
    `random` rows; with `names` those of `review_names`. Raises KrisselError K006, K026 (output),
    K678 (no linked mention), K679 (no found mention), and those of `LinkedDocs`, which also warns.
    """
    if output.suffix != ".tsv":
        raise wrong_setting("output", output, "a path ending in .tsv")
    check_file(output)
    if names and also is not None:
        raise wrong_setting("also", also, "none with `names`, which compares no links")
    docs = LinkedDocs(pipeline, texts, name=name, batch_size=batch_size, progress=progress)
    if names:
        return review_names(docs, texts, output, rows)
    linked_twice = (
        ((doc, {}) for doc in docs)
        if also is None
        else answered(docs, load_pipeline(also), name, batch_size)
    )
    sample, links, n_linked = _draw(linked_twice, docs.key, rows, random.Random(seed))
    if not n_linked:
        raise KrisselError(
            Errors.K678.format(path=texts, n_docs=docs.n_docs, n_mentions=docs.n_mentions)
        )
    drawn, chosen = _choose(sample, links, rows)
    pairs = zip_longest(
        ((each, RANDOM) for each in drawn), ((each, _reason(each)) for each in chosen)
    )
    written = [
        (*pair[0].row.values(), cell_text(pair[1]))
        for both in pairs
        for pair in both
        if pair is not None
    ]
    with atomic_file(output) as temporary, temporary.open("wb") as file_:
        file_.writelines(table_lines((*COLUMNS, WHY), written))
    counts = {
        "docs": docs.n_docs,
        "mentions": docs.n_mentions,
        "linked": n_linked,
        "links": len(links),
    }
    return {**counts, "rows": len(written), "random": len(drawn)}


def show_review(counts: dict[str, int], output: Path) -> str:
    if "forms" in counts:
        return f"{counts['rows']} of {counts['forms']} forms of found mentions in {output}"
    return (
        f"{counts['rows']} of {counts['linked']} linked mentions in {output}: {counts['random']} "
        f"drawn at random, {counts['rows'] - counts['random']} to review first"
    )


def _draw(
    answered: Iterable[tuple[Doc, Answers]], key: str, n: int, rng: random.Random
) -> tuple[list[Mention], dict[tuple[str, str], Link], int]:
    """Return at most `n` of the linked mentions, drawn at random and in random order (a reservoir);
    each distinct link; and the number of linked mentions."""
    sample: list[Mention] = []
    links: dict[tuple[str, str], Link] = defaultdict(Link)
    number = 0
    for doc, answers in answered:
        text, id_ = doc.text, document_id(doc)
        for span in spans_of(doc, key):
            if span.kb_id_ in ("", NIL):
                continue
            doubt, reason = _doubt(span)
            link = links[" ".join(span.text.casefold().split()), span.kb_id_]
            other = answers.get((span.start_char, span.end_char), (span.kb_id_, ""))
            if disagrees := other[0] != span.kb_id_:
                reason = f"disagreement: {' '.join(other).strip()}"
            link.n_mentions, link.doubt = link.n_mentions + 1, link.doubt + doubt
            link.disagreements += disagrees
            slot = number if number < n else rng.randrange(number + 1)
            if slot < n or (disagrees, doubt) > link.rank:
                mention = Mention(number, link, reason, link_row(span, text, id_))
                if slot < n:
                    sample[slot : slot + 1] = [mention]
                if (disagrees, doubt) > link.rank:
                    link.rank, link.example = (disagrees, doubt), mention
            number += 1
    rng.shuffle(sample)
    return sample, links, number


def _choose(
    sample: list[Mention], links: dict[tuple[str, str], Link], n: int
) -> tuple[list[Mention], list[Mention]]:
    """Return the random rows and those to review first, `n` in all if there are as many mentions.

    The number of random rows does not depend on the mentions drawn, and an example that was drawn
    counts as random: both keep the random rows a sample of all mentions.
    """
    n = min(n, len(sample))
    n_random = max((n + 1) // 2, n - len(links))
    drawn = sample[:n_random]
    ordered = sorted(
        links.values(), key=lambda link: (-link.disagreements, -link.doubt, -link.n_mentions)
    )
    # If the example of a link was drawn, a second example takes its row.
    queue = [*(link.example for link in ordered if link.example is not None), *sample[n_random:]]
    taken = {each.number for each in drawn}
    others = {each.number: each for each in queue if each.number not in taken}
    return drawn, list(others.values())[: n - n_random]


def _doubt(span: Span) -> tuple[float, str]:
    """Return the estimated probability that a link is wrong, and its source."""
    candidates = span._.krissel_candidates
    best: dict[str, Any] = next((each for each in candidates if each["id"] == span.kb_id_), {})
    if "confidence" in best:
        return 1 - best["confidence"], f"confidence {best['confidence']:.3f}"
    others = [each["score"] for each in candidates if each is not best]
    if not best or not others:
        return 0.0, "frequent"
    margin = best["score"] - max(others)
    return float(expit(-margin / MARGIN)), f"margin {margin:.3f} to the best other candidate"


def _reason(mention: Mention) -> str:
    n = mention.link.n_mentions
    return f"{mention.reason}; {n} mention{'s' * (n > 1)} with this text and link"


def answered(
    docs: LinkedDocs, nlp: Language, name: str, batch_size: int
) -> Iterator[tuple[Doc, Answers]]:
    """Yield each doc with the links of another pipeline for its mentions. Its own finder says by
    which name it finds those that the first pipeline's finder found."""
    key = find_linker(nlp, name).cfg["spans_key"]
    if name not in nlp.pipe_names:
        nlp.enable_pipe(name)
    finders = [
        pipe
        for found, pipe in finders_of(nlp, name)
        if found in nlp.pipe_names and pipe.cfg.spans_key == key
    ]
    with nlp.select_pipes(disable=mention_setters(nlp)):
        for batch in minibatch(docs, batch_size):
            unlinked = [_unlinked(doc, nlp, docs.key, key) for doc in batch]
            found = [
                {(span.start, span.end) for span in spans_of(doc, docs.key) if span._.get(FOUND)}
                for doc in batch
            ]
            mentions = [
                [span for span in spans_of(doc, key) if (span.start, span.end) in own]
                for doc, own in zip(unlinked, found, strict=True)
            ]
            for finder in finders:
                finder.describe(unlinked, mentions)
            for doc, linked in zip(batch, nlp.pipe(unlinked, batch_size=batch_size), strict=True):
                yield doc, answers_of(linked, key)


def _unlinked(doc: Doc, nlp: Language, key: str, new_key: str) -> Doc:
    """Return a copy with its tokens and mentions, without the links of the first pipeline."""
    words, spaces = [token.text for token in doc], [bool(token.whitespace_) for token in doc]
    copy = Doc(
        nlp.vocab, words=words, spaces=spaces, user_data={ID_KEY: doc.user_data.get(ID_KEY, "")}
    )
    spans = [
        Span(copy, span.start, span.end, label=span.label_, span_id=span.id_)
        for span in spans_of(doc, key)
    ]
    set_spans(copy, spans if new_key else filter_spans(spans), new_key)
    if key in doc.spans and new_key:
        # Where spans are fragments of one mention.
        copy.spans[new_key].attrs.update(doc.spans[key].attrs)
    return copy


def answers_of(doc: Doc, key: str) -> Answers:
    """Return the link of each mention."""
    return {(span.start_char, span.end_char): _answer(span) for span in spans_of(doc, key)}


def _answer(span: Span) -> tuple[str, str]:
    names = (each["name"] for each in span._.krissel_candidates if each["id"] == span.kb_id_)
    return span.kb_id_ or NIL, next(names, "")
