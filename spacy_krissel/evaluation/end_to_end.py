"""End-to-end evaluation: links predicted from text alone, against gold links.

Ids per document, and spans with their id, each with precision, recall and F1.
"""

import time
import warnings
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import Any, Literal, NamedTuple

import numpy as np
from spacy.language import Language
from spacy.tokens import Doc

from ..errors import Errors, KrisselError, KrisselWarning, Warnings
from ..mentions.annotations import NIL, fragments_of, spans_of
from ..mentions.discontinuous import DISJOINT_KEY, holds_fragments, read_fragments
from ..mentions.gold_ids import Resolver
from ..mentions.gold_mentions import primary_id, split_gold
from ..mining.matcher import NameMatcher
from ..mining.name_table import search_names
from ..ontology.hierarchy import subtree
from ..ontology.store import OntologyStore
from ..pipeline.pipe import link_writers
from ..pipeline.pipeline_io import within_max_length
from ..util.progress import progress_bar
from ..views import mention_view
from .bootstrap import RESAMPLES, Bootstrap
from .distance import Keys, cached_keys, has_hierarchy, relation
from .end_to_end_report import DICTIONARY, KINDS, MEASURES, EndToEndReport, LinkError
from .gold import GoldDoc, warn_of_own_names, without_own_gold
from .run import MAX_LISTED, linked_keys, report_head

# Number of characters of context kept with an error.
SHOWN_CONTEXT = 60
# Number of texts that speed is measured on.
TIMED_TEXTS = 200
ORDER = {kind: number for number, kind in enumerate(KINDS)}
FIGURES = ("precision", "recall", "f1")


class GoldLink(NamedTuple):
    """A gold mention in characters, and its primary ids: several for a composite mention."""

    start: int
    end: int
    ids: tuple[str, ...]


class Link(NamedTuple):
    """A predicted mention in characters, and its primary id."""

    start: int
    end: int
    id: str

    @property
    def ids(self) -> tuple[str, ...]:
        return (self.id,)


def evaluate_texts(
    nlp: Language,
    gold: Sequence[GoldDoc],
    store: OntologyStore,
    *,
    name: str,
    spans_key: str = "",
    labels: Collection[str] | None = None,
    below: Sequence[str] = (),
    baselines: bool = True,
    seed: int = 0,
    command: str = "",
    progress: bool = False,
) -> EndToEndReport:
    """Run the pipeline on the texts of gold documents, and compare its links with theirs.

    Only the text reaches the pipeline. Documents longer than `nlp.max_length` are skipped (KW620).

    gold, spans_key, labels: documents from `read_gold`, and what was passed to it.
    store: for primary ids, the hierarchy, and the names of the dictionary.
    below: count gold and predicted links to these entities and their descendants only.
    baselines: score the dictionary too (`dictionary_matcher`).
    seed: of the bootstrap.

    Raises KrisselError K112, K113 (`subtree`), K701 (no counted mention), K703 (nothing in the
    pipeline links). Warns KW702 (gold ids that the ontology lacks), KW721 (no prediction).
    """
    if not link_writers(nlp):
        raise KrisselError(Errors.K703.format(pipes=", ".join(nlp.pipe_names) or "none"))
    within = {entity.id for entity in subtree(store, below, ())} if below else None
    items = list(within_max_length(nlp, gold, lambda item: (item.doc.text, item.id)))
    texts = [item.doc.text for item in items]
    wanted, n_left_out = [], 0
    for item in items:
        links, n_without = gold_links(
            item, store, spans_key=spans_key, labels=labels, within=within
        )
        wanted.append(links)
        n_left_out += n_without
    if not any(wanted):
        asked = [f"the labels {sorted(labels)}"] if labels else []
        asked += [f"those below {', '.join(below)}"] if below else []
        detail = f" among {' and '.join(asked)}" if asked else ""
        raise KrisselError(
            Errors.K701.format(source="the corpus", n_docs=len(items), detail=detail)
        )
    with without_own_gold(nlp, items) as n_own_gold:
        warn_of_own_names(nlp, n_own_gold, len(items))
        keys = linked_keys(nlp)
        docs = progress_bar(
            nlp.pipe(texts), show=progress, total=len(texts), desc="Linking", unit=" docs"
        )
        found = [predicted_links(doc, keys, store) for doc in docs]
        # A second pass, since what the first one loads is no work per text.
        start = time.perf_counter()
        n_timed = sum(1 for _ in nlp.pipe(texts[:TIMED_TEXTS]))
        texts_per_second = n_timed / (time.perf_counter() - start)
    systems = {"": found}
    if baselines:
        systems[DICTIONARY] = match_links(dictionary_matcher(store), texts, store)
    if within is not None:
        systems = {
            system: [[link for link in links if link.id in within] for links in by_doc]
            for system, by_doc in systems.items()
        }
    found = systems[""]
    if not any(found):
        message = Warnings.KW721.format(n=len(items), pipes=", ".join(nlp.pipe_names))
        warnings.warn(message, KrisselWarning, stacklevel=3)
    bootstrap = Bootstrap([str(number) for number in range(len(items))], seed=seed)
    positions = cached_keys(store)
    results = {
        system: {**score(wanted, links, bootstrap), **_count_errors(wanted, links, positions)}
        for system, links in systems.items()
    }
    if not has_hierarchy(store):
        for each in results.values():
            each["errors"]["sibling"] = dict.fromkeys(each["errors"]["sibling"])
    errors = [
        _record(item, *error)
        for item, links, predicted in zip(items, wanted, found, strict=True)
        for error in link_errors(links, predicted, positions)
    ]
    data = {
        **report_head(nlp, name, command),
        "mentions": "end to end",
        "spans_key": spans_key,
        "labels": None if labels is None else sorted(labels),
        "below": list(below),
        "resamples": RESAMPLES,
        "seed": seed,
        "n_docs": len(items),
        "n_left_out": n_left_out,
        "n_own_gold": n_own_gold,
        "n_unknown": _warn_of_unknown_ids(items, wanted, store),
        "texts_per_second": texts_per_second,
        **results[""],
        "baselines": {
            system: {**results[system], "difference": differences(wanted, found, links, bootstrap)}
            for system, links in systems.items()
            if system
        },
    }
    titles = {
        id_: store.get(id_).name
        for error in errors
        for id_ in (*error.ids, *error.other_ids)
        if id_ in store
    }
    return EndToEndReport(name, data, errors, titles)


