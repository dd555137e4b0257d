"""Commands that train, measure and draw."""

import json
from pathlib import Path

import typer

from spacy_krissel.cli.app import command_line

from ..app import lab


@lab.command(
    "ablation", context_settings={"allow_extra_args": True, "ignore_unknown_options": True}
)
def ablation_cli(
    ctx: typer.Context,
    config: Path = typer.Argument(
        ..., help="The ablation file, such as configs/ablation-small.yml"
    ),
    output: Path = typer.Option(
        ..., "--output", "-o", help="Folder of the rows, the table and the plots"
    ),
    row: list[str] = typer.Option(
        [], help="Run and show this row, and what it needs, alone; may be repeated"
    ),
    gpu_id: int = typer.Option(-1, "--gpu-id", "-g", min=-1, help="GPU, or -1 for the CPU"),
) -> None:
    """Train and evaluate each row (KRISSBERT, Table 7) and draw the curves (Figure 2).

    An interrupted run goes on where it stopped: what a row has trained or measured is not made
    again. Further options override the file: --sets.ncbi.gold dev.spacy
    """
    from spacy.cli._util import parse_config_overrides
    from wasabi import msg

    from spacy_krissel.pipeline.pipeline_io import choose_gpu
    from spacy_krissel.util.atomic import check_folder

    from ..ablation.runner import AblationRun
    from ..ablation.settings import read_ablation
    from ..ablation.table import ablation_table

    check_folder(output)
    ablation = read_ablation(config, parse_config_overrides(list(ctx.args)))
    choose_gpu(gpu_id)
    found = AblationRun(ablation, output, gpu_id=gpu_id, say=msg.divider)(row)
    typer.echo(ablation_table(found))
    typer.echo(f"Table and curves: {output}/ablation.md, ablation.json")


@lab.command("evaluate-spans")
def evaluate_spans_cli(
    pipeline: Path = typer.Argument(
        ..., help="A pipeline with a span extractor and its knowledge base"
    ),
    gold: Path = typer.Argument(
        ..., help=".spacy file with entities as categories, and gold spans where known"
    ),
    ontology: Path = typer.Option(
        ..., help="Ontology store: the entities that are ranked, and the baselines' names"
    ),
    output: Path = typer.Option(
        Path("metrics"), "--output", "-o", help="Folder for the .json and .md report"
    ),
    name: str = typer.Option("spans", help="Name of the report"),
    train: list[Path] = typer.Option(
        [], help="Texts that were trained on, for seen and unseen; may be repeated"
    ),
    rank: list[Path] = typer.Option(
        [],
        help=(
            "Rank the entities of these texts alone, as the paper does; may be repeated. None: all "
            "of the ontology"
        ),
    ),
    compare: list[str] = typer.Option(
        [],
        help=(
            "name=path of another pipeline: an extractor, or a linker as bi-encoder; may be "
            "repeated, with one name for those of several seeds"
        ),
    ),
    baselines: bool = typer.Option(
        True, help="Rule-based and fuzzy match (the extra 'fuzzy') in the same tables"
    ),
    gold_spans: bool = typer.Option(
        False, "--gold-spans", help="Also with the gold spans instead of the attention"
    ),
    seed: int = typer.Option(0, min=0, help="Of the bootstrap"),
    gpu_id: int = typer.Option(-1, "--gpu-id", "-g", min=-1, help="GPU, or -1 for the CPU"),
) -> None:
    """Evaluate on OSLAT's two tasks: the tokens of the entities that a text speaks of, and which
    entities these are."""
    import spacy

    from spacy_krissel.evaluation.tables import check_report
    from spacy_krissel.ontology.store import OntologyStore
    from spacy_krissel.pipeline.pipeline_io import choose_gpu, load_pipeline

    from ..errors import Errors, KrisselError
    from ..spans.baselines import FuzzyMatch, RuleMatch
    from ..spans.evaluate import evaluate_spans, linked_texts
    from ..spans.pipes import pipe_systems
    from ..spans.systems import SpanSystem

    check_report(output, name)
    choose_gpu(gpu_id)
    others = [each.partition("=") for each in compare]
    for given, (title, _, path) in zip(compare, others, strict=True):
        if not title or not path:
            expected = "name=path of a pipeline"
            raise KrisselError(
                Errors.K006.format(setting="compare", found=given, expected=expected)
            )
    store = OntologyStore(ontology)
    systems: dict[str, list[SpanSystem]] = {}
    for title, path in [(name, str(pipeline)), *((title, path) for title, _, path in others)]:
        told = gold_spans and title == name
        made = pipe_systems(
            load_pipeline(path), store, name=title, with_gold_spans=told, source=path
        )
        for each, system in made.items():
            systems.setdefault(each, []).append(system)
    if baselines:
        systems.update({"rule": [RuleMatch(store)], "fuzzy": [FuzzyMatch(store)]})
    vocab = spacy.blank("en").vocab
    report = evaluate_spans(
        systems,
        gold,
        store,
        output,
        name=name,
        entities=sorted(linked_texts(rank, vocab)) if rank else None,
        seen=linked_texts(train, vocab) if train else None,
        seed=seed,
        command=command_line(),
    )
    typer.echo(report.to_markdown())
    typer.echo(f"Report: {output / name}.json, .md")


