"""Text in, links out: pipelines and other annotators on the same names and texts, by accuracy and
by texts per second of one core; of our finder also without the linker and the tokenizer.

    python benchmarks/finder.py store dev.spacy ours=linker \
        --peer gilda=PYTHON --peer fasthpocr=PYTHON --data fasthpocr=hp.index

PYTHON is an interpreter that has the peer's package (`finder_peers.py`). A peer whose package it
lacks is skipped. The plain dictionary of `krissel evaluate --end-to-end` is always
there. Scores are those of `docs/evaluate.md`; seconds are of processor, the lowest of several
passes.
"""

import json
import os
import subprocess
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated, Any

import spacy
import typer

from spacy_krissel.evaluation.bootstrap import Bootstrap
from spacy_krissel.evaluation.end_to_end import (
    Link,
    dictionary_matcher,
    gold_links,
    match_links,
    predicted_links,
    score,
)
from spacy_krissel.evaluation.gold import read_gold, without_own_gold
from spacy_krissel.evaluation.run import linked_keys
from spacy_krissel.mentions.gold_mentions import primary_id
from spacy_krissel.ontology.build import open_ontology
from spacy_krissel.ontology.hierarchy import subtree
from spacy_krissel.ontology.store import OntologyStore
from spacy_krissel.pipeline.pipeline_io import load_pipeline
from spacy_krissel.pipeline.settings import FINDER

PEERS = Path(__file__).with_name("finder_peers.py")
# Seconds for one peer, its index included.
PEER_LIMIT = 600


def main(
    ontology: str,
    gold: Path,
    pipelines: Annotated[list[str] | None, typer.Argument(help="name=path, each")] = None,
    peer: Annotated[list[str] | None, typer.Option(help="name=python")] = None,
    data: Annotated[list[str] | None, typer.Option(help="name=file that the peer needs")] = None,
    labels: Annotated[list[str] | None, typer.Option(help="of gold mentions")] = None,
    below: Annotated[list[str] | None, typer.Option(help="ids: count links below only")] = None,
    passes: int = 3,
    output: Path | None = None,
) -> None:
    """Print a Markdown table, and write the figures to `output`, a JSON file."""
    store = open_ontology(ontology)
    items = read_gold(gold, spacy.blank("en"), labels=labels)
    within = {entity.id for entity in subtree(store, below, ())} if below else None
    wanted = [gold_links(item, store, labels=labels, within=within)[0] for item in items]
    texts = [item.doc.text for item in items]
    rows: list[dict[str, Any]] = []

    def add(system: str, found: dict[str, Any]) -> None:
        if links := found.pop("links", None):
            ours = [
                [link for link in by_doc if within is None or link.id in within] for by_doc in links
            ]
            bootstrap = Bootstrap([str(number) for number in range(len(texts))])
            found["texts_per_second"] = len(texts) / found["seconds"]
            found.update(score(wanted, ours, bootstrap))
        rows.append({"system": system, **found})

    add("dictionary", run_dictionary(store, texts, passes))
    for name, path in map(_pair, pipelines or ()):
        add(name, run_pipeline(path, items, store, passes))
    files = dict(map(_pair, data or ()))
    for name, python in map(_pair, peer or ()):
        add(name, run_peer(name, python, store, texts, files.get(name, ""), passes))
    print(markdown(rows))
    if output is not None:
        setup = {"gold": gold.name, "texts": len(texts), "below": below, "labels": labels}
        output.write_text(json.dumps({"setup": setup, "rows": rows}, indent=2) + "\n")


def run_dictionary(store: OntologyStore, texts: Sequence[str], passes: int) -> dict[str, Any]:
    start = time.process_time()
    matcher = dictionary_matcher(store)
    built = time.process_time() - start
    return {
        "build_seconds": built,
        **_timed(lambda: match_links(matcher, texts, store), passes),
    }


def run_pipeline(path: str, items: Any, store: OntologyStore, passes: int) -> dict[str, Any]:
    nlp = load_pipeline(path)
    keys = linked_keys(nlp)
    texts = [item.doc.text for item in items]
    with without_own_gold(nlp, items):
        found = _timed(
            lambda: [predicted_links(doc, keys, store) for doc in nlp.pipe(texts)], passes
        )
    if FINDER in nlp.pipe_names:
        finder, seconds = nlp.get_pipe(FINDER), []
        for _ in range(passes):
            docs = [*map(nlp.make_doc, texts)]
            start = time.process_time()
            for _ in finder.pipe(docs):
                pass
            seconds.append(time.process_time() - start)
        found["found_per_second"] = len(texts) / min(seconds)
    return found


def run_peer(
    name: str, python: str, store: OntologyStore, texts: Sequence[str], data: str, passes: int
) -> dict[str, Any]:
    """Run `finder_peers.py` with the peer's interpreter."""
    with tempfile.TemporaryDirectory() as folder:
        paths = [Path(folder) / file for file in ("names.jsonl", "texts.jsonl", "links.json")]
        with paths[0].open("w", encoding="utf8") as file_:
            for entity in store:
                names = {"id": entity.id, "name": entity.name, "aliases": entity.aliases}
                file_.write(json.dumps(names) + "\n")
        paths[1].write_text("".join(json.dumps(text) + "\n" for text in texts))
        command = map(str, (python, PEERS, name, *paths, passes, data))
        # What the peer writes is removed with the folder.
        where = {**os.environ, "TMPDIR": folder}
        try:
            ran = subprocess.run([*command], capture_output=True, timeout=PEER_LIMIT, env=where)
        except subprocess.TimeoutExpired:
            return {"skipped": f"takes more than {PEER_LIMIT} s"}
        if ran.returncode:
            said = ran.stderr.decode(errors="replace").strip() or f"exit code {ran.returncode}"
            return {"skipped": said.splitlines()[-1]}
        result = json.loads(paths[2].read_text())
    if "links" in result:
        result["links"] = [
            sorted({Link(start, end, primary_id(id_, store)) for start, end, id_ in links})
            for links in result["links"]
        ]
    return result


def _timed(link: Callable[[], list[list[Link]]], passes: int) -> dict[str, Any]:
    seconds = []
    for _ in range(passes):
        start = time.process_time()
        links = link()
        seconds.append(time.process_time() - start)
    return {"seconds": min(seconds), "links": links}


def markdown(rows: Sequence[dict[str, Any]]) -> str:
    lines = [
        "| system | ids: P | R | F1 | span with id: P | R | F1 | texts/s | found/s | built in s |",
        "| --- |" + " ---: |" * 9,
    ]
    for row in rows:
        title = f"{row['system']} {row.get('version', '')}".strip()
        if "skipped" in row:
            lines.append(f"| {title} | {row['skipped']} |" + " |" * 8)
            continue
        figures = [
            f"{row[measure]['micro'][figure]:.3f}"
            for measure in ("ids", "spans")
            for figure in ("precision", "recall", "f1")
        ]
        built = f"{row['build_seconds']:.1f}" if "build_seconds" in row else ""
        rates = [
            f"{row[rate]:,.0f}" if rate in row else ""
            for rate in ("texts_per_second", "found_per_second")
        ]
        lines.append(f"| {title} | {' | '.join([*figures, *rates, built])} |")
    return "\n".join(lines)


def _pair(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not (name and equals and value):
        raise typer.BadParameter(f"{text} is not name=value")
    return name, value


if __name__ == "__main__":
    typer.run(main)
