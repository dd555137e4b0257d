"""The peer's side of `ontology_at_size.py`: seconds and memory that scispaCy's KnowledgeBase takes
to load.

Runs inside a virtual environment that has scispacy and needs nothing else; spacy_krissel is not
imported.

    python scispacy_kb.py concepts.jsonl
"""

import json
import resource
import sys
import time
from importlib.metadata import version
from typing import Any

import typer
from scispacy.linking_utils import KnowledgeBase

# On Linux in KiB, on macOS in bytes.
UNIT = 2**20 if sys.platform == "darwin" else 2**10


def main(concepts: str) -> None:
    """Load a knowledge base from a JSONL file of its concepts and print a JSON object."""
    before = peak()
    start = time.perf_counter()
    kb = KnowledgeBase(concepts)
    seconds = time.perf_counter() - start
    found: dict[str, Any] = {
        "seconds": seconds,
        "mib": peak() - before,
        "entities": len(kb.cui_to_entity),
    }
    print(json.dumps({**found, "version": version("scispacy")}))


def peak() -> float:
    """Return the peak memory of this process so far, in MiB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / UNIT


if __name__ == "__main__":
    typer.run(main)
