"""`lab nil-curve`: precision and recall of NIL at every threshold."""

import json
from pathlib import Path

import typer

from ..app import lab


@lab.command("nil-curve")
def nil_curve_cli(
    metrics: Path = typer.Argument(..., help="What `krissel calibrate --metrics` wrote"),
    output: Path = typer.Option(..., "--output", "-o", help="The .svg file to draw"),
) -> None:
    """Draw the precision–recall curve of NIL, with a mark at the fitted threshold (PEL, Figure 2)."""
    import numpy as np

    from spacy_krissel.evaluation.nil import NilCurve
    from spacy_krissel.util.atomic import check_file

    from ..errors import Errors, KrisselError
    from ..plots import draw_nil_curve

    if output.suffix != ".svg":
        raise KrisselError(Errors.K006.format(setting="output", found=str(output), expected="a path ending in .svg"))
    check_file(output)
    try:
        found = json.loads(metrics.read_text(encoding="utf8"))
        curve = NilCurve(**{name: np.array(values) for name, values in found["curve"].items()})
        threshold = found["threshold"]
    except (OSError, ValueError, TypeError, KeyError, AttributeError) as error:
        raise KrisselError(Errors.K906.format(path=metrics, problem=repr(error))) from error
    for path in draw_nil_curve(curve, threshold, output):
        typer.echo(f"Drawn: {path}")
