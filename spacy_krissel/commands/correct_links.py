"""Correction of a linker by a table of links with a person's verdicts."""

from pathlib import Path

from ..building.gold_prototypes import add_gold_prototypes, with_surface_forms
from ..corpora.link_table import EXPECTED, read_verdicts
from ..corpora.report import CorpusReport
from ..errors import Errors, KrisselError
from ..kb.prototype_table import Origin, Prototype
from ..pipeline.pipeline_io import check_pipeline_output, find_linker, load_pipeline, save_pipeline
from ..pipeline.settings import LINKER
from ..util.outputs import writes
from ..util.settings import checked


@writes(folders=["output"], keeps="pipeline")
@checked
def correct(
    pipeline: str | Path,
    links: Path,
    output: Path,
    *,
    source: str = "",
    replace: bool = False,
    name: str = LINKER,
) -> dict[str, int]:
    """Correct a linker by a table of links that you filled in.

    pipeline: The pipeline with the linker
    links: Output of "krissel link -o links.tsv", with yes or no in the column verdict, or the id in
        right_id
    output: Folder to save the corrected pipeline in
    source: Label by which the corrections can be removed; default: the file's name without its
        suffix
    replace: First remove the earlier corrections of this source
    name: Name of the linker in the pipeline

    Mentions of correct links, and of `right_id`, which takes precedence, become gold prototypes
    (KRISSBERT §3.7). Columns are found by name; tabs, commas or semicolons separate them. RETURNS:
    the numbers of `rows` filled in, of those `added`, of those `without_entity` (a wrong link, or
    NIL, adds nothing), and of new `prototypes`.

    Raises KrisselError K204 if no row can be added, K005, K026 (output), K610, K611 (pipeline), and
    those of `open_lines`. Warns KW201 of rows with unknown ids, or that cannot be read.
    """
    check_pipeline_output(output)
    nlp = load_pipeline(pipeline)
    linker = find_linker(nlp, name)
    source = source or links.stem
    found: list[Prototype] = []
    for row in read_verdicts(links, linker.kb, report := CorpusReport()):
        if row.right is not None:
            report.count("added" if row.right else "without_entity")
            origin = Origin(source, row.doc, row.start, row.end)
            found += [Prototype(id, "gold", row.view, origin) for id in row.right]
    report.warn()
    if not found:
        raise KrisselError(
            Errors.K204.format(
                path=links, what="row to add", line=report["lines"], expected=EXPECTED
            )
        )
    if replace:
        linker.kb.remove_prototypes(source=source)
    prototypes, _ = add_gold_prototypes(linker.kb, with_surface_forms(found))
    # The knowledge base is no longer the one that the pipeline referred to.
    linker.kb_path = nlp.get_pipe_config(name)["kb_path"] = None
    save_pipeline(nlp, output, name=name)
    return {
        **{key: report[key] for key in ("rows", "added", "without_entity")},
        "prototypes": prototypes,
    }


def show_correct(counts: dict[str, int]) -> str:
    return "\n".join(f"{key}: {value}" for key, value in counts.items())
