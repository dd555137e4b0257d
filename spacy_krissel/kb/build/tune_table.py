"""What was measured of indexes, as lines of Markdown."""

from typing import Iterator

from .tune import Trial, Tuning


def tuning_lines(tuning: Tuning) -> Iterator[str]:
    """A row for each trial, the chosen one marked, and a line for what was not tried."""
    k = tuning.k
    yield (
        f"| index | search | prototypes R@1 | R@{k} | entities R@1 | R@{k} | ms a query | × exact | MiB | built in, s |"
    )
    yield "| --- | --- |" + " ---: |" * 8
    for trial in tuning.trials:
        name, search = _named(trial)
        mark = "**" if trial == tuning.chosen else ""
        shares = [f"{share:.4f}" for share in (trial.recall, trial.recall_k, trial.entities, trial.entities_k)]
        cells = [
            f"{mark}{name}{mark}",
            search,
            *shares,
            f"{trial.seconds * 1000:.3f}",
            f"{trial.ratio:,.1f}",
            f"{trial.mib:,.0f}",
            f"{trial.build_seconds:,.0f}",
        ]
        yield f"| {' | '.join(cells)} |"
    for type_, reason in tuning.left_out.items():
        yield f"Not tried, or not all of it: {type_} ({reason})"


def _named(trial: Trial) -> tuple[str, str]:
    settings = dict(trial.settings)
    name = settings.pop("type", trial.kind)
    name += " float16" if settings.pop("float16", False) else ""
    return name, ", ".join(f"{key} {settings[key]}" for key in ("nprobe", "ef_search", "refine") if key in settings)
