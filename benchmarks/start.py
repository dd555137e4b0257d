"""Cost of a pipeline before its first link: processor time of a process that loads it, and of spaCy
alone.

    python benchmarks/start.py PIPELINE

Each runs in its own process, in turn, several times; the lowest counts. Writes
`results/start.json`.
"""

import json
import os
import resource
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Annotated, Any

import spacy
import typer
from kb_at_size import processor, size

RESULT = Path(__file__).parent / "results" / "start.json"
# Commands, by the title of their row.
SCRIPTS = {
    "import spacy, a blank pipeline": "import spacy; spacy.blank('en')",
    "a blank pipeline, saved and loaded": "import spacy; spacy.load({blank!r})",
    "spacy.load": "import spacy; spacy.load({pipeline!r})",
    "and the first link": (
        "import spacy; from spacy.tokens import Span; nlp = spacy.load({pipeline!r}); "
        "doc = nlp.make_doc('He had fever.'); doc.set_ents([Span(doc, 2, 3, label='X')]); nlp(doc)"
    ),
    "krissel --help": (
        "import sys; sys.argv = ['krissel', '--help']; from spacy_krissel.cli.app import main; "
        "main()"
    ),
}


def main(
    pipeline: Annotated[
        Path, typer.Argument(help="A pipeline with a krissel_linker and nothing else")
    ],
    times: Annotated[int, typer.Option(help="Runs of each; the lowest counts")] = 5,
    output: Annotated[Path, typer.Option(help="Result (JSON)")] = RESULT,
) -> None:
    """Run each in turn, and print seconds and ratios."""
    with tempfile.TemporaryDirectory() as folder:
        blank = Path(folder) / "blank"
        spacy.blank("en").to_disk(blank)
        seconds: dict[str, list[float]] = {title: [] for title in SCRIPTS}
        for _ in range(times):
            for title, script in SCRIPTS.items():
                seconds[title].append(
                    processor_seconds(script.format(pipeline=str(pipeline), blank=str(blank)))
                )
    least = {title: min(each) for title, each in seconds.items()}
    first = least["a blank pipeline, saved and loaded"]
    result: dict[str, Any] = {
        "seconds": least,
        "ratio": {title: each / first for title, each in least.items()},
    }
    result["setup"] = {
        "pipeline": pipeline.name,
        "pipeline_mib": size(pipeline),
        "times": times,
        "processor": processor(),
        "cpus": os.cpu_count(),
    }
    output.parent.mkdir(parents=True, exist_ok=True)
    output.write_text(json.dumps(result, indent=2) + "\n", encoding="utf8")
    print("| | processor seconds | × a blank pipeline |\n| --- | ---: | ---: |")
    for title, each in least.items():
        print(f"| {title} | {each:.2f} | {each / first:.2f} |")


def processor_seconds(script: str) -> float:
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([sys.executable, "-c", script], check=True, stdout=subprocess.DEVNULL)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


if __name__ == "__main__":
    typer.run(main)
