"""Evaluate a saved pipeline on a gold corpus, or fit its threshold to one."""

import json
from collections.abc import Sequence
from inspect import signature
from pathlib import Path
from typing import Any

from ..errors import Errors, KrisselError
from ..evaluation.calibrate import Calibration, calibrate
from ..evaluation.confidence import MIN_STATED, TOO_FEW, ConfidenceFit, fit_confidence
from ..evaluation.evaluate import evaluate
from ..evaluation.report import Report
from ..evaluation.tables import check_report, nil_line, strict_line
from ..pipeline.card import add_evaluation, write_licences
from ..pipeline.pipeline_io import check_place, load_pipeline, save_pipeline
from ..pipeline.settings import LINKER
from ..util.atomic import check_file, write_text
from ..util.outputs import writes
from ..util.settings import passes_on


@passes_on(evaluate, "name", "spans_key", "labels", "baselines", "gold_nil", "seed", "progress")
def evaluate_pipeline(
    pipeline: Path,
    gold: Path,
    *,
    ontology: Path,
    output: Path = Path("metrics"),
    predicted: bool = False,
    index_device: str | None = None,
    compare: Sequence[str] = (),
    train: Sequence[Path] = (),
    write_meta: bool = False,
    overrides: dict[str, Any] | None = None,
    command: str = "",
    **settings: Any,
) -> Report:
    """Measure how many links of a gold corpus are right.

    Strict and lenient accuracy, recall at k, slices, intervals, baselines, errors.

    Further options override the pipeline's config: --components.krissel_linker.context none

    pipeline: A pipeline with a knowledge base
    gold: Gold corpus: .spacy, PubTator or BioC
    ontology: Ontology store or file, or the name of a vocabulary: primary ids, slices and baselines
    output: Folder for the .json, .md and .html report
    predicted: Link the pipeline's own mentions, not the gold ones
    index_device: Where the index lives: cpu, cuda:0 or cuda:all; default: as the pipeline says
    compare: name=path of another system's .links.jsonl; the page shows its links side by side
    train: Gold corpus that was trained on, for seen and unseen
    write_meta: Add the results to the model card in the meta.json of the pipeline's folder
    """
    others: dict[str, str] = {}
    for pair in compare:
        title, _, others[title] = pair.partition("=")
        if not others[title]:
            raise KrisselError(Errors.K006.format(setting="compare", found=pair, expected="name=path"))
    check_report(output, settings.get("name", signature(evaluate).parameters["name"].default))
    if write_meta:
        if overrides or not pipeline.is_dir():
            expected = "false, except for a pipeline's folder (no installed package) with its own settings"
            raise KrisselError(Errors.K006.format(setting="write_meta", found=True, expected=expected))
        check_file(pipeline / "meta.json")
    nlp = load_pipeline(pipeline, overrides, index_device=index_device)
    report = evaluate(
        nlp,
        gold,
        ontology,
        output,
        mentions="predicted" if predicted else "gold",
        compare=others or None,
        train=train,
        command=command,
        **settings,
    )
    if write_meta:
        # Figures of some labels, of predicted mentions and with NIL are not those of the corpus.
        data = report.data
        some = [*(data["labels"] or ()), data["spans_key"], "predicted" * predicted, "nil" * data["gold_nil"]]
        add_evaluation(nlp, "-".join([gold.stem, *filter(None, some)]), data)
        write_text(pipeline / "meta.json", json.dumps(nlp.meta, indent=2) + "\n")
        write_licences(nlp, pipeline)
    return report


def show_evaluate_pipeline(report: Report, output: Path, name: str, pipeline: Path, write_meta: bool) -> str:
    lines = [report.to_table(), f"Report: {output / name}.json, .md, .html"]
    lines += [f"Model card: {pipeline / 'meta.json'}"] if write_meta else []
    if n := report.data["n_unknown"]:
        lines.append(f"⚠ {n:,} gold mentions have an id that is not in the ontology: they count as wrong [KW702]")
    return "\n".join(lines)


