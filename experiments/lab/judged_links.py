"""Links of mentions that a pipeline finds itself, judged by gold mentions, with and without the
least confidence."""

import random
from collections import defaultdict
from itertools import islice
from pathlib import Path
from typing import Any

from spacy_krissel.corpora.doc_bins import read_doc_bins
from spacy_krissel.evaluation.tables import Row, markdown_table
from spacy_krissel.mentions.annotations import NIL
from spacy_krissel.mentions.gold_ids import split_ids
from spacy_krissel.pipeline.pipeline_io import configure, find_linker, load_pipeline
from spacy_krissel.pipeline.settings import LINKER
from spacy_krissel.util.progress import progress_bar
from spacy_krissel.util.settings import Count, PositiveInt

HEADER: Row = (
    "linked",
    "of mentions found",
    "% linked",
    "judged",
    "right",
    "% right",
    "no entity",
    "% of these NIL",
)


def judged_links(
    pipeline: Path,
    gold: Path,
    *,
    documents: PositiveInt = 400,
    links: PositiveInt = 200,
    seed: Count = 0,
) -> list[Row]:
    """Judge links of mentions that a pipeline finds itself, with and without its `min_confidence`.

    A link is correct if a gold id is the entity's id, or one of its cross-references; mentions with
    other boundaries than gold mentions are not judged. Mentions count as without an entity if the
    knowledge base has none of their gold ids.

    pipeline: pipeline that finds mentions and links them
    gold: gold mentions (.spacy)
    documents: number of documents, the first ones of the corpus
    links: number of links that are judged, drawn at random
    seed: random seed

    RETURNS: a table, whose first row links all mentions.
    """
    nlp = load_pipeline(pipeline)
    kb = find_linker(nlp).kb
    known: dict[str, set[str]] = defaultdict(set)
    for id_ in kb.entity_ids:
        for other in (id_, *kb[id_].xrefs, *kb[id_].alt_ids):
            known[_bare(other)].add(id_)
    docs = list(islice(read_doc_bins(gold, nlp.vocab), documents))
    rows: list[Row] = [HEADER]
    for title, least in (("all", 0.0), ("as built", find_linker(nlp).cfg.min_confidence)):
        configure(nlp, LINKER, min_confidence=least)
        found: list[Any] = []
        texts = (doc.text for doc in docs)
        for doc, linked in zip(
            docs, progress_bar(nlp.pipe(texts), total=len(docs), show=True), strict=True
        ):
            ids = {(span.start_char, span.end_char): split_ids(span.kb_id_) for span in doc.ents}
            found += [(ent.kb_id_, ids.get((ent.start_char, ent.end_char))) for ent in linked.ents]
        n_linked = sum(id_ not in ("", NIL) for id_, _ in found)
        meant = [
            (id_, set().union(*(known[_bare(each)] for each in ids))) for id_, ids in found if ids
        ]
        without = [id_ for id_, entities in meant if not entities]
        judged = [id_ in entities for id_, entities in meant if id_ not in ("", NIL)]
        random.Random(seed).shuffle(judged)
        judged = judged[:links]
        rows.append(
            (
                title,
                f"{len(found):,}",
                f"{100 * n_linked / max(1, len(found)):.1f}",
                f"{len(judged):,}",
                f"{sum(judged):,}",
                f"{100 * sum(judged) / max(1, len(judged)):.1f}",
                f"{len(without):,}",
                f"{100 * sum(id_ in ('', NIL) for id_ in without) / max(1, len(without)):.1f}",
            )
        )
    return rows


def show_judged_links(rows: list[Row]) -> str:
    return markdown_table(rows)


def _bare(id_: str) -> str:
    """An id of MeSH without its prefix, which corpora and cross-references write in several
    ways."""
    return id_.rpartition(":")[2] if id_.upper().startswith(("MESH:", "MSH:")) else id_