def gold_links(
    item: GoldDoc,
    store: Resolver,
    *,
    spans_key: str = "",
    labels: Collection[str] | None = None,
    within: Collection[str] | None = None,
) -> tuple[list[GoldLink], int]:
    """Return the distinct gold links of a document, sorted, and the number of mentions left out.

    Discontinuous mentions are included, by their outer span. Mentions without an id are left out.

    spans_key, labels: as they were passed to `read_gold`.
    within: only these ids.
    """
    doc = item.doc
    mentions = [(mention.start_char, mention.end_char, mention.kb_id_) for mention in item.mentions]
    if holds_fragments(doc, spans_key):
        mentions = []
    fragments = spans_key or DISJOINT_KEY
    if holds_fragments(doc, fragments):
        mentions += [
            (*_outer(doc, mention.fragments), mention.kb_id)
            for mention in read_fragments(doc, fragments)
            if labels is None or mention.label in labels
        ]
    links = []
    for start, end, kb_id in mentions:
        ids = split_gold(kb_id, store)
        if kept := tuple(id_ for id_ in ids if within is None or id_ in within):
            links.append(GoldLink(start, end, kept))
    return sorted(set(links)), len(mentions) - len(links)


def predicted_links(doc: Doc, spans_keys: Iterable[str], store: Resolver) -> list[Link]:
    """Return the distinct links of a doc, sorted. `NIL` is no link.

    spans_keys: groups of `doc.spans`; "" stands for `doc.ents`. Discontinuous mentions have their
        outer span, also those of which `doc.ents` hold a part (`fragments_of`).
    """
    found: list[tuple[int, int, str]] = []
    for key in spans_keys:
        if holds_fragments(doc, key):
            mentions = read_fragments(doc, key)
            found += ((*_outer(doc, each.fragments), each.kb_id) for each in mentions)
        else:
            for span in spans_of(doc, key):
                fragments = fragments_of(span)
                found.append((fragments[0][0], fragments[-1][1], span.kb_id_))
    links = {
        Link(start, end, primary_id(kb_id, store))
        for start, end, kb_id in found
        if kb_id not in ("", NIL)
    }
    return sorted(links)


def _outer(doc: Doc, fragments: Sequence[tuple[int, int]]) -> tuple[int, int]:
    span = doc[fragments[0][0] : fragments[-1][1]]
    return span.start_char, span.end_char


def dictionary_matcher(store: OntologyStore) -> NameMatcher:
    """Return the matcher of a plain dictionary: all names of the ontology, longest match.

    Names are matched as in mining (`NameMatcher`, "smart" case).
    """
    return NameMatcher(search_names(store, {}), "smart")


