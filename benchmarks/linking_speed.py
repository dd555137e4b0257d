"""Mentions per second, end to end, of trained pipelines and of scispaCy, in one run.

Both sides get the same mentions and the same knowledge base. Our side is `nlp.pipe` over tokenized
documents with gold mentions: abbreviations, views, encoding, search, candidates and ids written.
The peer's side, in a process of its own under its own Python, is the candidate generator alone,
called once a document as its linker does or once a corpus, and its pipeline,
`abbreviation_detector` and `EntityLinker`, which do what ours does: see `scispacy_candidates.py`.
The passes alternate, the best of each side counts, and loading and index building are not timed.
Rates are by the clock, and by the processor's time, which is that of all cores together ("of one
core"). What was loaded is kept from Python's garbage collector, which else goes through all
pipelines that wait for their turn. The peer has a row for each batching and search width; several
pipelines of ours may be compared.

    python benchmarks/linking_speed.py --pipeline PIPELINE --gold dev.spacy --ontology STORE --scispacy-python PYTHON
"""  # noqa: E501

import gc
import json
import os
import platform
import subprocess
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib.metadata import version
from pathlib import Path
from typing import Annotated, Any

import spacy
import typer
from spacy.language import Language
from spacy.tokens import Doc, DocBin, Span
from wasabi import msg

from spacy_krissel.mentions.gold_ids import split_ids
from spacy_krissel.ontology.store import OntologyStore

RESULT = Path(__file__).parent / "results" / "linking_speed.json"
PEER_SCRIPT = Path(__file__).with_name("scispacy_candidates.py")
# Arguments for scispaCy, and the title of its row.
BATCHINGS = {
    "document": "scispaCy's candidate generator, one call a document",
    "corpus": "scispaCy's candidate generator, one call a corpus",
    "pipeline": "scispaCy's pipeline, with abbreviations",
}
# efSearch: what scispaCy's constructor and the linkers that it ships use, and what nmslib gives to
# an index that was just built, which is what a linker made by `EntityLinker.from_kb` without a
# folder gets.
DEFAULT_WIDTHS = [200, 20]


def main(
    pipeline: Annotated[
        list[Path],
        typer.Option(help="Trained pipeline with a krissel_linker and its KB, repeatable"),
    ],
    gold: Annotated[list[Path], typer.Option(help=".spacy file with gold mentions, repeatable")],
    ontology: Annotated[
        Path, typer.Option(help="Ontology store that the pipeline's KB was made from")
    ],
    scispacy_python: Annotated[
        Path, typer.Option(help="The python of a virtual environment that has scispacy")
    ],
    label: Annotated[
        list[str] | None, typer.Option(help="Time mentions of this label only, repeatable")
    ] = None,
    passes: Annotated[int, typer.Option(help="Timed passes of each side; the best counts")] = 3,
    k: Annotated[
        int, typer.Option(help="The peer's number of neighbours (30 is its default)")
    ] = 30,
    ef_search: Annotated[
        list[int], typer.Option(help="The peer's search width, repeatable")
    ] = DEFAULT_WIDTHS,
    index_cache: Annotated[
        Path | None, typer.Option(help="Folder that keeps the peer's index")
    ] = None,
    output: Annotated[Path, typer.Option(help="Result (JSON)")] = RESULT,
) -> None:
    """Time our pipeline and scispaCy's candidate generator on the same mentions, alternating, and
    print both."""
    if len({path.name for path in pipeline}) < len(pipeline):
        raise typer.BadParameter(
            "Two pipelines have the same folder name, by which the result tells them apart"
        )
    store = OntologyStore(ontology)
    nlps = [spacy.load(path) for path in pipeline]
    doc_bins = [DocBin(store_user_data=True).from_disk(path) for path in gold]
    docs = read_docs(doc_bins, nlps[0], label)
    documents = [gold_mentions(doc, store) for doc in docs]
    requests = [
        {"batching": batching, "ef_search": width} for width in ef_search for batching in BATCHINGS
    ]
    with tempfile.TemporaryDirectory() as folder:
        kb_path, mentions_path = Path(folder) / "kb.jsonl", Path(folder) / "mentions.json"
        write_kb(store, kb_path)
        texts = {"documents": documents, "docs": [as_words(doc) for doc in docs]}
        mentions_path.write_text(json.dumps(texts), encoding="utf8")
        command = [
            str(scispacy_python),
            str(PEER_SCRIPT),
            str(kb_path),
            str(mentions_path),
            "--k",
            str(k),
            "--serve",
        ]
        if index_cache:
            command += ["--index-cache", str(index_cache)]
        with serving(command) as peer:
            msg.info("Building scispaCy's index")
            built = read_answer(peer)
            # One pass of each side outside the clock: caches fill, files are mapped.
            for nlp in nlps:
                time_pipeline(nlp, read_docs(doc_bins, nlp, label), documents)
            for request in requests:
                ask(peer, request)
            gc.collect()
            gc.freeze()
            ours: list[list[dict[str, Any]]] = [[] for _ in nlps]
            theirs: list[list[dict[str, Any]]] = [[] for _ in requests]
            for _ in range(passes):
                for nlp, runs in zip(nlps, ours, strict=True):
                    runs.append(time_pipeline(nlp, read_docs(doc_bins, nlp, label), documents))
                for request, answers in zip(requests, theirs, strict=True):
                    answers.append(ask(peer, request))
    result = summarize({path.name: runs for path, runs in zip(pipeline, ours, strict=True)}, theirs)
    result["setup"] = {
        "pipelines": [path.name for path in pipeline],
        "gold": [path.name for path in gold],
        "labels": label or [],
        "documents": len(documents),
        "passes": passes,
        "peer": {key: value for key, value in built.items() if key != "ready"},
        "versions": {name: version(name) for name in ("spacy", "numpy", "torch")},
        "python": platform.python_version(),
        "cpus": os.cpu_count(),
    }
    output.parent.mkdir(parents=True, exist_ok=True)
    output.write_text(json.dumps(result, indent=2) + "\n", encoding="utf8")
    print(markdown_table(result))