@writes("metrics", folders=["output"], keeps="pipeline")
@passes_on(calibrate, "precision", "nil_share", "spans_key", "labels", "held_out", "seed", "progress")
def calibrate_pipeline(
    pipeline: Path,
    gold: Path,
    output: Path,
    *,
    linker: str = LINKER,
    metrics: Path | None = None,
    command: str = "",
    **settings: Any,
) -> Calibration:
    """Fit the threshold for NIL to a gold corpus.

    To its mentions without an entity (PEL, §5.3), for the linker's own scores; a re-ranker leaves NIL as it is.
    Calibrate last: another encoder, knowledge base or weight gives other scores.

    pipeline: A pipeline with a knowledge base
    gold: Gold corpus with NIL mentions, kept for this: .spacy, PubTator or BioC
    output: Where to save the pipeline with its threshold
    linker: Name of the linker in the pipeline
    metrics: Write the results and the curve to this .json file
    """
    # Before minutes of encoding.
    check_place(output)
    if metrics is not None:
        check_file(metrics)
    nlp = load_pipeline(pipeline)
    found = calibrate(nlp, gold, name=linker, **settings)
    save_pipeline(nlp, output, name=linker)
    if metrics is not None:
        curve = {name: values.tolist() for name, values in found.curve._asdict().items()}
        write_text(metrics, json.dumps({"command": command, **found.data, "curve": curve}, indent=2) + "\n")
    return found


def show_calibrate_pipeline(found: Calibration, output: Path, linker: str, metrics: Path | None) -> str:
    data = found.data
    rerankers = "".join(f", before {name}" for name in data["rerankers"])
    lines = [
        f"Threshold: {found.threshold:.6g} on the scores of {linker}{rerankers}",
        f"Fitted to {data['n']:,} mentions, {data['n_nil']:,} of them NIL; results on others tend to be lower",
    ]
    for when, threshold in (("before", found.threshold_before), ("after", found.threshold)):
        title = f"{when} ({'no threshold' if threshold is None else format(threshold, '.6g')})"
        lines.append(f"{title}\n  NIL     {nil_line(data[when])}\n  strict  {strict_line(data[when])}")
    return "\n".join([*lines, f"Pipeline: {output}", *([f"Written: {metrics}"] if metrics else [])])


@writes(folders=["output"], keeps="pipeline")
@passes_on(fit_confidence, "precision", "nil_share", "n_mentions", "seed", "progress")
def fit_pipeline_confidence(pipeline: Path, output: Path, *, linker: str = LINKER, **settings: Any) -> ConfidenceFit:
    """Fit how sure links are, without a gold corpus.

    Each candidate has a "confidence" from then on, and a mention whose best candidate has less than `min_confidence` is
    NIL. Fit last: another encoder, knowledge base or weight gives other ones.

    pipeline: A pipeline with a knowledge base
    output: Where to save the pipeline with its confidence
    linker: Name of the linker in the pipeline
    """
    check_place(output)
    nlp = load_pipeline(pipeline)
    found = fit_confidence(nlp, name=linker, **settings)
    save_pipeline(nlp, output, name=linker)
    return found


def show_fit_pipeline_confidence(found: ConfidenceFit, output: Path) -> str:
    data = found.data
    stated = TOO_FEW.format(n=data["n"])
    if data["n"] >= MIN_STATED:
        shares = (
            f"{100 * data['linked']:.0f} % of mentions are linked, {100 * data['precision']:.0f} % of these rightly"
        )
        stated = f"Expected: {shares}, where {100 * data['nil_share']:.0f} % have no entity there"
    return (
        f"min_confidence: {found.min_confidence:.3f}, by {data['n']:,} names and mentions of the knowledge base\n"
        f"{stated}\nPipeline: {output}"
    )