@lab.command("few-shot")
def few_shot_cli(
    pipeline: Path = typer.Argument(..., help="A pipeline with a knowledge base"),
    gold: Path = typer.Argument(..., help="Gold corpus to evaluate on: .spacy, PubTator or BioC"),
    examples: Path = typer.Option(..., help="Gold corpus whose mentions become prototypes"),
    ontology: Path = typer.Option(..., help="Ontology store: primary ids"),
    shots: str = typer.Option("0,1,2,4,8,all", help="Mentions an entity"),
    seed: list[int] = typer.Option([0, 1, 2], min=0, help="Of a draw; may be repeated"),
    exact: bool = typer.Option(
        True, "--exact/--own-index", help="Search exactly: no index is made anew for each draw"
    ),
    linker: str = typer.Option("krissel_linker", help="Name of the linker in the pipeline"),
    output: Path = typer.Option(
        Path("metrics"), "--output", "-o", help="Folder for the .json and .md table"
    ),
    name: str = typer.Option("few-shot", help="Name of the table"),
    gpu_id: int = typer.Option(-1, "--gpu-id", "-g", min=-1, help="GPU, or -1 for the CPU"),
) -> None:
    """Strict accuracy with n gold mentions an entity as prototypes, without training (KRISSBERT
    §3.7)."""
    from spacy_krissel.evaluation.tables import check_report
    from spacy_krissel.pipeline.pipeline_io import choose_gpu, load_pipeline

    from ..few_shot import few_shot, few_shot_table, save_few_shot

    choose_gpu(gpu_id)
    numbers = [int(each) if each.isdigit() else each for each in map(str.strip, shots.split(","))]
    index = {
        f"components.{linker}.generate_empty_kb.index": {"@misc": "spacy-krissel.ExactIndex.v1"}
    }
    check_report(output, name)
    nlp = load_pipeline(pipeline, index if exact else None)
    rows = few_shot(nlp, examples, gold, ontology, shots=numbers, seeds=seed, name=linker)
    save_few_shot(rows, output, name)
    typer.echo(few_shot_table(rows))
    typer.echo(f"Table: {output / name}.json, .md")


