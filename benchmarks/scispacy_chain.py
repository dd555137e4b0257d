"""A common chain, on predicted mentions: spaCy's `ner`, scispaCy's `abbreviation_detector`, our
`krissel_linker`.

Runs inside a virtual environment that has both scispacy and spacy_krissel. The NER (spaCy's small
convolutional default) is trained on NCBI Disease's training split; the epoch is chosen on the last
tenth of that split, so the development split that is scored stays unseen. Scores are micro-averaged
over mentions:

- span: exact character offsets, all gold mentions;
- id: exact offsets and a right id. A gold mention without an id ("-1", "-") is left out, with any
  prediction there; a composite mention is right when any of its ids is predicted; `NIL`, no id and
  several ids tied at the top are no answer, so they cost recall.

    pip install scispacy "pyarrow<26"  # scispacy holds numpy below 2, pyarrow 26 fails on it at import
    python -m spacy krissel convert NCBItrainset_corpus.txt --output train.spacy
    python -m spacy krissel convert NCBIdevelopset_corpus.txt --output dev.spacy
    python benchmarks/scispacy_chain.py PIPELINE train.spacy dev.spacy --ontology STORE --ner NER
"""  # noqa: E501

import json
import random
import time
from collections.abc import Callable, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import spacy
import typer
from spacy.language import Language
from spacy.tokens import Doc, DocBin, Span
from spacy.training import Example
from spacy.util import compounding, fix_random_seed, minibatch
from wasabi import msg

from spacy_krissel.mentions.annotations import NIL
from spacy_krissel.mentions.gold_ids import split_ids
from spacy_krissel.mentions.gold_mentions import SPANS_KEY

RESULT = Path(__file__).parent / "results" / "scispacy_chain.json"
LINKER = "krissel_linker"
NO_ANSWER = ("", NIL)
SYSTEMS = ("ner + krissel_linker", "ner + abbreviation_detector + krissel_linker")

Resolve = Callable[[str], str]


class Mention(NamedTuple):
    start: int  # characters
    end: int
    ids: tuple[str, ...]  # gold: any of them is right; predicted: at most one


def main(
    pipeline: Annotated[Path, typer.Argument(help="Trained pipeline with a krissel_linker")],
    train: Annotated[Path, typer.Argument(help=".spacy file that the NER is trained on")],
    dev: Annotated[Path, typer.Argument(help=".spacy file that is scored")],
    ontology: Annotated[
        Path | None, typer.Option(help="Ontology store: maps ids to primary ones")
    ] = None,
    ner: Annotated[
        Path | None, typer.Option(help="Folder of the NER: loaded, or written if new")
    ] = None,
    label: Annotated[str, typer.Option(help="Label of all mentions")] = "Disease",
    epochs: Annotated[int, typer.Option(help="NER epochs")] = 8,
    seed: Annotated[int, typer.Option(help="Seed of the NER's initialization and shuffling")] = 0,
    output: Annotated[Path, typer.Option(help="Result (JSON)")] = RESULT,
) -> None:
    """Train or load the NER, run the chain with and without the abbreviation detector, print a
    Markdown table."""
    resolve = make_resolver(ontology)
    trained = load_or_train_ner(ner, train, label=label, epochs=epochs, seed=seed)
    golds = read_docs(dev)
    rows = []
    for system, abbreviations in zip(SYSTEMS, (False, True), strict=True):
        nlp = build_chain(pipeline, trained, abbreviations=abbreviations)
        start = time.perf_counter()
        predicted = list(nlp.pipe(doc.text for doc in golds))
        seconds = time.perf_counter() - start
        scores = score(
            [gold_mentions(doc, resolve) for doc in golds],
            [predicted_mentions(doc, resolve) for doc in predicted],
        )
        rows.append({"system": system, **scores, "docs_per_second": len(golds) / seconds})
    result = {
        "train": train.name,
        "dev": dev.name,
        "docs": len(golds),
        "seed": seed,
        "versions": {name: version(name) for name in ("scispacy", "spacy", "numpy")},
        "rows": rows,
    }
    output.parent.mkdir(parents=True, exist_ok=True)
    output.write_text(json.dumps(result, indent=2) + "\n", encoding="utf8")
    print(markdown_table(rows))


def build_chain(pipeline: Path, ner: Language, *, abbreviations: bool) -> Language:
    """Return the trained pipeline with our NER, and scispaCy's detector if requested, before its
    linker."""
    nlp = spacy.load(pipeline)
    if LINKER not in nlp.pipe_names:
        raise ValueError(f"Expected a pipeline with a {LINKER!r}, found {nlp.pipe_names}")
    if "ner" in nlp.pipe_names:
        nlp.remove_pipe("ner")
    nlp.add_pipe("ner", source=ner, before=LINKER)
    if abbreviations:
        import scispacy.abbreviation  # noqa: F401  # registers the factory; scispacy has no entry point for it

        nlp.add_pipe("abbreviation_detector", before=LINKER)
    linker: Any = nlp.get_pipe(LINKER)
    linker.cfg["use_abbreviations"] = abbreviations
    return nlp


def load_or_train_ner(
    path: Path | None, train: Path, *, label: str, epochs: int, seed: int
) -> Language:
    """Return the NER saved at `path`, or one trained on the docs of `train` and saved there."""
    if path and path.exists():
        return spacy.load(path)
    nlp = train_ner(read_docs(train), label=label, epochs=epochs, seed=seed)
    if path:
        nlp.to_disk(path)
    return nlp


