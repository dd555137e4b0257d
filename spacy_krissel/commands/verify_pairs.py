"""Verification of ids and their labels in files, and corrected copies."""

import warnings
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import wasabi
from spacy.language import Language

from ..corpora.term_lists import Term
from ..errors import KrisselWarning, Warnings, wrong_setting
from ..ontology.build import open_ontology
from ..ontology.verify import Vocabulary
from ..pairs.files import Format, open_pairs
from ..pairs.judge import Trust, corrections, judge
from ..pipeline.linked_terms import linked_terms
from ..pipeline.linker.component import KrisselLinker
from ..pipeline.pipeline_io import find_linker, load_pipeline
from ..pipeline.settings import LINKER
from ..render.verdicts import Checked, Proposal, as_json, as_sarif, as_tsv
from ..util.atomic import atomic_file, check_file, write_text
from ..util.outputs import writes
from ..util.settings import PositiveInt, checked

REPORTS = (".sarif", ".json", ".tsv")
# Maximum findings that are shown; the report has all.
MAX_SHOWN = 100
BATCH_SIZE = 128


class Verified(NamedTuple):
    """The verdicts on the pairs of some files.

    counts: of pairs by status. fixed: the number of pairs that the copy corrects, None without a
        copy.
    """

    checked: list[Checked]
    counts: dict[str, int]
    fixed: int | None = None

    @property
    def findings(self) -> list[Checked]:
        return [each for each in self.checked if each.verdict.is_finding]

    @property
    def exit_code(self) -> int:
        return int(bool(self.findings))


@writes("output", "report")
@checked
def verify(
    files: Sequence[Path],
    *,
    ontology: Sequence[str | Path] = (),
    pipeline: str | Path | None = None,
    format: Format = "auto",
    id_column: str = "",
    label_column: str = "",
    fix: bool = False,
    output: Path | None = None,
    trust: Trust = "label",
    report: Path | None = None,
    top_k: PositiveInt = 1,
    name: str = LINKER,
    progress: bool = False,
) -> Verified:
    """Verify that ids have the labels that files give them.

    files: Tables (.csv, .tsv, .parquet), JSON, JSON lines, YAML, RDF, or text such as Markdown and
        the output of a language model; .gz too
    ontology: Store, ontology file, or name of a vocabulary (krissel vocabularies)
    pipeline: A pipeline with a linker, which proposes entities for labels that are no name; without
        --ontology, its knowledge base is the vocabulary
    format: Format of the files; "auto" follows their names
    id_column: Column of the ids of a table; default: all with usual names (id, object_id, curie)
    label_column: Column of their labels; default: the one that belongs to the ids (label, name)
    fix: Write a copy with what is clear corrected to --output; everything else is unchanged
    output: Path of the corrected copy
    trust: Part of a pair that is kept by --fix: of a wrong label, take the id that the "label" is
        a name of, or the preferred name that the "id" has
    report: Write all verdicts to this file as .json or .tsv, or the findings as .sarif
    top_k: Number of proposals per label
    name: Name of the linker in the pipeline

    A label is correct if it is the preferred name of the entity in canonical form
    (`canonical_name`), or another of its names. Exit code: 0 without findings, 1 with findings, 2
    if something cannot be read.

    RETURNS: the verdicts. Raises KrisselError K006 (settings), K026 (outputs), K610, K611
    (pipeline), and those of `open_pairs` and `open_ontology`. Warns KW213 (a file without pairs).
    """
    _check(files, ontology, pipeline, fix, output, report)
    vocabularies: list[Vocabulary] = [open_ontology(each, progress=progress) for each in ontology]
    nlp = None if pipeline is None else load_pipeline(pipeline)
    linker = None if nlp is None else find_linker(nlp, name)
    if linker is not None:
        vocabularies = vocabularies or [linker.kb]
    found: list[Checked] = []
    n_fixed = None
    for path in files:
        file_ = open_pairs(path, format, id_column=id_column, label_column=label_column)
        judged = [*judge(file_, vocabularies)]
        if not judged:
            warnings.warn(Warnings.KW213.format(path=path), KrisselWarning, stacklevel=2)
        found += [Checked(path, *file_.position(each.pair.id), each.verdict) for each in judged]
        if fix and output is not None:
            edits, n_fixed = corrections(file_, judged, trust)
            with atomic_file(output) as temporary:
                file_.save(edits, temporary)
    if nlp is not None and linker is not None:
        found = _proposed(found, nlp, linker, top_k)
    counts: Counter[str] = Counter(each.verdict.status for each in found)
    result = Verified(found, {"pairs": len(found), **counts}, n_fixed)
    if report is not None:
        write_text(report, _report(result, report.suffix))
    return result


def show_verify(result: Verified, output: Path | None) -> str:
    rows = [
        (
            f"{each.path}:{each.line}:{each.column}",
            each.verdict.status.replace("_", " "),
            each.message,
        )
        for each in result.findings
    ]
    lines = [wasabi.table(rows[:MAX_SHOWN]).strip()] if rows else []
    if len(rows) > MAX_SHOWN:
        lines.append(f"… {len(rows) - MAX_SHOWN:,} more; --report has all")
    said = (f"{count:,} {what.replace('_', ' ')}" for what, count in result.counts.items())
    lines.append(", ".join(said))
    if result.fixed is not None:
        left = len(result.findings) - result.fixed
        lines.append(f"{result.fixed:,} corrected in {output}, {left:,} left")
    return "\n".join(lines)


def _check(
    files: Sequence[Path],
    ontology: Sequence[str | Path],
    pipeline: str | Path | None,
    fix: bool,
    output: Path | None,
    report: Path | None,
) -> None:
    """Raise KrisselError K006 for settings that do not go together, K026 for the outputs."""
    if not (ontology or pipeline):
        raise wrong_setting("ontology", None, "an ontology or a pipeline to verify against")
    if fix != (output is not None):
        raise wrong_setting("output", output, "a path with --fix, and only with it")
    if fix and len(files) != 1:
        raise wrong_setting("files", f"{len(files)} files", "one file with --fix")
    if report is not None and report.suffix not in REPORTS:
        raise wrong_setting("report", report, f"a path ending in {', '.join(REPORTS)}")
    if output is not None and report is not None and output.resolve() == report.resolve():
        raise wrong_setting("report", report, "another path than that of the corrected copy")
    for path in (output, report):
        if path is not None:
            check_file(path)
            if any(path.resolve() == each.resolve() for each in files):
                raise wrong_setting("output", path, "another path than that of the input")


def _proposed(
    found: list[Checked], nlp: Language, linker: KrisselLinker, top_k: int
) -> list[Checked]:
    """Return the verdicts with the entities that a linker proposes for labels of no entity."""
    if linker.name not in nlp.pipe_names:
        nlp.enable_pipe(linker.name)
    unclear = {
        each.verdict.label: Term(each.verdict.label, each.verdict.id)
        for each in found
        if each.verdict.is_finding and each.verdict.label and not each.verdict.meant
    }
    linked = linked_terms(nlp, unclear.values(), linker.cfg["spans_key"], BATCH_SIZE)
    proposals = {
        term.label: tuple(
            Proposal(each["id"], each["name"], each.get("confidence"))
            for each in span._.krissel_candidates[:top_k]
        )
        for span, term in linked
    }
    return [
        each._replace(proposals=proposals.get(each.verdict.label, ()))
        if each.verdict.is_finding
        else each
        for each in found
    ]


def _report(result: Verified, ending: str) -> str:
    if ending == ".sarif":
        return as_sarif(result.checked)
    return as_tsv(result.checked) if ending == ".tsv" else as_json(result.checked, result.counts)
