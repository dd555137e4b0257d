"""`krissel evaluate-spans`: how well entities are found in texts without mentions, and their spans."""

from pathlib import Path
from typing import Dict, List

import typer

from spacy_krissel.cli.app import command_line

from ..app import lab


@lab.command("evaluate-spans")
def evaluate_spans_cli(
    pipeline: Path = typer.Argument(..., help="A pipeline with a span extractor and its knowledge base"),
    gold: Path = typer.Argument(..., help=".spacy file with entities as categories, and gold spans where known"),
    ontology: Path = typer.Option(..., help="Ontology store: the entities that are ranked, and the baselines' names"),
    output: Path = typer.Option(Path("metrics"), "--output", "-o", help="Folder for the .json and .md report"),
    name: str = typer.Option("spans", help="Name of the report"),
    train: List[Path] = typer.Option([], help="Texts that were trained on, for seen and unseen; may be repeated"),
    rank: List[Path] = typer.Option(
        [], help="Rank the entities of these texts alone, as the paper does; may be repeated. None: all of the ontology"
    ),
    compare: List[str] = typer.Option(
        [], help="name=path of another pipeline: an extractor, or a linker as bi-encoder; may be repeated"
    ),
    baselines: bool = typer.Option(True, help="Rule-based and fuzzy match (the extra 'fuzzy') in the same tables"),
    gold_spans: bool = typer.Option(False, "--gold-spans", help="Also with the gold spans in place of the attention"),
    seed: int = typer.Option(0, min=0, help="Of the bootstrap"),
    gpu_id: int = typer.Option(-1, "--gpu-id", "-g", min=-1, help="GPU, or -1 for the CPU"),
) -> None:
    """Evaluate on OSLAT's two tasks: the tokens of the entities that a text speaks of, and which entities these are."""
    import spacy

    from spacy_krissel.evaluation.gold import linked_texts
    from spacy_krissel.evaluation.tables import check_report
    from spacy_krissel.ontology.store import OntologyStore
    from spacy_krissel.pipeline.pipeline_io import choose_gpu, load_pipeline

    from ..errors import Errors, KrisselError
    from ..spans.baselines import FuzzyMatch, RuleMatch
    from ..spans.evaluate import evaluate_spans
    from ..spans.pipes import pipe_systems
    from ..spans.systems import SpanSystem

    check_report(output, name)
    choose_gpu(gpu_id)
    others = [each.partition("=") for each in compare]
    for given, (title, _, path) in zip(compare, others, strict=True):
        if not title or not path:
            expected = "name=path of a pipeline"
            raise KrisselError(Errors.K006.format(setting="compare", found=given, expected=expected))
    store = OntologyStore(ontology)
    systems: Dict[str, SpanSystem] = {}
    for title, path in [(name, str(pipeline)), *((title, path) for title, _, path in others)]:
        told = gold_spans and not systems
        systems.update(pipe_systems(load_pipeline(path), store, name=title, with_gold_spans=told, source=path))
    if baselines:
        systems.update({"rule": RuleMatch(store), "fuzzy": FuzzyMatch(store)})
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