def train_ner(
    docs: Sequence[Doc], *, label: str = "Disease", epochs: int = 8, seed: int = 0
) -> Language:
    """Train spaCy's default `ner` (hash embeddings, 4 convolutions, width 96) on the entities of
    `docs`.

    The weights of the epoch with the best F on the last tenth of `docs` are kept. Text is tokenized
    again, as at run time, so a mention inside a token is not learned.
    """
    fix_random_seed(seed)
    nlp = spacy.blank("en")
    ner: Any = nlp.add_pipe("ner")
    ner.add_label(label)
    examples = [Example(nlp.make_doc(doc.text), one_label(doc, label)) for doc in docs]
    n_held = max(1, len(examples) // 10)
    held, examples = examples[-n_held:], examples[:-n_held]
    optimizer = nlp.initialize(lambda: examples)
    shuffler = random.Random(seed)
    sizes = compounding(4.0, 16.0, 1.005)
    best_f, best = -1.0, b""
    for epoch in range(1, epochs + 1):
        losses: dict[str, float] = {}
        shuffler.shuffle(examples)
        for batch in minibatch(examples, size=sizes):
            nlp.update(batch, sgd=optimizer, drop=0.2, losses=losses)
        with nlp.use_params(optimizer.averages):
            f = nlp.evaluate([Example(nlp.make_doc(eg.text), eg.reference) for eg in held])[
                "ents_f"
            ]
            msg.text(
                f"ner epoch {epoch}: loss {losses['ner']:.0f}, F on held-out training documents "
                f"{100 * f:.1f}"
            )
            if f > best_f:
                best_f, best = f, nlp.to_bytes()
    return nlp.from_bytes(best)


def one_label(doc: Doc, label: str) -> Doc:
    """Return a copy whose entities all have `label` and no id."""
    copy = doc.copy()
    copy.set_ents([Span(copy, ent.start, ent.end, label=label) for ent in doc.ents])
    return copy


def read_docs(path: Path) -> list[Doc]:
    return list(DocBin().from_disk(path).get_docs(spacy.blank("en").vocab))


def make_resolver(ontology: Path | None) -> Resolve:
    """Return a function that maps an id to the store's primary id, an unknown one to itself."""
    if ontology is None:
        return str
    from spacy_krissel.ontology.store import OntologyStore

    store = OntologyStore(ontology)
    return lambda id_: store.resolve(id_) or id_


def gold_mentions(doc: Doc, resolve: Resolve) -> list[Mention]:
    """Return all gold mentions, including overlapping ones, which the converter keeps in a span
    group."""
    spans = doc.spans.get(SPANS_KEY, doc.ents)
    return [
        Mention(
            span.start_char, span.end_char, tuple(resolve(id_) for id_ in split_ids(span.kb_id_))
        )
        for span in spans
    ]


def predicted_mentions(doc: Doc, resolve: Resolve) -> list[Mention]:
    ties = Span.has_extension("krissel_ties")
    return [
        Mention(
            ent.start_char,
            ent.end_char,
            ()
            if ent.kb_id_ in NO_ANSWER or (ties and ent._.krissel_ties)
            else (resolve(ent.kb_id_),),
        )
        for ent in doc.ents
    ]


def score(
    golds: Sequence[Sequence[Mention]], predictions: Sequence[Sequence[Mention]]
) -> dict[str, Any]:
    """Return span and id precision, recall and F, micro-averaged; see the module's docstring for
    the counting."""
    n_gold, n_predicted, n_found = 0, 0, 0
    n_gold_ids, n_predicted_ids, n_found_ids, n_right = 0, 0, 0, 0
    for gold_doc, predicted_doc in zip(golds, predictions, strict=True):
        gold = {(mention.start, mention.end): mention.ids for mention in gold_doc}
        n_gold += len(gold)
        n_gold_ids += sum(bool(ids) for ids in gold.values())
        for start, end, ids in predicted_doc:
            expected = gold.get((start, end))
            n_predicted += 1
            n_found += expected is not None
            if expected == ():
                continue
            n_predicted_ids += bool(ids)
            n_found_ids += expected is not None
            n_right += expected is not None and not set(ids).isdisjoint(expected)
    return {
        "span": precision_recall_f(n_found, n_predicted, n_gold),
        "id": precision_recall_f(n_right, n_predicted_ids, n_gold_ids),
        "id_accuracy_on_found_spans": n_right / n_found_ids if n_found_ids else 0.0,
        "mentions": {
            "gold": n_gold,
            "gold_with_id": n_gold_ids,
            "predicted": n_predicted,
            "found": n_found,
        },
    }


def precision_recall_f(n_right: int, n_predicted: int, n_gold: int) -> dict[str, float]:
    precision = n_right / n_predicted if n_predicted else 0.0
    recall = n_right / n_gold if n_gold else 0.0
    return {
        "p": precision,
        "r": recall,
        "f": 2 * precision * recall / (precision + recall) if n_right else 0.0,
    }


def markdown_table(rows: Sequence[dict[str, Any]]) -> str:
    lines = [
        "| chain | span P | span R | span F | id P | id R | id F | id accuracy on found spans |",
        "| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: |",
    ]
    for row in rows:
        values = [row[what][key] for what in ("span", "id") for key in "prf"] + [
            row["id_accuracy_on_found_spans"]
        ]
        lines.append(
            f"| {row['system']} | " + " | ".join(f"{100 * value:.1f}" for value in values) + " |"
        )
    return "\n".join(lines)


if __name__ == "__main__":
    typer.run(main)