def read_docs(doc_bins: Sequence[DocBin], nlp: Language, labels: Sequence[str] | None) -> list[Doc]:
    """Return fresh docs of the pipeline's vocab whose gold mentions have the wanted labels; docs
    without any are left out."""
    docs = []
    for doc_bin in doc_bins:
        for doc in doc_bin.get_docs(nlp.vocab):
            if labels:
                doc.set_ents([ent for ent in doc.ents if ent.label_ in labels])
            if doc.ents:
                docs.append(doc)
    return docs


def gold_mentions(doc: Doc, store: OntologyStore) -> list[dict[str, Any]]:
    """Return each entity's text and primary gold ids; the list of ids is empty without a
    concept."""
    mentions = []
    for ent in doc.ents:
        primary = [store.resolve(id_) or id_ for id_ in split_ids(ent.kb_id_)]
        mentions.append({"text": ent.text, "gold": primary})
    return mentions


def as_words(doc: Doc) -> dict[str, Any]:
    """Return a doc and its mentions for scispaCy's pipeline."""
    return {
        "words": [token.text for token in doc],
        "spaces": [bool(token.whitespace_) for token in doc],
        "ents": [(ent.start, ent.end) for ent in doc.ents],
    }


def time_pipeline(
    nlp: Language, docs: list[Doc], documents: Sequence[Sequence[dict[str, Any]]]
) -> dict[str, Any]:
    """Time one pass of `nlp.pipe` over docs whose links are removed first, and compute its strict
    accuracy."""
    for doc in docs:
        doc.spans.clear()
        doc.set_ents([Span(doc, ent.start, ent.end, label=ent.label) for ent in doc.ents])
    start, used = time.perf_counter(), time.process_time()
    linked = list(nlp.pipe(docs))
    seconds, processor = time.perf_counter() - start, time.process_time() - used
    scored, right, n_mentions = 0, 0, 0
    ties = Span.has_extension("krissel_ties")
    for doc, mentions in zip(linked, documents, strict=True):
        if len(doc.ents) != len(mentions):
            raise ValueError(
                "The pipeline changed the gold mentions: time one without a component that sets "
                "doc.ents"
            )
        n_mentions += len(mentions)
        for ent, mention in zip(doc.ents, mentions, strict=True):
            scored += bool(mention["gold"])
            right += ent.kb_id_ in mention["gold"] and not (ties and ent._.krissel_ties)
    return {
        "mentions": n_mentions,
        "seconds": seconds,
        "mentions_per_second": n_mentions / seconds,
        "mentions_per_core_second": n_mentions / processor,
        "scored": scored,
        "strict": right / scored if scored else None,
    }