@lab.command("nil-curve")
def nil_curve_cli(
    metrics: Path = typer.Argument(..., help="What `krissel calibrate --metrics` wrote"),
    output: Path = typer.Option(..., "--output", "-o", help="The .svg file to draw"),
) -> None:
    """Draw the precision–recall curve of NIL, with a mark at the fitted threshold (PEL, Figure
    2)."""
    import numpy as np

    from spacy_krissel.evaluation.nil import NilCurve
    from spacy_krissel.util.atomic import check_file

    from ..errors import Errors, KrisselError
    from ..plots import draw_nil_curve

    if output.suffix != ".svg":
        raise KrisselError(
            Errors.K006.format(
                setting="output", found=str(output), expected="a path ending in .svg"
            )
        )
    check_file(output)
    try:
        found = json.loads(metrics.read_text(encoding="utf8"))
        curve = NilCurve(**{name: np.array(values) for name, values in found["curve"].items()})
        threshold = found["threshold"]
    except (OSError, ValueError, TypeError, KeyError, AttributeError) as error:
        raise KrisselError(Errors.K906.format(path=metrics, problem=repr(error))) from error
    for path in draw_nil_curve(curve, threshold, output):
        typer.echo(f"Drawn: {path}")


@lab.command("name-recall")
def name_recall_cli(
    pipelines: list[str] = typer.Argument(
        ..., help="title=path of pipelines with a linker by names"
    ),
    gold: Path = typer.Option(..., help="Gold corpus to evaluate on: .spacy, PubTator or BioC"),
    ontology: Path = typer.Option(..., help="Ontology store: primary ids"),
    linker: str = typer.Option("krissel_linker", help="Name of the linker in the pipelines"),
    gpu_id: int = typer.Option(-1, "--gpu-id", "-g", min=-1, help="GPU, or -1 for the CPU"),
) -> None:
    """Recall at 1 and 5 over the nearest names, as SapBERT counts, and a random choice among
    entities that share one.

    For the latter the knowledge bases are made with `krissel prototypes --shared-names`.
    """
    from spacy_krissel.evaluation.tables import markdown_table, percent
    from spacy_krissel.ontology.store import OntologyStore
    from spacy_krissel.pipeline.pipeline_io import choose_gpu, load_pipeline

    from ..name_recall import name_recall

    choose_gpu(gpu_id)
    store = OntologyStore(ontology)
    rows = [("pipeline", "mentions", "@1", "random choice", "@5", "nearest name is shared")]
    for title, _, path in (each.rpartition("=") for each in pipelines):
        found = name_recall(load_pipeline(path), gold, store, name=linker)
        shares = map(percent, (found.recall[1], found.random, found.recall[5], found.shared))
        rows.append((title or path, f"{found.n:,}", *shares))
    typer.echo(markdown_table(rows))


@lab.command("similarities")
def similarities_cli(
    pipelines: list[str] = typer.Argument(
        ..., help="title=path of pipelines with a linker, untrained and trained"
    ),
    ontology: Path = typer.Option(..., help="Ontology store that the names are of"),
    output: Path = typer.Option(..., "--output", "-o", help="The .svg file to draw"),
    entities: int = typer.Option(200, min=2, help="Entities, drawn by seed"),
    names: int = typer.Option(2, min=2, help="Names of each"),
    pairs: int = typer.Option(1000, min=1, help="Pairs of either kind, at most"),
    seed: int = typer.Option(0, min=0),
    linker: str = typer.Option("krissel_linker", help="Name of the linker in the pipelines"),
    gpu_id: int = typer.Option(-1, "--gpu-id", "-g", min=-1, help="GPU, or -1 for the CPU"),
) -> None:
    """Draw how alike names of one entity are, and of two, as each pipeline's encoder sees them
    (OSLAT, Figure C.1)."""
    import numpy as np

    from spacy_krissel.evaluation.tables import markdown_table
    from spacy_krissel.ontology.store import OntologyStore
    from spacy_krissel.pipeline.pipeline_io import choose_gpu, find_linker, load_pipeline
    from spacy_krissel.util.atomic import check_file
    from spacy_krissel.views import name_view

    from ..projection import choose_names, draw_similarities, pair_similarities

    check_file(output)
    choose_gpu(gpu_id)
    found, owners, _ = choose_names(
        OntologyStore(ontology), n_entities=entities, n_names=names, seed=seed
    )
    similar = {}
    for title, _, path in (each.rpartition("=") for each in pipelines):
        encoder = find_linker(load_pipeline(path), linker)
        vectors = encoder.encode([name_view(name) for name in found])
        similar[title or path] = pair_similarities(vectors, owners, pairs, seed=seed)
    drawn = draw_similarities(similar, output)
    columns = (
        "pipeline",
        "pairs of a kind",
        "mean cosine, one entity",
        "two entities",
        "above 95 % of these",
    )
    rows: list[tuple[str, ...]] = [columns]
    for title, (same, other) in similar.items():
        above = (same > np.quantile(other, 0.95)).mean()
        rows.append(
            (
                title,
                f"{len(same):,}",
                f"{same.mean():.2f}",
                f"{other.mean():.2f}",
                f"{100 * above:.1f}",
            )
        )
    typer.echo(markdown_table(rows))
    for file in drawn:
        typer.echo(f"Drawn: {file}")


