"""Few-shot linking: accuracy with n gold mentions an entity as prototypes (KRISSBERT Figure 2,
§3.7)."""

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import mean

import numpy as np
from spacy.language import Language

from spacy_krissel.building.gold_prototypes import GOLD_WEIGHT, add_gold_prototypes, gold_prototypes
from spacy_krissel.evaluation.gold import Source, read_gold, without_own_gold
from spacy_krissel.evaluation.metrics import is_strict
from spacy_krissel.evaluation.records import counted
from spacy_krissel.evaluation.run import run_pipeline
from spacy_krissel.evaluation.tables import check_report, markdown_table, percent
from spacy_krissel.kb.prototype_table import Prototype
from spacy_krissel.ontology.store import OntologyStore
from spacy_krissel.pipeline.pipeline_io import find_linker
from spacy_krissel.util.atomic import write_text
from spacy_krissel.util.escape import markdown_text
from spacy_krissel.views import View

from .errors import Errors, KrisselError

# Marks what is added here, and taken out again.
SOURCE = "few-shot"
SHOTS = (0, 1, 2, 4, 8, "all")
SEEDS = (0, 1, 2)
Shots = int | str


@dataclass
class FewShot:
    """Strict accuracy with `shots` gold mentions an entity: one value a draw. prototypes: added
    ones, on average."""

    shots: Shots
    strict: list[float]
    prototypes: float


def few_shot(
    nlp: Language,
    examples: Source,
    docs: Source,
    ontology: OntologyStore | str | Path,
    *,
    shots: Sequence[Shots] = SHOTS,
    seeds: Sequence[int] = SEEDS,
    weight: float = GOLD_WEIGHT,
    name: str = "krissel_linker",
) -> list[FewShot]:
    """Strict accuracy on `docs` with n mentions of `examples` an entity among the prototypes, for
    each n of `shots`.

    The gold mentions are encoded once, and each draw is added to the knowledge base and taken out
    again; gold prototypes that the knowledge base has already are left out meanwhile. An index that
    cannot forget vectors (HNSW, IVF) is made anew for each draw; load the pipeline with an exact
    one.

    examples, docs: gold corpora, as `read_gold` takes them. seeds: of the draws; 0 and "all" need
        but one.
    Raises KrisselError K006 for shots that are neither a number nor "all", and what `read_gold` and
    `run_pipeline` do.
    """
    for n in shots:
        if n != "all" and not (isinstance(n, int) and n >= 0):
            raise KrisselError(
                Errors.K006.format(setting="shots", found=n, expected="numbers from 0 on, or 'all'")
            )
    store = ontology if isinstance(ontology, OntologyStore) else OntologyStore(ontology)
    kb = find_linker(nlp, name).kb
    gold = read_gold(docs, nlp)
    train = [item.doc for item in read_gold(examples, nlp)]
    every, counts = gold_prototypes(train, kb, source=SOURCE)
    counts.warn()
    views = list(dict.fromkeys(prototype.view for prototype in every))
    encode = find_linker(nlp, name).encode
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
                    added, _ = add_gold_prototypes(kb, drawn, encode=known, weight=weight)
                with without_own_gold(nlp, gold):
                    run = run_pipeline(
                        nlp, gold, store, mentions="gold", n_candidates=1, timed_mentions=0
                    )
                kb.remove_prototypes(source=SOURCE)
                row.strict.append(mean(map(is_strict, counted(run.records))))
                row.prototypes += added / len(draws)
            rows.append(row)
    return rows


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
