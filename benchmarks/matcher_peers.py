"""The peers' side of `mining_rate.py`: spaCy's PhraseMatcher or FlashText, given names and texts, one of them a run.

Runs inside an environment that has spacy and flashtext and needs nothing else; spacy_krissel is not imported.

    python matcher_peers.py phrasematcher names.txt texts/
"""

import json
import resource
import sys
import time
from importlib.metadata import version
from pathlib import Path
from typing import Any, Callable, List

import typer

# On Linux in KiB, on macOS in bytes.
UNIT = 2**20 if sys.platform == "darwin" else 2**10


def main(peer: str, names: str, texts: Path) -> None:
    """Add the names (one a line), match the texts (a folder of JSON lines), and print a JSON object."""
    with open(names, encoding="utf8") as file_:
        patterns = [line.rstrip("\n") for line in file_]
    read = []
    for path in sorted(texts.iterdir()):
        with path.open(encoding="utf8") as file_:
            read += [json.loads(line)["text"] for line in file_]
    n_names = len(patterns)
    start = time.perf_counter()
    match = {"phrasematcher": phrase_matcher, "flashtext": flashtext}[peer](patterns)
    del patterns
    built = time.perf_counter() - start
    start = time.perf_counter()
    found = match(read)
    seconds = time.perf_counter() - start
    n_bytes = sum(len(text.encode("utf8")) for text in read)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / UNIT
    package = {"phrasematcher": "spacy", "flashtext": "flashtext"}[peer]
    result = {"names": n_names, "build_seconds": built, "mb_per_second": n_bytes / 1e6 / seconds, "mib": peak}
    print(json.dumps({**result, "matches": found, "version": version(package)}))


def phrase_matcher(patterns: List[str]) -> Callable[[List[str]], int]:
    """By lower-cased tokens, as its documentation advises for many names; texts are tokenized as they come."""
    import spacy
    from spacy.matcher import PhraseMatcher

    nlp: Any = spacy.blank("en")
    matcher = PhraseMatcher(nlp.vocab, attr="LOWER")
    for start in range(0, len(patterns), 10_000):
        matcher.add("NAME", list(nlp.tokenizer.pipe(patterns[start : start + 10_000])))
    return lambda texts: sum(len(matcher(doc)) for doc in nlp.tokenizer.pipe(texts))


def flashtext(patterns: List[str]) -> Callable[[List[str]], int]:
    from flashtext import KeywordProcessor

    processor: Any = KeywordProcessor()
    for name in patterns:
        processor.add_keyword(name)
    return lambda texts: sum(len(processor.extract_keywords(text)) for text in texts)


if __name__ == "__main__":
    typer.run(main)