def match_links(
    matcher: NameMatcher, texts: Sequence[str], store: OntologyStore
) -> list[list[Link]]:
    """Return the links of the matched names in each text. A name shared by several entities is not
    linked."""
    links: list[list[Link]] = [[] for _ in texts]
    for matches in matcher.find_in(texts):
        columns = (column.tolist() for column in matches[:4])
        for text, start, end, row in zip(*columns, strict=True):
            if row >= 0:
                links[text].append(Link(start, end, store.id_at(row)))
    return links


def score(
    gold: Sequence[Sequence[GoldLink]], predicted: Sequence[Sequence[Link]], bootstrap: Bootstrap
) -> dict[str, Any]:
    """Return the scores of predicted links, both by document.

    `ids`: distinct ids per document; each id of a composite mention counts. `spans`: start, end and
    id; any id of a composite mention is correct. F1 is the harmonic mean of precision and recall.

    bootstrap: over as many documents.

    RETURNS: for each measure `micro` and `macro`, with `precision`, `recall`, `f1` and their 95 %
    `intervals`, `n_gold` and `n_predicted`. `macro` is the mean over documents with a gold or
    predicted link.
    """
    return {measure: _scores(_counts(gold, predicted, measure), bootstrap) for measure in MEASURES}


def differences(
    gold: Sequence[Sequence[GoldLink]],
    ours: Sequence[Sequence[Link]],
    theirs: Sequence[Sequence[Link]],
    bootstrap: Bootstrap,
) -> dict[str, Any]:
    """Return the micro F1 of `ours` minus that of `theirs`, with its paired 95 % `interval`, for
    each measure."""
    found = {}
    for measure in MEASURES:
        counts = [_counts(gold, links, measure) for links in (ours, theirs)]
        f1 = [figures(each.sum(axis=0))[2] for each in counts]
        resampled = [figures(_resampled(each, bootstrap))[:, 2] for each in counts]
        interval = bootstrap.percentiles(resampled[0] - resampled[1])
        found[measure] = {"f1": float(f1[0] - f1[1]), "interval": interval}
    return found


def _counts(
    gold: Sequence[Sequence[GoldLink]], predicted: Sequence[Sequence[Link]], measure: str
) -> np.ndarray:
    """Return for each document the number of correct predictions, of predictions, of gold links
    that are found, and of gold links (n_docs, 4)."""
    rows = []
    for wanted, found in zip(gold, predicted, strict=True):
        if measure == "ids":
            gold_ids = {id_ for link in wanted for id_ in link.ids}
            predicted_ids = {link.id for link in found}
            n_right = len(gold_ids & predicted_ids)
            rows.append((n_right, len(predicted_ids), n_right, len(gold_ids)))
        else:
            right = _right(found, wanted)
            rows.append((sum(right), len(found), sum(_right(wanted, found)), len(wanted)))
    return np.array(rows, dtype=float).reshape(-1, 4)


def _right(links: Sequence[Link | GoldLink], others: Sequence[Link | GoldLink]) -> list[bool]:
    """Return for each link whether one of the others has its span and one of its ids."""
    known = {(other.start, other.end, id_) for other in others for id_ in other.ids}
    return [any((link.start, link.end, id_) in known for id_ in link.ids) for link in links]


def figures(counts: np.ndarray) -> np.ndarray:
    """Return precision, recall and F1 (…, 3) of counts (…, 4) as in `_counts`; 0 where the
    denominator is 0."""

    def ratio(top: np.ndarray, bottom: np.ndarray) -> np.ndarray:
        return np.divide(top, bottom, out=np.zeros_like(bottom, dtype=float), where=bottom > 0)

    n_right, n_predicted, n_found, n_gold = np.moveaxis(counts, -1, 0)
    precision, recall = ratio(n_right, n_predicted), ratio(n_found, n_gold)
    return np.stack([precision, recall, ratio(2 * precision * recall, precision + recall)], axis=-1)


def _resampled(counts: np.ndarray, bootstrap: Bootstrap) -> np.ndarray:
    return np.stack([bootstrap.sums(column) for column in counts.T], axis=-1)


def _scores(counts: np.ndarray, bootstrap: Bootstrap) -> dict[str, Any]:
    total, resampled = counts.sum(axis=0), figures(_resampled(counts, bootstrap))
    by_doc, inside = figures(counts), ((counts[:, 1] + counts[:, 3]) > 0).astype(float)
    micro = dict(zip(FIGURES, figures(total).tolist(), strict=True))
    mean = by_doc[inside > 0].mean(axis=0) if inside.any() else np.zeros(3)
    return {
        "n_predicted": int(total[1]),
        "n_gold": int(total[3]),
        "micro": {
            **micro,
            "intervals": {
                figure: bootstrap.percentiles(resampled[:, i]) for i, figure in enumerate(FIGURES)
            },
        },
        "macro": {
            **dict(zip(FIGURES, mean.tolist(), strict=True)),
            "intervals": {
                figure: bootstrap.interval(by_doc[:, i] * inside, inside)
                for i, figure in enumerate(FIGURES)
            },
        },
    }


