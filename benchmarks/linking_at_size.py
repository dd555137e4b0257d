"""Linking by the number of names and the length of documents: mentions per second, memory, time to
build, accuracy.

    OMP_NUM_THREADS=1 python benchmarks/linking_at_size.py FOLDER STORE PADDING... --gold dev.spacy

The entities of STORE, which the gold mentions are of, come first; those of PADDING follow, and
where names are too few all come again, with a number behind each name. The linker is that of
`krissel build` for STORE, with the knowledge base of each size, all mentions linked: as it is, and
by vectors alone, without lexical similarity and the confidence that needs it. Each of these steps
is a process of its own; seconds are those of the processor, the best pass of several. Documents of
various lengths are made of the gold ones, and linked to the smallest knowledge base, in this
process and in two others, whose start counts; seconds are those of the clock. Writes
`results/linking_at_size.json`, and `.svg`.
"""

import json
import os
import shutil
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import Annotated, Any

import spacy
import typer
from kb_at_size import anonymous, in_process, memory_of_this, processor, size, watched
from spacy.language import Language
from spacy.tokens import Doc, DocBin, Span
from wasabi import msg

from spacy_krissel.commands.build_linker import CLASS_WEIGHT, build
from spacy_krissel.commands.build_prototypes import prototypes
from spacy_krissel.index.faiss_index import make_faiss_index
from spacy_krissel.mentions.annotations import NIL
from spacy_krissel.mentions.gold_ids import split_ids
from spacy_krissel.ontology.entity import Entity
from spacy_krissel.ontology.store import OntologyStore, write_store

RESULT = Path(__file__).parent / "results" / "linking_at_size.json"
LINKER = "krissel_linker"
SETTINGS: dict[str, dict[str, Any]] = {
    "recommended": {"min_confidence": 0.0},
    "vectors": {"min_confidence": 0.0, "confidence": {}, "lexical_weight": 0.0},
}
TITLES = {"recommended": "as recommended", "vectors": "by vectors alone"}
# Number of names from which a graph takes too long to build, and vectors are stored in half the
# space.
MAX_FOR_GRAPH = 200_000
# Number of names from which the default's many lists would take an hour to train.
MAX_FOR_MANY_LISTS, FEW_LISTS = 2_000_000, 2048
WORDS = [100, 1_000, 10_000, 100_000]
# Total number of words of the documents of each length.
WORDS_TOGETHER = 400_000


def main(
    folder: Annotated[Path, typer.Argument(help="Folder for temporary files")],
    store: Annotated[Path, typer.Argument(help="The ontology store of the gold mentions")],
    padding: Annotated[list[Path], typer.Argument(help="Stores of other entities, in this order")],
    gold: Annotated[list[Path], typer.Option(help=".spacy file with gold mentions, repeatable")],
    label: Annotated[
        list[str] | None, typer.Option(help="Mentions of this label only, repeatable")
    ] = None,
    names: Annotated[list[int], typer.Option(help="Number of names, repeatable")] = [  # noqa: B006
        10_000,
        100_000,
        1_000_000,
    ],
    words: Annotated[list[int], typer.Option(help="Words per document, repeatable")] = WORDS,
    passes: Annotated[int, typer.Option(help="Timed passes; the best counts")] = 2,
    output: Annotated[Path, typer.Option(help="Result (JSON), with the curves as .svg")] = RESULT,
) -> None:
    """Build and link at each size; print the costs."""
    base = folder / "base"
    in_process(build_base, store, base)
    names = sorted(names)
    rows = []
    lengths: list[dict[str, Any]] = []
    for n in names:
        work = folder / f"linking-{n}"
        work.mkdir(parents=True)
        try:
            row = {"names": n, **in_process(fill, base, work, store, padding, n)}
            for name in SETTINGS:
                row[name] = in_process(link, work, gold, label, name, passes)
            if not lengths:
                lengths = link_lengths(work, gold, label, words, passes)
        finally:
            shutil.rmtree(work)
        msg.info(json.dumps(row))
        rows.append(row)
    result = {
        "rows": rows,
        "lengths": lengths,
        "setup": {
            "store": store.name,
            "padding": [each.name for each in padding],
            "gold": [each.name for each in gold],
            "passes": passes,
            "processor": processor(),
            "cpus": os.cpu_count(),
        },
    }
    output.parent.mkdir(parents=True, exist_ok=True)
    output.write_text(json.dumps(result, indent=2) + "\n", encoding="utf8")
    print(markdown(result))
    draw(result, output.with_suffix(".svg"))


def build_base(store: Path, base: Path) -> dict[str, Any]:
    build(store, base)
    return {}


