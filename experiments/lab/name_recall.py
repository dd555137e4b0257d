"""Recall over the nearest names, which SapBERT counts where our reports count the nearest
entities."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from spacy.language import Language

from spacy_krissel.evaluation.gold import Source, read_gold
from spacy_krissel.evaluation.tables import Row, markdown_table, percent
from spacy_krissel.index.exact import ExactIndex
from spacy_krissel.mentions.gold_ids import Resolver
from spacy_krissel.mentions.gold_mentions import split_gold
from spacy_krissel.ontology.store import OntologyStore
from spacy_krissel.pipeline.pipeline_io import find_linker, load_pipeline
from spacy_krissel.pipeline.settings import LINKER
from spacy_krissel.util.settings import PositiveInt, checked

from .named_paths import name_path_pairs


@dataclass(frozen=True)
class NameRecall:
    """n: mentions. recall: by k, the fraction with a gold entity among those with one of the k
    nearest names.

    random: the probability of a gold entity when one of those with the nearest name is drawn
        (KRISSBERT §4.5).
    shared: the fraction whose nearest name several entities share.
    """

    n: int
    recall: dict[int, float]
    random: float
    shared: float


def name_recall_table(
    pipelines: Sequence[str], gold: Path, ontology: Path, *, linker: str = LINKER
) -> str:
    """Measure recall at 1 and 5 over the nearest names, as SapBERT counts, and a random choice
    among entities that share one.

    For the latter the knowledge bases are made with `krissel prototypes --shared-names`.

    pipelines: title=path of pipelines with a linker by names
    gold: gold corpus to evaluate on: .spacy, PubTator or BioC
    ontology: ontology store: primary ids
    linker: name of the linker in the pipelines

    Raises KrisselError K006 (`pipelines`), and those of `load_pipeline` and `name_recall`.
    """
    paths, store = name_path_pairs("pipelines", pipelines), OntologyStore(ontology)
    rows: list[Row] = [
        ("pipeline", "mentions", "@1", "random choice", "@5", "nearest name is shared")
    ]
    for title, path in paths:
        found = name_recall(load_pipeline(path), gold, store, name=linker)
        figures = map(percent, (found.recall[1], found.random, found.recall[5], found.shared))
        rows.append((title, f"{found.n:,}", *figures))
    return markdown_table(rows)


@checked
def name_recall(
    nlp: Language,
    gold: Source,
    store: Resolver,
    *,
    at: Sequence[PositiveInt] = (1, 5),
    name: str = "krissel_linker",
) -> NameRecall:
    """Return recall at `at` over the names of a linker's knowledge base, by vectors alone; names
    that differ only in case count as one.

    For a composite mention any entity is correct. Raises what `find_linker` and `read_gold` do.
    """
    linker = find_linker(nlp, name)
    views, wanted = [], []
    for item in read_gold(gold, nlp):
        ids = [split_gold(mention.kb_id_, store) for mention in item.mentions]
        views += linker.views(
            item.doc, [mention for mention, own in zip(item.mentions, ids, strict=True) if own]
        )
        wanted += [set(own) for own in ids if own]
    kb, row_of, bearers = linker.kb, {}, {}
    for row, prototype in enumerate(kb.prototypes_at(range(kb.n_prototypes))):
        if prototype.kind == "name":
            text = prototype.view.mention.lower()
            row_of.setdefault(text, row)
            bearers.setdefault(text, set()).add(store.resolve(prototype.entity))
    index = ExactIndex()
    index.build(kb.vectors[list(row_of.values())])
    _, nearest = index.search(kb.queries(linker.encode(views)), max(at))
    entities = list(bearers.values())
    found = [[entities[row] for row in rows if row >= 0] for rows in nearest]
    recall = {
        k: _mean(
            [
                any(own & right for own in near[:k])
                for near, right in zip(found, wanted, strict=True)
            ]
        )
        for k in at
    }
    drawn = _mean(
        [len(near[0] & right) / len(near[0]) for near, right in zip(found, wanted, strict=True)]
    )
    return NameRecall(len(wanted), recall, drawn, _mean([len(near[0]) > 1 for near in found]))


def _mean(values: Sequence[float]) -> float:
    return float(np.mean(values)) if values else 0.0