def link_errors(
    gold: Sequence[GoldLink], predicted: Sequence[Link], keys: Keys
) -> Iterator[tuple[str, GoldLink | Link, GoldLink | Link | None]]:
    """Yield the errors of a document: gold links that are not found, then wrong predictions.

    An error is its kind, its link, and the overlapping link of the other side that decides the
    kind. Kinds, in order:

    - "wrong span": the other has a correct id and another span.
    - "sibling": its id is a parent, child or sibling of a correct id, at the same span or another.
    - "wrong id": the same span, any other id.
    - "overlap": another span and any other id.
    - "missed", of a gold link, and "spurious", of a prediction: nothing overlaps.
    """
    sides: tuple[tuple[Sequence[GoldLink | Link], Sequence[GoldLink | Link], str], ...] = (
        (gold, predicted, "missed"),
        (predicted, gold, "spurious"),
    )
    for links, others, alone in sides:
        right = _right(links, others)
        for link, is_right, there in zip(links, right, _overlapping(links, others), strict=True):
            if is_right:
                continue
            ranked = [(_kind(link, other, keys), other) for other in there]
            kind, other = min(ranked, key=lambda each: ORDER[each[0]], default=(alone, None))
            yield kind, link, other


def _kind(link: GoldLink | Link, other: GoldLink | Link, keys: Keys) -> str:
    if not set(link.ids).isdisjoint(other.ids):
        return "wrong span"
    if any(relation(id_, other.ids, keys) != "other" for id_ in link.ids):
        return "sibling"
    return "wrong id" if link[:2] == other[:2] else "overlap"


def _overlapping(
    links: Sequence[GoldLink | Link], others: Sequence[GoldLink | Link]
) -> Iterator[list[GoldLink | Link]]:
    """Yield for each link those of the others that overlap it. Both are sorted."""
    starts = [other.start for other in others]
    longest = max((other.end - other.start for other in others), default=0)
    for link in links:
        near = slice(bisect_right(starts, link.start - longest), bisect_left(starts, link.end))
        yield [other for other in others[near] if other.end > link.start]


def _count_errors(
    gold: Sequence[Sequence[GoldLink]], predicted: Sequence[Sequence[Link]], keys: Keys
) -> dict[str, Any]:
    """Return the number of errors by kind, of gold mentions and of predictions."""
    counts: dict[str, Counter[str]] = {"gold": Counter(), "predicted": Counter()}
    for wanted, found in zip(gold, predicted, strict=True):
        for kind, link, _ in link_errors(wanted, found, keys):
            counts[_side(link)][kind] += 1
    return {"errors": {kind: {side: n[kind] for side, n in counts.items()} for kind in KINDS}}


def _side(link: GoldLink | Link) -> Literal["gold", "predicted"]:
    return "gold" if isinstance(link, GoldLink) else "predicted"


def _record(
    item: GoldDoc, kind: str, link: GoldLink | Link, other: GoldLink | Link | None
) -> LinkError:
    text = item.doc.text
    view = mention_view(text, link.start, link.end, SHOWN_CONTEXT)
    start, end, ids = (other.start, other.end, other.ids) if other else (link.start, link.start, ())
    mention = link.start, link.end, text[link.start : link.end], link.ids
    others = start, end, text[start:end], ids
    return LinkError(kind, _side(link), item.id, *mention, *others, view.left, view.right)


def _warn_of_unknown_ids(
    items: Sequence[GoldDoc], gold: Sequence[Sequence[GoldLink]], store: OntologyStore
) -> int:
    """Warn KW702 of gold links none of whose ids the ontology has. RETURNS: their number."""
    lost = [
        f"{item.id} {link.start}-{link.end} {link.ids[0]}"
        for item, links in zip(items, gold, strict=True)
        for link in links
        if not any(id_ in store for id_ in link.ids)
    ]
    if lost:
        total, examples = sum(map(len, gold)), ", ".join(lost[:MAX_LISTED])
        message = Warnings.KW702.format(n=len(lost), total=total, examples=examples)
        warnings.warn(message, KrisselWarning, stacklevel=4)
    return len(lost)
