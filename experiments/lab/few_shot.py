"""Few-shot linking: accuracy with n gold mentions an entity as prototypes (KRISSBERT Figure 2,
§3.7)."""

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import mean

import numpy as np
from spacy.language import Language

from spacy_krissel.building.gold_prototypes import add_gold_prototypes, gold_prototypes
from spacy_krissel.errors import wrong_setting
from spacy_krissel.evaluation.gold import Source, read_gold, without_own_gold
from spacy_krissel.evaluation.metrics import is_strict
from spacy_krissel.evaluation.records import counted
from spacy_krissel.evaluation.run import run_pipeline
from spacy_krissel.evaluation.tables import check_report, markdown_table, percent
from spacy_krissel.kb.prototype_table import Prototype
from spacy_krissel.ontology.store import OntologyStore
from spacy_krissel.pipeline.pipeline_io import find_linker, load_pipeline
from spacy_krissel.pipeline.settings import LINKER
from spacy_krissel.util.atomic import write_text
from spacy_krissel.util.escape import markdown_text
from spacy_krissel.util.settings import Count
from spacy_krissel.views import View

# Marks what is added here, and taken out again.
SOURCE = "few-shot"
SHOTS = (0, 1, 2, 4, 8, "all")
SEEDS = (0, 1, 2)
Shots = str | int


@dataclass
class FewShot:
    """Strict accuracy with `shots` gold mentions an entity: one value a draw. prototypes: added
    ones, on average."""

    shots: Shots
    strict: list[float]
    prototypes: float


def few_shot(
    pipeline: Language | str | Path,
    gold: Source,
    examples: Source,
    ontology: OntologyStore | str | Path,
    output: str | Path | None = None,
    *,
    name: str = "few-shot",
    shots: Sequence[Shots] = SHOTS,
    seeds: Sequence[Count] = SEEDS,
    exact: bool = True,
    linker: str = LINKER,
) -> list[FewShot]:
    """Measure strict accuracy with n gold mentions per entity as prototypes, without training
    (KRISSBERT §3.7).

    The gold mentions are encoded once, and each draw is added to the knowledge base and removed
    again; gold prototypes that the knowledge base has already are left out meanwhile.

    pipeline: pipeline with a knowledge base
    gold: gold corpus to evaluate on: .spacy, PubTator or BioC
    examples: gold corpus whose mentions become prototypes
    ontology: ontology store: primary ids
    output: folder for the .json and .md table; None writes nothing
    name: name of the table
    shots: number of mentions per entity, or "all"
    seeds: random seed of a draw; 0 and "all" need only one
    exact: search a loaded pipeline exactly; an index that cannot forget vectors (HNSW, IVF) is
        rebuilt for each draw
    linker: name of the linker in the pipeline

    Raises KrisselError K006 (shots), K026 (`check_report`), and those of `load_pipeline`,
    `read_gold` and `run_pipeline`.
    """
    shots = [_shots(n) for n in shots]
    if output is not None:
        check_report(output, name)
    index = f"components.{linker}.generate_empty_kb.index"
    nlp = (
        pipeline
        if isinstance(pipeline, Language)
        else load_pipeline(
            pipeline, {index: {"@misc": "spacy-krissel.ExactIndex.v1"}} if exact else None
        )
    )
    store = ontology if isinstance(ontology, OntologyStore) else OntologyStore(ontology)
    kb = find_linker(nlp, linker).kb
    docs = read_gold(gold, nlp)
    train = [item.doc for item in read_gold(examples, nlp)]
    every, counts = gold_prototypes(train, kb, source=SOURCE)
    counts.warn()
    views = list(dict.fromkeys(prototype.view for prototype in every))
    encode = find_linker(nlp, linker).encode
    vectors: dict[View, np.ndarray] = dict(zip(views, encode(views), strict=True))

    def known(views: Sequence[View]) -> np.ndarray:
        return np.stack([vectors[view] for view in views])

    rows = []
    with kb.without_prototypes(kind="gold"):
        for n in shots:
            row = FewShot(n, [], 0.0)
            draws = seeds if n not in (0, "all") else seeds[:1]
            for seed in draws:
                drawn: list[Prototype] = []
                added = 0
                if n:
                    per_entity = 0 if n == "all" else int(n)
                    drawn, _ = gold_prototypes(
                        train, kb, source=SOURCE, per_entity=per_entity, seed=seed
                    )
                if drawn:
                    added, _ = add_gold_prototypes(kb, drawn, encode=known)
                with without_own_gold(nlp, docs):
                    run = run_pipeline(
                        nlp, docs, store, mentions="gold", n_candidates=1, timed_mentions=0
                    )
                kb.remove_prototypes(source=SOURCE)
                row.strict.append(mean(map(is_strict, counted(run.records))))
                row.prototypes += added / len(draws)
            rows.append(row)
    if output is not None:
        save_few_shot(rows, Path(output), name)
    return rows


def show_few_shot(rows: Sequence[FewShot], output: str | Path, name: str) -> str:
    return f"{few_shot_table(rows)}\nTable: {Path(output) / name}.json, .md"


def _shots(n: Shots) -> Shots:
    if n == "all":
        return n
    if not str(n).isdigit():
        raise wrong_setting("shots", n, "numbers from 0 on, or 'all'")
    return int(n)


def few_shot_table(rows: Sequence[FewShot]) -> str:
    """A Markdown table: mentions an entity, prototypes added, strict accuracy (mean and range over
    the draws)."""
    table = [("mentions an entity", "prototypes added", "strict", "range")]
    for row in rows:
        span = (
            f"{percent(min(row.strict))} to {percent(max(row.strict))}"
            if len(row.strict) > 1
            else "–"
        )
        table.append((str(row.shots), f"{row.prototypes:,.0f}", percent(mean(row.strict)), span))
    return markdown_table(table)


def save_few_shot(rows: Sequence[FewShot], folder: Path, name: str) -> None:
    """Write `<name>.json` and `.md` to `folder`. Raises KrisselError K006 and K026 as
    `check_report` does."""
    folder = check_report(folder, name)
    data = {"few_shot": [asdict(row) for row in rows]}
    write_text(folder / f"{name}.json", json.dumps(data, indent=2) + "\n")
    write_text(folder / f"{name}.md", f"# {markdown_text(name)}\n\n{few_shot_table(rows)}\n")
