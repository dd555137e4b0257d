"""Read back a table of links in which a person said what is right."""

import csv
import re
from collections.abc import Iterator
from itertools import chain
from pathlib import Path

from ..corpora.files import open_lines
from ..corpora.report import CorpusReport
from ..errors import Errors, KrisselError
from ..kb.build.gold_prototypes import with_surface_forms
from ..kb.prototype_kb import PrototypeKB
from ..kb.prototype_table import Origin, Prototype
from ..mentions.gold_mentions import split_gold
from ..pipeline.pipeline_io import check_place, find_linker, load_pipeline, save_pipeline
from ..pipeline.settings import LINKER
from ..util.escape import text_of_cell
from ..util.settings import checked
from ..views import View

EXPECTED = "a table as `krissel link -o links.tsv` writes it, with yes or no in `verdict`, or an id in `right_id`"
READ = ("doc", "start", "end", "context", "id", "verdict", "right_id")
VERDICTS = {"yes": True, "true": True, "1": True, "no": False, "false": False, "0": False}
# Start, end and context.
_PLACE = re.compile("([0-9]{1,9}) ([0-9]{1,9}) ([^⟦⟧\n]*)⟦([^⟦⟧\n]+)⟧([^⟦⟧\n]*)")


@checked
def correct(
    pipeline: str | Path, links: Path, output: Path, *, source: str = "", replace: bool = False, name: str = LINKER
) -> dict[str, int]:
    """Correct a linker by a table of links that you filled in.

    pipeline: The pipeline with the linker
    links: What "krissel link -o links.tsv" wrote, with yes or no in the column verdict, or the id in right_id
    output: Where to save the corrected pipeline
    source: Label by which the corrections can be removed; default: the file's name without its ending
    replace: First remove what the knowledge base has of this source
    name: Name of the linker in the pipeline

    Mentions of right links, and of `right_id`, which counts first, become gold prototypes (KRISSBERT §3.7). Columns are
    found by name; tabs, commas or semicolons separate them. RETURNS: the numbers of `rows` filled in, of those `added`,
    of those `without_entity` (a wrong link, or NIL, teaches nothing), and of new `prototypes`.

    Raises KrisselError K204 where no row can be added, K005, K026 (output), K610, K611 (pipeline), and what
    `open_lines` raises. Warns KW201 of rows with unknown ids, or that cannot be read.
    """
    check_place(output)
    nlp = load_pipeline(pipeline)
    linker = find_linker(nlp, name)
    source = source or links.stem
    found = list(_read(links, linker.kb, source, report := CorpusReport()))
    report.warn()
    if not found:
        raise KrisselError(Errors.K204.format(path=links, what="row to add", line=report["lines"], expected=EXPECTED))
    if replace:
        linker.kb.remove_prototypes(source=source)
    prototypes, _ = linker.kb.add_gold_prototypes(with_surface_forms(found))
    # It is no longer the one in the folder that the pipeline pointed to.
    linker.kb_path = nlp.get_pipe_config(name)["kb_path"] = None
    save_pipeline(nlp, output, name=name)
    return {**{key: report[key] for key in ("rows", "added", "without_entity")}, "prototypes": prototypes}


def show_correct(counts: dict[str, int]) -> str:
    return "\n".join(f"{key}: {value}" for key, value in counts.items())


def _read(path: Path, kb: PrototypeKB, source: str, report: CorpusReport) -> Iterator[Prototype]:
    with open_lines(path, EXPECTED, report=report) as lines:
        header = next(lines, (1, ""))[1]
        texts = (f"{line}\n" for line in chain([header], (line for _, line in lines)))
        table = csv.reader(texts, delimiter=max("\t,;", key=header.count), strict=True)
        columns: list[str] = []
        while True:
            try:
                row = dict(zip(columns, cells := next(table), strict=False))
                columns = columns or [cell.strip().lower() for cell in cells]
                read = [text_of_cell(row.get(column, "").strip()) for column in READ]
                yield from _prototypes(read, kb, source, report)
            except StopIteration:
                report.count("lines", table.line_num)
                return
            except csv.Error as error:
                report.blemish("bad_records", str(path), table.line_num, str(error))


def _prototypes(cells: list[str], kb: PrototypeKB, source: str, report: CorpusReport) -> list[Prototype]:
    """cells: of the columns `READ`. Raises csv.Error for an unknown id, or a row that cannot be read."""
    doc, start, end, context, linked, verdict, right = cells
    if not verdict and not right:
        return []
    report.count("rows")
    if not right and verdict.lower() not in VERDICTS:
        raise csv.Error(f"the verdict {verdict[:20]!r}")
    ids = split_gold(right or (linked if VERDICTS[verdict.lower()] else ""), kb)
    if unknown := [id for id in ids if kb.resolve(id) is None]:
        raise csv.Error(f"the knowledge base has no {unknown[0][:80]!r}")
    if (place := _PLACE.fullmatch(f"{start} {end} {context}")) is None:
        raise csv.Error("no mention in brackets, ⟦ ⟧, in the context, or no offsets")
    report.count("added" if ids else "without_entity")
    view, origin = View(place[3], place[4], place[5]), Origin(source, doc, int(start), int(end))
    return [Prototype(id, "gold", view, origin) for id in ids]
