"""From unlabelled text to shards of self-supervised mentions."""

from inspect import signature
from pathlib import Path
from typing import Any

from ..mining.mine import MiningReport, mine
from ..mining.shards import KIND
from ..ontology.build import open_ontology
from ..util.manifest import check_replaceable
from ..util.settings import Count, passes_on

DEFAULT_CAP = signature(mine).parameters["cap"].default


@passes_on(mine, "case", "aliases", "seed", "n_process", "ray", "restart")
def mine_texts(
    ontology: Path,
    texts: list[Path],
    output: Path,
    *,
    cap: Count = DEFAULT_CAP,
    progress: bool = False,
    **settings: Any,
) -> MiningReport:
    """Find the unambiguous names of an ontology in text.

    KRISSBERT, §3.1. An interrupted run continues where it stopped.

    ontology: Ontology store or file, or the name of a vocabulary
    texts: JSONL, plain text, PubTator, PubMed's XML (these with .gz, too), Parquet, .tar.gz of text; or folders of them
    output: Directory of the shards
    case: preserve, fold, or smart (fold, but acronyms as they are written)
    cap: Maximum number of mentions per entity, drawn by seed; 0 keeps all
    seed: Seed of the draw
    ray: Read and match by Ray: "local" on this machine, or the address of a cluster, as host:port, or auto; the files
        must be on all of its machines
    """
    # Before the ontology is read.
    check_replaceable(output, KIND)
    return mine(
        open_ontology(ontology, progress=progress), texts, output, cap=cap or None, progress=progress, **settings
    )


def show_mine_texts(report: MiningReport) -> str:
    counts = report.manifest["counts"]
    return (
        f"{counts['mentions']} mentions of {counts['entities']} entities (of {counts['mentions_found']} found) in "
        f"{counts['texts']} texts; {report.mb_per_second:.1f} MB/s"
    )
