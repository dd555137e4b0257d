"""Alternatives to disambiguated homonyms (BELHD's Table 5): expanded abbreviations, and the other names of entities
that share one, which the linker always compares. Prints the strict accuracy of each, with the original and the
disambiguated knowledge base, and the improvement over the first with its paired interval over documents.

The paper trains again with expanded abbreviations; here only linking differs. After `names` of experiments/belhd:

    PIPELINE=experiments/belhd/metrics/names-cell-lines/apart/seed-0/linker/pipeline
    python benchmarks/homonym_helpers.py --original $PIPELINE --ontology corpus/cellosaurus --disambiguated $PIPELINE
        --disambiguated-ontology corpus/disambiguated/cellosaurus --gold corpus/bioid.spacy
"""

import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Annotated, Any

import spacy
import typer
from spacy.tokens import Doc, DocBin, Span
from wasabi import msg

from spacy_krissel.commands.build_prototypes import build_prototypes
from spacy_krissel.evaluation.bootstrap import Bootstrap
from spacy_krissel.kb.build.sources import PrototypeSource
from spacy_krissel.mentions.gold_mentions import gold_spans, split_gold
from spacy_krissel.ontology.store import OntologyStore
from spacy_krissel.pipeline.pipeline_io import find_linker, load_pipeline

RESULTS = Path(__file__).parent / "results"
MENTIONS = "krissel_gold"
HELPERS: dict[str, dict[str, Any]] = {
    "none": {"use_abbreviations": False},
    "abbreviations": {"use_abbreviations": True},
    "other names": {"use_abbreviations": False},
}


def prepared(docs: Iterable[Doc]) -> Iterator[tuple[Doc, list[str]]]:
    """A copy of each doc, with mentions without ids, and the gold ids."""
    for doc in docs:
        gold = gold_spans(doc, "")
        copy = Doc(doc.vocab, [token.text for token in doc], [bool(token.whitespace_) for token in doc])
        copy.spans[MENTIONS] = [Span(copy, span.start, span.end, label=span.label_) for span in gold]
        yield copy, [span.kb_id_ for span in gold]


def linked(path: Path, ontology: Path, docs: list[Doc]) -> tuple[list[str], dict[str, list[int]]]:
    """The document of each mention, and whether its link is right with each helper."""
    nlp = load_pipeline(path)
    linker = find_linker(nlp)
    source = PrototypeSource(ontology, None, mentions_per_entity=0, class_names=False, held_out=0.0, seed=0)
    build_prototypes(nlp, source, progress=True)
    linker.cfg["spans_key"] = MENTIONS
    store = OntologyStore(ontology)
    places: list[str] = []
    right: dict[str, list[int]] = {}
    for helper, settings in HELPERS.items():
        linker.cfg.update(settings)
        places, right[helper] = [], []
        copies, ids = zip(*prepared(docs), strict=True)
        for number, (doc, gold) in enumerate(zip(linker.pipe(copies), ids, strict=True)):
            for span, kb_id in zip(doc.spans[MENTIONS], gold, strict=True):
                wanted = split_gold(kb_id, store)
                if wanted:
                    places.append(str(number))
                    right[helper].append(int(span.kb_id_ in wanted and len(span._.krissel_ties or ()) < 2))
    return places, right


def main(
    original: Annotated[Path, typer.Option(help="Pipeline for the original ontology")],
    ontology: Annotated[Path, typer.Option(help="Store of the original ontology")],
    disambiguated: Annotated[Path, typer.Option(help="Pipeline for the disambiguated ontology")],
    disambiguated_ontology: Annotated[Path, typer.Option(help="Store of the disambiguated ontology")],
    gold: Annotated[list[Path], typer.Option(help=".spacy file with gold mentions; may be repeated")],
    name: Annotated[str, typer.Option(help="NAME of benchmarks/results/homonym-helpers-NAME.json")] = "bioid",
) -> None:
    """Print the strict accuracy of each helper with the original and the disambiguated knowledge base."""
    nlp = spacy.blank("en")
    docs = [doc for path in gold for doc in DocBin(store_user_data=True).from_disk(path).get_docs(nlp.vocab)]
    places, first_answers = linked(original, ontology, docs)
    answers = {f"original, {helper}": right for helper, right in first_answers.items()}
    _, others = linked(disambiguated, disambiguated_ontology, docs)
    answers.update({f"disambiguated, {helper}": right for helper, right in others.items()})
    bootstrap = Bootstrap(places)
    first = next(iter(answers.values()))
    ones = [1] * len(first)
    rows: dict[str, dict[str, Any]] = {}
    for title, right in answers.items():
        lead = (sum(right) - sum(first)) / len(first)
        rows[title] = {
            "strict": sum(right) / len(right),
            "lead": lead,
            "interval": bootstrap.difference(right, first, ones),
        }
    found = {"mentions": len(first), "gold": [path.name for path in gold], "rows": rows}
    (RESULTS / f"homonym-helpers-{name}.json").write_text(json.dumps(found, indent=2) + "\n", encoding="utf8")
    print("| knowledge base, helper | strict | improvement over the first |\n| --- | ---: | ---: |")
    for title, row in rows.items():
        low, high = (100 * value for value in row["interval"])
        print(f"| {title} | {100 * row['strict']:.1f} | {100 * row['lead']:+.1f} ({low:+.1f} to {high:+.1f}) |")
    msg.info(f"{len(first):,} mentions of {len(docs):,} documents")


if __name__ == "__main__":
    typer.run(main)