def summarize(
    ours: dict[str, Sequence[dict[str, Any]]], theirs: Sequence[Sequence[dict[str, Any]]]
) -> dict[str, Any]:
    """Return the fastest pass of each system, all its times, and ours as a multiple of each of the
    peer's rows."""
    peers = []
    for answers in theirs:
        row = fastest(answers)
        name = f"{BATCHINGS[row['batching']]}, efSearch {row['ef_search']}"
        peers.append({"system": name, **row})
    rows = []
    for name, runs in ours.items():
        row = {"system": f"krissel_linker, {name}", **fastest(runs)}
        row["times"] = {
            peer["system"]: row["mentions_per_second"] / peer["mentions_per_second"]
            for peer in peers
        }
        rows.append(row)
    return {"ours": rows, "peers": peers}


def fastest(runs: Sequence[dict[str, Any]]) -> dict[str, Any]:
    return {
        **min(runs, key=lambda run: run["seconds"]),
        "all_seconds": [run["seconds"] for run in runs],
    }


def write_kb(store: OntologyStore, path: Path) -> None:
    """Write the store's entities in the line format of scispaCy's KnowledgeBase."""
    with path.open("w", encoding="utf8") as file_:
        for entity in store:
            record = {
                "concept_id": entity.id,
                "canonical_name": entity.name,
                "aliases": list(entity.names[1:]),
                "types": list(entity.types),
                "definition": entity.definition or None,
            }
            file_.write(json.dumps(record) + "\n")


@contextmanager
def serving(command: Sequence[str]) -> Iterator[subprocess.Popen]:
    """Run the peer's process inside this context."""
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        yield process
    finally:
        process.terminate()
        process.wait()


def ask(peer: subprocess.Popen, request: dict[str, Any]) -> dict[str, Any]:
    assert peer.stdin is not None
    peer.stdin.write(json.dumps(request) + "\n")
    peer.stdin.flush()
    return read_answer(peer)


def read_answer(peer: subprocess.Popen) -> dict[str, Any]:
    """Return the peer's next JSON line; other output of its libraries is skipped."""
    assert peer.stdout is not None
    for line in peer.stdout:
        if line.startswith("{"):
            return json.loads(line)
    raise RuntimeError(f"scispaCy's process ended with code {peer.wait()} before it answered")


def markdown_table(result: dict[str, Any]) -> str:
    """Return a table of ours as multiples of the generator's default, of its fastest row, and of
    the pipeline's default and fastest."""
    alone = [row for row in result["peers"] if row["batching"] != "pipeline"]
    whole = [row for row in result["peers"] if row["batching"] == "pipeline"]
    beside = [
        each
        for rows in (alone, whole)
        for each in (rows[0], max(rows, key=lambda row: row["mentions_per_second"]))
    ]
    titles = [
        "system",
        "mentions/s",
        "of one core",
        "× generator, default",
        "× its fastest",
        "× pipeline, default",
    ]
    lines = [
        "| " + " | ".join([*titles, "× its fastest", "strict"]) + " |",
        "| --- " + 7 * "| ---: " + "|",
    ]
    for row in [*result["ours"], *result["peers"]]:
        times = [f"{row['times'][peer['system']]:.2g}" if "times" in row else "" for peer in beside]
        strict = "" if row["strict"] is None else f"{100 * row['strict']:.1f}"
        rates = [f"{row[key]:,.0f}" for key in ("mentions_per_second", "mentions_per_core_second")]
        lines.append("| " + " | ".join([row["system"], *rates, *times, strict]) + " |")
    return "\n".join(lines)


if __name__ == "__main__":
    typer.run(main)
