"""Links from text, before and after a finder learned from few labels.

    python benchmarks/learned_finder.py store linker train.spacy dev.spacy

The finder learns from some documents of the training split (`krissel prototypes --gold
--learn-names`), or from a simulated review (`krissel review --names`): the most frequent forms that
it finds in the training documents, 10 seconds each, judged by their gold mentions. A form is no
name if at most a third of its mentions is gold; its `right_id` is the most frequent gold id.
Scores are those of `krissel evaluate --end-to-end`. Each has the gain over the same pipeline before
it learned, with its paired 95 % interval over documents.
"""

import csv
import json
import random
import tempfile
from collections import Counter, defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import spacy
import typer
from spacy.language import Language
from spacy.tokens import Doc

from spacy_krissel.building.gold_prototypes import add_gold
from spacy_krissel.commands.correct_links import correct
from spacy_krissel.commands.review_links import review
from spacy_krissel.corpora.doc_bins import read_doc_bins
from spacy_krissel.evaluation.bootstrap import Bootstrap
from spacy_krissel.evaluation.end_to_end import (
    GoldLink,
    Link,
    differences,
    gold_links,
    predicted_links,
    score,
)
from spacy_krissel.evaluation.gold import GoldDoc, read_gold
from spacy_krissel.evaluation.run import linked_keys
from spacy_krissel.lexical.ngrams import canonical_form
from spacy_krissel.ontology.build import open_ontology
from spacy_krissel.ontology.store import OntologyStore
from spacy_krissel.pipeline.pipeline_io import find_finder, find_linker, load_pipeline

SECONDS_PER_FORM = 10
MAX_WRONG = 1 / 3


def main(
    ontology: str,
    pipeline: Path,
    train: Path,
    dev: Path,
    docs: int = 50,
    draws: int = 3,
    minutes: int = 20,
    output: Path | None = None,
) -> None:
    """Print a Markdown table, and write the figures to `output`, a JSON file."""
    store = open_ontology(ontology)
    items = read_gold(dev, spacy.blank("en"))
    wanted = [gold_links(item, store)[0] for item in items]
    bootstrap = Bootstrap([str(number) for number in range(len(items))])
    before: list[list[Link]] = []
    rows: list[dict[str, Any]] = []

    def add(system: str, nlp: Language) -> None:
        found = links_of(nlp, items, store)
        before[:] = before or found
        gain = differences(wanted, found, before, bootstrap)
        rows.append({"system": system, **score(wanted, found, bootstrap), "gain": gain})

    add("without labels", load_pipeline(pipeline))
    gold = read_gold(train, spacy.blank("en"))
    n_forms = minutes * 60 // SECONDS_PER_FORM
    add(f"{minutes} minutes of review", reviewed(pipeline, gold, store, n_forms))
    for draw in range(draws):
        drawn = {*random.Random(draw).sample(range(len(gold)), docs)}
        nlp = load_pipeline(pipeline)
        some = [doc for n, doc in enumerate(read_doc_bins(train, nlp.vocab)) if n in drawn]
        learn(nlp, some)
        add(f"{docs} documents, names, draw {draw}", nlp)
        add_gold(find_linker(nlp).kb, some, source="train", skip_unknown=True)
        add(f"{docs} documents, names and prototypes, draw {draw}", nlp)
    print(markdown(rows))
    if output is not None:
        setup = {"train": train.name, "dev": dev.name, "docs": docs, "forms": n_forms}
        output.write_text(json.dumps({"setup": setup, "rows": rows}, indent=2) + "\n")


def links_of(nlp: Language, items: Sequence[GoldDoc], store: OntologyStore) -> list[list[Link]]:
    keys = linked_keys(nlp)
    return [predicted_links(doc, keys, store) for doc in nlp.pipe(item.doc.text for item in items)]


def learn(nlp: Language, docs: Sequence[Doc]) -> None:
    find_finder(nlp).learn(docs, find_linker(nlp).kb)


def reviewed(
    pipeline: Path, gold: Sequence[GoldDoc], store: OntologyStore, n_forms: int
) -> Language:
    """Return the pipeline after a review of its most frequent forms, filled in from gold."""
    finder = find_finder(load_pipeline(pipeline))
    links = [{(link.start, link.end): link for link in gold_links(item, store)[0]} for item in gold]
    n_right: Counter[str] = Counter()
    ids: defaultdict[str, Counter[str]] = defaultdict(Counter)
    found = finder.predict([item.doc for item in gold])
    for own, matches in zip(links, found, strict=True):
        for match in matches:
            form = canonical_form(match.text)
            link: GoldLink | None = own.get((match.start, match.end))
            n_right[form] += link is not None
            if link is not None and len(link.ids) == 1:
                ids[form][link.ids[0]] += 1
    with tempfile.TemporaryDirectory() as folder:
        texts, table, output = (Path(folder) / name for name in ("t.jsonl", "names.tsv", "linker"))
        with texts.open("w", encoding="utf8") as file_:
            file_.writelines(json.dumps({"text": item.doc.text}) + "\n" for item in gold)
        review(pipeline, texts, table, rows=n_forms, names=True)
        with table.open(encoding="utf8", newline="") as file_:
            rows = list(csv.DictReader(file_, delimiter="\t"))
        for row in rows:
            form = canonical_form(row["text"])
            is_name = n_right[form] > MAX_WRONG * int(row["mentions"])
            row["verdict"] = "yes" if is_name else "no"
            right = ids[form].most_common(1)
            if is_name and right and right[0][0] != row["id"]:
                row["right_id"] = right[0][0]
        with table.open("w", encoding="utf8", newline="") as file_:
            writer = csv.DictWriter(file_, rows[0], delimiter="\t")
            writer.writeheader()
            writer.writerows(rows)
        correct(pipeline, table, output)
        return load_pipeline(output)


def markdown(rows: Sequence[dict[str, Any]]) -> str:
    lines = ["| | ids: F1 | gain | span with id: F1 | gain |", "| --- |" + " ---: |" * 4]
    for row in rows:
        cells = []
        for measure in ("ids", "spans"):
            low, high = (100 * bound for bound in row["gain"][measure]["interval"])
            gain = f"{100 * row['gain'][measure]['f1']:+.1f} ({low:+.1f} to {high:+.1f})"
            cells += [f"{row[measure]['micro']['f1']:.3f}", gain]
        lines.append(f"| {row['system']} | {' | '.join(cells)} |")
    return "\n".join(lines)


if __name__ == "__main__":
    typer.run(main)
