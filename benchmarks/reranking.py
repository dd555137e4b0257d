"""Both forms of `krissel_reranker` on the same candidates of one linker, in one run: mentions per
second, accuracy.

The linker's candidates are found once. Then the re-rankers alone are timed, `pipe` over docs that
hold candidates, in alternating passes of which the best counts. Each is read from a pipeline that
`spacy train` made with a config such as `configs/reranker.cfg` (all candidates in one pass, its
`encoder` a transformer) or `configs/reranker-pairs.cfg` (one pair per row).

    python benchmarks/reranking.py --linker PIPELINE --list PIPELINE --pairs PIPELINE --gold dev.spacy --ontology STORE
"""  # noqa: E501

import json
import os
import platform
import time
from importlib.metadata import version
from pathlib import Path
from typing import Annotated, Any

import spacy
import typer
from linking_speed import gold_mentions, read_docs
from spacy.tokens import Doc, DocBin, Span
from wasabi import msg

from spacy_krissel.layers.ranked import Reranker
from spacy_krissel.ontology.store import OntologyStore
from spacy_krissel.pipeline.reranker import KrisselReranker

RESULT = Path(__file__).parent / "results" / "reranking.json"
FORMS = ("list", "pairs")


def main(
    linker: Annotated[Path, typer.Option(help="Trained pipeline with a krissel_linker and its KB")],
    list_: Annotated[
        Path, typer.Option("--list", help="Pipeline with a re-ranker of all candidates in one pass")
    ],
    pairs: Annotated[Path, typer.Option(help="Pipeline with a re-ranker of one pair per row")],
    gold: Annotated[list[Path], typer.Option(help=".spacy file with gold mentions, repeatable")],
    ontology: Annotated[
        Path, typer.Option(help="Ontology store that the linker's KB was made from")
    ],
    k: Annotated[int, typer.Option(help="Candidates per mention")] = 32,
    documents: Annotated[
        int | None, typer.Option(help="Maximum number of documents per file")
    ] = None,
    passes: Annotated[int, typer.Option(help="Timed passes of each form; the best counts")] = 2,
    output: Annotated[Path, typer.Option(help="Result (JSON)")] = RESULT,
) -> None:
    """Time both forms of the re-ranker on the same candidates, alternating, and print them with
    their accuracy."""
    store = OntologyStore(ontology)
    settings = {"components.krissel_linker.n_candidates": k}
    nlp = spacy.load(linker, config=settings, exclude=["krissel_reranker"])
    docs: list[Doc] = []
    for path in gold:
        docs += read_docs([DocBin(store_user_data=True).from_disk(path)], nlp, None)[:documents]
    mentions = [gold_mentions(doc, store) for doc in docs]
    for doc in docs:
        doc.set_ents([Span(doc, ent.start, ent.end, label=ent.label) for ent in doc.ents])
    linked = DocBin(docs=list(nlp.pipe(docs)), store_user_data=True)
    rerankers = {
        form: load_reranker(path, k) for form, path in zip(FORMS, (list_, pairs), strict=True)
    }
    n_mentions = sum(map(len, mentions))
    rows: dict[str, dict[str, Any]] = {
        "linker": {"strict": strict(list(linked.get_docs(nlp.vocab)), mentions)},
        **{form: {"all_seconds": []} for form in FORMS},
    }
    for _ in range(passes):
        for form, reranker in rerankers.items():
            fresh = list(linked.get_docs(nlp.vocab))
            start = time.perf_counter()
            done = list(reranker.pipe(fresh))
            rows[form]["all_seconds"].append(time.perf_counter() - start)
            rows[form]["strict"] = strict(done, mentions)
    for form in FORMS:
        rows[form]["mentions_per_second"] = n_mentions / min(rows[form]["all_seconds"])
        rows[form]["settings"] = described(rerankers[form].model)
    result = {
        "rows": rows,
        "ratio": rows["list"]["mentions_per_second"] / rows["pairs"]["mentions_per_second"],
        "setup": {
            "k": k,
            "mentions": n_mentions,
            "documents": len(docs),
            "gold": [path.name for path in gold],
            "passes": passes,
            "versions": {name: version(name) for name in ("spacy", "numpy", "torch")},
            "python": platform.python_version(),
            "cpus": os.cpu_count(),
        },
    }
    output.parent.mkdir(parents=True, exist_ok=True)
    output.write_text(json.dumps(result, indent=2) + "\n", encoding="utf8")
    print("| system | strict | mentions/s |\n| --- | ---: | ---: |")
    for name, row in rows.items():
        speed = f"{row['mentions_per_second']:,.0f}" if name in FORMS else ""
        print(f"| {name} | {100 * row['strict']:.1f} | {speed} |")
    msg.info(
        f"All candidates in one pass: {result['ratio']:.1f} times the mentions per second, K = {k}"
    )


def load_reranker(path: Path, k: int) -> KrisselReranker:
    reranker = spacy.load(path).get_pipe("krissel_reranker")
    assert isinstance(reranker, KrisselReranker)
    reranker.cfg["top_k"] = k
    return reranker


def strict(docs: list[Doc], mentions: list[list[dict[str, Any]]]) -> float:
    """Return the fraction of mentions with a concept whose one predicted id is correct."""
    scored, right = 0, 0
    for doc, golds in zip(docs, mentions, strict=True):
        for ent, mention in zip(doc.ents, golds, strict=True):
            scored += bool(mention["gold"])
            right += ent.kb_id_ in mention["gold"] and not ent._.krissel_ties
    return right / scored


def described(model: Reranker) -> dict[str, Any]:
    """Return facts about the models, such as the pieces of a candidate."""
    found: dict[str, Any] = {}
    for node in model.walk():
        settings = node.attrs.get("settings")
        if settings is not None:
            found[node.name] = settings._asdict() if hasattr(settings, "_asdict") else settings
    return found


if __name__ == "__main__":
    typer.run(main)
