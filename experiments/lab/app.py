"""Command line of the experiments, `python ../lab …`, in addition to `python -m spacy krissel`:
each command is a plain function, whose signature defines its options."""

from pathlib import Path
from typing import Any

from spacy_krissel.cli.app import CodedApp
from spacy_krissel.cli.options import Command
from spacy_krissel.util.plugins import Registry

# Option names for positional parameters that are no arguments.
ONTOLOGY = {"ontology": "ontology"}
CORPUS = {"gold": "gold", **ONTOLOGY}


def _command(function: str, panel: str, **settings: Any) -> Command:
    return Command(function, panel, package="lab", **settings)


COMMANDS = {
    "check-sources": _command("data.sources:check_sources", "Sources"),
    "lay-out": _command("data.sources:lay_out", "Sources"),
    "mesh-tables": _command(
        "data.vocabularies:mesh_tables", "Sources", names={"terms": "terms", "trees": "trees"}
    ),
    "medic-lines": _command("data.vocabularies:medic_lines", "Sources"),
    "fetch-abstracts": _command(
        "data.abstracts:fetch_abstracts", "Sources", names={"keep": "keep"}
    ),
    "affected-mentions": _command("data.affected_mentions:affected_table", "Data sets"),
    "gold-concepts": _command("data.gold_concepts:gold_concepts", "Data sets"),
    "out-of-kb": _command("data.out_of_kb:out_of_kb", "Data sets", names={"gold": "gold"}),
    "psytar": _command("data.psytar:convert_psytar", "Data sets"),
    "psytar-names": _command("data.psytar_names:psytar_names", "Data sets"),
    "sample": _command("data.mention_sample:sample", "Data sets"),
    "text-split": _command("data.text_split:text_split", "Data sets"),
    "text-overlap": _command("data.text_overlap:text_overlap", "Data sets"),
    "zero-shot": _command("data.zero_shot:zero_shot", "Data sets"),
    "open-texts": _command("data.compact:open_texts", "Data sets"),
    "phrases": _command("data.phrases:phrases", "Data sets"),
    "words": _command("data.words:words", "Data sets"),
    "gsc-plus": _command("data.compact:gsc_plus", "Data sets"),
    "compact": _command("data.compact:make_compact", "Data sets"),
    "name-vectors": _command("data.distilled_names:name_vectors", "Data sets"),
    "distill-names": _command("data.distilled_names:distill_names", "Data sets"),
    "ablation": _command("ablation.runner:run_ablation", "Measure"),
    "evaluate-spans": _command(
        "spans.pipes:evaluate_pipelines", "Measure", gpu=True, names=ONTOLOGY
    ),
    "few-shot": _command(
        "few_shot:few_shot",
        "Measure",
        gpu=True,
        names={"examples": "examples", **ONTOLOGY},
        defaults={"output": Path("metrics")},
    ),
    "name-recall": _command("name_recall:name_recall_table", "Measure", gpu=True, names=CORPUS),
    "nil-curve": _command("plots:nil_curve", "Measure"),
    "similarities": _command("projection:similarities", "Measure", gpu=True, names=ONTOLOGY),
    "projection": _command("projection:projection", "Measure", gpu=True, names=ONTOLOGY),
    "judged-links": _command("judged_links:judged_links", "Measure"),
    "fit-species": _command("fit_species:fit_species", "Genes"),
    "gene-baselines": _command("gene_baselines:gene_table", "Genes", names=ONTOLOGY),
    "campaign-pack": _command("campaign.archive:pack", "Campaign"),
    "campaign-unpack": _command("campaign.archive:unpack", "Campaign"),
    "campaign-run": _command(
        "campaign.run:run_campaign",
        "Campaign",
        names={"stages": "stages", "work": "work", "changed": "set", "device": "index-device"},
    ),
    "campaign-collect": _command("campaign.parts:write_parts", "Campaign"),
    "campaign-assemble": _command("campaign.parts:assemble_parts", "Campaign"),
}
lab = CodedApp(name="lab", no_args_is_help=True, commands=Registry("", COMMANDS))


@lab.callback()
def _group() -> None:
    """Data sets, ablations and baselines of the papers."""
