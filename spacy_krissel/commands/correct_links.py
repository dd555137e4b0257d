"""Correction of a linker by a table of links with a person's verdicts."""

from collections.abc import Sequence
from pathlib import Path

from spacy.language import Language

from ..corpora.link_table import (
    EXPECTED,
    NAMES_EXPECTED,
    is_of_names,
    read_names,
    read_verdicts,
)
from ..corpora.report import CorpusReport
from ..errors import Errors, KrisselError, wrong_setting
from ..kb.doc_verdicts import not_repeated
from ..kb.prototype_kb import PrototypeKB
from ..kb.prototype_table import Origin
from ..kb.verdicts import Verdict
from ..mining.matcher import is_acronym
from ..pipeline.finder import KrisselFinder, found_views, warn_not_found
from ..pipeline.pipeline_io import (
    check_pipeline_output,
    find_finder,
    find_linker,
    load_pipeline,
    name_finders,
    save_pipeline,
)
from ..pipeline.settings import LINKER
from ..util.outputs import writes
from ..util.settings import checked
from .review_names import judge_names

# Counts of `correct` as they are printed.
SHOWN = {
    "rows": "rows filled in",
    "corrections": "corrections",
    "rejections": "rejections",
    "no_entity": "without an entity",
    "new": "verdicts added",
    "left_out": "names left out",
    "kept": "names kept or undone",
    "added": "names added",
}


@writes(folders=["output"], keeps="pipeline")
@checked
def correct(
    pipeline: str | Path,
    links: Path,
    output: Path,
    *,
    source: str = "",
    replace: bool = False,
    same_document: bool = False,
    name: str = LINKER,
) -> dict[str, int]:
    """Correct a linker by a table of links that you filled in.

    pipeline: The pipeline with the linker
    links: Output of "krissel link -o links.tsv", with yes or no in the column verdict, or the id in
        right_id (NIL: no entity); or of "krissel review --names"
    output: Folder to save the corrected pipeline in
    source: Label by which the corrections can be removed; default: the file's name without its
        suffix
    replace: First undo the earlier verdicts of this source
    same_document: The verdicts hold in the documents of the table only, not in each text that has
        the sentence
    name: Name of the linker in the pipeline

    A correct link, or `right_id`, which takes precedence, is a correction: the link of this mention
    in its sentence from now on, with any settings. A wrong link without a `right_id` is a
    rejection: the mention is never linked to that entity. Mentions with the same text gain or lose
    evidence, by how alike the contexts are (`PrototypeKB.add_corrections`). Columns are found by
    name; tabs, commas or semicolons separate them. RETURNS: the numbers of `rows` filled in; of
    those that are `corrections`, `rejections`, and say that there is `no_entity`; and of `new`
    verdicts.

    A table of found names changes what the finder finds (`judge_names`): a text that is no name, or
    has NIL in `right_id`, is found no more; one with a `right_id` is found as this entity; yes
    undoes both. RETURNS then: the numbers of `rows` filled in, and of texts that are `left_out`,
    `kept` and `added`.

    Raises KrisselError K204 if no row can be added, K005, K026 (output), K006 (an option that a
    table of names does not have), K610, K611, K620 (pipeline), and those of `open_lines`. Warns
    KW201 of rows with unknown ids, or that cannot be read, and KW629 of corrections whose mentions
    the finder does not find.
    """
    check_pipeline_output(output)
    nlp = load_pipeline(pipeline)
    linker = find_linker(nlp, name)
    if is_of_names(links):
        for setting, value in (
            ("source", source),
            ("replace", replace),
            ("same_document", same_document),
        ):
            if value:
                raise wrong_setting(setting, value, "none for a table of names: yes undoes a row")
        counts = _correct_names(find_finder(nlp, name), links, linker.kb)
        save_pipeline(nlp, output, name=name)
        return counts
    source = source or links.stem
    found: list[Verdict] = []
    for row in read_verdicts(links, linker.kb, report := CorpusReport()):
        right = row.right or ()
        verdict = Verdict(
            row.view,
            right,
            row.rejected,
            row.no_entity,
            same_document,
            Origin(source, row.doc, row.start, row.end),
        )
        # A wrong NIL, without the correct id, says nothing.
        if row.right is not None and not verdict.problem():
            kind = "corrections" if right else "rejections" if row.rejected else "no_entity"
            report.count(kind)
            found.append(verdict)
    report.warn()
    if not found:
        raise KrisselError(
            Errors.K204.format(
                path=links, what="row to add", line=report["lines"], expected=EXPECTED
            )
        )
    _check_found(nlp, found, name)
    if replace:
        linker.kb.remove_verdicts(source=source)
    new = linker.kb.add_verdicts(not_repeated(found, linker.kb.current))
    # The knowledge base is no longer the one that the pipeline referred to.
    linker.kb_path = nlp.get_pipe_config(name)["kb_path"] = None
    save_pipeline(nlp, output, name=name)
    return {
        **{key: report[key] for key in ("rows", "corrections", "rejections", "no_entity")},
        "new": len(new),
    }


def _check_found(nlp: Language, verdicts: Sequence[Verdict], name: str) -> None:
    """Warn KW629 of corrections whose mentions the linker's finders do not find. Acronyms do not
    count: their texts may define them elsewhere."""
    finders = name_finders(nlp, name)
    corrections = [each for each in verdicts if each.right]
    right = {each.view: each.right[0] for each in corrections if not is_acronym(each.view.mention)}
    if finders and right:
        lost = right.keys() - found_views(finders, [*right])
        named = {view.mention: id_ for view, id_ in right.items() if view in lost}
        warn_not_found(named, len(lost), len(corrections))


def _correct_names(finder: KrisselFinder, names: Path, kb: PrototypeKB) -> dict[str, int]:
    """Follow a table of found names. RETURNS: the numbers of rows by what they say."""
    found = [*read_names(names, kb, report := CorpusReport())]
    report.warn()
    if not found:
        raise KrisselError(
            Errors.K204.format(
                path=names, what="row to follow", line=report["lines"], expected=NAMES_EXPECTED
            )
        )
    judge_names(finder, found)
    return {
        "rows": report["rows"],
        "left_out": sum(not row.is_name for row in found),
        "kept": sum(row.is_name and not row.right for row in found),
        "added": sum(bool(row.right) for row in found),
    }


def show_correct(counts: dict[str, int]) -> str:
    return "\n".join(f"{SHOWN[key]}: {value}" for key, value in counts.items())
