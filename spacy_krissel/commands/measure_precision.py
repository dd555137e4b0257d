"""Precision of links, measured by a person's verdicts."""

from collections import Counter, defaultdict
from pathlib import Path
from typing import Any

from scipy.stats import binomtest

from ..corpora.link_table import EXPECTED, RANDOM, read_verdicts
from ..corpora.report import CorpusReport
from ..errors import Errors, KrisselError
from ..pipeline.pipeline_io import find_linker, load_pipeline
from ..pipeline.settings import LINKER
from ..util.settings import checked


@checked
def precision(pipeline: str | Path, links: Path, *, name: str = LINKER) -> dict[str, Any]:
    """Measure the precision of links by your verdicts.

    pipeline: The pipeline with the linker
    links: Output of "krissel review", with yes or no in the column verdict, or the id in right_id
    name: Name of the linker in the pipeline

    The table is read as by "krissel correct". A link is correct if the verdict says so, or
    `right_id` has its id; a mention without an entity does not count. The 95 % interval is
    Wilson's: rows drawn at random from all mentions are independent, even several of one document.
    It is valid for few rows and near 100 %, where a bootstrap over documents has no width. Chosen
    rows give no estimate, and neither do those of a table by "krissel link", which has no column
    `why`: their fraction has no interval.

    RETURNS: `precision` and `interval`, None if no random row is filled in; the numbers of rows
    `right`, `filled` in and `unfilled` of `random`, `chosen` and, without `why`, `all` rows;
    `unlinked` rows. Raises KrisselError K204 if no row is filled in, K610, K611 (pipeline), and
    those of `read_verdicts`. Warns KW201 of rows that are not read.
    """
    kb = find_linker(load_pipeline(pipeline), name).kb
    groups: dict[str, Counter[str]] = defaultdict(Counter)
    for row in read_verdicts(links, kb, report := CorpusReport()):
        if not row.linked:
            report.count("unlinked")
            continue
        counts = groups[
            "all" if row.why is None else RANDOM if row.why.lower() == RANDOM else "chosen"
        ]
        counts["unfilled" if row.right is None else "filled"] += 1
        counts["right"] += not set(row.linked).isdisjoint(row.right or ())
    report.warn()
    if not any(counts["filled"] for counts in groups.values()):
        what = "link that is filled in"
        raise KrisselError(
            Errors.K204.format(path=links, what=what, line=report["lines"], expected=EXPECTED)
        )
    right, filled = groups[RANDOM]["right"], groups[RANDOM]["filled"]
    measured = {"precision": right / filled, "interval": _interval(right, filled)} if filled else {}
    numbers = {
        group: {key: groups[group][key] for key in ("right", "filled", "unfilled")}
        for group in groups
    }
    return {
        "precision": None,
        "interval": None,
        **measured,
        **numbers,
        "unlinked": report["unlinked"],
    }


def _interval(right: int, n: int) -> tuple[float, float]:
    found = binomtest(right, n).proportion_ci(method="wilson")
    return float(found.low), float(found.high)


def show_precision(found: dict[str, Any]) -> str:
    shown = {
        RANDOM: "precision, by the rows drawn at random",
        "chosen": "correct among the rows to review first, no estimate of the precision",
        "all": (
            "correct among the rows filled in; the precision only if they are all links or a "
            "random sample"
        ),
    }
    lines = []
    for group, what in shown.items():
        if not (counts := found.get(group, {})).get("filled"):
            lines += (
                [f"{what}: unknown, none is filled in"]
                if group == RANDOM and "all" not in found
                else []
            )
            continue
        lines.append(
            f"{what}: {counts['right'] / counts['filled']:.1%} ({counts['right']} of "
            f"{counts['filled']})"
        )
        if group == RANDOM:
            lines[-1] += ", 95 % interval {:.1%} to {:.1%}".format(*found["interval"])
    lines += [
        f"not filled in: {found[each]['unfilled']} ({each})" for each in shown if each in found
    ]
    return "\n".join(
        [*lines, *([f"without a link: {found['unlinked']}"] if found["unlinked"] else [])]
    )
