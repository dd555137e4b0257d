"""Lexical baselines, as link records of the same mentions."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from ..mentions.abbreviations import document_expander
from ..ontology.store import OntologyStore
from ..util.folding import canonical_name
from ..util.progress import progress_bar
from ..views import evidence, name_view
from .records import LinkRecord

if TYPE_CHECKING:
    from scipy.sparse import csr_matrix

# Scores closer than this count as equal: float32 sums depend on the order of summation.
TIE = 1e-6
# Number of cells of the dense block of scores (float32: 64 MiB), for any size of the ontology.
BLOCK_CELLS = 2**24
QUERY_BLOCK = 128


def expand_abbreviations(records: Sequence[LinkRecord], documents: Mapping[str, str]) -> list[str]:
    """Return the text of each record, with the abbreviations of its document expanded as by the
    linker.

    documents: texts by document id.
    """
    expand = {doc: document_expander(documents[doc]) for doc in {record.doc for record in records}}
    return [expand[record.doc](record.text, record.start) for record in records]


def settle_ties(records: Sequence[LinkRecord], store: OntologyStore) -> list[LinkRecord]:
    """Resolve ties to the entity with the most names, as the linker does by names alone
    (`kb.order_ties`)."""

    def settled(record: LinkRecord) -> LinkRecord:
        known = {id_: len(store.get(id_).names) for id_ in record.ties}
        first = [id_ for id_ in record.ties if known[id_] == max(known.values())]
        others = [id_ for id_ in record.ranked if id_ not in first]
        return replace(
            record, ranked=first + others, ties=first if len(first) > 1 else [], prediction=first[0]
        )

    return [settled(record) if record.ties else record for record in records]


def exact_match(
    records: Sequence[LinkRecord], store: OntologyStore, *, texts: Sequence[str] | None = None
) -> list[LinkRecord]:
    """Link each mention to the entities with its text as a name (`OntologyStore.find`).

    Several entities are a tie; without one the answer is missing.

    texts: used instead of the mentions' own texts.
    """
    linked = []
    for record, text in zip(records, texts or [record.text for record in records], strict=True):
        ids = store.find(text) if record.found else []
        names = store.get(ids[0]).names if ids else []
        surface = (
            next((name for name in names if canonical_name(name) == canonical_name(text)), text)
            if ids
            else ""
        )
        linked.append(_relink(record, ids, [1.0] * len(ids), surface))
    return linked


def tfidf(
    records: Sequence[LinkRecord],
    store: OntologyStore,
    *,
    k: int = 64,
    texts: Sequence[str] | None = None,
) -> list[LinkRecord]:
    """Link each mention to the entity whose best name is nearest by TF-IDF over character 3-grams.

    3-grams lie within the words of the name in canonical form, padded with a space on each side.
    IDF is over distinct names in that form; similarity is the cosine. `k` distinct entities are
    kept, ties ordered by id. A mention that shares no 3-gram with any name is missing. Time: one
    sparse product of mentions and names; memory: the names' 3-grams and one block.

    texts: used instead of the mentions' own texts.
    """
    from sklearn.feature_extraction.text import TfidfVectorizer

    if not records or not len(store):
        return [_relink(record, [], [], "") for record in records]
    names = _FoldedNames.collect(store)
    vectorizer = TfidfVectorizer(
        analyzer="char_wb", ngram_range=(3, 3), lowercase=False, dtype=np.float32
    )
    name_vectors = vectorizer.fit_transform(names.folded)
    folded = [canonical_name(text) for text in texts or [record.text for record in records]]
    distinct = list(dict.fromkeys(folded))
    text_vectors = vectorizer.transform(distinct)
    scores, rows = _nearest_entities(text_vectors, name_vectors, names, k)
    row_of = {text: i for i, text in enumerate(distinct)}
    linked = []
    for record, text in zip(records, folded, strict=True):
        i = row_of[text]
        kept = rows[i] >= 0
        if not record.found or not kept.any():
            linked.append(_relink(record, [], [], ""))
            continue
        # Equal scores differ in their last bits: ties get the top score and are ordered by id.
        values = np.where(
            scores[i][0] - scores[i][kept] <= TIE, scores[i][0], scores[i][kept]
        ).tolist()
        found = zip(values, rows[i][kept].tolist(), strict=True)
        ranked = sorted((-value, store.id_at(row), row) for value, row in found)
        own = names.of_entity(ranked[0][2])
        surface = own[(name_vectors[own] @ text_vectors[i].T).toarray().argmax()]
        ids, values = [id_ for _, id_, _ in ranked], [-value for value, _, _ in ranked]
        linked.append(_relink(record, ids, values, names.original[surface]))
    return linked


class _FoldedNames(NamedTuple):
    """Distinct folded names of a store, and the entities that have them.

    folded: distinct folded names, sorted. original: one original of each, parallel to `folded`.
    entity, name: parallel int arrays of pairs (entity row, index in `folded`), sorted by entity
        row.
    """

    folded: list[str]
    original: list[str]
    entity: np.ndarray
    name: np.ndarray

    @classmethod
    def collect(cls, store: OntologyStore) -> "_FoldedNames":
        original: dict[str, str] = {}
        named = []
        for row, name, _ in store.names():
            named.append((row, folded := canonical_name(name)))
            original.setdefault(folded, name)
        names = sorted(original)
        index = {name: i for i, name in enumerate(names)}
        pairs = [(row, index[name]) for row, name in named]
        table = np.unique(np.array(pairs, dtype=np.int64), axis=0)
        return cls(names, [original[name] for name in names], table[:, 0], table[:, 1])

    def of_entity(self, row: int) -> np.ndarray:
        start, end = np.searchsorted(self.entity, [row, row + 1])
        return self.name[start:end]


def _nearest_entities(
    texts: "csr_matrix", names: "csr_matrix", table: _FoldedNames, k: int
) -> tuple[np.ndarray, np.ndarray]:
    """Return the k entities with the best name for each text: scores (n, k), padded with 0, and
    entity rows (n, k), padded with -1."""
    n = texts.shape[0]
    scores = np.zeros((n, k), dtype=np.float32)
    rows = np.full((n, k), -1, dtype=np.int64)
    for start, end in _entity_blocks(table.entity, BLOCK_CELLS // QUERY_BLOCK):
        entities, first = np.unique(table.entity[start:end], return_index=True)
        block = names[table.name[start:end]].T.tocsr()
        for low in range(0, n, QUERY_BLOCK):
            high = min(low + QUERY_BLOCK, n)
            similarity = (texts[low:high] @ block).toarray()
            # An entity's score is its best name's: (texts, pairs) -> (texts, entities).
            by_entity = np.maximum.reduceat(similarity, first, axis=1)
            found = np.where(by_entity > 0, entities[None, :], -1)
            pool_scores = np.concatenate([scores[low:high], by_entity], axis=1)
            pool_rows = np.concatenate([rows[low:high], found], axis=1)
            order = _top(pool_scores, k)
            scores[low:high] = np.take_along_axis(pool_scores, order, axis=1)
            rows[low:high] = np.take_along_axis(pool_rows, order, axis=1)
    return scores, rows


def _entity_blocks(entity: np.ndarray, size: int) -> Iterator[tuple[int, int]]:
    """Yield ranges of about `size` pairs that keep the names of an entity together."""
    start = 0
    while start < len(entity):
        end = min(start + size, len(entity))
        end = int(np.searchsorted(entity, entity[end - 1], side="right"))
        yield start, end
        start = end


def _top(scores: np.ndarray, k: int) -> np.ndarray:
    """Return the columns of the k best scores of each row, best first, equal ones by column."""
    # Sort only scores that reach the k-th best: a full stable sort of every row would dominate the
    # time.
    threshold = np.partition(scores, scores.shape[1] - k, axis=1)[:, -k]
    order = np.empty((len(scores), k), dtype=np.int64)
    for i, (row, limit) in enumerate(zip(scores, threshold, strict=True)):
        candidates = np.flatnonzero(row >= limit)
        order[i] = candidates[np.argsort(-row[candidates], kind="stable")[:k]]
    return order


def _relink(
    record: LinkRecord, ranked: Sequence[str], scores: Sequence[float], surface: str
) -> LinkRecord:
    ties = [id_ for id_, score in zip(ranked, scores, strict=True) if score == scores[0]]
    return replace(
        record,
        ranked=list(ranked),
        scores=list(scores),
        ties=ties if len(ties) > 1 else [],
        prediction=ranked[0] if ranked else "",
        prototype=evidence(name_view(surface)) if surface else "",
        prototype_surface=surface,
        prototype_kind="name" if surface else "",
    )


BASELINES = {"exact": exact_match, "tfidf": tfidf}


def link_by_baselines(
    records: Sequence[LinkRecord],
    store: OntologyStore,
    documents: Mapping[str, str],
    *,
    progress: bool = False,
) -> dict[str, list[LinkRecord]]:
    """Return the records of each baseline by title, and of each with abbreviations expanded as by
    the linker.

    documents: the text of each record's document by its id.
    """
    texts = expand_abbreviations(records, documents)
    found = {}
    for title, link in progress_bar(BASELINES.items(), show=progress, desc="Baselines"):
        found[title] = link(records, store)
        found[f"{title} + abbreviations"] = settle_ties(link(records, store, texts=texts), store)
    return found