@lab.command("projection")
def projection_cli(
    pipelines: list[Path] = typer.Argument(
        ..., help="Pipelines with a linker, such as an untrained and a trained one"
    ),
    ontology: Path = typer.Option(..., help="Ontology store that the names are of"),
    output: Path = typer.Option(..., "--output", "-o", help="The .svg file to draw"),
    entities: int = typer.Option(12, min=2, help="Entities, drawn by seed"),
    names: int = typer.Option(12, min=2, help="Names of each"),
    seed: int = typer.Option(0, min=0),
    linker: str = typer.Option("krissel_linker", help="Name of the linker in the pipelines"),
    gpu_id: int = typer.Option(-1, "--gpu-id", "-g", min=-1, help="GPU, or -1 for the CPU"),
) -> None:
    """Draw names as each pipeline's encoder sees them, coloured by entity (SapBERT, Figure 1)."""
    from spacy_krissel.evaluation.tables import markdown_table, percent
    from spacy_krissel.ontology.store import OntologyStore
    from spacy_krissel.pipeline.pipeline_io import choose_gpu, find_linker, load_pipeline
    from spacy_krissel.util.atomic import check_file
    from spacy_krissel.views import name_view

    from ..errors import Errors, KrisselError
    from ..projection import choose_names, draw_projections, project

    if output.suffix != ".svg":
        raise KrisselError(
            Errors.K006.format(
                setting="output", found=str(output), expected="a path ending in .svg"
            )
        )
    check_file(output)
    choose_gpu(gpu_id)
    found, owners, titles = choose_names(
        OntologyStore(ontology), n_entities=entities, n_names=names, seed=seed
    )
    projections = {}
    for path in pipelines:
        encoder = find_linker(load_pipeline(path), linker)
        projections[str(path)] = project(
            encoder.encode([name_view(name) for name in found]), owners, seed=seed
        )
    drawn = draw_projections(projections, owners, titles, output)
    rows = [("pipeline", "silhouette", "nearest name is of the same entity")]
    rows += [
        (title, f"{each.silhouette:.2f}", percent(each.neighbours))
        for title, each in projections.items()
    ]
    typer.echo(markdown_table(rows))
    for file in drawn:
        typer.echo(f"Drawn: {file}")


@lab.command("judged-links")
def judged_links_cli(
    pipeline: Path = typer.Argument(..., help="A pipeline that finds mentions and links them"),
    gold: Path = typer.Argument(..., exists=True, help="Gold mentions (.spacy)"),
    documents: int = typer.Option(400, min=1, help="Documents, the first ones of the corpus"),
    links: int = typer.Option(200, min=1, help="Links that are judged, drawn at random"),
) -> None:
    """Judge links of mentions that a pipeline finds itself, with and without its least
    confidence."""
    from spacy_krissel.evaluation.tables import markdown_table

    from ..judged_links import judged_links

    typer.echo(markdown_table(judged_links(pipeline, gold, documents=documents, links=links)))