def fill(base: Path, work: Path, store: Path, padding: Sequence[Path], n: int) -> dict[str, Any]:
    """Save in `work` the linker `base` with a knowledge base of n names."""
    ontology = write_store(entities([store, *padding], n), work / "store")
    is_large = n > MAX_FOR_GRAPH
    kind = "ivf_pq" if is_large else "hnsw"
    index = make_faiss_index(kind, nlist=FEW_LISTS) if n > MAX_FOR_MANY_LISTS else kind
    overrides = {f"components.{LINKER}.generate_empty_kb.dtype": "float16"} if is_large else {}
    start = time.process_time()
    with watched() as figures:
        prototypes(
            base,
            work / "linker",
            ontology.path,
            index=index,
            class_weight=CLASS_WEIGHT,
            overrides=overrides,
        )
    return {
        "entities": len(ontology),
        "index": kind,
        "build_seconds": time.process_time() - start,
        "build_mib": figures["peak_rss_mib"],
        "build_private_mib": figures["peak_private_mib"],
        "files_mib": size(work / "linker"),
    }


def entities(stores: Sequence[Path], n: int) -> Iterator[Entity]:
    """Yield entities with n names in total."""
    for turn in count():
        known: set[str] = set()
        for path in stores:
            for entity in OntologyStore(path):
                # MeSH and MEDIC have some in common.
                if entity.id in known:
                    continue
                known.add(entity.id)
                own = [name + (f" {turn}" if turn else "") for name in entity.names[:n]]
                entity = replace(entity, name=own[0], aliases=tuple(own[1:]), alt_ids=(), xrefs=())
                if turn:
                    entity = replace(entity, id=f"{entity.id}~{turn}", parents=(), tree_numbers=())
                yield entity
                n -= len(own)
                if n <= 0:
                    return


def link(
    work: Path, gold: Sequence[Path], labels: Sequence[str] | None, settings: str, passes: int
) -> dict[str, Any]:
    """Link the gold mentions whose entity is included, with the settings of this name."""
    start = time.perf_counter()
    nlp = linker_at(work, settings)
    opened = time.perf_counter() - start
    ontology = OntologyStore(work / "store")
    best, right, n = float("inf"), 0, 0
    for _ in range(passes):
        docs = [doc for doc in read(nlp, gold, labels) if keep(doc, ontology)]
        wanted = [[known_ids(ent, ontology) for ent in doc.ents] for doc in docs]
        unlink(docs)
        start = time.process_time()
        docs = list(nlp.pipe(docs))
        best = min(best, time.process_time() - start)
        pairs = [
            (ent, ids)
            for doc, own in zip(docs, wanted, strict=True)
            for ent, ids in zip(doc.ents, own, strict=True)
        ]
        right, n = sum(ent.kb_id_ in ids for ent, ids in pairs), len(pairs)
    return {
        "open_seconds": opened,
        "mentions": n,
        "mentions_per_second": n / best,
        "strict": right / n,
        "rss_mib": memory_of_this()["rss_mib"],
        "private_mib": anonymous(),
    }


def link_lengths(
    work: Path,
    gold: Sequence[Path],
    labels: Sequence[str] | None,
    words: Sequence[int],
    passes: int,
) -> list[dict[str, Any]]:
    """Link documents of each length, with the same number of words in total, in one process and in
    two."""
    nlp = linker_at(work, "recommended")
    found = []
    for n in words:
        row: dict[str, Any] = {"words": n}
        for n_process in (1, 2):
            seconds = []
            for _ in range(passes):
                docs = of_length(read(nlp, gold, labels), n)
                row["documents"], row["mentions"] = len(docs), sum(len(doc.ents) for doc in docs)
                start = time.perf_counter()
                list(nlp.pipe(docs, n_process=n_process))
                seconds.append(time.perf_counter() - start)
            row[f"words_per_second_{n_process}"] = sum(map(len, docs)) / min(seconds)
        found.append(row)
    return found


def linker_at(work: Path, settings: str) -> Language:
    nlp = spacy.load(work / "linker")
    linker: Any = nlp.get_pipe(LINKER)
    linker.configure(**SETTINGS[settings])
    return nlp


def read(nlp: Language, gold: Sequence[Path], labels: Sequence[str] | None) -> list[Doc]:
    docs = [
        doc
        for path in gold
        for doc in DocBin(store_user_data=True).from_disk(path).get_docs(nlp.vocab)
    ]
    for doc in docs:
        doc.spans.clear()
        if labels:
            doc.set_ents([ent for ent in doc.ents if ent.label_ in labels])
    return [doc for doc in docs if doc.ents]


def known_ids(ent: Span, ontology: OntologyStore) -> set[str]:
    return {id_ for id_ in split_ids(ent.kb_id_) if id_ != NIL and id_ in ontology}


def keep(doc: Doc, ontology: OntologyStore) -> bool:
    """Keep in the doc the mentions whose entity is included. RETURNS: whether there is any."""
    doc.set_ents([ent for ent in doc.ents if known_ids(ent, ontology)])
    return bool(doc.ents)


