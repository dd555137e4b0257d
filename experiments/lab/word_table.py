"""Links of expressions by other words than the names have, with and without equivalents of
words."""

import csv
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

from spacy.tokens import Span

from spacy_krissel.pipeline.pipeline_io import find_linker, load_pipeline
from spacy_krissel.util.settings import checked


class Row(NamedTuple):
    """An expression, the names of its gold entity and of those that it is linked to without and
    with equivalents, and the differences from gold."""

    text: str
    gold: str
    before: str
    after: str


@checked
def word_table(pipeline: Path, expressions: Path) -> list[Row]:
    """Link expressions with and without equivalents of words.

    pipeline: A pipeline with a linker whose `words_weight` is not 0
    expressions: Table (.tsv): expression, id of its entity
    """
    nlp = load_pipeline(pipeline)
    linker: Any = find_linker(nlp)
    with expressions.open(encoding="utf8", newline="") as file_:
        asked = [*csv.reader(file_, delimiter="\t")]
    linker.cfg["min_confidence"] = 0.0
    weight, linked = linker.cfg["words_weight"], []
    for each in (0.0, weight):
        linker.cfg["words_weight"] = each
        docs = [nlp.make_doc(text) for text, _ in asked]
        for doc in docs:
            doc.set_ents([Span(doc, 0, len(doc), label="ENTITY")])
        linked.append([doc.ents[0].kb_id_ for doc in linker.pipe(docs)])
    name = {id_: linker.kb[id_].name for id_ in {*chain(*linked), *(gold for _, gold in asked)}}
    return [
        Row(text, *(name[id_] for id_ in (gold, before, after)))
        for (text, gold), before, after in zip(asked, *linked, strict=True)
    ]


def show_word_table(rows: list[Row]) -> str:
    lines = ["| expression | entity | before | after |", "| --- | --- | --- | --- |"]
    for row in rows:
        marked = [f"**{each}**" if each == row.gold else each for each in (row.before, row.after)]
        lines.append(f"| {row.text} | {row.gold} | {' | '.join(marked)} |")
    correct = [sum(getattr(row, when) == row.gold for row in rows) for when in ("before", "after")]
    lines.append(f"\nCorrect of {len(rows)}: {correct[0]} before, {correct[1]} after.")
    return "\n".join(lines)