def unlink(docs: Sequence[Doc]) -> None:
    for doc in docs:
        doc.set_ents([Span(doc, ent.start, ent.end, label=ent.label) for ent in doc.ents])


def of_length(docs: list[Doc], n: int) -> list[Doc]:
    """Return docs of n words, or slightly fewer, about `WORDS_TOGETHER` in all, each made of
    several of `docs` or of a part of one."""
    unlink(docs)
    wanted = max(1, WORDS_TOGETHER // n)
    found: list[Doc] = []
    left = iter(doc for _ in count() for doc in docs)
    while len(found) < wanted:
        parts, length = [], 0
        for doc in left:
            part = doc[: n - length].as_doc()
            parts.append(part)
            length += len(part)
            if length >= n:
                break
        found.append(Doc.from_docs(parts))
    return found


def markdown(result: dict[str, Any]) -> str:
    def line(title: str, values: Sequence[str]) -> str:
        return f"| {title} | " + " | ".join(values) + " |"

    rows, lengths = result["rows"], result["lengths"]
    lines = [
        line("names", [f"{row['names']:,}" for row in rows]),
        "| --- |" + " ---: |" * len(rows),
    ]
    lines += [
        line("index", [row["index"] for row in rows]),
        line("built, processor seconds", [f"{row['build_seconds']:,.0f}" for row in rows]),
        line("memory for it, MiB", [f"{row['build_mib']:,.0f}" for row in rows]),
        line("of which not mapped", [f"{row['build_private_mib']:,.0f}" for row in rows]),
        line("on disk, MiB", [f"{row['files_mib']:,.0f}" for row in rows]),
        line("mentions", [f"{row['recommended']['mentions']:,}" for row in rows]),
    ]
    for name, title in TITLES.items():
        lines += [
            line(
                f"{title}: mentions per second",
                [f"{row[name]['mentions_per_second']:,.0f}" for row in rows],
            ),
            line("strict accuracy", [f"{100 * row[name]['strict']:.1f}" for row in rows]),
            line("memory, MiB", [f"{row[name]['rss_mib']:,.0f}" for row in rows]),
            line("of which not mapped", [f"{row[name]['private_mib']:,.0f}" for row in rows]),
        ]
    ratio = [
        row["recommended"]["mentions_per_second"] / row["vectors"]["mentions_per_second"]
        for row in rows
    ]
    lines += [line("the one rate ÷ the other", [f"{each:.2f}" for each in ratio]), ""]
    lines += [
        line("words a document", [f"{row['words']:,}" for row in lengths]),
        "| --- |" + " ---: |" * len(lengths),
    ]
    for n in (1, 2):
        title = "words per second, one process" if n == 1 else "two processes"
        lines.append(line(title, [f"{row[f'words_per_second_{n}']:,.0f}" for row in lengths]))
    return "\n".join(lines)


def draw(result: dict[str, Any], path: Path) -> None:
    """Draw the curves, if matplotlib is installed."""
    try:
        import matplotlib as mpl
        from matplotlib.figure import Figure
    except ImportError:
        msg.warn("No curves: matplotlib is not installed")
        return
    rows, lengths = result["rows"], result["lengths"]
    with mpl.rc_context(
        {"svg.hashsalt": "spacy-krissel", "svg.fonttype": "none", "font.size": 9.0}
    ):
        figure = Figure(figsize=(12.6, 3.2), layout="constrained")
        names = [row["names"] for row in rows]
        panels: Any = figure.subplots(1, 4)
        for name, title in TITLES.items():
            panels[0].plot(
                names, [row[name]["mentions_per_second"] for row in rows], marker="o", label=title
            )
            panels[1].plot(
                names, [row[name]["rss_mib"] for row in rows], marker="o", label=f"linking, {title}"
            )
        panels[1].plot(names, [row["build_mib"] for row in rows], marker="s", label="building")
        panels[2].plot(names, [row["build_seconds"] for row in rows], marker="o")
        for n in (1, 2):
            rates = [row[f"words_per_second_{n}"] for row in lengths]
            panels[3].plot(
                [row["words"] for row in lengths],
                rates,
                marker="o",
                label=f"{n} process{'es' * (n > 1)}",
            )
        titles = (
            "mentions per second",
            "memory, MiB",
            "processor seconds to build",
            "words per second",
        )
        for panel, title in zip(panels, titles, strict=True):
            panel.set_title(title)
            panel.set_xscale("log")
            panel.set_yscale("log")
            panel.set_xlabel("words a document" if panel is panels[3] else "names")
            if panel is not panels[2]:
                panel.legend(fontsize=7)
        figure.savefig(path, metadata={"Date": None})


if __name__ == "__main__":
    typer.run(main)
